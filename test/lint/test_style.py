"""Every file follows the conventions of ament, and the core is typed strictly."""

import os
from pathlib import Path
import re
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ('vig_core', 'vig_governor', 'test', 'launch', 'tools', 'benchmark', 'setup.py')
# Paths that exist on one machine only; written so that this file does not contain them.
MACHINE_PATHS = re.compile(rb'(?<![\w.])/(?:work|root|home/\w+)/')


def lint(module: str, *arguments: str) -> None:
    pytest.importorskip(module, reason=f'{module} is not installed: pip install -r '
                                       'requirements/dev.txt')
    done = subprocess.run([sys.executable, '-m', module, *arguments], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f'{module} finds:\n{done.stdout}{done.stderr}', pytrace=False)


def present(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if (ROOT / name).exists()]


def files_of_the_repository() -> list[Path]:
    """Name what git tracks or would track; without git, everything outside made folders."""
    listed = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others',
                             '--exclude-standard'], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0:
        return [ROOT / os.fsdecode(name) for name in listed.stdout.split(b'\0') if name]
    made = {'.git', '.vig', 'build', 'install', 'log', '__pycache__'}
    return [path for path in ROOT.rglob('*') if path.is_file() and not made & set(path.parts)]


def test_flake8_finds_nothing():
    lint('flake8', *present(SOURCES))


def test_pydocstyle_finds_nothing():
    lint('pydocstyle', *present(('vig_core', 'vig_governor', 'launch', 'tools', 'benchmark')))


def test_the_core_passes_mypy_strict():
    lint('mypy', '--strict', 'vig_core')


def test_no_file_names_a_path_of_one_machine():
    found = []
    for path in files_of_the_repository():
        if path.is_file():
            for number, line in enumerate(path.read_bytes().splitlines(), 1):
                if MACHINE_PATHS.search(line):
                    found.append(f'{path.relative_to(ROOT)}:{number}')
    assert not found, f'paths of one machine in {", ".join(found)}'
