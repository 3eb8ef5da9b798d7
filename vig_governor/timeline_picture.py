"""A part of a recorded run as a still picture: a lane for each slot and each stream."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from vig_core.request import Reason
from vig_core.units import NS_PER_MS

from vig_governor.history import Frame, History

_COLOURS = ('#2f6fb7', '#e08a1e', '#3a9d5d', '#a04fb0', '#c2453d', '#1f9ba3', '#8a6d3b', '#6b7785')
_MARKS = {Reason.COMPLETED: 'o', Reason.SUPERSEDED: 'x', Reason.STALE: 'v', Reason.OBSOLETE: 's'}
_LABEL_SHARE = 0.035
"""Of the picture's width: a piece of text that is narrower has no room for its tokens."""
_UNCOVERED = '#c2453d'
_IDLE = {'facecolor': '#fff8e0', 'edgecolor': '#d9a800', 'hatch': '////', 'linewidth': 0}


def draw(history: History, path: Path) -> None:
    """Draw all of a history; what reaches out of it is cut off."""
    rows = history.lanes + len(history.streams)
    figure = Figure(figsize=(13, 1.6 + 0.55 * rows), layout='constrained')
    axes = figure.subplots()
    names = [f'slot {lane}' if lane < history.slots else 'queued behind'
             for lane in range(history.lanes)] + list(history.streams)

    def at(instant_ns: int) -> float:
        return (instant_ns - history.begin_ns) / NS_PER_MS

    colours = {stream: _COLOURS[number % len(_COLOURS)]
               for number, stream in enumerate(history.streams)}
    _draw_slots(axes, history, at, colours)
    for number, stream in enumerate(history.streams):
        _draw_stream(axes, history, stream, history.lanes + number, at, colours[stream])
    for row in range(1, rows):
        axes.axhline(row - 0.5, color='#e3e7eb', linewidth=0.8, zorder=0)
    axes.set_yticks(range(rows), names)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_xlim(0, max(at(history.end_ns), 1e-3))
    axes.set_xlabel(f'milliseconds, from {history.begin_ns / NS_PER_MS:.0f} ms after the begin')
    for side in ('top', 'right', 'left'):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis='y', length=0)
    figure.legend(handles=_legend(), loc='outside lower center', ncols=4, frameon=False,
                  fontsize=9)
    figure.savefig(path, dpi=110)


def _draw_slots(axes: Axes, history: History, at: Callable[[int], float],
                colours: dict[str, str]) -> None:
    for hold in history.holds:
        for lane in hold.lanes:
            axes.barh(lane, at(hold.end_ns) - at(hold.begin_ns), left=at(hold.begin_ns),
                      height=0.7, **_IDLE)
    for frame in history.frames:
        is_useful = frame.reason is Reason.COMPLETED or (
            frame.reason is None and len(frame.runs) > 1)
        for run in frame.runs:
            end_ns = history.end_ns if run.end_ns is None else run.end_ns
            axes.barh(run.lane, at(end_ns) - at(run.begin_ns), left=at(run.begin_ns),
                      height=0.7, color=colours[frame.stream],
                      alpha=1.0 if is_useful else 0.35, edgecolor='white', linewidth=0.8)
            share = (end_ns - run.begin_ns) / max(history.end_ns - history.begin_ns, 1)
            if run.tokens and share > _LABEL_SHARE:
                axes.text((at(run.begin_ns) + at(end_ns)) / 2, run.lane, f'{run.tokens}\ntokens',
                          color='white', fontsize=7, ha='center', va='center', clip_on=True)


def _draw_stream(axes: Axes, history: History, stream: str, row: int,
                 at: Callable[[int], float], colour: str) -> None:
    cycle_ns = history.streams[stream].contract.cycle_ns or 0
    for cycle in history.cycles.get(stream, ()):
        if not cycle.is_covered:
            axes.barh(row + 0.42, cycle_ns / NS_PER_MS, left=at(cycle.at_ns - cycle_ns // 2),
                      height=0.12, color=_UNCOVERED)
    for frame in history.frames:
        if frame.stream == stream:
            _draw_frame(axes, frame, row, at, colour, history.end_ns)


def _draw_frame(axes: Axes, frame: Frame, row: int, at: Callable[[int], float], colour: str,
                end_ns: int) -> None:
    ended_ns = end_ns if frame.ended_ns is None else frame.ended_ns
    axes.plot([at(frame.captured_ns), at(frame.arrived_ns)], [row, row], color='#b8c2cc',
              linewidth=1, linestyle=':')
    axes.plot([at(frame.arrived_ns), at(ended_ns)], [row, row], color=colour, linewidth=1,
              alpha=0.6)
    axes.plot(at(frame.arrived_ns), row, marker='|', color=colour, markersize=9,
              markeredgewidth=2)
    for run in frame.runs:
        run_ns = ended_ns if run.end_ns is None else min(run.end_ns, ended_ns)
        axes.plot([at(run.begin_ns), at(run_ns)], [row, row], color=colour, linewidth=5,
                  alpha=0.4, solid_capstyle='butt')
    if frame.reason is not None:
        axes.plot(at(ended_ns), row, marker=_MARKS.get(frame.reason, 'P'), color=colour,
                  markersize=6, markeredgewidth=1.6, linestyle='none')


def _legend() -> list[Any]:
    def mark(marker: str, text: str) -> Line2D:
        return Line2D([], [], color='#444444', marker=marker, linestyle='none', markersize=7,
                      markeredgewidth=1.6, label=text)

    return [mark('|', 'arrived'), mark('o', 'completed'), mark('x', 'superseded'),
            mark('v', 'stale, not run'), mark('s', 'obsolete, withheld'),
            mark('P', 'refused or failed'), Patch(label='slot idle on purpose', **_IDLE),
            Patch(facecolor=_UNCOVERED, label='uncovered consumer cycle')]
