"""The command vig: what it prints, how it ends, and that no mistake ends in a traceback."""

import json
import os
import subprocess
import sys
import types

from config_text import changed, SIMPLE

import pytest

from vig_governor import cli


def write(folder, text):
    path = folder / 'vig.yaml'
    path.write_text(text, encoding='utf-8')
    return str(path)


def test_check_shows_models_and_streams_and_ends_with_0(tmp_path, capsys):
    assert cli.main(['check', '-c', write(tmp_path, SIMPLE)]) == 0
    out = capsys.readouterr().out
    for word in ('detector', 'protected', 'latest 1', 'large (27.5 ms)', 'small (11.0 ms)',
                 '/front/image', 'sensor_msgs/msg/Image', 'valid'):
        assert word in out


def test_check_shows_notices_first(tmp_path, capsys):
    text = changed('max_age_ms: 80', 'max_age_ms: 30')
    assert cli.main(['check', '-c', write(tmp_path, text)]) == 0
    assert capsys.readouterr().out.startswith(f'notice: {tmp_path}/vig.yaml:11: ')


def test_check_of_a_wrong_file_ends_with_1_and_the_sentence_on_stderr(tmp_path, capsys):
    assert cli.main(['check', '-c', write(tmp_path, changed('slots: 1', 'slots: 0'))]) == 1
    captured = capsys.readouterr()
    assert captured.out == ''
    assert captured.err.startswith(f'{tmp_path}/vig.yaml:3: backend.slots = 0: ')


def test_check_for_the_node_says_what_to_measure_and_where_to_write_it(tmp_path, capsys):
    text = changed('        profile: {p50_us: 20000, p99_us: 25000}\n', '')
    path = write(tmp_path, text)
    assert cli.main(['check', '-c', path]) == 0
    assert 'large (not measured)' in capsys.readouterr().out
    assert cli.main(['check', '--node', '-c', path]) == 1
    err = capsys.readouterr().err
    assert 'vig calibrate' in err and 'profile: {p50_us: ' in err


def test_check_for_the_node_finds_a_misspelt_message_type(tmp_path, capsys):
    pytest.importorskip('rclpy', reason='rclpy is not installed: run `make setup`')
    path = write(tmp_path, changed('sensor_msgs/msg/Image', 'sensor_msgs/msg/Imag'))
    assert cli.main(['check', '-c', path]) == 0
    assert cli.main(['check', '--node', '-c', path]) == 1
    assert 'did you mean sensor_msgs/msg/Image?' in capsys.readouterr().err


@pytest.mark.parametrize('arguments', [[], ['chek'], ['check'], ['check', '-c'],
                                       ['schema', 'more']])
def test_a_wrong_command_line_ends_with_2(arguments, capsys):
    assert cli.main(arguments) == 2
    assert 'usage: vig' in capsys.readouterr().err


def test_help_names_every_command_and_ends_with_0(capsys):
    assert cli.main(['--help']) == 0
    out = capsys.readouterr().out
    for word in ('check', 'schema', 'version', *cli.MODULES):
        assert word in out


def test_schema_prints_json(capsys):
    assert cli.main(['schema']) == 0
    schema = json.loads(capsys.readouterr().out)
    assert set(schema['properties']) == {'version', 'backend', 'models', 'streams'}


def test_version_prints_a_version_or_says_why_there_is_none(capsys):
    code = cli.main(['version'])
    captured = capsys.readouterr()
    assert captured.out.startswith('vig ') if code == 0 else 'not installed' in captured.err


def module_that(run):
    return types.SimpleNamespace(
        add_parser=lambda commands: commands.add_parser('demo').add_argument('--seconds'),
        run=run)


def test_a_command_of_another_part_parses_and_runs_there(monkeypatch):
    monkeypatch.setattr(cli.importlib, 'import_module',
                        lambda _: module_that(lambda given: int(given.seconds)))
    assert cli.main(['demo', '--seconds', '7']) == 7


def test_a_missing_dependency_is_one_sentence(monkeypatch, capsys):
    def fail(_):
        raise ModuleNotFoundError("No module named 'rich'", name='rich')
    monkeypatch.setattr(cli.importlib, 'import_module', fail)
    assert cli.main(['demo']) == 1
    err = capsys.readouterr().err
    assert 'needs the Python module rich' in err and len(err.splitlines()) == 1


def test_an_interrupted_command_ends_with_130_and_no_traceback(monkeypatch, capsys):
    def interrupt(_):
        raise KeyboardInterrupt
    monkeypatch.setattr(cli.importlib, 'import_module', lambda _: module_that(interrupt))
    assert cli.main(['demo']) == 130
    assert 'Traceback' not in capsys.readouterr().err


def test_a_closed_pipe_is_no_error():
    read, write_end = os.pipe()
    os.close(read)
    with os.fdopen(write_end, 'wb') as gone:
        process = subprocess.run(
            [sys.executable, '-c', 'import sys; from vig_governor.cli import main; '
             'sys.exit(main(["schema"]))'],
            stdout=gone, stderr=subprocess.PIPE, timeout=60,
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
    assert (process.returncode, process.stderr) == (0, b'')


def test_checking_a_file_imports_no_ros(tmp_path):
    code = ('import sys; from vig_governor.cli import main; '
            'main(["check", "-c", sys.argv[1]]); '
            'sys.exit(any(name.partition(".")[0] == "rclpy" for name in sys.modules))')
    process = subprocess.run(
        [sys.executable, '-c', code, write(tmp_path, SIMPLE)], capture_output=True, timeout=60,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
    assert process.returncode == 0, process.stderr
