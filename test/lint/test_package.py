"""The files that describe the package agree with each other and with the core."""

import ast
from collections.abc import Iterator
import configparser
from pathlib import Path
import re
import sys
from xml.etree import ElementTree

import pytest

from vig_core.actions import OverloadState
from vig_core.contract import Criticality
from vig_core.request import Reason

ROOT = Path(__file__).resolve().parents[2]
OURS = {'vig', 'vig_core', 'vig_governor', 'perception', 'language'}
ROSDEP_KEYS = {'cv2': 'python3-opencv', 'prometheus_client': 'python3-prometheus-client',
               'pydantic_core': 'python3-pydantic'}
WITHOUT_KEY = {'tritonclient', 'grpc', 'httptools', 'mcap', 'av', 'ai_edge_litert',
               'triton_python_backend_utils', 'onnxruntime', 'tokenizers', 'gguf', 'onnx'}
"""pip installs the first five; the others live in the environment of the server."""


def constants(message: str, prefix: str = '') -> dict[str, int]:
    """Read the ``uint8 NAME = 1`` lines of a .msg file whose names start with ``prefix``."""
    text = (ROOT / 'msg' / f'{message}.msg').read_text()
    return {name.removeprefix(prefix): int(value)
            for name, value in re.findall(r'^uint8 ([A-Z_]+) = (\d+)$', text, re.MULTILINE)
            if name.startswith(prefix)}


def requirements(file: str) -> Iterator[str]:
    """Name the projects of a requirements file, normalised."""
    for line in (ROOT / 'requirements' / file).read_text().splitlines():
        if line and not line.startswith(('#', '-')):
            assert '==' in line, f'requirements/{file}: {line} is not pinned'
            yield project(line)


def project(requirement: str) -> str:
    return re.sub(r'[-_.]+', '-', re.split(r'[\s\[=<>!~;]', requirement)[0]).lower()


def test_request_status_numbers_the_reasons_of_the_core_in_their_order():
    expected = {reason.name: number for number, reason in enumerate(Reason, 1)}
    assert constants('RequestStatus') == {'UNKNOWN': 0, **expected}


def test_stream_status_counts_every_reason():
    text = (ROOT / 'msg' / 'StreamStatus.msg').read_text()
    counters = re.findall(r'^uint64 (\w+)$', text, re.MULTILINE)
    assert {reason.value for reason in Reason} <= set(counters)


def test_stream_status_numbers_the_classes_of_the_core():
    assert constants('StreamStatus', 'CLASS_') == {
        criticality.name: criticality.value for criticality in Criticality}


def test_governor_status_numbers_the_overload_states_of_the_core_in_their_order():
    assert constants('GovernorStatus', 'OVERLOAD_') == {
        state.name: number for number, state in enumerate(OverloadState)}


def test_cmake_generates_every_interface_file():
    text = (ROOT / 'CMakeLists.txt').read_text()
    files = {f'{path.parent.name}/{path.name}' for folder in ('msg', 'srv')
             for path in (ROOT / folder).iterdir()}
    assert set(re.findall(r'(?:msg|srv)/\w+\.(?:msg|srv)', text)) == files


def test_every_field_of_an_interface_is_preceded_by_its_documentation():
    for path in [*(ROOT / 'msg').iterdir(), *(ROOT / 'srv').iterdir()]:
        for block in re.split(r'\n\n|^---$', path.read_text(), flags=re.MULTILINE):
            assert not block.strip() or block.strip().startswith('#'), f'{path.name}: {block}'


def test_package_xml_is_valid_and_carries_the_version_of_the_changelog():
    catkin_pkg = pytest.importorskip(
        'catkin_pkg.package', reason='catkin-pkg is not installed; `make setup` installs it')
    warnings = []
    package = catkin_pkg.parse_package(ROOT / 'package.xml', warnings=warnings)
    assert not warnings
    assert package.name == 'vig' and package.licenses == ['Apache-2.0']
    changelog = (ROOT / 'CHANGELOG.rst').read_text()
    assert changelog.startswith('^' * 30) and 'Changelog for package vig' in changelog


def test_package_xml_names_every_package_that_is_imported():
    package = ElementTree.parse(ROOT / 'package.xml').getroot()
    named = {element.text for tag in ('depend', 'exec_depend') for element in package.iter(tag)}
    trees = [ast.parse(path.read_text()) for folder in ('vig_core', 'vig_governor', 'launch')
             for path in (ROOT / folder).rglob('*.py')]
    used = {name.partition('.')[0] for tree in trees for node in ast.walk(tree)
            for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else
                         [node.module] if isinstance(node, ast.ImportFrom) and not node.level
                         else [])}
    foreign = used - OURS - WITHOUT_KEY - set(sys.stdlib_module_names)
    missing = {name for name in foreign
               if not {name, f'python3-{name}', ROSDEP_KEYS.get(name)} & named}
    assert not missing


def test_what_pip_installs_is_pinned_for_the_environments():
    parser = configparser.ConfigParser()
    parser.read(ROOT / 'setup.cfg')
    needed = {project(line) for line in parser['options']['install_requires'].splitlines() if line}
    assert needed == set(requirements('runtime.txt'))


@pytest.mark.parametrize('name', ['README.md', 'CONTRIBUTING.md', 'docs/getting-started.md'])
def test_what_rosdep_cannot_install_is_in_the_pip_command_of_each_page(name):
    commands = re.findall(r'pip install ("[^\n`]+)', (ROOT / name).read_text(encoding='utf-8'))
    missing = {project(name) for name in WITHOUT_KEY} & set(requirements('runtime.txt'))
    assert commands and missing
    for command in commands:
        assert missing | {'pydantic'} <= {project(word.strip('"')) for word in command.split()}


@pytest.mark.parametrize('path', sorted((ROOT / 'requirements').glob('*.txt')),
                         ids=lambda path: path.name)
def test_every_requirement_is_pinned_and_named_once(path):
    names = list(requirements(path.name))
    assert sorted(set(names)) == sorted(names) and names
