"""
``vig report``: a recorded run in one page, for whoever has to judge it and was not there.

Figures per stream first, then how they went over time, then the verdicts on the contracts. The
page is one file and needs no network. Several files of one trace are read in order.
"""

import argparse
from collections.abc import Sequence
from html import escape
import io
import math
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from vig_core.errors import VigError
from vig_core.request import Reason
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.history import History, history_of, Totals
from vig_governor.recorded import read_trace, Recorded
from vig_governor.report_figures import StreamFigures

MOST_BINS = 120
_REASON_COLOURS = {
    Reason.COMPLETED: '#3a9d5d', Reason.OBSOLETE: '#e0561e', Reason.SUPERSEDED: '#b8c2cc',
    Reason.STALE: '#c2453d', Reason.INFEASIBLE: '#a04fb0', Reason.CAPACITY: '#8a6d3b',
    Reason.CANCELLED: '#5b6b7a', Reason.INVALID_STAMP: '#444444',
    Reason.BACKEND_TIMEOUT: '#000000', Reason.BACKEND_FAILED: '#1c2733'}
_COLOURS = ('#2f6fb7', '#e08a1e', '#3a9d5d', '#a04fb0', '#c2453d', '#1f9ba3', '#8a6d3b', '#6b7785')
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #1c2733; max-width: 1060px; margin: 24px auto;
       padding: 0 16px; }
h1 { font-size: 22px; margin-bottom: 0; } h2 { font-size: 17px; margin: 28px 0 6px; }
p.facts, td.note, figcaption { color: #5b6b7a; } table { border-collapse: collapse; }
th, td { padding: 4px 12px 4px 0; text-align: right; border-bottom: 1px solid #e3e7eb; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
.bad { color: #b3261e; font-weight: 600; } .good { color: #2c7a46; font-weight: 600; }
figure { margin: 6px 0; } svg { max-width: 100%; height: auto; }
"""


def add_parser(subparsers: Any) -> None:
    """Add ``vig report``."""
    parser = subparsers.add_parser('report', help='a recorded trace as a page to read')
    parser.add_argument('trace', nargs='+', metavar='TRACE',
                        help='one file, or several of one run from the oldest on')
    parser.add_argument('-o', '--output', required=True, metavar='FILE', help='an .html file')


def run(arguments: argparse.Namespace) -> int:
    """Write the page and print the coverage of each stream."""
    output = Path(arguments.output)
    if output.suffix != '.html':
        raise VigError(f'{output}: a report is a page; give a name that ends with .html')
    recorded = [read_trace(path) for path in arguments.trace]
    history = joined([history_of(one) for one in recorded], recorded)
    text = page(history, recorded)
    try:
        output.write_text(text, encoding='utf-8')
    except OSError as error:
        raise VigError(f'{output}: cannot be written: {error.strerror}') from None
    for stream in history.streams:
        figures = StreamFigures.of(history, stream)
        coverage = ('no consumer period' if figures.coverage is None else
                    f'{figures.coverage:.1%} of {figures.cycles} cycles covered')
        print(f'{stream}: {figures.received} requests, {coverage}')
    print(f'{output}: {(history.end_ns - history.begin_ns) / NS_PER_S:.1f} s')
    return 0


def joined(histories: Sequence[History], recorded: Sequence[Recorded]) -> History:
    """
    Put the files of one run behind each other.

    :raises VigError: they are of different runs, or not in order.
    """
    whole = histories[0]
    for one, file in zip(histories[1:], recorded[1:]):
        if file.origin_ns != recorded[0].origin_ns or file.head['config_digest'] != (
                recorded[0].head['config_digest']):
            raise VigError(f'{file.path}: is of another run than {recorded[0].path}')
        if one.begin_ns < whole.end_ns:
            raise VigError(f'{file.path}: begins before the file in front of it ends; give the '
                           'oldest first')
        # A request that was open between two files is told by neither of them in full.
        whole.frames = [frame for frame in whole.frames if frame.reason is not None]
        whole.frames += one.frames
        whole.holds += one.holds
        whole.overload += one.overload[1:]
        for stream, model in one.streams.items():
            whole.streams.setdefault(stream, model)
            whole.cycles.setdefault(stream, []).extend(one.cycles.get(stream, []))
        for stream, totals in one.totals.items():
            whole.totals[stream] = whole.totals.get(stream, Totals()).plus(totals)
        whole.deliberate_idle_ns += one.deliberate_idle_ns
        whole.end_ns, whole.lanes = one.end_ns, max(whole.lanes, one.lanes)
    return whole


def page(history: History, recorded: Sequence[Recorded]) -> str:
    """Make the page."""
    head = recorded[0].head
    facts = (f'{(history.end_ns - history.begin_ns) / NS_PER_S:.1f} s, {len(history.frames)} '
             f'requests, {history.slots} slot{"s" if history.slots > 1 else ""}; recorded by '
             f'version {head["version"]} with {head["config"]}')
    if any(one.digest is None for one in recorded):
        facts += '; the trace has no end, what followed is unknown'
    figures = {stream: StreamFigures.of(history, stream) for stream in history.streams}
    sections = [_headline(history, figures), _over_time(history), _ends(figures),
                _contracts(history, figures), _background(figures),
                _generated(figures, (history.end_ns - history.begin_ns) / NS_PER_S)]
    title = escape(Path(recorded[0].path).name)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<style>{_STYLE}</style></head><body><h1>{title}</h1><p class="facts">'
            f'{escape(facts)}</p>{"".join(sections)}</body></html>\n')


def _headline(history: History, figures: dict[str, StreamFigures]) -> str:
    rows = [_row('th', 'stream', 'class', 'fresh at the consumer', 'uncovered', 'longest gap',
                 'age p50', 'p95', 'p99', 'results', 'requests')]
    for stream, one in figures.items():
        coverage = '–' if one.coverage is None else (
            f'<span class="{"good" if one.uncovered * 100 <= one.cycles else "bad"}">'
            f'{one.coverage:.1%}</span>')
        rows.append(_row(
            'td', escape(stream), history.streams[stream].criticality.name.lower(), coverage,
            f'{one.uncovered} of {one.cycles}' if one.cycles else '–',
            '–' if one.gap_ns is None else f'{one.gap_ns / NS_PER_MS:.0f} ms',
            *(one.age(percent) for percent in (50, 95, 99)),
            one.reasons[Reason.COMPLETED], one.received))
    busy_ns = sum((run.end_ns or history.end_ns) - run.begin_ns
                  for frame in history.frames for run in frame.runs)
    span_ns = max((history.end_ns - history.begin_ns) * history.slots, 1)
    return (f'<h2>What each consumer got</h2><table>{"".join(rows)}</table>'
            f'<p class="facts">The slots were busy {busy_ns / span_ns:.0%} of the time and idle '
            f'on purpose {history.deliberate_idle_ns / span_ns:.1%}. Fresh means that at the '
            'instants of the contract a result no older than its max_age was there.</p>')


def _over_time(history: History) -> str:
    bins = max(1, min(MOST_BINS, (history.end_ns - history.begin_ns) // NS_PER_S))
    width_ns = -(-(history.end_ns - history.begin_ns + 1) // bins)

    def bin_of(instant_ns: int) -> int:
        return min(max((instant_ns - history.begin_ns) // width_ns, 0), bins - 1)

    seconds = [(number + 0.5) * width_ns / NS_PER_S for number in range(bins)]
    has_variants = any(len(model.variants) > 1 for model in history.streams.values())
    figure = Figure(figsize=(10, 6.4 if has_variants else 4.4), layout='constrained')
    panels = figure.subplots(3 if has_variants else 2, 1, sharex=True)
    above, middle = panels[:2]
    for number, stream in enumerate(history.streams):
        colour = _COLOURS[number % len(_COLOURS)]
        covered: list[list[bool]] = [[] for _ in range(bins)]
        for cycle in history.cycles.get(stream, ()):
            covered[bin_of(cycle.at_ns)].append(cycle.is_covered)
        _line(above, seconds, [100 * sum(one) / len(one) if one else None for one in covered],
              colour, stream)
        ages: list[list[int]] = [[] for _ in range(bins)]
        variants: list[list[str]] = [[] for _ in range(bins)]
        for frame in history.frames:
            if frame.stream == stream and frame.reason is Reason.COMPLETED:
                ages[bin_of(frame.ended_ns or 0)].append(frame.age_ns)
                variants[bin_of(frame.ended_ns or 0)].append(frame.variant)
        _line(middle, seconds, [sorted(one)[-(-len(one) * 95 // 100) - 1] / NS_PER_MS
                                if one else None for one in ages], colour, stream)
        first = history.streams[stream].variants[0].variant_id
        if len(history.streams[stream].variants) > 1:
            shares = [100 * one.count(first) / len(one) if one else None for one in variants]
            _line(panels[2], seconds, shares, colour, f'{stream}: {first}')
    above.set_ylabel('covered, %')
    above.set_ylim(-3, 103)
    middle.set_ylabel('age p95, ms')
    middle.set_ylim(bottom=0)
    panels[-1].set_xlabel('seconds')
    states = [state for _, state in history.overload]
    if len(set(states)) > 1:
        for (at_ns, state), (until_ns, _) in zip(
                history.overload, [*history.overload[1:], (history.end_ns, '')]):
            if state != 'normal':
                for axes in panels:
                    axes.axvspan((at_ns - history.begin_ns) / NS_PER_S,
                                 (until_ns - history.begin_ns) / NS_PER_S,
                                 color='#f3c74a', alpha=0.25, linewidth=0)
    lines = {line.get_label(): line for axes in (above, middle) for line in axes.get_lines()}
    if 0 < len(lines) <= len(_COLOURS):
        figure.legend(lines.values(), lines, fontsize=8, ncols=len(lines), frameon=False,
                      loc='outside upper left')
    if has_variants:
        panels[2].set_ylabel('first variant, %')
        panels[2].set_ylim(-3, 103)
        if panels[2].get_lines():
            panels[2].legend(fontsize=8, ncols=4, loc='lower left')
    return (f'<h2>Over time</h2><figure>{_svg(figure)}<figcaption>Each point is '
            f'{width_ns / NS_PER_S:.1f} s. Shaded: the overload state was not normal.'
            '</figcaption></figure>')


def _ends(figures: dict[str, StreamFigures]) -> str:
    figure = Figure(figsize=(10, 0.8 + 0.42 * len(figures)), layout='constrained')
    axes = figure.subplots()
    for row, one in enumerate(figures.values()):
        left = 0.0
        for reason, colour in _REASON_COLOURS.items():
            share = 100 * one.reasons[reason] / max(one.reasons.total(), 1)
            axes.barh(row, share, left=left, color=colour, height=0.7)
            left += share
    axes.set_yticks(range(len(figures)), list(figures))
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel('% of the requests')
    for side in ('top', 'right', 'left'):
        axes.spines[side].set_visible(False)
    seen = [reason for reason in _REASON_COLOURS
            if any(one.reasons[reason] for one in figures.values())]
    legend = ' '.join(f'<span style="color:{_REASON_COLOURS[reason]}">&#9632;</span> '
                      f'{reason.value}' for reason in seen)
    rows = [_row('th', 'stream', *(reason.value for reason in seen), 'variants')]
    rows += [_row('td', escape(stream), *(one.reasons[reason] for reason in seen),
                  escape(', '.join(f'{name} {count}' for name, count
                                   in one.variants.most_common())))
             for stream, one in figures.items()]
    return (f'<h2>How requests ended</h2><figure>{_svg(figure)}<figcaption>{legend}</figcaption>'
            f'</figure><table>{"".join(rows)}</table>')


def _contracts(history: History, figures: dict[str, StreamFigures]) -> str:
    rows = []
    for stream, model in history.streams.items():
        contract, one = model.contract, figures[stream]
        said = [f'{name} {value_ns / NS_PER_MS:g} ms' for name, value_ns in (
            ('period', contract.period_ns), ('deadline', contract.deadline_ns),
            ('max_age', contract.max_age_ns),
            ('consumer period', contract.consumer_period_ns)) if value_ns is not None]
        done = one.reasons[Reason.COMPLETED]
        met = f'{one.in_time / done:.1%} of the results in time' if done else 'no results'
        rows.append(f'<tr><td>{escape(stream)}</td><td class="text">{", ".join(said)}</td>'
                    f'<td class="text">{met}</td><td class="text">{_budget(one)}</td></tr>')
    return ('<h2>Contracts</h2><table><tr><th>stream</th><th class="text">asked for</th>'
            '<th class="text">deadlines</th><th class="text">miss budget</th></tr>'
            f'{"".join(rows)}</table>')


def _background(figures: dict[str, StreamFigures]) -> str:
    rows = []
    for stream, one in figures.items():
        if one.progress is None:
            continue
        completed, ended = one.progress.worst
        required = one.totals.required_percent
        kept = 'bad' if one.progress.short else 'good'
        rows.append(_row(
            'td', escape(stream), f'{one.reasons[Reason.COMPLETED]} of {one.reasons.total()}',
            f'{completed} of {ended}',
            f'<span class="{kept}">{required} %</span>' if required else '–',
            f'{one.progress.short}' if required else '–', one.totals.starved))
    if not rows:
        return ''
    head = _row('th', 'stream', 'completed', 'in its worst window', 'asked for', 'times short',
                'times starved')
    return (f'<h2>Best effort</h2><table>{head}{"".join(rows)}</table><p class="facts">Short: '
            'when a request ended, fewer of the last ones were completed than the contracts ask '
            'for. Starved: its work had waited for a whole observation window and none of it '
            'started.</p>')


def _generated(figures: dict[str, StreamFigures], seconds: float) -> str:
    rows = []
    for stream, one in figures.items():
        totals = one.totals
        if not totals.quanta:
            continue
        spent_ns = max(totals.prefill_ns + totals.decode_ns + totals.fixed_ns, 1)
        others = ', '.join(f'{count} {reason.value}' for reason, count
                           in one.reasons.most_common() if reason is not Reason.COMPLETED)
        rows.append(_row(
            'td', escape(stream), one.received, one.reasons[Reason.COMPLETED], others or '–',
            totals.tokens, f'{totals.tokens / max(seconds, 1e-9):.1f}', totals.quanta,
            f'{totals.tokens / totals.quanta:.1f}',
            *(f'{each_ns / spent_ns:.0%}' for each_ns in (
                totals.prefill_ns, totals.decode_ns, totals.fixed_ns))))
    if not rows:
        return ''
    head = _row('th', 'stream', 'jobs', 'whole answers', 'ended otherwise', 'tokens', 'tokens/s',
                'pieces', 'tokens each', 'reading', 'writing', 'fixed costs')
    return (f'<h2>Generated text</h2><table>{head}{"".join(rows)}</table><p class="facts">Pieces '
            'are requests to the server; reading, writing and fixed costs are how their time is '
            'divided by the cost model.</p>')


def _budget(figures: StreamFigures) -> str:
    verdict = figures.verdict
    if verdict is None:
        return '–'
    colour = 'good' if verdict.word == 'kept' else 'bad' if verdict.word == 'violated' else ''
    return f'<span class="{colour}">{verdict.word}</span>: {verdict.numbers}'


def _line(axes: Any, seconds: Sequence[float], values: Sequence[float | None], colour: str,
          label: str) -> None:
    """Draw what is known; where nothing is, there is a gap."""
    if any(value is not None for value in values):
        axes.plot(seconds, [math.nan if value is None else value for value in values],
                  color=colour, label=label, linewidth=1.4, marker='.', markersize=4)


def _row(cell: str, *values: Any) -> str:
    return '<tr>' + ''.join(f'<{cell}>{value}</{cell}>' for value in values) + '</tr>'


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format='svg')
    text = buffer.getvalue()
    return text[text.index('<svg'):]
