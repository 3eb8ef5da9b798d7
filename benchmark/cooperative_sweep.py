"""
Where cutting a generative job can work beside a camera, and where it cannot, in virtual time.

A camera of 33 ms on one slot, a client that asks for one text of 48 tokens after the other. Swept
are the gap that the camera leaves, the fixed cost of a quantum and the rate of the model; each
cell is played alone, split, and whole. Then the published case on one and on two slots. The rest
is as the scheduler plans it: it cuts for high quantiles and its margin, not for medians.

Writes a table as JSON and a plot to ``build/cooperative-sweep``. ``--quick`` or ``QUICK=1`` plays
a third.
"""

import argparse
from dataclasses import asdict, dataclass, replace
import itertools
import json
import os
from pathlib import Path

import matplotlib

from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.cooperative import Cooperative
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.sim.engine import SimStream, simulate
from vig_core.sim.report import judge
from vig_core.sim.workload import Continuous, Periodic
from vig_core.units import ms, NS_PER_S, us

matplotlib.use('Agg')
from matplotlib import pyplot  # noqa: E402, I100, I202 (the backend comes first)

PERIOD_MS = 33
TOKENS = 48
GAPS_MS = (6, 10, 14, 18, 24)
BASES_MS = (1, 3, 6, 12, 18)
RATES = (50, 130, 260)
SPREAD_PERCENT = 105
CLOSE_PERCENT = 117
REPORT = Path(__file__).parent / 'cooperative-sweep-report.txt'
PUBLISHED = {'base_us': 6_200, 'rate': 257, 'prefill_us': 3, 'camera_ms': 14.9, 'p99_ms': 17.47}


@dataclass(frozen=True)
class Cell:
    """
    One cell, split and whole.

    :ivar coverage: share of the camera's cycles with a fresh result, in percent.
    :ivar overhead_permille: computed cost of the quanta beyond that of the texts in one piece.
    """

    gap_ms: float
    base_ms: float
    rate: int
    slots: int
    answers: int
    answers_whole: int
    tokens_per_second: float
    tokens_per_quantum: float
    overhead_permille: int
    coverage_alone: float
    coverage: float
    coverage_whole: float


def system_of(camera_ms: float, p99_ms: float, cost: Cooperative | None, slots: int) -> System:
    """Put a camera and, with a cost model, a writer on some slots."""
    camera = Model(
        'camera', Criticality.PROTECTED,
        Contract(deadline_ns=ms(PERIOD_MS), max_age_ns=2 * ms(PERIOD_MS), period_ns=ms(PERIOD_MS)),
        (Variant('main', 'camera', RuntimeProfile(ms(camera_ms), ms(p99_ms))),))
    models = {'camera': camera}
    if cost is not None:
        models['writer'] = Model(
            'writer', Criticality.BEST_EFFORT, Contract(deadline_ns=30 * NS_PER_S),
            (Variant('main', 'writer', RuntimeProfile(100, SPREAD_PERCENT)),),
            QueuePolicy.FIFO, cooperative=cost)
    return System(models=models, slots=slots)


def play(system: System, seconds: int, *, has_writer: bool) -> dict:
    """Play one arm and count."""
    streams = [SimStream('camera', 'camera', Periodic(ms(PERIOD_MS)))]
    if has_writer:
        streams.append(SimStream('writer', 'writer', Continuous(), is_closed_loop=True,
                                 prompt_tokens=32))
    run = simulate(Scheduler(system), system, streams, seed=1, duration_ns=seconds * NS_PER_S)
    camera = next(one for one in judge(run, system, streams).streams if one.stream == 'camera')
    texts = [end for end in run.ends if end.stream == 'writer'
             and end.reason is Reason.COMPLETED and end.ended_at_ns <= seconds * NS_PER_S]
    assert camera.instant_permille is not None
    return {'coverage': 100 - camera.instant_permille / 10, 'answers': len(texts),
            'tokens': sum(end.tokens for end in texts),
            'quanta': sum(end.quanta for end in texts)}


def cell(gap_ms: float, cost: Cooperative, rate: int, seconds: int, *, slots: int = 1,
         camera_ms: float | None = None, p99_ms: float | None = None) -> Cell:
    """Play the arms of one cell; ``gap_ms`` is what the plan of the camera leaves of a period."""
    p99_ms = p99_ms or (PERIOD_MS - gap_ms)
    camera_ms = camera_ms or p99_ms * 100 / CLOSE_PERCENT
    alone = play(system_of(camera_ms, p99_ms, None, slots), seconds, has_writer=False)
    split = play(system_of(camera_ms, p99_ms, cost, slots), seconds, has_writer=True)
    whole = play(system_of(camera_ms, p99_ms, replace(cost, is_split=False), slots), seconds,
                 has_writer=True)
    quanta = max(1, split['quanta'])
    per_quantum = split['tokens'] / quanta
    return Cell(
        gap_ms, cost.base_cost_ns / 1e6, rate, slots, split['answers'], whole['answers'],
        split['tokens'] / seconds, per_quantum,
        cost.overhead_permille(32, TOKENS, round(per_quantum)) if per_quantum >= 1 else 0,
        alone['coverage'], split['coverage'], whole['coverage'])


def published(seconds: int, slots: int) -> Cell:
    """Play the published case."""
    cost = Cooperative(us(PUBLISHED['base_us']), round(NS_PER_S / PUBLISHED['rate']), TOKENS,
                       prefill_per_token_ns=us(PUBLISHED['prefill_us']))
    return cell(PERIOD_MS - PUBLISHED['p99_ms'], cost, PUBLISHED['rate'], seconds, slots=slots,
                camera_ms=PUBLISHED['camera_ms'], p99_ms=PUBLISHED['p99_ms'])


def show(each: Cell) -> str:
    """Give one row of the table."""
    return (f'{each.gap_ms:6.1f} {each.base_ms:6.1f} {each.rate:5} {each.slots:5} '
            f'{each.answers:8} {each.answers_whole:6} {each.tokens_per_second:9.1f} '
            f'{each.tokens_per_quantum:8.1f} {each.overhead_permille:9} '
            f'{each.coverage_alone:6.1f} {each.coverage:6.1f} {each.coverage_whole:6.1f}')


def plot(cells: list[Cell], path: Path) -> None:
    """Draw tokens per second over gap and fixed cost, one picture for each rate."""
    figure, axes = pyplot.subplots(1, len(RATES), figsize=(4 * len(RATES), 4), sharey=True)
    for axis, rate in zip(axes, RATES):
        grid = [[next(one.tokens_per_second for one in cells
                      if (one.gap_ms, one.base_ms, one.rate) == (gap, base, rate))
                 for gap in GAPS_MS] for base in BASES_MS]
        axis.imshow(grid, origin='lower', aspect='auto', cmap='viridis')
        for row, column in itertools.product(range(len(BASES_MS)), range(len(GAPS_MS))):
            axis.text(column, row, f'{grid[row][column]:.0f}', ha='center', va='center',
                      color='white')
        axis.set(title=f'{rate} tokens/s alone', xlabel='gap (ms)',
                 xticks=range(len(GAPS_MS)), xticklabels=GAPS_MS,
                 yticks=range(len(BASES_MS)), yticklabels=BASES_MS)
    axes[0].set_ylabel('fixed cost of a quantum (ms)')
    figure.suptitle('tokens per second of complete texts beside a 33 ms camera')
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Sweep, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--quick', action='store_true',
                        default=os.environ.get('QUICK', '') not in ('', '0'),
                        help='10 s instead of 30 s each')
    parser.add_argument('--publish', action='store_true',
                        help='write the table to benchmark/cooperative-sweep-report.txt as well')
    parser.add_argument('--output', type=Path, default=Path('build/cooperative-sweep'))
    args = parser.parse_args()
    seconds = 10 if args.quick else 30
    args.output.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    say(f'{seconds} s of virtual time for each arm; a camera of {PERIOD_MS} ms; texts of {TOKENS} '
        'tokens; gap and fixed cost (base) in ms, rate in tokens/s alone, overhead in permille, '
        'coverage of the camera in percent alone, beside split and beside whole texts')
    say('   gap   base  rate slots  answers  whole  tokens/s  /quantum  overhead  alone  split  '
        'whole')
    cells = []
    for rate, base_ms, gap_ms in itertools.product(RATES, BASES_MS, GAPS_MS):
        cost = Cooperative(ms(base_ms), round(NS_PER_S / rate), TOKENS)
        cells.append(cell(gap_ms, cost, rate, seconds))
        say(show(cells[-1]))
    possible = sum(one.answers > 0 for one in cells)
    say(f'splitting gives whole texts in {possible} of {len(cells)} cells, one piece in '
        f'{sum(one.answers_whole > 0 for one in cells)}')
    cases = [published(seconds, slots) for slots in (1, 2)]
    say('the published case on one and two slots:')
    for one in cases:
        say(show(one))
    (args.output / 'cells.json').write_text(
        json.dumps([asdict(one) for one in (*cells, *cases)], indent=1) + '\n')
    plot(cells, args.output / 'tokens_per_second.png')
    if args.publish:
        REPORT.write_text('\n'.join(lines) + '\n', encoding='utf-8')
        print(f'wrote {REPORT}')


if __name__ == '__main__':
    main()
