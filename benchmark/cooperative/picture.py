"""Answers against the camera's coverage, a panel for each number of slots and rate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmark.cooperative.record import Outcome

import matplotlib
from matplotlib.figure import Figure

_STYLE = {'direct': ('#5c5c5c', 's', 'everybody straight to the server'),
          'whole': ('#3c8fd9', '^', 'governor, texts in one piece'),
          'cut': ('#d94f3a', 'o', 'governor, texts cut')}


def draw(path: Path, results: Mapping[str, Any]) -> None:
    """Draw all arms."""
    matplotlib.rcParams['font.size'] = 9
    arms = [Outcome(**one) for one in results['arms']]
    keys = sorted({(one.slots, one.rate_hz) for one in arms})
    most = max((one.answers for one in arms), default=1)
    figure = Figure(figsize=(1 + 3.6 * len(keys), 3.6), layout='constrained')
    for axes, (slots, rate_hz) in zip(
            figure.subplots(1, len(keys), sharex=True, sharey=True, squeeze=False)[0], keys):
        for one in arms:
            if (one.slots, one.rate_hz) == (slots, rate_hz):
                colour, marker, label = _STYLE[one.arm]
                axes.plot(one.coverage, one.answers, color=colour, marker=marker, markersize=9,
                          linestyle='', label=label, clip_on=False, zorder=3)
        axes.set_title(f'{slots} slot{"s" if slots > 1 else ""}, {rate_hz:g} Hz', loc='left',
                       fontweight='bold')
        axes.set_xlabel('camera, % of cycles covered')
        axes.set_xlim(0, 105)
        axes.set_ylim(-0.01 * most, 1.05 * most)
        axes.grid(color='#eeeeee')
        for side in ('top', 'right'):
            axes.spines[side].set_visible(False)
    figure.axes[0].set_ylabel(f'answers in {results["seconds"]:g} s')
    figure.axes[0].legend(frameon=False, loc='best')
    figure.savefig(path, dpi=100)
