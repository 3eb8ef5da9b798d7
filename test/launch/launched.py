"""A ``ros2 launch`` process of its own session, as a terminal would start it."""

from collections.abc import Mapping, Sequence
import contextlib
import os
from pathlib import Path
import re
import signal
import subprocess

from waiting import wait_until

START_S = 40.0
END_S = 30.0
# Reads until our end of the pipe closes, whatever ended us, and then ends the whole session.
_WATCH = 'read -r _; kill -INT "$1" 2>/dev/null; sleep 10; kill -KILL -- "-$1" 2>/dev/null'


class Launched:
    """
    One running launch file; its output goes to ``log``.

    :param environment: variables that replace those of the tests; ``None`` removes one.
    """

    def __init__(self, file: Path, arguments: Sequence[str],
                 environment: Mapping[str, str | None], *, log: Path) -> None:
        self._log = log
        variables = {**os.environ, **environment}
        with open(log, 'wb') as output:
            self._process = subprocess.Popen(
                ['ros2', 'launch', str(file), *arguments], stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                env={name: value for name, value in variables.items() if value is not None})
        self._watcher = subprocess.Popen(
            ['sh', '-c', _WATCH, 'sh', str(self._process.pid)], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    @property
    def output(self) -> str:
        """Everything that was written until now."""
        return self._log.read_text(errors='replace')

    def wait_for(self, text: str, *, count: int = 1, timeout: float = START_S) -> None:
        """Wait until ``text`` was written ``count`` times; fails with the output otherwise."""
        def is_there() -> bool:
            ended = self._process.poll() is not None
            if self.output.count(text) >= count:
                return True
            assert not ended, f'{text!r} never came; the launch has ended:\n{self.output}'
            return False

        wait_until(is_there, timeout, lambda: f'{text!r} in\n{self.output}')

    def pid_of(self, name: str) -> int:
        """Give the process id of a started process, for example ``governor``."""
        self.wait_for(f'[{name}-1]: process started with pid')
        found = re.search(rf'\[{name}-1\]: process started with pid \[(\d+)\]', self.output)
        assert found is not None
        return int(found[1])

    def environment_of(self, name: str) -> dict[str, str]:
        """Give the environment in which a started process runs."""
        content = Path(f'/proc/{self.pid_of(name)}/environ').read_bytes().decode()
        return dict(entry.split('=', 1) for entry in content.split('\0') if '=' in entry)

    def interrupt(self, *, like_a_terminal: bool) -> None:
        """Send SIGINT to the launch alone, or to all its processes as Ctrl-C does."""
        send = os.killpg if like_a_terminal else os.kill
        send(self._process.pid, signal.SIGINT)

    def kill(self, name: str) -> None:
        """Let a started process crash."""
        os.kill(self.pid_of(name), signal.SIGKILL)

    def wait_for_end(self, timeout: float = END_S) -> int:
        """Give the exit code of ``ros2 launch``; fails with the output where it goes on."""
        wait_until(lambda: self._process.poll() is not None, timeout,
                   lambda: f'the launch does not end:\n{self.output}')
        return int(self._process.returncode)

    def close(self) -> None:
        """End everything; fails where the launch does not end when it is interrupted."""
        try:
            if self._process.poll() is None:
                self.interrupt(like_a_terminal=False)
                self.wait_for_end()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._watcher.kill()
            self._watcher.communicate()
