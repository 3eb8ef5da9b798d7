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
TRANSPORT_NS = 4 * NS_PER_MS
"""From the camera's stamp to the arrival of the frame."""

LEAD_NS = 4 * NS_PER_MS


def _law(p50_ms: float, p99_ms: float) -> RuntimeLaw:
    return RuntimeLaw(round(p50_ms * NS_PER_MS), round(p99_ms * NS_PER_MS))


TURNAROUND_NS = round(2.46 * NS_PER_MS)
CLIENT = Way(_law(1.7, 3.5), _law(1.7, 3.5), TURNAROUND_NS)
NODE = Way(_law(2.9, 6.5), _law(2.9, 6.5), TURNAROUND_NS)
"""Longer than a client's: encoding, threads, and a machine that it shares with them."""


@dataclass(frozen=True, slots=True)
class Arm:
    """
    Who stands between cameras and device.

    :ivar lead_ns: of a governor; ``None`` for one that never pipelines.
    """

    name: str
    is_governor: bool = False
    keeps_newest: bool = False
    lead_ns: int | None = None
    learns: bool = False

    def policy(self, system: System) -> Policy:
        """Build it."""
        if not self.is_governor:
            return DirectClients(system, in_flight=1, keeps_newest=self.keeps_newest)
        return Scheduler(replace(system, pipelining_depth=0 if self.lead_ns is None else 1,
                                 pipelining_lead_ns=self.lead_ns,
                                 learns_occupancy=self.learns))


ARMS = (Arm('direct, depth 1'), Arm('newest only', keeps_newest=True),
        Arm('governor, no lead', is_governor=True),
        Arm('governor', is_governor=True, lead_ns=LEAD_NS),
        Arm('governor, learning', is_governor=True, lead_ns=LEAD_NS, learns=True))

Task = tuple[str, int, int, int, int]
"""Scenario, load in permille (0 for that of its file), arm, seed, seconds."""


def profiles(scenario: Scenario) -> dict[str, RuntimeProfile]:
    """Give what a client with one request in flight measures, by backend model."""
    measured = {}
    for model in scenario.system.models.values():
        variant = model.variants[0]
        law = workloads.shortened(RuntimeLaw.of(variant.profile), TURNAROUND_NS)
        runs = sorted(sum(each.draw_ns(0, what, index, variant) for each, what in (
            (CLIENT.there, 'there'), (law, 'run'), (CLIENT.back, 'back')))
            for index in range(PROFILE_RUNS))
        measured[variant.backend_model] = RuntimeProfile(
            runs[PROFILE_RUNS // 2], runs[PROFILE_RUNS * 99 // 100])
    return measured


def play(task: Task) -> dict[str, Any]:
    """Run one simulation and judge it."""
    name, load, arm_number, seed, seconds = task
    arm, scenario = ARMS[arm_number], workloads.scenarios()[name]
    scenario = workloads.shortened_to(scenario, seconds * NS_PER_S)
    point = workloads.point_at(scenario, load, profiles(scenario), TURNAROUND_NS)
    streams = [replace(stream, arrivals=replace(stream.arrivals, transport_ns=TRANSPORT_NS))
               for stream in point.streams]
    system = point.scenario.system
    server = SerialServer(seed, point.laws, NODE if arm.is_governor else CLIENT, {
        model.variants[0].backend_model: model.criticality for model in system.models.values()})
    policy = arm.policy(system)
    run = simulate(policy, system, streams, seed=seed, duration_ns=seconds * NS_PER_S,
                   backend=server)
    span = Span(0, NS_PER_S, seconds * NS_PER_S)
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
        parts.append(f'{name} {median(lost):.0f} ({min(lost):.0f}..{max(lost):.0f}) '
                     f'age {median(row["age_p50_ms"] or 0 for row in rows):.0f}')
    return ' | '.join(parts)


def main() -> None:
    """Play all points."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument('--seeds', type=int, default=3, help='repeats of each simulation')
    parser.add_argument('--seconds', type=int, default=20, help='simulated in each')
    parser.add_argument('--only', default='', help='points whose name begins like this')
    parser.add_argument('--arm', default='', help='the arm of this name only')
    arguments = parser.parse_args()
    points = [(f'ramp {load / 10:.0f} %', 'ramp', load) for load in LOADS] + [
        ('block', 'block', 0), ('bursts', 'bursts', 0), ('four-cameras', 'four-cameras', 1500)]
    points = [point for point in points if point[0].startswith(arguments.only)]
    arms = [number for number, arm in enumerate(ARMS) if arguments.arm in ('', arm.name)]
    print('Uncovered consumer cycles in permille, median of the seeds (least..greatest); age in '
          'ms, median.')
    with multiprocessing.Pool() as pool:
        for label, name, load in points:
            tasks = [(name, load, arm, seed, arguments.seconds)
                     for arm in arms for seed in range(1, 1 + arguments.seeds)]
            cells = dict(zip(tasks, pool.map(play, tasks, chunksize=1)))
            print(label)
            for arm in arms:
                print(line_of(ARMS[arm], [cells[task] for task in tasks if task[2] == arm]),
                      flush=True)


if __name__ == '__main__':
    main()
