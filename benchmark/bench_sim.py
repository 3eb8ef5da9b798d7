"""
The governor and what a careful team does without one, on the same frames, in virtual time.

Every scenario file of ``benchmark/scenarios`` at every load and seed: the production scheduler,
the tuned server at its best queue depth, newest-only clients, and EDF. Prints every stream, both
ways to count, beside published, measured, clairvoyant and goal figures; writes JSON and a plot per
scenario to ``build/bench-sim``. ``QUICK=1`` plays less and checks nothing against references.

Exit 1: the simulator is wrong (a published figure of the baseline lies more than 15 permille
outside of what our seeds give; its random draws were others), or the governor's median is more
than 15 permille worse than published. A goal that is missed is printed as missed.
"""

import argparse
from dataclasses import asdict, replace
import json
import multiprocessing
import os
from pathlib import Path
import statistics
import sys
import time
from typing import Any

import budgets
import learning
import sim_tables
from sim_tables import Figures

from vig_core.scheduler import Scheduler
from vig_core.sim.baselines import earliest_deadline_first, newest_only_client, tuned_server
from vig_core.sim.bound import Floor, floor_of, KnownFrame
from vig_core.sim.engine import simulate
from vig_core.sim.report import judge, Report
from vig_core.sim.scenarios import PolicyName, Scenario

from vig_governor.config.problems import ConfigError
from vig_governor.config.scenario import load_scenarios

HERE = Path(__file__).resolve().parent
QUICK_SHARE = 4
EDF_DEPTH = 1

Task = tuple[int, int, int, PolicyName, int]
"""Index of the scenario, load, seed, policy, queue depth."""

_scenarios: list[Scenario] = []


def play(task: Task) -> tuple[Task, Report]:
    """Run one simulation."""
    index, load, seed, policy, depth = task
    scenario = _scenarios[index].at(load)
    system, idle_ns = scenario.system, 0
    options: dict[str, Any] = {'seed': seed, 'duration_ns': scenario.duration_ns,
                               'laws': scenario.laws}
    if policy is PolicyName.GOVERNOR:
        governor = Scheduler(system)
        run = simulate(governor, system, scenario.streams, **options)
        idle_ns = governor.snapshot(
            now_ns=max([run.duration_ns, *(end.ended_at_ns for end in run.ends)])
        ).deliberate_idle_ns
    else:
        other = {PolicyName.TUNED_SERVER: lambda: tuned_server(system, depth),
                 PolicyName.NEWEST_ONLY: lambda: newest_only_client(system),
                 PolicyName.EDF: lambda: earliest_deadline_first(system, EDF_DEPTH)}[policy]()
        run = simulate(other, system, scenario.streams, **options)
    return task, judge(run, system, scenario.streams, deliberate_idle_ns=idle_ns)


def floors(scenario: Scenario) -> dict[str, Floor]:
    """Compute what each stream could reach alone on one slot, the median over the seeds."""
    found = {}
    for stream in scenario.streams:
        model = scenario.system.models[stream.model]
        contract = model.contract
        if contract.max_age_ns is None or contract.cycle_ns is None or stream.is_closed_loop:
            continue
        by_seed = []
        for seed in scenario.seeds:
            frames = [KnownFrame(frame.captured_at_ns, frame.arrives_at_ns, min(
                scenario.laws[variant.backend_model].draw_ns(
                    seed, stream.name, frame.index, variant) for variant in model.variants))
                for frame in stream.arrivals.frames(seed, stream.name, scenario.duration_ns)]
            frames.sort(key=lambda frame: frame.captured_at_ns)
            by_seed.append(floor_of(frames, period_ns=contract.cycle_ns,
                                    max_age_ns=contract.max_age_ns,
                                    duration_ns=scenario.duration_ns))
        found[stream.name] = Floor(by_seed[0].cycles, *(
            round(statistics.median(getattr(one, key) for one in by_seed))
            for key in ('instants', 'windows', 'eager_windows')))
    return found


def tasks_of(index: int, scenario: Scenario) -> list[Task]:
    """List every simulation of one scenario."""
    return [(index, load, seed, policy, depth)
            for load in scenario.loads_permille for seed in scenario.seeds
            for policy in PolicyName
            for depth in (scenario.queue_depths if policy is PolicyName.TUNED_SERVER else (0,))]


def collect(index: int, scenario: Scenario,
            reports: dict[Task, Report]) -> dict[tuple[int, PolicyName], Figures]:
    """Take the medians over the seeds, and of the tuned server the best depth at each load."""
    found: dict[tuple[int, PolicyName], Figures] = {}
    for load in scenario.loads_permille:
        for policy in PolicyName:
            depths = scenario.queue_depths if policy is PolicyName.TUNED_SERVER else (0,)
            candidates = [Figures.of([reports[index, load, seed, policy, depth]
                                      for seed in scenario.seeds], depth) for depth in depths]
            found[load, policy] = min(candidates, key=lambda one: one.badness)
    return found


def quick(scenario: Scenario) -> Scenario:
    """Play less: one seed, a part of the time, the ends and the middle of the loads."""
    loads = scenario.loads_permille
    return replace(scenario, seeds=scenario.seeds[:1],
                   duration_ns=scenario.duration_ns // QUICK_SHARE,
                   loads_permille=tuple(sorted({loads[0], loads[len(loads) // 2], loads[-1]})),
                   references=tuple(replace(one, must_match=False)
                                    for one in scenario.references))


def main() -> int:
    """Play, print, write; say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('files', nargs='*', type=Path,
                        default=sorted((HERE / 'scenarios').glob('*.yaml')))
    parser.add_argument('--output', type=Path, default=Path('build/bench-sim'))
    args = parser.parse_args()
    is_quick = os.environ.get('QUICK', '') not in ('', '0')
    begin = time.monotonic()
    sources = {}
    try:
        for path in args.files:
            file = load_scenarios(path)
            for scenario in file.scenarios:
                sources[scenario.name] = file.source
                _scenarios.append(quick(scenario) if is_quick else scenario)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    tasks = [task for index, scenario in enumerate(_scenarios)
             for task in tasks_of(index, scenario)]
    print(f'{len(tasks)} simulations of {len(_scenarios)} scenarios', flush=True)
    with multiprocessing.get_context('fork').Pool(len(os.sched_getaffinity(0))) as pool:
        reports = dict(pool.imap_unordered(play, tasks, chunksize=4))
    args.output.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    for index, scenario in enumerate(_scenarios):
        figures = collect(index, scenario, reports)
        reach = {load: floors(scenario.at(load)) for load in scenario.loads_permille}
        findings = sim_tables.compare(scenario, figures, is_checked=not is_quick)
        sim_tables.show(scenario, sources[scenario.name], figures, reach, findings)
        sim_tables.plot(scenario, figures, reach, args.output / f'{scenario.name}.png')
        wrong += findings.wrong
        (args.output / f'{scenario.name}.json').write_text(json.dumps({
            'scenario': scenario.name, 'source': sources[scenario.name], 'quick': is_quick,
            'seeds': scenario.seeds, 'duration_ns': scenario.duration_ns,
            'policies': [one.plain(load, policy) for (load, policy), one in figures.items()],
            'floors': {load: {name: asdict(floor) for name, floor in one.items()}
                       for load, one in reach.items()},
            'findings': asdict(findings)}, indent=2) + '\n')
    figures_of_learning, not_learned = learning.show(is_quick)
    (args.output / 'learning.json').write_text(json.dumps(figures_of_learning, indent=2) + '\n')
    wrong += not_learned
    figures_of_budgets, broken = budgets.show(is_quick)
    (args.output / 'budgets.json').write_text(json.dumps(figures_of_budgets, indent=2) + '\n')
    wrong += broken
    for line in wrong:
        print(f'WRONG: {line}')
    print(f'{len(tasks)} simulations in {time.monotonic() - begin:.0f} s; '
          f'JSON and plots in {args.output}')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
