"""
``timeline.png``: a few periods of both arms, to be read from left to right.

The lane of the slot shows what ran on the server and when; each stream's lane shows its captures
and how they ended. All of it is computed from the statuses that the consumer received: a request
ended at ``stamp + age``, ran for ``backend_time`` before that, and waited for ``queue_wait``
before that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any, Protocol

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from vig_core.units import NS_PER_MS

from vig_governor.demo.arms import Arm
from vig_governor.demo.plan import DemoPlan

SPAN_PERIODS = 15
"""Of the most important camera: half a second at 30 Hz."""

# Shorter pauses are the hand-over from one execution to the next, not a decision.
MIN_IDLE_NS = 3 * NS_PER_MS
# Characters of the words' font over the whole width of a picture, and lines in their lane.
_COLUMNS, _MOST_ROWS = 165, 5

COLOURS = {'protected': '#d94f3a', 'high': '#f0a020', 'normal': '#3c8fd9',
           'best_effort': '#8c8c8c'}
_GAP = '#7a0c0c'
_MARKS = {'completed': 'o', 'superseded': 'x', 'stale': 'v', 'obsolete': 's'}
_RAN = ('completed', 'obsolete', 'backend_failed')


@dataclass(frozen=True, slots=True)
class Life:
    """
    One request on the ROS clock, nanoseconds.

    :ivar began_ns: when its execution began, or ``None`` if it never ran.
    """

    stream: str
    captured_ns: int
    arrived_ns: int
    began_ns: int | None
    ended_ns: int
    reason: str


def lives(notes: Mapping[str, Any]) -> list[Life]:
    """Reconstruct every request of a run from its status, in the order in which they ended."""
    found = []
    for stream, entry in notes.items():
        for captured, reason, _, age, waited, computed in entry['statuses']:
            ended = captured + age
            has_run = reason in _RAN
            began = ended - computed if has_run else None
            found.append(Life(stream, captured, (ended if began is None else began) - waited,
                              began, ended, reason))
    return sorted(found, key=lambda life: life.ended_ns)


def idle_spans(requests: Sequence[Life], *, start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """
    Find the spans in which nothing ran although something was waiting.

    The governor never leaves a slot idle with work waiting unless it holds that work back for
    an expected frame of a higher class: these spans are that deliberate idle.
    """
    busy = [(life.began_ns, life.ended_ns) for life in requests
            if life.began_ns is not None and life.ended_ns > start_ns and life.began_ns < end_ns]
    gaps, free_from = [], start_ns
    for began, ended in _union([*busy, (end_ns, end_ns)]):
        gaps.append((free_from, began))
        free_from = ended
    waits = _union([(life.arrived_ns, life.ended_ns if life.began_ns is None else life.began_ns)
                    for life in requests])
    held = [(max(first, wait), min(last, end)) for first, last in gaps for wait, end in waits]
    return [(first, last) for first, last in held if last - first >= MIN_IDLE_NS]


def gaps(requests: Sequence[Life], stream: str, max_age_ns: int) -> list[tuple[int, int]]:
    """Find the spans in which a stream's newest result was too old, from its first one on."""
    found: list[tuple[int, int]] = []
    fresh_until_ns = None
    for life in sorted(requests, key=lambda each: each.ended_ns):
        if life.stream != stream or life.reason != 'completed':
            continue
        if fresh_until_ns is not None and fresh_until_ns < life.ended_ns:
            found.append((fresh_until_ns, life.ended_ns))
        fresh_until_ns = max(fresh_until_ns or 0, life.captured_ns + max_age_ns)
    return found


def gaps_of(plan: DemoPlan, requests: Sequence[Life]) -> dict[str, list[tuple[int, int]]]:
    """Find these spans of every camera of a plan."""
    return {stream.name: gaps(requests, stream.name, stream.max_age_ms * NS_PER_MS)
            for stream in plan.streams}


def _union(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that touch; give the joined ones in order."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


class Lane(Protocol):
    """A stream as it is drawn: its name, its class, and the age at which a result is useless."""

    name: str
    criticality: str
    max_age_ms: float


@dataclass(frozen=True, slots=True)
class Panel:
    """
    One arm over a span, ns of the ROS clock.

    :ivar executions: ``(begin, end, stream)`` of what really ran, where something else than the
        statuses tells; then the top lane shows these.
    :ivar has_slot: whether requests run one at a time and an idle slot is a decision.
    :ivar idle: ``(begin, end)`` of that, where it is known; else it is worked out.
    :ivar words: ``(begin, end, text)`` of what was written, for a lane at the bottom.
    :ivar gaps: of each stream, when no result young enough was at hand.
    """

    title: str
    lanes: Sequence[Lane]
    requests: Sequence[Life]
    start_ns: int
    span_ns: int
    has_slot: bool
    executions: Sequence[tuple[int, int, str]] | None = None
    idle: Sequence[tuple[int, int]] | None = None
    words: Sequence[tuple[int, int, str]] = ()
    gaps: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)


def draw_timeline(path: Path, plan: DemoPlan, direct: Arm | None,
                  governed: Arm | None) -> None:
    """Draw the picture, from the middle of each arm that there is."""
    span_ns = SPAN_PERIODS * plan.streams[0].period_ms * NS_PER_MS

    def panel(arm: Arm, title: str) -> Panel:
        requests = lives(arm.notes)
        return Panel(title, plan.streams, requests, (arm.start_ns + arm.end_ns) // 2, span_ns,
                     has_slot=arm is governed, gaps=gaps_of(plan, requests))

    draw_panels(path, [panel(arm, title) for arm, title in (
        (direct, 'Without the governor: every frame goes straight to the server'),
        (governed, 'With the governor: one execution at a time, the newest frame first'),
    ) if arm is not None])


def draw_panels(path: Path, panels: Sequence[Panel], *, panel_height: float = 4.2) -> None:
    """Draw panels below each other, each from its own start on; height in inches."""
    matplotlib.rcParams['font.size'] = 8.5
    figure = Figure(figsize=(13, panel_height * len(panels) + 0.9), layout='constrained')
    axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for number, panel in enumerate(panels):
        _draw_panel(axes[number], panel)
        axes[number].set_title(panel.title, loc='left', fontweight='bold', fontsize=11)
    axes[-1].set_xlabel('milliseconds')
    handles = _legend()
    if any(panel.gaps for panel in panels):
        handles.append(Patch(facecolor=_GAP, label='no result young enough'))
    figure.legend(handles=handles, loc='outside lower center', ncols=4, frameon=False)
    figure.savefig(path, dpi=110)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    start_ns, end_ns = panel.start_ns, panel.start_ns + panel.span_ns
    seen = [life for life in panel.requests
            if life.ended_ns >= start_ns and life.captured_ns <= end_ns]
    top = len(panel.lanes)

    def at(instant_ns: int) -> float:
        return (instant_ns - start_ns) / NS_PER_MS

    if panel.has_slot:
        for first, last in (idle_spans(seen, start_ns=start_ns, end_ns=end_ns)
                            if panel.idle is None else panel.idle):
            axes.barh(top + 0.5, at(last) - at(first), left=at(first), height=0.8,
                      color='#efefef', hatch='////', edgecolor='#9a9a9a', linewidth=0)
    for number, lane in enumerate(panel.lanes):
        of_stream = [life for life in seen if life.stream == lane.name]
        colour = COLOURS[lane.criticality]
        is_alone = panel.has_slot or panel.executions is not None
        height, base = ((0.8, top + 0.1) if is_alone else
                        (0.8 / top, top + 0.9 - 0.8 * (number + 1) / top))
        for began, ended in _executions(panel, lane.name, of_stream):
            axes.barh(base + height / 2, at(ended) - at(began), left=at(began), height=height,
                      color=colour, edgecolor='white', linewidth=0.8)
        for began, ended in panel.gaps.get(lane.name, ()):
            axes.barh(top - number - 0.94, at(ended) - at(began), left=at(began), height=0.1,
                      color=_GAP)
        rows = _rows(of_stream)
        count = max(rows, default=0) + 1
        for life, row in zip(of_stream, rows):
            height = top - number - 0.5 if count == 1 else top - number - 0.2 - 0.6 * row / (
                count - 1)
            _draw_life(axes, life, height, at, colour, round(lane.max_age_ms * NS_PER_MS))
    for began, ended, text in panel.words:
        _draw_words(axes, at(began), at(ended), at(end_ns), text)
    bottom = -1 if panel.words else 0
    for line in range(bottom + 1, top + 1):
        axes.axhline(line, color='#dddddd', linewidth=0.8, zorder=0)
    named = ('the accelerator' if panel.executions is not None else
             'the slot' if panel.has_slot else 'in flight\non the server')
    rows_named = [*(f'{lane.name}\n{lane.criticality}, ≤ {lane.max_age_ms:.0f} ms'
                    for lane in panel.lanes), 'what was\nwritten']
    axes.set_yticks([top + 0.5, *(top - number - 0.5 for number in range(top - bottom))],
                    [named, *rows_named[:top - bottom]])
    axes.set_xlim(0, at(end_ns))
    axes.set_ylim(bottom, top + 1.1)
    for side in ('top', 'right', 'left'):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis='y', length=0)


def _draw_words(axes: Axes, began: float, ended: float, width: float, text: str) -> None:
    """Write what came at ``ended`` into the time in which it was written."""
    if began < width and ended > 0:
        columns = max(5, round(_COLUMNS * (ended - began) / width))
        rows = wrap(' '.join(text.split()), columns, max_lines=_MOST_ROWS, placeholder=' …')
        axes.text(began, -0.08, '\n'.join(rows), fontsize=7, va='top', family='monospace',
                  clip_on=True)


def _executions(panel: Panel, stream: str, lived: Sequence[Life]) -> list[tuple[int, int]]:
    if panel.executions is not None:
        return [(began, ended) for began, ended, of in panel.executions if of == stream]
    return [(life.began_ns, life.ended_ns) for life in lived if life.began_ns is not None]


def _rows(requests: Sequence[Life]) -> list[int]:
    """Give each request a row so that those that overlap in time do not cover each other."""
    free_from: list[int] = []
    row_of: dict[int, int] = {}
    for life in sorted(requests, key=lambda each: each.captured_ns):
        row = next((number for number, free in enumerate(free_from)
                    if free <= life.captured_ns), len(free_from))
        free_from[row:row + 1] = [life.ended_ns]
        row_of[id(life)] = row
    return [row_of[id(life)] for life in requests]


def _draw_life(axes: Axes, life: Life, height: float, at: Any, colour: str,
               max_age_ns: int) -> None:
    """Draw a capture, the way to its end, and the end."""
    axes.plot([at(life.captured_ns), at(life.ended_ns)], [height, height], color=colour,
              linewidth=1.2, alpha=0.5, solid_capstyle='butt')
    axes.plot(at(life.captured_ns), height, marker='|', color=colour, markersize=10,
              markeredgewidth=2)
    is_late = life.reason == 'completed' and life.ended_ns - life.captured_ns > max_age_ns
    axes.plot(at(life.ended_ns), height, marker=_MARKS.get(life.reason, 'P'), color=colour,
              markersize=6, markeredgewidth=1.6, linestyle='none',
              markerfacecolor='white' if is_late else colour)


def _legend() -> list[Any]:
    def mark(marker: str, text: str, face: str = '#444444') -> Line2D:
        return Line2D([], [], color='#444444', marker=marker, linestyle='none', markersize=7,
                      markeredgewidth=1.6, markerfacecolor=face, label=text)

    return [mark('|', 'captured'), mark('o', 'delivered in time'),
            mark('o', 'delivered, too old to use', 'white'),
            mark('x', 'superseded by a newer frame'), mark('v', 'stale, not run'),
            mark('s', 'finished too late, withheld'), mark('P', 'refused or failed'),
            Patch(facecolor='#efefef', hatch='////', edgecolor='#9a9a9a',
                  label='slot idle on purpose')]
