"""The process of the node: started with a configuration for its world, watched, and ended."""

import os
from pathlib import Path
import signal
import subprocess
import sys

from benchmark.faults.staging import config_text, DRAIN_S, PATIENCE, Streams


class NodeProcess:
    """
    The real node in a process of its own, one at a time; nothing of it is kept in this process.

    :param folder: receives the configuration and one log for each start.
    """

    def __init__(self, folder: Path, streams: Streams) -> None:
        self.folder = folder
        self.streams = streams
        self._process: subprocess.Popen[bytes] | None = None
        self._runs = 0

    @property
    def pid(self) -> int:
        """Process id of the node."""
        assert self._process is not None, 'the node was not started'
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the node process exists."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What the present node has said."""
        return (self.folder / f'node-{self._runs}.log').read_text(errors='replace')

    def launch(self, *, autostart: bool, backend: str, endpoint: str, sim_time: bool,
               writer: str) -> None:
        """Start the process; see ``World.start_node`` for the parameters."""
        self._runs += 1
        path = self.folder / 'vig.yaml'
        path.write_text(config_text(endpoint, self.streams, backend, writer=writer),
                        encoding='utf-8')
        command = [sys.executable, '-m', 'vig_governor.node', '--ros-args',
                   '-p', f'config:={path}', '-p', f'autostart:={str(autostart).lower()}',
                   '-p', f'use_sim_time:={str(sim_time).lower()}',
                   '-p', 'diagnostics_period_s:=0.1',
                   '-p', 'qos_overrides./ask.subscription.reliability:=reliable']
        for name in self.streams:
            prefix = f'qos_overrides./fault/{name}'
            command += ['-p', f'{prefix}.subscription.reliability:=reliable',
                        '-p', f'{prefix}.subscription.depth:=1000',
                        '-p', f'{prefix}/vig/status.publisher.depth:=1000']
        with open(self.folder / f'node-{self._runs}.log', 'wb') as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                             stdin=subprocess.DEVNULL, start_new_session=True)

    def end_node(self) -> int | None:
        """End the node if it runs, by SIGTERM; give its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(DRAIN_S + 10.0)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        return process.returncode

    def signal_node(self, number: int) -> None:
        """Send the node a signal."""
        os.kill(self.pid, number)

    def wait_for_end(self, timeout_s: float) -> int:
        """Give the exit code of a node that is about to end."""
        assert self._process is not None
        code = self._process.wait(timeout_s * PATIENCE)
        self._process = None
        return code

    def region_names(self) -> list[str]:
        """List the names in /dev/shm that belong to the node."""
        return [entry.name for entry in Path('/dev/shm').iterdir()
                if entry.name.startswith(f'vig_{self.pid}_')]
