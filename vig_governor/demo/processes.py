"""Child processes that never outlive the demo, each with a log of its own."""

from collections.abc import Mapping, Sequence
import contextlib
import os
from pathlib import Path
import signal
import subprocess
import time
from types import TracebackType

from vig_core.errors import VigError

from vig_governor.stopping import in_one_piece

_TAIL_LINES = 15
# Reads until our end of the pipe closes, whatever ended us, and then ends the child.
_WATCH = 'read -r _; kill -TERM "$1" 2>/dev/null; sleep 5; kill -KILL "$1" 2>/dev/null'


class ChildDied(VigError):
    """A child ended although it was needed; names it and shows the tail of its log."""


class Child:
    """One process; its output goes to a file."""

    def __init__(self, name: str, command: Sequence[str], log: Path,
                 environment: Mapping[str, str]) -> None:
        self.name = name
        self._log = log
        self._read = 0
        self._unread: list[str] = []
        with open(log, 'wb') as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output,
                env={**os.environ, **environment}, start_new_session=True)
        self._watcher = subprocess.Popen(
            ['sh', '-c', _WATCH, 'sh', str(self._process.pid)], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    @property
    def returncode(self) -> int | None:
        """Exit code, or ``None`` while the process runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def new_lines(self) -> list[str]:
        """Give the whole lines that were written and not yet given or passed over."""
        lines, self._unread = self._unread + self._read_lines(), []
        return lines

    def has_said(self, line: str) -> bool:
        """Whether ``line`` was written; passes over everything up to it."""
        self._unread += self._read_lines()
        if line not in self._unread:
            return False
        del self._unread[:self._unread.index(line) + 1]
        return True

    def _read_lines(self) -> list[str]:
        with open(self._log, 'rb') as output:
            output.seek(self._read)
            content = output.read()
        whole = content[:content.rfind(b'\n') + 1]
        self._read += len(whole)
        return whole.decode(errors='replace').splitlines()

    def say(self, line: str) -> None:
        """Write one line to the child's standard input; a dead child is found by ``check``."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b'\n')
            self._process.stdin.flush()

    def check(self, *, may_end: bool = False) -> None:
        """
        Make sure that the child runs, or that it ended well where it may.

        :raises ChildDied: it does not, and did not.
        """
        code = self.returncode
        if code is None or (may_end and code == 0):
            return
        tail = '\n'.join(self._log.read_text(errors='replace').splitlines()[-_TAIL_LINES:])
        raise ChildDied(f'{self.name} ended with code {code}; the end of {self._log}:\n{tail}')

    def ask_to_stop(self) -> None:
        """Send SIGTERM, once, if it still runs, and let it wait for no more lines."""
        if self.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def reap(self, deadline: float) -> None:
        """Wait until ``deadline`` (``time.monotonic``), then kill; the watcher goes too."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(deadline - time.monotonic(), 0.01))
        if self.returncode is None:
            self._process.kill()
            self._process.wait()
        self._watcher.kill()
        self._watcher.wait()
        for pipe in (self._process.stdin, self._watcher.stdin):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()


class Processes:
    """
    A context manager that owns children and ends all of them, in reverse order of start.

    :ivar log_folder: where each of them has its log.
    """

    def __init__(self, log_folder: Path, environment: Mapping[str, str]) -> None:
        self.log_folder = log_folder
        self._environment = dict(environment)
        self._children: list[Child] = []
        log_folder.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str]) -> Child:
        """Start a child; its log is ``<log folder>/<name>.log``."""
        return in_one_piece(lambda: self._start(name, command))

    def _start(self, name: str, command: Sequence[str]) -> Child:
        child = Child(name, command, self.log_folder / f'{name}.log', self._environment)
        self._children.append(child)
        return child

    def wait_for_line(self, child: Child, line: str, *, timeout_s: float) -> None:
        """
        Wait until a child says ``line``.

        :raises ChildDied: some child ended, or the line did not come in time.
        """
        end = time.monotonic() + timeout_s
        while not child.has_said(line):
            self.check()
            if time.monotonic() > end:
                raise ChildDied(f'{child.name} did not get ready within {timeout_s:g} s; '
                                f'see {self.log_folder / child.name}.log')
            time.sleep(0.02)

    def check(self, *, may_end: Sequence[Child] = ()) -> None:
        """
        Make sure that all children are well.

        :param may_end: children whose work may be over.
        :raises ChildDied: one is not.
        """
        for child in self._children:
            child.check(may_end=child in may_end)

    def stop(self, *, timeout_s: float = 10.0) -> None:
        """End everything: SIGTERM to all, SIGKILL to whoever is left; idempotent."""
        children, self._children = self._children[::-1], []
        for child in children:
            child.ask_to_stop()
        deadline = time.monotonic() + timeout_s
        for child in children:
            child.reap(deadline)

    def __enter__(self) -> 'Processes':
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()
