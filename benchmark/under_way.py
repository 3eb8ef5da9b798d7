"""
The points of ``bench-live`` in virtual time: a serial device at the end of a way.

``bench-sim`` knows one number for each run. On a real server a part of it is spent under way, and
another request can run meanwhile. Here the same frames go to a simulated device whose ways take
what ``bench-live`` saw on two cores: through clients that send by themselves, and through the
governor. Judged as in ``bench-live``, and printed as a table; the same figures on every machine.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
import multiprocessing
from statistics import median
from typing import Any

from benchmark.live import workloads
from benchmark.live.judge import judge_stream, Need, Span

from vig_core.model import RuntimeProfile, System
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.sim.baselines import DirectClients
from vig_core.sim.device import SerialServer, Way
from vig_core.sim.engine import Policy, simulate
from vig_core.sim.scenarios import Scenario
from vig_core.sim.workload import RuntimeLaw
from vig_core.units import NS_PER_MS, NS_PER_S

LOADS = (750, 900, 1000, 1100, 1250, 1500)
PROFILE_RUNS = 400
LEAD_NS = 4 * NS_PER_MS


@dataclass(frozen=True, slots=True)
class Ways:
    """
    What ``bench-live`` saw around the device.

    :ivar transport_ns: from the camera's stamp to the arrival of the frame.
    :ivar client: of a client that sends by itself.
    :ivar node: of the governor; longer: encoding, threads, and a machine that it shares.
    """

    transport_ns: int
    client: Way
    node: Way

    @property
    def turnaround_ns(self) -> int:
        """How long the device stands still after each run."""
        return self.client.turnaround_ns


def _way(there_ms: tuple[float, float], back_ms: tuple[float, float],
         turnaround_ms: float) -> Way:
    """Make one of medians and 99 % quantiles."""
    there, back = (RuntimeLaw(*(round(each * NS_PER_MS) for each in way_ms))
                   for way_ms in (there_ms, back_ms))
    return Way(there, back, round(turnaround_ms * NS_PER_MS))


WAYS = {
    'grpc': Ways(4 * NS_PER_MS, _way((1.7, 3.5), (1.7, 3.5), 2.46),
                 _way((2.9, 6.5), (2.9, 6.5), 2.46)),
    'http': Ways(round(1.4 * NS_PER_MS), _way((0.7, 1.5), (0.7, 1.5), 0.86),
                 _way((1.4, 3.0), (1.0, 2.5), 0.86))}
"""An early run over gRPC on a busy machine, and the published one over HTTP on a quiet one."""


@dataclass(frozen=True, slots=True)
class Arm:
    """
    Who stands between cameras and device.

    :ivar has_lead: of a governor; one without never pipelines.
    """

    name: str
    is_governor: bool = False
    keeps_newest: bool = False
    has_lead: bool = False
    learns: bool = False

    def policy(self, system: System, lead_ns: int) -> Policy:
        """Build it."""
        if not self.is_governor:
            return DirectClients(system, in_flight=1, keeps_newest=self.keeps_newest)
        return Scheduler(replace(system, pipelining_depth=int(self.has_lead),
                                 pipelining_lead_ns=lead_ns if self.has_lead else None,
                                 learns_occupancy=self.learns))


ARMS = (Arm('direct, depth 1'), Arm('newest only', keeps_newest=True),
        Arm('governor, no lead', is_governor=True),
        Arm('governor', is_governor=True, has_lead=True),
        Arm('governor, learning', is_governor=True, has_lead=True, learns=True))


@dataclass(frozen=True, slots=True)
class Task:
    """
    One simulation.

    :ivar load: in permille; 0 for that of the scenario's file.
    :ivar ways: which of ``WAYS``.
    :ivar is_alone: only the first stream plays.
    """

    scenario: str
    load: int
    arm: int
    seed: int
    seconds: int
    ways: str = 'http'
    is_alone: bool = False
    lead_ns: int = LEAD_NS


def profiles(scenario: Scenario, ways: Ways) -> dict[str, RuntimeProfile]:
    """Give what a client with one request in flight measures, by backend model."""
    measured = {}
    for model in scenario.system.models.values():
        variant = model.variants[0]
        law = workloads.shortened(RuntimeLaw.of(variant.profile), ways.turnaround_ns)
        runs = sorted(sum(each.draw_ns(0, what, index, variant) for each, what in (
            (ways.client.there, 'there'), (law, 'run'), (ways.client.back, 'back')))
            for index in range(PROFILE_RUNS))
        measured[variant.backend_model] = RuntimeProfile(
            runs[PROFILE_RUNS // 2], runs[PROFILE_RUNS * 99 // 100])
    return measured


def play(task: Task) -> dict[str, Any]:
    """Run one simulation and judge it."""
    arm, ways, seed = ARMS[task.arm], WAYS[task.ways], task.seed
    scenario = workloads.shortened_to(workloads.scenarios()[task.scenario],
                                      task.seconds * NS_PER_S)
    point = workloads.point_at(scenario, task.load, profiles(scenario, ways), ways.turnaround_ns)
    streams = [replace(stream, arrivals=replace(stream.arrivals, transport_ns=ways.transport_ns))
               for stream in point.streams[:1 if task.is_alone else None]]
    system = point.scenario.system
    server = SerialServer(seed, point.laws, ways.node if arm.is_governor else ways.client, {
        model.variants[0].backend_model: model.criticality for model in system.models.values()})
    policy = arm.policy(system, task.lead_ns)
    run = simulate(policy, system, streams, seed=seed, duration_ns=task.seconds * NS_PER_S,
                   backend=server)
    span = Span(0, NS_PER_S, task.seconds * NS_PER_S)
    judged = {}
    for stream in streams:
        ends = [end for end in run.ends if end.stream == stream.name]
        judged[stream.name] = judge_stream(Need.of(point, stream), {
            'results': [(end.captured_at_ns, end.ended_at_ns) for end in ends
                        if end.reason is Reason.COMPLETED],
            'statuses': [(end.captured_at_ns, end.reason.value) for end in ends]},
            [(end.captured_at_ns,) for end in ends], span)
    idle_ns = 0
    if isinstance(policy, Scheduler):
        idle_ns = policy.snapshot(
            now_ns=max(end.ended_at_ns for end in run.ends)).deliberate_idle_ns
    busy_ns = sum(ended - began for began, ended, _ in server.executions)
    return {'streams': judged, 'busy_percent': 100 * busy_ns / run.duration_ns,
            'idle_percent': 100 * idle_ns / run.duration_ns}


def line_of(arm: Arm, cells: Sequence[Mapping[str, Any]]) -> str:
    """Print one arm at one point: medians over the seeds, and the range of what is uncovered."""
    parts = [f'  {arm.name:18} busy {median(cell["busy_percent"] for cell in cells):3.0f} % '
             f'idle {median(cell["idle_percent"] for cell in cells):3.0f} %']
    for name in cells[0]['streams']:
        rows = [cell['streams'][name] for cell in cells]
        lost = [row['uncovered_permille'] for row in rows]
        if lost[0] is None:
            parts.append(f'{name} {median(row["results"] for row in rows):.0f} results')
            continue
        parts.append(f'{name} {median(lost):.1f} ({min(lost):.1f}..{max(lost):.1f}) '
                     f'age {median(row["age_p50_ms"] or 0 for row in rows):.0f}')
    return ' | '.join(parts)


def main() -> None:
    """Play all points."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument('--seeds', type=int, default=3, help='repeats of each simulation')
    parser.add_argument('--seconds', type=int, default=20, help='simulated in each')
    parser.add_argument('--only', default='', help='points whose name begins like this')
    parser.add_argument('--arm', default='', help='the arm of this name only')
    parser.add_argument('--ways', choices=WAYS, default='http', help='default: %(default)s')
    parser.add_argument('--lead-ms', type=float, default=LEAD_NS / NS_PER_MS,
                        help='of the governors that have one; default: %(default)s')
    parser.add_argument('--alone', action='store_true',
                        help='only the first stream plays: what no scheduler can better')
    arguments = parser.parse_args()
    points = [(f'ramp {load / 10:.0f} %', 'ramp', load) for load in LOADS] + [
        ('block', 'block', 0), ('bursts', 'bursts', 0), ('four-cameras', 'four-cameras', 1500)]
    points = [point for point in points if point[0].startswith(arguments.only)]
    arms = [number for number, arm in enumerate(ARMS) if arguments.arm in ('', arm.name)]
    print('Uncovered consumer cycles in permille, median of the seeds (least..greatest); age in '
          'ms, median.')
    with multiprocessing.Pool() as pool:
        for label, name, load in points:
            tasks = [Task(name, load, arm, seed, arguments.seconds, arguments.ways,
                          arguments.alone, round(arguments.lead_ms * NS_PER_MS))
                     for arm in arms for seed in range(1, 1 + arguments.seeds)]
            cells = dict(zip(tasks, pool.map(play, tasks, chunksize=1)))
            print(label)
            for arm in arms:
                print(line_of(ARMS[arm], [cells[task] for task in tasks if task.arm == arm]),
                      flush=True)


if __name__ == '__main__':
    main()
