"""What a person watches: the live table, the comparison, and the verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vig_governor.demo.load import fastest_ms, room_ms
from vig_governor.demo.plan import DemoPlan, GUARDED
from vig_governor.demo.report import StreamReport
from vig_governor.demo.snapshot_view import SnapshotView
from vig_governor.measure.runtime import RuntimeSamples

SHORT_PERCENT = 50
_DROPS = ('superseded', 'stale', 'infeasible', 'capacity', 'obsolete', 'invalid_stamp',
          'backend_timeout', 'backend_failed')


class LiveView(SnapshotView):
    """Shows snapshots: a table that moves on a terminal, a line now and then elsewhere."""

    plain_period_s = 4.0

    def __init__(self, console: Console, plan: DemoPlan, title: str) -> None:
        super().__init__(console, title)
        self._plan = plan

    def _line(self, snapshot: Mapping[str, Any], elapsed_s: float) -> Text:
        parts = [f'{stream.name} {in_percent(figures["coverage"])} covered,'
                 f' age p95 {in_ms(figures["age_p95_ms"])}'
                 for stream in self._plan.streams
                 for figures in (snapshot['streams'][stream.name],)]
        return Text(f'[{elapsed_s:4.0f} s] ' + '; '.join(parts))

    def _picture(self, snapshot: Mapping[str, Any], elapsed_s: float, seconds: float) -> Table:
        idle = snapshot['idle_share']
        caption = f'{elapsed_s:.0f} of {seconds:.0f} s'
        if idle is not None:
            caption += f' · slot kept idle on purpose {100 * idle:.1f} % of the time'
        table = Table(title=self._title, caption=caption)
        for name in ('stream', 'class'):
            table.add_column(name)
        for name in ('in /s', 'results', 'coverage', 'age p50', 'age p95'):
            table.add_column(name, justify='right')
        table.add_column('drops')
        table.add_column('variant')
        for stream in self._plan.streams:
            figures = snapshot['streams'][stream.name]
            table.add_row(
                stream.name, stream.criticality, f'{figures["rate_in_hz"]:.0f}',
                str(figures['results']), coloured(figures['coverage']),
                in_ms(figures['age_p50_ms']), in_ms(figures['age_p95_ms']),
                drops(figures['reasons']), figures['variant'])
        return table


def comparison(plan: DemoPlan, arms: Mapping[str, Sequence[StreamReport]],
               caption: str) -> Table:
    """Put the arms above each other, stream by stream; arms go by their names."""
    table = Table(title='The same cameras on the same server, judged by their consumer',
                  caption=caption)
    for name in ('stream', 'class', 'needed', 'run'):
        table.add_column(name)
    for name in ('coverage', 'age p50', 'age p95', 'results'):
        table.add_column(name, justify='right')
    table.add_column('ended otherwise')
    for number, stream in enumerate(plan.streams):
        named = (stream.name, stream.criticality,
                 f'≤ {stream.max_age_ms} ms, each {stream.period_ms} ms')
        for name, reports in arms.items():
            report = reports[number]
            table.add_row(*named, name, coloured(report.coverage_percent / 100),
                          in_ms(report.age_p50_ms), in_ms(report.age_p95_ms),
                          f'{report.results} of {report.frames}', drops(report.reasons))
            named = ('', '', '')
        table.add_section()
    return table


def markdown(plan: DemoPlan, direct: Sequence[StreamReport],
             governed: Sequence[StreamReport]) -> str:
    """Write the table that the README shows: coverage by stream, both runs side by side."""
    lines = ['| camera | class | needs a result | straight to Triton | with the governor |',
             '|---|---|---|---:|---:|']
    for stream, before, after in zip(plan.streams, direct, governed):
        gained = f'{after.coverage_percent:.0f} %'
        lines.append(
            f'| {stream.name}, {stream.rate_hz:g} Hz | {stream.criticality.replace("_", " ")} '
            f'| ≤ {_limit(stream.max_age_ms)} old, every {stream.period_ms} ms '
            f'| {before.coverage_percent:.0f} % '
            f'| {f"**{gained}**" if stream.criticality in GUARDED else gained} |')
    ages = '; '.join(
        f'{before.stream} {in_ms(before.age_p50_ms)} / {in_ms(before.age_p95_ms)} against '
        f'{in_ms(after.age_p50_ms)} / {in_ms(after.age_p95_ms)}'
        for before, after in zip(direct, governed) if after.criticality in GUARDED)
    return '\n'.join([*lines, '', f'Age of the results, p50 / p95: {ages}.'])


def _limit(limit_ms: int) -> str:
    return f'{limit_ms // 1000} s' if limit_ms % 1000 == 0 else f'{limit_ms} ms'


def verdict(direct: Sequence[StreamReport], governed: Sequence[StreamReport]) -> str:
    """Say in one sentence each what the guarded streams got in both arms."""
    return '\n'.join(
        f'{after.stream} ({after.criticality}): without a usable result for '
        f'{before.cycles - before.covered} of {before.cycles} cycles when every frame goes '
        f'straight to the server, {after.cycles - after.covered} of {after.cycles} with the '
        f'governor; age p95 {in_ms(before.age_p95_ms)} against {in_ms(after.age_p95_ms)}'
        for before, after in zip(direct, governed) if after.criticality in GUARDED)


def lent(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Say of each camera that lends its frames what became of them."""
    return [f'{stream}: with the governor this camera publishes where its frames lie '
            f'(TensorReference); {of_stream["sent"]} frames stayed where the camera wrote them, '
            f'{of_stream["dropped"]} found no free memory'
            for stream, of_stream in counts.items()]


def hints(plan: DemoPlan, profiles: Mapping[str, RuntimeSamples],
          governed: Sequence[StreamReport]) -> list[str]:
    """Say which streams went short because not even their fastest variant fits."""
    first, room = plan.streams[0], room_ms(plan, profiles)
    found = []
    for stream, report in zip(plan.streams[1:], governed[1:]):
        fastest = fastest_ms(stream, profiles)
        if report.coverage_percent < SHORT_PERCENT and fastest > room:
            found.append(
                f'{stream.name} went short: a run is planned with {fastest:.0f} ms, and about '
                f'{room:.0f} ms fit between two frames of {first.name}. What helps: a faster '
                'variant, a second slot, a job that can be split, a higher class')
    return found


def in_ms(value: float | None) -> str:
    """Write a time in whole milliseconds."""
    return '-' if value is None else f'{value:.0f} ms'


def in_percent(share: float | None) -> str:
    """Write a share in percent."""
    return '-' if share is None else f'{100 * share:.1f} %'


def coloured(share: float | None) -> str:
    """Write a coverage in the colour of how good it is."""
    if share is None:
        return '-'
    colour = 'green' if share >= 0.99 else 'yellow' if share >= 0.9 else 'red'
    return f'[{colour}]{in_percent(share)}[/{colour}]'


def drops(reasons: Mapping[str, int]) -> str:
    return counted({reason: reasons[reason] for reason in _DROPS if reasons.get(reason)})


def counted(counts: Mapping[str, int]) -> str:
    return ', '.join(f'{name} {count}' for name, count in counts.items()) or '-'
