"""What can be said about the launch files by reading them, on a machine without launch."""

import ast
from pathlib import Path
import sys

import pytest

FOLDER = Path(__file__).resolve().parents[2] / 'launch'
FILES = sorted(FOLDER.glob('*.launch.py'))
ALLOWED = {'launch', 'launch_ros', *sys.stdlib_module_names}
ARGUMENTS = {
    'governor.launch.py': {'config', 'namespace', 'params_file', 'autostart', 'on_failure',
                           'log_level', 'use_sim_time', 'dds', 'stop_timeout_s'},
    'demo.launch.py': {'seconds', 'assets', 'out', 'dds', 'log_level'},
}


def tree(file):
    return ast.parse(file.read_text(encoding='utf-8'), str(file))


def declared(file):
    """Give the keywords of each DeclareLaunchArgument by the argument's name."""
    found = {}
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == 'DeclareLaunchArgument':
            found[node.args[0].value] = {word.arg: word.value for word in node.keywords}
    return found


def test_both_launch_files_exist():
    assert {file.name for file in FILES} == set(ARGUMENTS)


@pytest.mark.parametrize('file', FILES, ids=lambda file: file.name)
def test_a_launch_file_imports_launch_and_the_standard_library_only(file):
    modules = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition('.')[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, 'a launch file is no module of a package'
            modules.add(node.module.partition('.')[0])
    assert modules <= ALLOWED, modules - ALLOWED


@pytest.mark.parametrize('file', FILES, ids=lambda file: file.name)
def test_a_launch_file_declares_the_promised_arguments_each_with_a_description(file):
    arguments = declared(file)
    assert set(arguments) == ARGUMENTS[file.name]
    for name, keywords in arguments.items():
        assert 'description' in keywords, f'{name} has no description'
        assert 'default_value' in keywords, f'{name} has no default'


@pytest.mark.parametrize('file', FILES, ids=lambda file: file.name)
def test_a_launch_file_offers_the_function_that_ros_calls(file):
    functions = [node.name for node in tree(file).body if isinstance(node, ast.FunctionDef)]
    assert 'generate_launch_description' in functions


def test_the_shared_memory_profile_lies_where_the_launch_file_looks():
    assert (FOLDER.parent / 'config' / 'fastdds_shm.xml').is_file()
    assert "/ 'config' / 'fastdds_shm.xml'" in (FOLDER / 'governor.launch.py').read_text()
