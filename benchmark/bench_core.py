"""
Time of one decision: ``Scheduler.handle`` in a saturated mix of 4, 8 and 32 streams.

Virtual time, one slot, offered load 150 %; a quarter of the streams of each class; protected
and high ones have a period, so that the look-ahead has as many forecasts as there are guarded
streams. Every call is timed, the wake-ups included.

All runs of a mix make the same calls. So there are two figures: the quantiles of a run (median
over the runs), which include whatever the machine did meanwhile, and those of the *own* cost: of
each call the fastest of all runs. How often the garbage collector ran inside a call, and for how
long at most, is counted apart. Prints a table, writes ``build/bench-core/result.json`` and ends
with the figure that counts. ``--cpu`` counts the CPU time of the thread instead of wall time.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
import gc
import heapq
import json
from pathlib import Path
import platform
import random
import sys
import time

from vig_core.actions import Dispatch
from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.events import BackendCompleted, Event, RequestArrived, Woke
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.scheduler import Scheduler
from vig_core.units import ms

STREAM_COUNTS = (4, 8, 32)
AIM_US = 100.0
LOAD = 1.5


def make_system(streams: int) -> System:
    """Describe a mix in which the models together need ``LOAD`` times what one slot gives."""
    models = {}
    period_ns = ms(33)
    runtime_ns = int(period_ns * LOAD / streams)
    for index in range(streams):
        criticality = Criticality(index % 4)
        name = f'model_{index}'
        is_background = criticality is Criticality.BEST_EFFORT
        variants = tuple(
            Variant(f'v{rank}', f'{name}_{rank}',
                    RuntimeProfile(p50_ns=runtime_ns // (rank + 1),
                                   p99_ns=int(runtime_ns * 1.2) // (rank + 1)),
                    quality=1.0 - rank / 10)
            for rank in range(2 if index % 2 == 0 else 1))
        models[name] = Model(
            name, criticality,
            Contract(deadline_ns=period_ns, max_age_ns=2 * period_ns,
                     period_ns=None if is_background else period_ns,
                     release_jitter_ns=ms(1)),
            variants, QueuePolicy.FIFO if is_background else QueuePolicy.LATEST,
            capacity=4 if is_background else 1)
    return System(models)


@dataclass
class Collector:
    """Watches the garbage collector: how long each collection inside of a timed call took."""

    pauses_ns: list[int] = field(default_factory=list)
    is_timed: bool = False
    _begin_ns: int = 0

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        """Take the collector's report."""
        if phase == 'start':
            self._begin_ns = time.perf_counter_ns()
        elif self.is_timed:
            self.pauses_ns.append(time.perf_counter_ns() - self._begin_ns)


def run(streams: int, calls: int, seed: int, clock: Callable[[], int],
        collector: Collector) -> list[int]:
    """Drive a scheduler through ``calls`` calls and return the duration of each in ns."""
    system = make_system(streams)
    scheduler = Scheduler(system)
    rng = random.Random(seed)
    period_ns = ms(33)
    pending: list[tuple[int, int, Event | str]] = []
    order = 0
    for index, name in enumerate(system.models):
        order += 1
        heapq.heappush(pending, (index * period_ns // streams, order, name))
    request_id = 0
    durations = []
    while len(durations) < calls:
        now_ns, _, what = pending[0]
        wakeup_ns = scheduler.next_wakeup_ns()
        event: Event
        if wakeup_ns is not None and wakeup_ns < now_ns:
            now_ns, event = wakeup_ns, Woke()
        else:
            heapq.heappop(pending)
            if isinstance(what, str):
                request_id += 1
                captured_ns = max(0, now_ns - ms(2))
                event = RequestArrived(request_id, what, what, what, captured_ns)
                order += 1
                heapq.heappush(pending, (
                    now_ns + period_ns + rng.randint(-ms(1), ms(1)), order, what))
            else:
                event = what
        collector.is_timed = True
        begin = clock()
        actions = scheduler.handle(event, now_ns=now_ns)
        scheduler.next_wakeup_ns()
        durations.append(clock() - begin)
        collector.is_timed = False
        for action in actions:
            if isinstance(action, Dispatch):
                runtime_ns = int(action.planned_ns / 1.32 * rng.uniform(0.9, 1.2))
                order += 1
                heapq.heappush(pending, (now_ns + runtime_ns, order,
                                         BackendCompleted(action.request_id)))
    return durations


def quantile_us(durations: list[int], permille: int) -> float:
    """Nearest-rank quantile in microseconds."""
    ranked = sorted(durations)
    return ranked[-(-len(ranked) * permille // 1000) - 1] / 1000


def main() -> int:
    """Measure, print, write; a missed aim is said and is no failure of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--calls', type=int, default=40_000)
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--output', type=Path, default=Path('build/bench-core/result.json'))
    parser.add_argument('--cpu', action='store_true', help='CPU time instead of wall time')
    args = parser.parse_args()
    clock = time.thread_time_ns if args.cpu else time.perf_counter_ns
    collector = Collector()
    gc.callbacks.append(collector)
    rows = []
    for streams in STREAM_COUNTS:
        collector.pauses_ns.clear()
        runs = [run(streams, args.calls, 0, clock, collector)[args.calls // 10:]
                for _ in range(args.runs)]
        p50, p99 = (sorted(quantile_us(one, permille) for one in runs)[len(runs) // 2]
                    for permille in (500, 990))
        own = [min(same) for same in zip(*runs)]
        pauses_ns = collector.pauses_ns
        rows.append({
            'streams': streams, 'p50_us': p50, 'p99_us': p99, 'calls': args.calls,
            'runs': args.runs, 'own_p50_us': quantile_us(own, 500),
            'own_p99_us': quantile_us(own, 990), 'collections': len(pauses_ns),
            'collected_calls_permille': 1000 * len(pauses_ns) / (args.calls * args.runs),
            'longest_collection_us': max(pauses_ns, default=0) / 1000})
        print(f'{streams:3d} streams: p50 {p50:6.1f} us, p99 {p99:6.1f} us '
              f'(median of {args.runs} runs of {args.calls} calls); own p50 '
              f'{rows[-1]["own_p50_us"]:.1f}, p99 {rows[-1]["own_p99_us"]:.1f}; collector in '
              f'{rows[-1]["collected_calls_permille"]:.1f} permille of the calls, at most '
              f'{rows[-1]["longest_collection_us"]:.0f} us', flush=True)
    machine = (f'{platform.machine()}, Python {platform.python_version()}, '
               f'{"CPU" if args.cpu else "wall"} time')
    growth = rows[-1]['p99_us'] / rows[0]['p99_us']
    streams_growth = STREAM_COUNTS[-1] / STREAM_COUNTS[0]
    is_met = rows[-1]['p99_us'] < AIM_US and growth <= streams_growth
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(
        {'machine': machine, 'aim_p99_us': AIM_US, 'rows': rows, 'p99_growth_4_to_32': growth,
         'is_met': is_met}, indent=2) + '\n')
    print(f'machine: {machine}; details in {args.output}')
    print(f'decision p99 at 32 streams: {rows[-1]["p99_us"]:.1f} us (aim < {AIM_US:.0f}; own '
          f'{rows[-1]["own_p99_us"]:.1f}), '
          f'grows {growth:.1f}x from 4 to 32 streams (aim <= {streams_growth:.0f}x): '
          f'aim {"met" if is_met else "missed"}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
