"""One run of the demo's load: the cameras, something that serves them, and the consumer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import json
import os
from pathlib import Path
import sys
import time
from typing import Any

from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.demo.cameras import camera_command
from vig_governor.demo.plan import DemoPlan, DemoStream
from vig_governor.demo.processes import Child, ChildDied, Processes
from vig_governor.demo.report import judge, StreamReport

READY_TIMEOUT_S = 30.0
# The first second is not judged: shared memory is set up, and nothing has been delivered yet.
SETTLING_NS = NS_PER_S

Show = Callable[[Mapping[str, Any], float, float], None]


@dataclass(frozen=True, slots=True)
class Arm:
    """
    What one run left behind.

    :ivar notes: the consumer's record by stream.
    :ivar captures: the cameras' logs by stream.
    :ivar lent: what became of the frames of cameras that lend them, by stream.
    :ivar start_ns: the judged span on the ROS clock, with ``end_ns``.
    """

    notes: dict[str, Any]
    captures: dict[str, list[list[int]]]
    lent: dict[str, dict[str, int]]
    start_ns: int
    end_ns: int

    def reports(self, plan: DemoPlan) -> list[StreamReport]:
        """Judge every stream, in the plan's order."""
        return [judge(stream, self.notes[stream.name], self.captures[stream.name],
                      start_ns=self.start_ns, end_ns=self.end_ns) for stream in plan.streams]


class ArmRunner:
    """Runs the same load, governed or not."""

    def __init__(self, plan: DemoPlan, *, assets: Path, folder: Path, seconds: float,
                 direct_depth: int, environment: Mapping[str, str]) -> None:
        self._plan = plan
        self._assets = assets
        self._folder = folder
        self._seconds = seconds
        self._direct_depth = direct_depth
        self._environment = environment

    def run_direct(self, endpoint: str, show: Show, *, keeps_newest: bool = False) -> Arm:
        """
        Send every frame straight to the server: one node for each camera.

        :param keeps_newest: let the newest frame wait instead of refusing it.
        """
        def start(processes: Processes) -> None:
            nodes = [processes.start(f'direct_{stream.name}', [
                *_module('direct'), '--stream', stream.name, '--topic', stream.topic,
                '--model', stream.direct_model, '--endpoint', endpoint,
                '--depth', str(self._direct_depth),
                *(['--keep-newest'] if keeps_newest else [])]) for stream in self._plan.streams]
            writer = self._plan.writer
            if writer is not None:
                nodes.append(processes.start(f'direct_{writer.name}', [
                    *_module('direct_writer'), '--name', writer.name, '--topic', writer.topic,
                    '--model', writer.backend_model, '--endpoint', endpoint,
                    '--max-tokens', str(writer.max_tokens), '--template', writer.template]))
            for node in nodes:
                processes.wait_for_line(node, 'ready', timeout_s=READY_TIMEOUT_S)

        return self._run('direct', start, show, is_governed=False)

    def run_governed(self, config: Path, show: Show, *, record: Path | None = None) -> Arm:
        """
        Send every frame through the governor.

        :param record: where it writes its trace, if it shall.
        """
        def start(processes: Processes) -> None:
            processes.start('governor', [
                sys.executable, '-m', 'vig_governor.node', '--ros-args',
                '-r', '__node:=governor', '-p', f'config:={config.resolve()}',
                '-p', 'autostart:=true',
                *([] if record is None else ['-p', f'record:={record.resolve()}'])])

        return self._run('governed', start, show, is_governed=True)

    def _run(self, name: str, start: Callable[[Processes], None], show: Show, *,
             is_governed: bool) -> Arm:
        folder = self._folder / name
        with Processes(self._folder / 'log' / name, self._environment) as processes:
            folder.mkdir(parents=True, exist_ok=True)
            log = folder / 'consumer.json'
            log.unlink(missing_ok=True)
            consumer = processes.start('consumer', self._consumer_command(log))
            cameras = [
                processes.start(f'camera_{stream.name}', self._camera_command(
                    stream, folder, is_governed=is_governed))
                for stream in self._plan.streams]
            start(processes)
            for child in (consumer, *cameras):
                processes.wait_for_line(child, 'ready', timeout_s=READY_TIMEOUT_S)
            if is_governed:
                _wait_until(processes, consumer, lambda seen: seen['state'] == 'active',
                            'the governor was not active')
            else:
                _wait_until(processes, consumer, lambda seen: not seen['unconnected'],
                            'not every node had found its topics')
            start_at_ns = time.monotonic_ns() + 300 * NS_PER_MS
            start_ros_ns = start_at_ns - time.monotonic_ns() + time.time_ns()
            for camera in cameras:
                camera.say(str(start_at_ns))
            self._watch(processes, consumer, cameras, start_at_ns, show)
            processes.stop()
        return Arm(json.loads(log.read_text(encoding='utf-8')),
                   {stream.name: json.loads(_capture_log(folder, stream).read_text())
                    for stream in self._plan.streams},
                   {stream.name: json.loads(_counts(folder, stream).read_text())
                    for stream in self._plan.streams if is_governed and stream.lends},
                   start_ros_ns + SETTLING_NS, start_ros_ns + round(self._seconds * NS_PER_S))

    def _watch(self, processes: Processes, consumer: Child, cameras: Sequence[Child],
               start_at_ns: int, show: Show) -> None:
        """Show the consumer's snapshots until all cameras are done and the last answer is in."""
        limit_s = self._seconds + 10
        while any(camera.returncode is None for camera in cameras):
            elapsed_s = (time.monotonic_ns() - start_at_ns) / NS_PER_S
            processes.check(may_end=cameras)
            if elapsed_s > limit_s:
                raise ChildDied(f'the cameras did not end within {limit_s:.0f} s')
            snapshot = _newest_snapshot(consumer)
            if snapshot is not None:
                show(snapshot, max(elapsed_s, 0.0), self._seconds)
            time.sleep(0.1)
        time.sleep(1.0)
        processes.check(may_end=cameras)

    def _consumer_command(self, log: Path) -> list[str]:
        command = [*_module('consumer'), '--log', str(log)]
        for stream in self._plan.streams:
            command += ['--stream', stream.name, stream.topic, str(stream.period_ms),
                        str(stream.max_age_ms)]
        writer = self._plan.writer
        if writer is not None:
            command += ['--ask', writer.name, writer.topic]
            for question in writer.questions:
                command += ['--question', question]
        return command

    def _camera_command(self, stream: DemoStream, folder: Path, *,
                        is_governed: bool) -> list[str]:
        return [*camera_command(stream, self._assets, self._seconds, is_governed=is_governed),
                '--wait', '--log', str(_capture_log(folder, stream)),
                '--counts', str(_counts(folder, stream))]


def graph_environment(config_folder: Path, domain_id: int | None) -> dict[str, str]:
    """Give the variables of a ROS graph on this host alone: shared memory, its own domain."""
    if domain_id is None:
        domain_id = int(os.environ.get('ROS_DOMAIN_ID', 60 + os.getpid() % 40))
    # Jazzy's Fast DDS reads only the older of the two names; Kilted's warns where that one is set.
    profile = ('FASTRTPS_DEFAULT_PROFILES_FILE' if os.environ.get('ROS_DISTRO') == 'jazzy'
               else 'FASTDDS_DEFAULT_PROFILES_FILE')
    return {'ROS_DOMAIN_ID': str(domain_id), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
            profile: str(config_folder / 'fastdds_shm.xml')}


def _module(name: str) -> list[str]:
    return [sys.executable, '-m', f'vig_governor.demo.{name}']


def _capture_log(folder: Path, stream: DemoStream) -> Path:
    return folder / f'camera_{stream.name}.json'


def _counts(folder: Path, stream: DemoStream) -> Path:
    return folder / f'lent_{stream.name}.json'


def _newest_snapshot(consumer: Child) -> dict[str, Any] | None:
    lines = [line for line in consumer.new_lines() if line.startswith('{')]
    return json.loads(lines[-1]) if lines else None


def _wait_until(processes: Processes, consumer: Child,
                holds: Callable[[Mapping[str, Any]], bool], problem: str) -> None:
    """Wait until the consumer's snapshot shows that all is ready for the first frame."""
    end = time.monotonic() + READY_TIMEOUT_S
    while True:
        processes.check()
        snapshot = _newest_snapshot(consumer)
        if snapshot is not None and holds(snapshot):
            return
        if time.monotonic() > end:
            raise ChildDied(f'{problem} within {READY_TIMEOUT_S:.0f} s; see the logs in '
                            f'{processes.log_folder}')
        time.sleep(0.05)
