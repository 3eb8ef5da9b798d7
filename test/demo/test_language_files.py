"""The language model is converted once, whole or not at all, wherever the store lies."""

from pathlib import Path
import types

import pytest

from vig_governor.demo import language_files
from vig_governor.demo.assets import AssetStore

CONVERTER = """#!/bin/sh
[ "$*" = "-m language.convert $3 $4" ] && [ -f "$3" ] || exit 3
for name in {files}; do : > "$4/$name" || exit 4; done
{end}
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Give a store by a relative path, with weights, and a staged Python that converts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'models' / 'weights').mkdir(parents=True)
    (tmp_path / 'models' / language_files.WEIGHTS).write_bytes(b'weights')
    monkeypatch.setattr(language_files, 'find_installation', lambda: types.SimpleNamespace(
        venv=tmp_path / 'venv', environment=dict))
    return AssetStore(Path('models'))


def stage(tmp_path, end=''):
    python = tmp_path / 'venv' / 'bin' / 'python'
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(CONVERTER.format(files=' '.join(language_files.FILES), end=end))
    python.chmod(0o755)


def test_a_store_at_a_relative_path_is_converted_once(store, tmp_path):
    stage(tmp_path)
    assert language_files.prepare(store) == 'converted'
    assert language_files.is_converted(store)
    stage(tmp_path, end='exit 5')
    assert language_files.prepare(store) == 'in place'


def test_a_conversion_that_fails_leaves_nothing_behind_and_says_why(store, tmp_path):
    stage(tmp_path, end='echo "no module named onnx" >&2; exit 1')
    said = language_files.prepare(store)
    assert said.startswith('left out: ') and 'no module named onnx' in said
    assert 'make setup' in said
    assert [path.name for path in Path('models').iterdir()] == ['weights']
