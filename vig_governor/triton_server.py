"""
Start and stop a real Triton from its Python package, on the loopback interface only.

Tests, demo and benchmarks use it; a robot normally has a server of its own. The package brings
the ``tritonserver`` binary and the Python backend; this module links the backend folder together,
gives the server the library path of its interpreter, and sees to it that neither the server nor
its memory outlives us: a watcher shell kills the server's process group when our end of a pipe
closes, whatever ended us. (``PR_SET_PDEATHSIG`` would tie the server to the *thread* that started
it, and needs code between fork and exec.)
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import http.client
import logging
import os
from pathlib import Path
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from types import TracebackType

from vig_governor.stopping import in_one_piece
from vig_governor.triton_install import find_installation, TritonServerError

_log = logging.getLogger(__name__)

LOOPBACK = '127.0.0.1'

# Every POSIX shell understands `kill -s NAME -- -GROUP`, and not every one the shorter forms.
_WATCH = ('read -r _; kill -s TERM -- "-$1" || exit 0; sleep 5; kill -s KILL -- "-$1"; '
          'rm -rf -- "$2"; rm -f -- "/dev/shm/$3"*')
_LOG_TAIL_LINES = 12
_LOG_LINE = 300
_COMPLAINT = re.compile(r'[EF]\d{4} |error:|.*Error: ')
_SHARED_MEMORY = Path('/dev/shm')


def free_port() -> int:
    """Name a TCP port of the loopback interface that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class TritonServer:
    """
    One server process; a context manager.

    :param model_repository: one folder with models, or several.
    :param grpc_port: 0 picks a free one at each first start; it stays the same afterwards.
    :param load: load exactly these models (explicit model control: more can be loaded and
        unloaded later); ``None`` loads all.
    :param rate_limiter: honour the rate limiter of the models' configuration.
    :param arguments: further options of ``tritonserver``, as written on its command line.
    :param environment: further variables for the server and its models.
    :param log: file that receives all output; ``None`` keeps it in the private work folder,
        which ends with the server.
    :param wrapper: command that executes the server, for example ``('taskset', '-c', '1')``.
    :param wait_for: models whose readiness ends the start; empty waits for the whole server.
    """

    def __init__(self, model_repository: Path | Sequence[Path], *, venv: Path | None = None,
                 grpc_port: int = 0, http_port: int = 0, load: Sequence[str] | None = None,
                 rate_limiter: bool = False, arguments: Sequence[str] = (),
                 environment: Mapping[str, str] | None = None, log: Path | None = None,
                 wrapper: Sequence[str] = (), wait_for: Sequence[str] = ()) -> None:
        repositories = ([model_repository] if isinstance(model_repository, Path)
                        else model_repository)
        self._repositories = [repository.absolute() for repository in repositories]
        self._installation = find_installation(venv)
        self._are_ports_ours = not grpc_port and not http_port
        self._grpc_port = grpc_port
        self._http_port = http_port
        self._load = load
        self._rate_limiter = rate_limiter
        self._arguments = tuple(arguments)
        self._environment = dict(environment or {})
        self._given_log = log
        self._log: Path | None = None
        self._region_prefix = ''
        self._wrapper = tuple(wrapper)
        self._wait_for = tuple(wait_for)
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._work: tempfile.TemporaryDirectory[str] | None = None

    @property
    def grpc_endpoint(self) -> str:
        """Where clients connect, ``host:port``."""
        return f'{LOOPBACK}:{self._grpc_port}'

    @property
    def http_endpoint(self) -> str:
        """Where the HTTP service is, ``host:port``."""
        return f'{LOOPBACK}:{self._http_port}'

    @property
    def pid(self) -> int:
        """
        Process id of the running server.

        :raises TritonServerError: it is not running.
        """
        if self._process is None:
            raise TritonServerError('the Triton server is not running')
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists; says nothing about its models."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, timeout_s: float = 60.0) -> None:
        """
        Start the server and wait until all its models are ready.

        One that a signal ends while it starts is started once more: it was seen to abort under
        load (code -6), and to start the next time.

        :raises TritonServerError: it ended, or was not ready in time; nothing is left behind.
        """
        if self._process is not None:
            self.stop()
        may_die = True
        for attempt in range(3):
            if self._are_ports_ours and (attempt or not self._grpc_port):
                self._grpc_port, self._http_port = free_port(), free_port()
            self._http_port = self._http_port or free_port()
            self._grpc_port = self._grpc_port or free_port()
            try:
                in_one_piece(self._launch)
                self._wait_ready(timeout_s)
                return
            except TritonServerError as error:
                code = None if self._process is None else self._process.returncode
                self.stop()
                if may_die and code is not None and code < 0:
                    may_die = False
                    _log.warning('%s\nit is started once more', error)
                elif not self._are_ports_ours or 'already in use' not in str(error):
                    raise
            except BaseException:
                self.stop()
                raise
        raise TritonServerError('no free TCP port could be kept for the Triton server')

    def stop(self, *, timeout_s: float = 15.0) -> None:
        """Ask the server to finish what runs, wait, and kill it if it does not; idempotent."""
        process, self._process = self._process, None
        if process is not None:
            _signal_group(process.pid, signal.SIGCONT)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout_s)
            self._reap(process)

    def kill(self) -> None:
        """End the server without a farewell, as a crash would; ``start`` works again."""
        process, self._process = self._process, None
        if process is not None:
            self._reap(process)

    def pause(self) -> None:
        """
        Stop the server and its models from running (SIGSTOP) until ``resume``.

        Returns when the server's threads stand still, which is later than the signal.

        :raises TritonServerError: they still run after two seconds.
        """
        _signal_group(self.pid, signal.SIGSTOP)
        if not _poll(lambda: _is_stopped(self.pid), 2.0):
            raise TritonServerError(f'the Triton server (process {self.pid}) cannot be stopped')

    def resume(self) -> None:
        """Let a paused server run on."""
        _signal_group(self.pid, signal.SIGCONT)

    def load_model(self, name: str, *, timeout_s: float = 30.0) -> None:
        """
        Load a model again, or for the first time; needs ``load`` (explicit model control).

        :raises TritonServerError: the server refuses, with its reason.
        """
        self._command(f'/v2/repository/models/{name}/load', timeout_s)

    def unload_model(self, name: str, *, timeout_s: float = 30.0) -> None:
        """
        Take a model away while the server runs; see ``load_model``.

        :raises TritonServerError: the server refuses, with its reason.
        """
        self._command(f'/v2/repository/models/{name}/unload', timeout_s)

    def complaints(self) -> str:
        """Return the last errors in the server's log; its last lines if it reports none."""
        if self._log is None or not self._log.exists():
            return ''
        lines = self._log.read_text(errors='replace').splitlines()
        errors = [line for line in lines if _COMPLAINT.match(line)]
        return '\n'.join(line.rstrip()[:_LOG_LINE] for line in
                         (errors or lines)[-_LOG_TAIL_LINES:])

    def __enter__(self) -> 'TritonServer':
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    def _launch(self) -> None:
        self._work = tempfile.TemporaryDirectory(prefix='vig-triton-')
        work = Path(self._work.name)
        self._log = self._given_log or work / 'server.log'
        self._region_prefix = f'vig_server_{os.getpid()}_{os.urandom(4).hex()}_'
        backends = self._installation.link_backends(work / 'backends')
        with open(self._log, 'ab') as log:
            self._process = subprocess.Popen(
                [*self._wrapper, str(self._installation.executable), *self._options(backends)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**self._installation.environment(), **self._environment},
                start_new_session=True)
        self._watcher = subprocess.Popen(
            ['sh', '-c', _WATCH, 'sh', str(self._process.pid), str(work), self._region_prefix],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)

    def _options(self, backends: Path) -> list[str]:
        options = [f'--model-repository={path}' for path in self._repositories]
        options += [f'--backend-directory={backends}',
                    f'--grpc-address={LOOPBACK}', f'--grpc-port={self._grpc_port}',
                    f'--http-address={LOOPBACK}', f'--http-port={self._http_port}',
                    '--allow-metrics=false',
                    f'--backend-config=python,shm-region-prefix-name={self._region_prefix}']
        if self._load is not None:
            options.append('--model-control-mode=explicit')
            options += [f'--load-model={name}' for name in self._load]
        if self._rate_limiter:
            options.append('--rate-limit=execution_count')
        return [*options, *self._arguments]

    def _wait_ready(self, timeout_s: float) -> None:
        process = self._process
        assert process is not None
        _poll(lambda: process.poll() is not None or self._is_ready(), timeout_s)
        if process.poll() is not None:
            raise TritonServerError(f'the Triton server ended with code {process.returncode} '
                                    f'while starting:\n{self.complaints()}')
        if not self._is_ready():
            raise TritonServerError(f'the Triton server was not ready within {timeout_s:.0f} s:\n'
                                    f'{self.complaints()}')

    def _is_ready(self) -> bool:
        if self._wait_for:
            return all(self._says_yes(f'/v2/models/{name}/ready') for name in self._wait_for)
        return self._says_yes('/v2/health/ready')

    def _says_yes(self, path: str) -> bool:
        try:
            return self._ask('GET', path, 1.0)[0] == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False

    def _command(self, path: str, timeout_s: float) -> None:
        try:
            status, answer = self._ask('POST', path, timeout_s)
        except (OSError, http.client.HTTPException) as error:
            raise TritonServerError(f'{path}: the server does not answer: {error}') from None
        if status != http.HTTPStatus.OK:
            raise TritonServerError(f'{path}: {answer}')

    def _ask(self, method: str, path: str, timeout_s: float) -> tuple[int, str]:
        connection = http.client.HTTPConnection(LOOPBACK, self._http_port, timeout=timeout_s)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read().decode(errors='replace')
        finally:
            connection.close()

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
            assert self._watcher.stdin is not None
            self._watcher.stdin.close()
            self._watcher = None
        for region in _SHARED_MEMORY.glob(f'{self._region_prefix}*'):
            region.unlink(missing_ok=True)
        if self._work is not None:
            self._work.cleanup()
            self._work = None


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _is_stopped(pid: int) -> bool:
    states = [task.read_text().rpartition(') ')[2][0]
              for task in Path(f'/proc/{pid}/task').glob('*/stat')]
    return set(states) == {'T'}


def _poll(condition: Callable[[], bool], timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        if time.monotonic() > end_s:
            return False
        pause.wait(0.02)
    return True
