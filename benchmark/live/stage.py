"""One cell: cameras, what serves them, a consumer. The processes stay warm from cell to cell."""

from dataclasses import dataclass
from enum import Enum
import json
from pathlib import Path
import sys
import time
from typing import Any

from benchmark.live import judge, machine
from benchmark.live.accelerator import Accelerator
from benchmark.live.contract import render, topic_of
from benchmark.live.workloads import Point

from vig_core.sim.engine import SimStream
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.demo.processes import Child, Processes

SETTLING_NS = NS_PER_S
"""Not judged: queues fill, forecasts begin."""
LEAD_NS = 300 * NS_PER_MS
UNDER_WAY_NS = 2 * NS_PER_MS
"""Of an execution here over HTTP, to the server and back; over gRPC it is about 4 ms."""
READY_TIMEOUT_S = 40.0
LAST_ANSWERS_S = 0.5
DEEP = 8


class Arm(Enum):
    """Who stands between cameras and server."""

    DIRECT_1 = 'direct, depth 1'
    DIRECT_8 = 'direct, depth 8'
    NEWEST = 'newest only'
    GOVERNOR = 'governor'
    PLAIN = 'governor, no lead'

    @property
    def is_governed(self) -> bool:
        """Whether the governor decides."""
        return self in (Arm.GOVERNOR, Arm.PLAIN)

    @property
    def depth(self) -> int:
        """Requests that each client keeps in flight."""
        return DEEP if self is Arm.DIRECT_8 else 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm at one point, once."""

    point: Point
    arm: Arm
    repeat: int

    @property
    def label(self) -> str:
        """Name in file names."""
        return f'{self.point.label}-{self.arm.name.lower()}-{self.repeat}'


class Stage:
    """
    The processes that play cells; a context manager.

    :param streams: the most that a point has.
    :param seconds: judged in each cell.
    :param lead_ns: the governor's ``pipelining_lead_ms``.
    """

    def __init__(self, folder: Path, accelerator: Accelerator, environment: dict[str, str], *,
                 streams: int, seconds: float, lead_ns: int = UNDER_WAY_NS) -> None:
        self._folder = folder
        self._lead_ns = lead_ns
        self._accelerator = accelerator
        self._environment = environment
        self._duration_ns = SETTLING_NS + round(seconds * NS_PER_S)
        self._warm = Processes(folder / 'log', environment)
        (folder / 'cells').mkdir(parents=True, exist_ok=True)
        self._cameras = self._start('cameras')
        self._consumer = self._start('consumer')
        self._clients = [self._start('client', str(number)) for number in range(streams)]

    def __enter__(self) -> 'Stage':
        return self

    def __exit__(self, *_: object) -> None:
        self._warm.stop()

    def play(self, cell: Cell) -> dict[str, Any]:
        """
        Play a cell and judge it.

        :raises VigError: a process died or did not get ready; this stage is of no more use.
        """
        point, server = cell.point, self._accelerator.server
        is_governed = cell.arm.is_governed
        logs = {name: self._folder / 'cells' / f'{name}.json' for name in ('cameras', 'consumer')}
        frames = {stream.name: list(point.frames(stream, cell.repeat, self._duration_ns))
                  for stream in point.streams}
        plan = self._folder / 'cells' / 'plan.json'
        plan.write_text(json.dumps({
            'endpoint': server.grpc_endpoint, 'http_endpoint': server.http_endpoint,
            'depth': cell.arm.depth,
            'keeps_newest': cell.arm is Arm.NEWEST,
            **{f'{name}_log': str(path) for name, path in logs.items()},
            'streams': [{'name': stream.name, 'topic': topic_of(point, stream),
                         'backend_model': point.model(stream).variants[0].backend_model,
                         'frames': frames[stream.name]} for stream in point.streams]}),
            encoding='utf-8')
        if not is_governed:
            self._accelerator.load_anew(sorted(point.laws))
        players = [self._consumer, *([] if is_governed else self._clients[:len(point.streams)])]
        with Processes(self._folder / 'log', self._environment) as governors:
            for player in players:
                player.say(str(plan))
            parts = {'cameras': self._cameras.pid, 'consumer': self._consumer.pid,
                     'server': server.pid,
                     **{f'client {number}': child.pid
                        for number, child in enumerate(self._clients)}}
            if is_governed:
                parts['governor'] = self._start_governor(governors, cell).pid
            for player in players:
                self._warm.wait_for_line(player, 'ready', timeout_s=READY_TIMEOUT_S)
            if is_governed:
                self._warm.wait_for_line(self._consumer, 'active', timeout_s=READY_TIMEOUT_S)
            self._cameras.say(str(plan))
            self._warm.wait_for_line(self._cameras, 'ready', timeout_s=READY_TIMEOUT_S)
            span, share = self._run(governors, parts)
            for player in players[1:]:
                player.say('end')
                self._warm.wait_for_line(player, 'done', timeout_s=READY_TIMEOUT_S)
            for player in (self._cameras, self._consumer):
                player.say('end')
                self._warm.wait_for_line(player, 'done', timeout_s=READY_TIMEOUT_S)
        return self._judged(cell, frames, logs, span, share)

    def _run(self, governors: Processes, parts: dict[str, int]
             ) -> tuple[judge.Span, machine.Share]:
        """Let the cameras play; give what is judged of it, and who used the cores meanwhile."""
        start_ns = time.monotonic_ns() + LEAD_NS
        zero_ns = start_ns + time.time_ns() - time.monotonic_ns()
        self._cameras.say(str(start_ns))
        self._rest_until(start_ns + SETTLING_NS)
        before = machine.look(parts)
        self._rest_until(start_ns + self._duration_ns)
        after = machine.look(parts)
        self._warm.wait_for_line(self._cameras, 'played', timeout_s=READY_TIMEOUT_S)
        time.sleep(LAST_ANSWERS_S)
        self._warm.check()
        governors.check()
        return (judge.Span(zero_ns, zero_ns + SETTLING_NS, zero_ns + self._duration_ns),
                machine.between(before, after))

    def _judged(self, cell: Cell, frames: dict[str, Any], logs: dict[str, Path],
                span: judge.Span, share: machine.Share) -> dict[str, Any]:
        point = cell.point
        noted = json.loads(logs['consumer'].read_text(encoding='utf-8'))
        published = json.loads(logs['cameras'].read_text(encoding='utf-8'))
        streams = {stream.name: judge.judge_stream(
            judge.Need.of(point, stream), noted['streams'][stream.name], log, span)
            for stream, log in zip(point.streams, published)}
        status, reasons = judge.status_of(streams, share, published,
                                          sum(map(len, frames.values())))
        to_monotonic = time.monotonic_ns() - time.time_ns()
        executions = self._accelerator.executions(span.start_ns + to_monotonic,
                                                  span.end_ns + to_monotonic)
        busy_ns = sum(ended - began for began, ended, _ in executions)
        own = [name for name in share.parts_percent
               if name.startswith('client') or name == 'governor']
        return {
            'point': point.label, 'workload': point.name, 'load_permille': point.load_permille,
            'arm': cell.arm.value, 'repeat': cell.repeat, 'status': status, 'reasons': reasons,
            'frames_per_s': round(sum(stream['frames'] for stream in streams.values())
                                  / span.seconds, 1),
            'streams': streams, 'background_permille': judge.background_permille(streams),
            'accelerator_busy_percent': round(100 * busy_ns / (span.end_ns - span.start_ns), 1),
            'cpu_percent': dict(share.parts_percent),
            'between_percent': round(sum(share.parts_percent[name] for name in own), 2),
            'foreign_percent': share.foreign_percent, 'steal_percent': share.steal_percent,
            'node': judge.node_figures(noted['diagnostics'], span), 'plans': noted['plans'],
            'raw': {'streams': noted['streams'], 'zero_ns': span.zero_ns,
                    'lanes': [_lane(point, stream) for stream in point.streams],
                    'executions': [(began - to_monotonic, ended - to_monotonic, name)
                                   for began, ended, name in executions]}}

    def _start(self, module: str, *arguments: str) -> Child:
        return self._warm.start(''.join((module, *arguments)), [
            sys.executable, '-m', f'benchmark.live.{module}', *arguments])

    def _start_governor(self, governors: Processes, cell: Cell) -> Child:
        config = self._folder / 'cells' / f'{cell.label}.yaml'
        config.write_text(render(
            cell.point, self._accelerator.server,
            lead_ns=None if cell.arm is Arm.PLAIN else self._lead_ns), encoding='utf-8')
        return governors.start('governor', [
            sys.executable, '-m', 'vig_governor.node', '--ros-args', '-r', '__node:=governor',
            '-p', f'config:={config.resolve()}', '-p', 'autostart:=true',
            '-p', 'diagnostics_period_s:=0.5'])

    @staticmethod
    def _rest_until(instant_ns: int) -> None:
        time.sleep(max(0, instant_ns - time.monotonic_ns()) / NS_PER_S)


def _lane(point: Point, stream: SimStream) -> dict[str, Any]:
    model = point.model(stream)
    return {'name': stream.name, 'class': model.criticality.name.lower(),
            'max_age_ms': (model.contract.max_age_ns or 0) / NS_PER_MS,
            'backend_model': model.variants[0].backend_model}
