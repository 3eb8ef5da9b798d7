"""The pictures of a run: the ramp by stream, and what each arm did with the same frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

from benchmark.live.summary import DIRECT, GOVERNOR, NEWEST, Summary

import matplotlib
from matplotlib.figure import Figure

from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.demo.timeline import draw_panels, lives, Panel

SPAN_NS = 300 * NS_PER_MS
INTO_CELL_NS = 2 * NS_PER_S
PREFERRED_LOADS = (1250, 1100, 1500)

_STYLE = {DIRECT[0]: ('#9c9c9c', ':', 'tuned Triton, depth 1'),
          DIRECT[1]: ('#5c5c5c', '--', 'tuned Triton, depth 8'),
          NEWEST: ('#3c8fd9', '-.', 'newest-only clients'),
          GOVERNOR: ('#d94f3a', '-', 'governor')}


@dataclass(frozen=True, slots=True)
class _Lane:
    name: str
    criticality: str
    max_age_ms: float


def draw(folder: Path, results: Mapping[str, Any]) -> list[Path]:
    """Draw what there is; give the pictures."""
    summary = Summary(results['cells'])
    ramp = [point for point in summary.points if point.startswith('ramp-')]
    drawn = []
    if len(ramp) > 1:
        _draw_ramp(folder / 'ramp.png', summary, ramp)
        drawn.append(folder / 'ramp.png')
    for load in PREFERRED_LOADS:
        point = f'ramp-{load / 10:.0f}'
        panels = _panels(folder, summary, point) if point in ramp else []
        if panels:
            draw_panels(folder / 'timeline.png', panels, panel_height=2.8)
            drawn.append(folder / 'timeline.png')
            break
    return drawn


def _draw_ramp(path: Path, summary: Summary, points: Sequence[str]) -> None:
    """Draw a panel for each stream: median over the repeats, least to greatest shaded."""
    matplotlib.rcParams['font.size'] = 9
    streams = summary.streams(points[0])
    figure = Figure(figsize=(13, 3.6), layout='constrained')
    for axes, (stream, criticality) in zip(
            figure.subplots(1, len(streams), sharey=True, squeeze=False)[0], streams.items()):
        for arm, (colour, dashes, label) in _STYLE.items():
            known = [(summary.load(point) / 10, found) for point in points
                     if (found := summary.of_stream(point, arm, stream, 'uncovered_permille'))]
            loads = [load for load, _ in known]
            axes.plot(loads, [found.median for _, found in known], color=colour,
                      linestyle=dashes, marker='o', markersize=3, label=label)
            axes.fill_between(loads, [found.least for _, found in known],
                              [found.greatest for _, found in known], color=colour, alpha=0.15,
                              linewidth=0)
        axes.set_title(f'{stream} ({criticality})', loc='left', fontweight='bold')
        axes.set_xlabel('load, % of the accelerator')
        axes.set_ylim(-20, 1020)
        axes.grid(color='#eeeeee')
        for side in ('top', 'right'):
            axes.spines[side].set_visible(False)
    figure.axes[0].set_ylabel('cycles without a fresh result, ‰')
    figure.axes[0].legend(frameon=False, loc='upper left')
    figure.savefig(path, dpi=100)


def _panels(folder: Path, summary: Summary, point: str) -> list[Panel]:
    """Show the last repeat that every arm has, the same 300 ms of each."""
    arms = [arm for arm in (summary.best_direct(point), NEWEST, GOVERNOR) if arm is not None]
    cells = {arm: {cell['repeat']: cell for cell in summary.cells(point, arm)} for arm in arms}
    common = set.intersection(*(set(of_arm) for of_arm in cells.values()))
    if not common or len(arms) < len((DIRECT, NEWEST, GOVERNOR)):
        return []
    panels = []
    for arm in arms:
        raw = json.loads((folder / 'cells' / cells[arm][max(common)]['raw']).read_text(
            encoding='utf-8'))
        lanes = [_Lane(lane['name'], lane['class'], lane['max_age_ms']) for lane in raw['lanes']]
        stream_of = {lane['backend_model']: lane['name'] for lane in raw['lanes']}
        panels.append(Panel(
            f'{_STYLE[arm][2]}, {point.partition("-")[2]} % load', lanes, lives(raw['streams']),
            raw['zero_ns'] + INTO_CELL_NS, SPAN_NS, has_slot=arm == GOVERNOR,
            executions=[(began, ended, stream_of[model])
                        for began, ended, model in raw['executions']]))
    return panels
