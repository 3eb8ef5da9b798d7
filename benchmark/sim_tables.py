"""Medians, comparisons, tables and plots of the simulated benchmark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
import statistics
from typing import Any

import matplotlib

from vig_core.sim.bound import Floor
from vig_core.sim.report import Report, StreamReport
from vig_core.sim.scenarios import Counting, PolicyName, Scenario, UNSCALED
from vig_core.units import NS_PER_MS

matplotlib.use('Agg')

NOISE_PERMILLE = 15
HARM_PERMILLE = 5
"""Between two policies on the same frames; what lies below is no difference."""

SATURATED_PERMILLE = 1000

_OF_A_STREAM = ('instant_permille', 'window_permille', 'longest_gap_ns', 'missed_permille',
                'age_p50_ns', 'age_p95_ns', 'age_p99_ns', 'releases', 'results')


@dataclass(frozen=True)
class Figures:
    """
    Medians over the seeds of one policy at one load.

    :ivar spread: least and greatest over the seeds, by what is counted.
    """

    depth: int
    instant: float | None
    window: float | None
    missed: float
    stale: float
    results: float
    idle: float
    background: float | None
    streams: Mapping[str, Mapping[str, Any]]
    drops: Mapping[str, Mapping[str, float]]
    digests: tuple[str, ...]
    guarded: frozenset[str]
    spread: Mapping[Counting, tuple[float, float]]

    @classmethod
    def of(cls, reports: Sequence[Report], depth: int) -> 'Figures':
        """Take the median of each figure by itself."""
        streams, drops = {}, {}
        for same in zip(*(report.streams for report in reports)):
            name = same[0].stream
            streams[name] = {key: _median(getattr(one, key) for one in same)
                             for key in _OF_A_STREAM}
            drops[name] = _drops(same)
        return cls(
            depth=depth, instant=_median(one.worst_instant_permille for one in reports),
            window=_median(one.worst_window_permille for one in reports),
            missed=statistics.median(one.guarded_missed_permille for one in reports),
            stale=statistics.median(one.stale_compute_permille for one in reports),
            results=statistics.median(one.results for one in reports),
            idle=statistics.median(one.deliberate_idle_permille for one in reports),
            background=_median(one.background_permille for one in reports),
            streams=streams, drops=drops, digests=tuple(one.digest for one in reports),
            guarded=frozenset(one.stream for one in reports[0].streams
                              if one.criticality.is_guardable),
            spread={counting: _spread(values) for counting, values in (
                (Counting.INSTANT, [one.worst_instant_permille for one in reports]),
                (Counting.WINDOW, [one.worst_window_permille for one in reports]),
                (Counting.MISSED, [one.guarded_missed_permille for one in reports]))})

    @property
    def badness(self) -> tuple[float, float, float]:
        """Order in which one depth is better than another."""
        return (self.window or 0.0, self.instant or 0.0, self.missed)

    def value(self, counting: Counting, stream: str = '') -> float | None:
        """Give the figure that a reference speaks of."""
        if stream:
            key = 'results' if counting is Counting.RESULTS else f'{counting.value}_permille'
            return self.streams[stream].get(key)
        return {Counting.INSTANT: self.instant, Counting.WINDOW: self.window,
                Counting.MISSED: self.missed, Counting.STALE: self.stale,
                Counting.RESULTS: self.results}[counting]

    def plain(self, load: int, policy: PolicyName) -> dict[str, Any]:
        """Give all of it as JSON values."""
        return {'load_permille': load, 'policy': policy.value, 'depth': self.depth,
                'worst_guarded_instant_permille': self.instant,
                'worst_guarded_window_permille': self.window,
                'guarded_missed_permille': self.missed, 'stale_compute_permille': self.stale,
                'results': self.results, 'deliberate_idle_permille': self.idle,
                'background_permille': self.background, 'streams': self.streams,
                'drops': self.drops, 'digests': self.digests}


@dataclass
class Findings:
    """
    What the comparison found.

    :ivar wrong: fails the run. ``missed`` and ``harmed`` are only said.
    """

    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    harmed: list[str] = field(default_factory=list)
    price: list[str] = field(default_factory=list)


def compare(scenario: Scenario, figures: Mapping[tuple[int, PolicyName], Figures], *,
            is_checked: bool) -> Findings:
    """Hold the figures against the references, and the governor against the tuned server."""
    found = Findings()
    for reference in scenario.references:
        for load, wanted in reference.values.items():
            if load not in scenario.loads_permille:
                continue
            ours = figures[load, reference.policy].value(reference.counting, reference.stream)
            if ours is None:
                continue
            where = f'{scenario.name}{_at(load)}: {reference.counting.value}'
            if reference.must_match:
                low, high = figures[load, reference.policy].spread[reference.counting]
                if not low - NOISE_PERMILLE <= wanted <= high + NOISE_PERMILLE:
                    found.wrong.append(
                        f'{where} of {reference.policy.value} is {low:.0f} to {high:.0f}, '
                        f'published {wanted:.0f}: the simulator is wrong')
            if reference.name == 'published_governor' and ours > wanted + NOISE_PERMILLE:
                (found.wrong if is_checked else found.missed).append(
                    f'{where} is {ours:.0f}, published {wanted:.0f}: worse than published')
            if reference.name == 'goal':
                text = f'{where} {ours:.0f}, goal {wanted:.0f}'
                (found.reached if round(ours) <= wanted else found.missed).append(text)
    for load in scenario.loads_permille:
        offered = load if load != UNSCALED else 1000 * scenario.load
        if offered <= SATURATED_PERMILLE + NOISE_PERMILLE:
            _harm(scenario, load, figures, found)
    return found


def _harm(scenario: Scenario, load: int, figures: Mapping[tuple[int, PolicyName], Figures],
          found: Findings) -> None:
    governor = figures[load, PolicyName.GOVERNOR]
    tuned = figures[load, PolicyName.TUNED_SERVER]
    for name, row in governor.streams.items():
        key = 'instant_permille' if row['instant_permille'] is not None else 'missed_permille'
        ours, theirs = row[key], tuned.streams[name][key]
        if ours > theirs + HARM_PERMILLE:
            (found.harmed if name in governor.guarded else found.price).append(
                f'{scenario.name}{_at(load)}: {name} {ours:.0f} against {theirs:.0f} permille '
                f'of the tuned server')


def show(scenario: Scenario, source: str, figures: Mapping[tuple[int, PolicyName], Figures],
         reach: Mapping[int, Mapping[str, Floor]], findings: Findings) -> None:
    """Print the tables of one scenario."""
    print(f'\n== {scenario.name}: {scenario.title} ({source}) ==')
    print(f'{len(scenario.seeds)} seeds, {scenario.duration_ns / 1e9:.0f} s each; permille, '
          'median over the seeds; worst guarded stream')
    head = ['load', 'policy', 'instant', 'window', 'missed', 'stale', 'results', 'idle',
            'background']
    rows = []
    for (load, policy), one in figures.items():
        depth = f' (depth {one.depth})' if one.depth else ''
        rows.append([_load(load), policy.value + depth, _text(one.instant), _text(one.window),
                     _text(one.missed), _text(one.stale), _text(one.results), _text(one.idle),
                     _text(one.background)])
    _table([head, *rows])
    _references(scenario)
    print('every stream (gap and ages in ms; floor: a clairvoyant schedule, alone on one slot)')
    _table([['load', 'stream', 'policy', 'instant', 'window', 'missed', 'gap', 'age p50', 'p95',
             'p99', 'results', 'of', 'floor i/w', 'other ends'],
            *(row for load in scenario.loads_permille
              for row in _stream_rows(load, figures, reach[load]))])
    for title, lines in (('goals reached', findings.reached), ('goals MISSED', findings.missed),
                         ('HARM at or below saturation', findings.harmed),
                         ('price (not guarded)', findings.price)):
        for line in lines:
            print(f'{title}: {line}')


def _stream_rows(load: int, figures: Mapping[tuple[int, PolicyName], Figures],
                 floors: Mapping[str, Floor]) -> Iterable[list[str]]:
    for name in figures[load, PolicyName.GOVERNOR].streams:
        for policy in PolicyName:
            one = figures[load, policy]
            row, floor = one.streams[name], floors.get(name)
            yield [_load(load), name, policy.value, _text(row['instant_permille']),
                   _text(row['window_permille']), _text(row['missed_permille']),
                   _ms(row['longest_gap_ns']), _ms(row['age_p50_ns']), _ms(row['age_p95_ns']),
                   _ms(row['age_p99_ns']), _text(row['results']), _text(row['releases']),
                   '' if floor is None else
                   f'{floor.instant_permille:.0f}/{floor.window_permille:.0f}',
                   ', '.join(f'{reason} {count:.0f}' for reason, count
                             in one.drops[name].items())]


def _references(scenario: Scenario) -> None:
    if not scenario.references:
        return
    loads = scenario.loads_permille
    _table([['reference', 'counting', 'stream', *(_load(load) for load in loads)],
            *([one.name, one.counting.value, one.stream,
               *(_text(one.values.get(load)) for load in loads)]
              for one in scenario.references)])


def plot(scenario: Scenario, figures: Mapping[tuple[int, PolicyName], Figures],
         reach: Mapping[int, Mapping[str, Floor]], path: Path) -> None:
    """Draw the worst guarded stream over the load, or every stream where there is one load."""
    from matplotlib import pyplot
    has_cycles = figures[scenario.loads_permille[0], PolicyName.GOVERNOR].instant is not None
    countings = [Counting.INSTANT, Counting.WINDOW] if has_cycles else [Counting.MISSED]
    figure, axes = pyplot.subplots(1, len(countings), figsize=(6.5 * len(countings), 4.5),
                                   squeeze=False)
    for axis, counting in zip(axes[0], countings):
        if len(scenario.loads_permille) > 1:
            _plot_loads(axis, scenario, figures, reach, counting)
        else:
            _plot_streams(axis, figures, scenario.loads_permille[0], counting)
        axis.set_title(f'{scenario.name}: {counting.value}')
        axis.set_ylabel('permille')
        axis.legend(fontsize=7)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _plot_loads(axis: Any, scenario: Scenario,
                figures: Mapping[tuple[int, PolicyName], Figures],
                reach: Mapping[int, Mapping[str, Floor]], counting: Counting) -> None:
    loads = scenario.loads_permille
    for policy in PolicyName:
        axis.plot([load / 10 for load in loads],
                  [figures[load, policy].value(counting) for load in loads], marker='o',
                  label=policy.value, linewidth=2.4 if policy is PolicyName.GOVERNOR else 1.2)
    for one in scenario.references:
        if one.counting is counting:
            axis.plot([load / 10 for load in one.values], list(one.values.values()),
                      linestyle=':', marker='x', markersize=4, label=one.name)
    if len(scenario.streams) == 1:
        name = scenario.streams[0].name
        key = 'instant_permille' if counting is Counting.INSTANT else 'window_permille'
        axis.plot([load / 10 for load in loads],
                  [getattr(reach[load][name], key) for load in loads], linestyle='--',
                  color='black', label='clairvoyant, these frames')
    axis.set_xlabel('offered load, %')


def _plot_streams(axis: Any, figures: Mapping[tuple[int, PolicyName], Figures], load: int,
                  counting: Counting) -> None:
    names = list(figures[load, PolicyName.GOVERNOR].streams)
    key = f'{counting.value}_permille'
    for rank, policy in enumerate(PolicyName):
        axis.bar([index + rank / 5 for index in range(len(names))],
                 [figures[load, policy].streams[name][key] or 0 for name in names], width=0.18,
                 label=policy.value)
    axis.set_xticks([index + 0.3 for index in range(len(names))], names, rotation=30, fontsize=7)


def _drops(same: Sequence[StreamReport]) -> dict[str, float]:
    reasons = {reason for one in same for reason in one.drops}
    return {reason: statistics.median(one.drops.get(reason, 0) for one in same)
            for reason in sorted(reasons)}


def _spread(values: Iterable[float | None]) -> tuple[float, float]:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else (0.0, 0.0)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print('  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print()


def _load(load: int) -> str:
    return '-' if load == UNSCALED else f'{load / 10:g} %'


def _at(load: int) -> str:
    return '' if load == UNSCALED else f' at {load / 10:g} %'


def _text(value: float | None) -> str:
    return '-' if value is None else f'{value:.0f}'


def _ms(value_ns: float | None) -> str:
    return '-' if value_ns is None else f'{value_ns / NS_PER_MS:.1f}'
