"""Whatever a file contains, loading ends in a Config or in a ConfigError that can be printed."""

import copy

from config_text import COMPLETE, SIMPLE

from hypothesis import given, HealthCheck, settings, strategies as st

from vig_governor.config import ConfigError, load_config

import yaml

QUICK = settings(max_examples=100, deadline=None,
                 suppress_health_check=[HealthCheck.function_scoped_fixture])
PIECES = ['null', '[]', '{}', '-1', '0', '1e400', '.nan', '""', '"x"', 'true', '&a', '*a', '!!x',
          '<<: {a: 1}', '? ', ': ', '- ', '\t', '#', '{', '}', '[', ']', '|', '>', '%', '@',
          '"\\ud800"', '99999999999999999999999', '0x' + 'f' * 5000, '\u2028', '\x7f', '---\n']


def load_bytes(folder, raw):
    path = folder / 'vig.yaml'
    path.write_bytes(raw)
    try:
        config = load_config(path, require_profiles=len(raw) % 2 == 0)
    except ConfigError as error:
        assert error.problems
        str(error).encode('utf-8')
    else:
        assert config.system.models


@QUICK
@given(raw=st.binary(max_size=300))
def test_arbitrary_bytes_never_surprise(tmp_path, raw):
    load_bytes(tmp_path, raw)


@QUICK
@given(text=st.text(st.characters(exclude_categories=['Cs']), max_size=300))
def test_arbitrary_text_never_surprises(tmp_path, text):
    load_bytes(tmp_path, text.encode())


@st.composite
def mutated(draw):
    """A valid file with one to three words exchanged, removed or added."""
    lines = draw(st.sampled_from([SIMPLE, COMPLETE])).splitlines()
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(lines) - 1))
        words = lines[index].split(' ')
        at = draw(st.integers(0, len(words) - 1))
        piece = draw(st.sampled_from(PIECES) | st.text(
            st.characters(exclude_categories=['Cs']), max_size=8))
        action = draw(st.sampled_from(['replace', 'insert', 'delete line', 'repeat line']))
        if action == 'replace':
            words[at] = piece
        elif action == 'insert':
            words.insert(at, piece)
        lines[index] = ' '.join(words)
        if action == 'delete line':
            lines[index] = ''
        elif action == 'repeat line':
            lines.insert(index, lines[index])
    return '\n'.join(lines)


@QUICK
@given(text=mutated())
def test_a_valid_file_that_was_mistyped_never_surprises(tmp_path, text):
    load_bytes(tmp_path, text.encode())


DATA = yaml.safe_load(COMPLETE)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (st.lists(inner, max_size=3)
                   | st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6)


@st.composite
def with_a_wrong_value(draw):
    """The complete file as data, with one value anywhere replaced by any other."""
    data = copy.deepcopy(DATA)
    node = data
    while True:
        key = draw(st.sampled_from(sorted(node) if isinstance(node, dict)
                                   else range(len(node))))
        child = node[key]
        if not isinstance(child, (dict, list)) or not child or draw(st.integers(0, 3)) == 0:
            node[key] = draw(VALUES)
            return yaml.safe_dump(data, allow_unicode=False)
        node = child


@QUICK
@given(text=with_a_wrong_value())
def test_a_value_of_any_other_kind_never_surprises(tmp_path, text):
    load_bytes(tmp_path, text.encode())
