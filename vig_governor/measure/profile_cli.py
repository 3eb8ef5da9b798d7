"""``vig profile``: measure every variant of a file alone on the real server."""

import argparse
from collections.abc import Iterable, Mapping
import json
from pathlib import Path
from typing import Any

from vig_core.errors import VigError
from vig_core.units import NS_PER_US, text_ms

from vig_governor.measure.cells import Cell
from vig_governor.measure.inputs import ZEROS
from vig_governor.measure.options import add_options, open_bench, plan_of
from vig_governor.measure.profiling import MeasuredProfile, Plan, profile_alone, Profiler
from vig_governor.measure.progress import Bars

PERCENTS = (50, 95, 99)


def add_parser(subparsers: Any) -> None:
    """Add ``profile`` to the command ``vig``."""
    parser = subparsers.add_parser(
        'profile', help='measure every variant alone on the server',
        description='Measure how long every variant takes alone. Nothing else may use the server '
        'meanwhile; what does is seen and the measurement thrown away.')
    add_options(parser)
    parser.add_argument('--json', type=Path, metavar='FILE', help='write everything there too')


def run(options: argparse.Namespace) -> int:
    """Measure and print; 1 where a variant has no profile that can be planned with."""
    plan = plan_of(options)
    check_json(options.json)
    with open_bench(options) as bench:
        for sentence in bench.skipped:
            print(f'note: {sentence}')
        print(f'{bench.server}: {plan.describe()}')
        with Bars(dict.fromkeys(bench.feeds, plan.steps)) as bars:
            profiler = Profiler(bench.backend, bench.feeds, plan, on_point=bars.advance)
            profiles = profile_alone(profiler)
        print(f'clock: steps of {profiler.resolution_ns} ns')
        for line in report(profiles, {name: feed.dataset for name, feed in bench.feeds.items()}):
            print(line)
    if options.json is not None:
        write_json(options.json, {
            'server': bench.server, 'clock_resolution_ns': profiler.resolution_ns,
            'plan': plan_as_json(plan),
            'profiles': {name: as_json(profile) for name, profile in profiles.items()}})
    return 0 if all(profile.is_complete for profile in profiles.values()) else 1


def report(profiles: Mapping[str, MeasuredProfile],
           datasets: Mapping[str, str]) -> Iterable[str]:
    """Tell what was measured, one line for each model, and one for each cell thrown away."""
    width = max(map(len, (*profiles, 'MODEL')))
    yield (f'{"MODEL":{width}}      p50       p95       p99   samples  ok/overrun/failed/skipped'
           '  fed with')
    for name, profile in profiles.items():
        quantiles = '  '.join(
            f'{"-" if value is None else text_ms(value):>8}'
            for value in (profile.quantile_ns(percent) for percent in PERCENTS))
        counters = '/'.join(str(sum(getattr(cell, key) for cell in profile.cells))
                            for key in ('ok', 'overrun', 'failed', 'skipped'))
        yield f'{name:{width}} {quantiles}   {profile.samples:7}  {counters:>25}  {datasets[name]}'
    fed_zeros = [name for name, dataset in datasets.items() if dataset == ZEROS]
    if fed_zeros:
        yield (f'note: {len(fed_zeros)} models were fed zeros; one whose work depends on the '
               'picture is measured too fast that way, see --data')
    for profile in profiles.values():
        yield from _remarks(profile)


def _remarks(profile: MeasuredProfile) -> Iterable[str]:
    for cell in profile.cells:
        for reason in cell.reasons:
            yield f'{profile.backend_model}: run {cell.run + 1} is thrown away: {reason}'
    late_ns = max((cell.latest_release_ns for cell in profile.kept), default=0)
    if late_ns:
        yield (f'{profile.backend_model}: the latest release came {late_ns // NS_PER_US} us '
               'after its point')
    if not profile.kept:
        yield f'{profile.backend_model}: no profile: every run was thrown away'
    elif not profile.is_complete:
        fewest = min(len(cell.durations_ns) for cell in profile.kept)
        yield (f'{profile.backend_model}: no p99 is claimed from {fewest} samples of a run; '
               'measure at least 100 (--samples)')


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """Give the conditions as JSON values."""
    return {'runs': plan.runs, 'release_points': plan.points, 'warmup': plan.warmup,
            'release': plan.release,
            'period_us': None if plan.period_ns is None else plan.period_ns // NS_PER_US}


def as_json(profile: MeasuredProfile) -> dict[str, Any]:
    """Give one profile with every cell as JSON values."""
    return {**{f'p{percent}_ns': profile.quantile_ns(percent) for percent in PERCENTS},
            'samples': profile.samples, 'cells': [_cell_as_json(cell) for cell in profile.cells]}


def _cell_as_json(cell: Cell) -> dict[str, Any]:
    return {'run': cell.run, 'release_points': cell.release_points, 'ok': cell.ok,
            'overrun': cell.overrun, 'failed': cell.failed, 'skipped': cell.skipped,
            'latest_release_ns': cell.latest_release_ns, 'thrown_away': list(cell.reasons),
            'durations_ns': list(cell.durations_ns)}


def check_json(path: Path | None) -> None:
    """
    See before a long measurement that its file has a place.

    :raises VigError: the folder of ``path`` does not exist, or ``path`` is one.
    """
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise VigError(f'--json {path}: this is a folder' if path.is_dir() else
                       f'--json {path}: there is no folder {path.absolute().parent}')


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """
    Write a file.

    :raises VigError: it cannot be written.
    """
    try:
        path.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')
    except OSError as error:
        raise VigError(f'{path} cannot be written: {error.strerror}') from None
