"""The server process itself: started, refused, ended, and never left behind."""

from pathlib import Path
import subprocess
import sys

import pytest
from triton_fixture import model_repository, MODELS, require_triton
from vig_governor.triton_install import TritonServerError, VENV_VARIABLE
from vig_governor.triton_server import TritonServer
from waiting import wait_until

ROOT = Path(__file__).parents[2]
START_AND_DIE = """
import os, sys
from pathlib import Path
from vig_governor.triton_server import TritonServer
server = TritonServer(Path(sys.argv[1]), load=['echo'])
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def has_ended(pid):
    try:
        return ') Z ' in Path(f'/proc/{pid}/stat').read_text()
    except FileNotFoundError:
        return True


def test_a_missing_installation_names_the_command_that_makes_it(tmp_path, monkeypatch):
    monkeypatch.setenv(VENV_VARIABLE, str(tmp_path))
    with pytest.raises(TritonServerError, match=f'{tmp_path}.*make setup'):
        TritonServer(MODELS)


def test_an_environment_without_the_server_names_the_package(tmp_path):
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', str(tmp_path)], check=True)
    with pytest.raises(TritonServerError, match='no Triton server .package nvidia-pytriton.'):
        TritonServer(MODELS, venv=tmp_path)


def test_a_model_that_does_not_load_is_said_with_the_words_of_the_server(tmp_path):
    require_triton()
    repository = model_repository(tmp_path, {'broken': ('echo', {})})
    (repository / 'broken' / '1' / 'model.py').write_text('raise RuntimeError("no weights")\n')
    server = TritonServer(repository)
    with pytest.raises(TritonServerError, match='(?s)ended with code 1.*no weights'):
        server.start()
    assert not server.is_running
    server.stop()


def test_a_server_does_not_outlive_the_process_that_started_it():
    require_triton()
    orphaned = subprocess.run([sys.executable, '-c', START_AND_DIE, str(MODELS)], cwd=ROOT,
                              capture_output=True, text=True, timeout=60)
    pid = int(orphaned.stdout)
    wait_until(lambda: has_ended(pid), 10.0, f'the end of server {pid}')


def test_only_the_loopback_interface_listens(triton_server):
    loopback = {'0100007F', '0000000000000000FFFF00000100007F'}
    port = int(triton_server.grpc_endpoint.rpartition(':')[2])
    addresses = set()
    for kind in ('tcp', 'tcp6'):
        for line in Path(f'/proc/{triton_server.pid}/net/{kind}').read_text().splitlines()[1:]:
            local, _, state = line.split()[1:4]
            if state == '0A' and local.endswith(f':{port:04X}'):
                addresses.add(local.partition(':')[0])
    assert addresses and addresses <= loopback


def dying_wrapper(folder, times):
    """Give a command that aborts as often as told before it executes the server."""
    script = ('n=$(cat "$1/n" 2>/dev/null || echo 0); echo $((n + 1)) > "$1/n"; '
              'if [ "$n" -lt "$2" ]; then kill -s ABRT $$; fi; shift 2; exec "$@"')
    return ('sh', '-c', script, 'sh', str(folder), str(times))


def test_a_server_that_aborts_while_it_starts_is_started_once_more(tmp_path, caplog):
    require_triton()
    with TritonServer(MODELS, load=['echo'], wrapper=dying_wrapper(tmp_path, 1)) as server:
        assert server.is_running
    assert 'ended with code -6 while starting' in caplog.text
    assert 'started once more' in caplog.text


def test_a_server_that_aborts_twice_is_given_up(tmp_path):
    require_triton()
    server = TritonServer(MODELS, load=['echo'], wrapper=dying_wrapper(tmp_path, 9))
    with pytest.raises(TritonServerError, match='ended with code -6'):
        server.start()
    assert (tmp_path / 'n').read_text().strip() == '2'
