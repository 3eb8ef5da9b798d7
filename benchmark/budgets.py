"""
What the opt-in ``miss_aware_policy`` buys and what it costs, on the same frames, in virtual time.

Three protected cameras of 30 Hz on one slot, each with a model, a deadline and a miss budget of
its own. A budget counts as broken at every cycle after which its window holds too many misses or
too many in a row. All figures are permille of the cycles, summed over the seeds.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from vig_core.contract import Contract, Criticality, MissBudget
from vig_core.coverage import supply_of
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.sim.engine import SimStream, simulate
from vig_core.sim.workload import Periodic
from vig_core.units import ms, seconds

PERIOD_MS = 33
LOADS_PERMILLE = (900, 1100, 1250, 1500)
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Camera:
    """One camera and what its consumer bears."""

    name: str
    deadline_ms: int
    budget: MissBudget


EQUAL = tuple(Camera(name, deadline, MissBudget(8, 20, 3))
              for name, deadline in (('front', 33), ('left', 40), ('right', 50)))
"""The same budget for all; the order by deadlines alone puts the right one last."""

UNEQUAL = (Camera('front', 33, MissBudget(15, 20, 8)), Camera('left', 40, MissBudget(15, 20, 8)),
           Camera('right', 50, MissBudget(1, 20, 1)))
"""The one that goes last bears least."""


def system(cameras: tuple[Camera, ...], load_permille: int) -> System:
    """Make the system that offers so much load at median runtimes."""
    runtime_ns = ms(PERIOD_MS) * load_permille // (1000 * len(cameras))
    profile = RuntimeProfile(runtime_ns, runtime_ns * 13 // 10)
    models = {}
    for one in cameras:
        contract = Contract(
            deadline_ns=ms(one.deadline_ms), max_age_ns=ms(2 * PERIOD_MS),
            period_ns=ms(PERIOD_MS), consumer_period_ns=ms(PERIOD_MS),
            release_jitter_ns=ms(1), miss_budget=one.budget)
        models[one.name] = Model(
            name=one.name, criticality=Criticality.PROTECTED, contract=contract,
            variants=(Variant('main', one.name, profile),))
    return System(models=MappingProxyType(models),
                  streams=MappingProxyType({name: name for name in models}))


def play(cameras: tuple[Camera, ...], load_permille: int, *, is_miss_aware: bool,
         duration_ns: int) -> dict[str, dict[str, float]]:
    """Play one row; gives the figures of each camera."""
    made = replace(system(cameras, load_permille), is_miss_aware=is_miss_aware)
    streams = tuple(SimStream(one.name, one.name, Periodic(
        ms(PERIOD_MS), jitter_ns=ms(1), phase_ns=ms(8 * index)))
        for index, one in enumerate(cameras))
    sums = {one.name: [0, 0, 0] for one in cameras}
    for seed in SEEDS:
        run = simulate(Scheduler(made), made, streams, seed=seed, duration_ns=duration_ns)
        for one in cameras:
            supply = supply_of(
                made.models[one.name].contract,
                ((end.ended_at_ns, end.captured_at_ns if end.reason is Reason.COMPLETED else None)
                 for end in run.ends if end.stream == one.name),
                origin_ns=0, until_ns=duration_ns)
            sums[one.name][0] += supply.cycles
            sums[one.name][1] += supply.cycles - supply.covered
            sums[one.name][2] += supply.violated
    return {name: {'uncovered': 1000 * uncovered / cycles, 'broken': 1000 * broken / cycles}
            for name, (cycles, uncovered, broken) in sums.items()}


def show(is_quick: bool) -> tuple[dict[str, Any], list[str]]:
    """Play and print everything; gives the figures and what is wrong."""
    duration_ns = seconds(10 if is_quick else 60)
    figures: dict[str, Any] = {}
    wrong = []
    print('\n== miss budgets: three protected cameras, by deadlines alone and miss-aware ==')
    print(f'{"budgets":8}  {"load":>6}  {"policy":10}  ' + '  '.join(
        f'{name + ": uncovered":>16}  {"broken":>6}' for name in ('front', 'left', 'right')))
    for title, cameras in (('equal', EQUAL), ('unequal', UNEQUAL)):
        for load in LOADS_PERMILLE:
            for is_miss_aware in (False, True):
                policy = 'miss-aware' if is_miss_aware else 'deadlines'
                row = figures[f'{title}, {load}, {policy}'] = play(
                    cameras, load, is_miss_aware=is_miss_aware, duration_ns=duration_ns)
                print(f'{title:8}  {load / 10:4g} %  {policy:10}  ' + '  '.join(
                    f'{one["uncovered"]:16.0f}  {one["broken"]:6.0f}' for one in row.values()))
            plain, aware = (sum(one['broken'] for one in figures[
                f'{title}, {load}, {policy}'].values()) for policy in ('deadlines', 'miss-aware'))
            if aware > plain:
                wrong.append(f'{title} budgets at {load / 10:g} %: miss-aware breaks them at '
                             f'{aware:.0f} permille of the cycles, deadlines alone at {plain:.0f}')
    return figures, wrong
