"""
Cells to figures: medians over the repeats, the better of the direct arms, the aims.

Every cell that has figures counts, the disturbed ones too; how many were valid stands beside it.
The direct arm of a point is the depth at which fewer cycles of the protected stream were
uncovered (of several, of the worst one); if that is equal, at which the worst stream of all lost
fewer.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
import statistics
from typing import Any

Cell = Mapping[str, Any]

DIRECT = ('direct, depth 1', 'direct, depth 8')
NEWEST = 'newest only'
GOVERNOR = 'governor'
PLAIN = 'governor, no lead'
BETTER_THAN_DIRECT = 20.0
BETTER_THAN_NEWEST = 10.0
OVERLOADED = (1100, 1500)
WORSE_BY_PERMILLE = 5.0
CPU_PERCENT = 15.0
CPU_RATE_HZ = 30.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and greatest over the repeats."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> 'Spread | None':
        """Leave out what was not measured; ``None`` of nothing."""
        known = [value for value in values if value is not None]
        return cls(statistics.median(known), min(known), max(known)) if known else None


@dataclass(frozen=True, slots=True)
class Aim:
    """One aim and what came of it."""

    what: str
    measured: str
    is_met: bool

    @property
    def verdict(self) -> str:
        """``met`` or ``missed``."""
        return 'met' if self.is_met else 'missed'


class Summary:
    """All cells of a run."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells

    @property
    def points(self) -> list[str]:
        """Labels of the points, in the order in which they were played."""
        return list(dict.fromkeys(cell['point'] for cell in self._cells))

    def arms(self, point: str) -> list[str]:
        """Arms that were played at a point: direct ones first, the governor last."""
        played = {cell['arm'] for cell in self._cells if cell['point'] == point}
        return [arm for arm in (*DIRECT, NEWEST, GOVERNOR, PLAIN) if arm in played]

    def cells(self, point: str, arm: str) -> list[Cell]:
        """Give the cells that have figures."""
        return [cell for cell in self._cells
                if cell['point'] == point and cell['arm'] == arm and cell['streams']]

    def statuses(self, point: str, arm: str) -> Counter[str]:
        """Count the cells by their status, those without figures included."""
        return Counter(cell['status'] for cell in self._cells
                       if cell['point'] == point and cell['arm'] == arm)

    def load(self, point: str) -> int:
        """Give the load of a point in permille."""
        return next(cell['load_permille'] for cell in self._cells if cell['point'] == point)

    def streams(self, point: str) -> dict[str, str]:
        """Give the class of each stream of a point."""
        for cell in self._cells:
            if cell['point'] == point and cell['streams']:
                return {name: stream['class'] for name, stream in cell['streams'].items()}
        return {}

    def of_stream(self, point: str, arm: str, stream: str, key: str) -> Spread | None:
        """Give one figure of one stream."""
        return Spread.of(cell['streams'][stream][key] for cell in self.cells(point, arm))

    def of_cell(self, point: str, arm: str, take: Callable[[Cell], float | None]
                ) -> Spread | None:
        """Give one figure of the cell."""
        return Spread.of(take(cell) for cell in self.cells(point, arm))

    def uncovered(self, point: str, arm: str, stream: str) -> float | None:
        """Give the median of the uncovered cycles, permille."""
        found = self.of_stream(point, arm, stream, 'uncovered_permille')
        return None if found is None else found.median

    def protected(self, point: str, arm: str) -> float | None:
        """Give the uncovered cycles of the protected stream that lost most, permille."""
        return self._worst(point, arm, ('protected',))

    def best_direct(self, point: str) -> str | None:
        """Name the direct arm that counts at a point, or ``None`` if none has figures."""
        ranked = []
        for arm in DIRECT:
            protected = self.protected(point, arm)
            if protected is not None:
                everyone = self._worst(point, arm, tuple(set(self.streams(point).values())))
                ranked.append((protected, everyone or 0.0, arm))
        return min(ranked)[-1] if ranked else None

    def aims(self) -> list[Aim]:
        """Judge every aim for which there are figures."""
        found = []
        for point in self.points:
            if not point.startswith('ramp'):
                continue
            load, direct = self.load(point), self.best_direct(point)
            governed = self.protected(point, GOVERNOR)
            if governed is None:
                continue
            if OVERLOADED[0] <= load <= OVERLOADED[1]:
                for arm, factor in ((direct, BETTER_THAN_DIRECT), (NEWEST, BETTER_THAN_NEWEST)):
                    other = None if arm is None else self.protected(point, arm)
                    if other is not None:
                        found.append(Aim(
                            f'{point} %: protected stream {factor:.0f}x better than {arm}',
                            f'{other:.1f} against {governed:.1f} ‰', governed * factor <= other))
            elif load <= 1000 and direct is not None:
                found.append(self._harmless(point, direct))
        return found + self._processor()

    def losers(self) -> list[str]:
        """Say which streams lost more cycles under the governor than under another arm."""
        found = []
        for point in self.points:
            for stream, criticality in self.streams(point).items():
                governed = self.uncovered(point, GOVERNOR, stream)
                others = {arm: value for arm in (self.best_direct(point), NEWEST)
                          if arm is not None
                          and (value := self.uncovered(point, arm, stream)) is not None}
                if governed is None or not others:
                    continue
                arm = min(others, key=lambda name: others[name])
                if governed > others[arm] + WORSE_BY_PERMILLE:
                    found.append(f'{point} %: {stream} ({criticality}) {governed:.1f} ‰ against '
                                 f'{others[arm]:.1f} ‰ with {arm}')
        return found

    def _harmless(self, point: str, direct: str) -> Aim:
        worse = {}
        for stream in self.streams(point):
            governed = self.uncovered(point, GOVERNOR, stream)
            before = self.uncovered(point, direct, stream)
            if governed is not None and before is not None:
                worse[stream] = governed - before
        stream = max(worse, key=lambda name: worse[name])
        return Aim(f'{point} %: no stream worse than {direct} by more than '
                   f'{WORSE_BY_PERMILLE:.0f} ‰', f'{stream} {worse[stream]:+.1f} ‰',
                   worse[stream] <= WORSE_BY_PERMILLE)

    def _processor(self) -> list[Aim]:
        """Judge the governor's share of a core at the ramp's point whose rate is nearest."""
        rates = {}
        for point in self.points:
            cells = self.cells(point, GOVERNOR)
            if point.startswith('ramp') and cells:
                rates[point] = statistics.median(cell['frames_per_s'] for cell in cells) / len(
                    self.streams(point))
        if not rates:
            return []
        point = min(rates, key=lambda name: abs(rates[name] - CPU_RATE_HZ))
        used = self.of_cell(point, GOVERNOR, lambda cell: cell['between_percent'])
        assert used is not None
        return [Aim(f'governor below {CPU_PERCENT:.0f} % of a core, three streams of 640x480 at '
                    f'{rates[point]:.0f} Hz ({point} %)', f'{used.median:.1f} %',
                    used.median < CPU_PERCENT)]

    def _worst(self, point: str, arm: str, classes: Sequence[str]) -> float | None:
        return max((value for stream, criticality in self.streams(point).items()
                    if criticality in classes
                    and (value := self.uncovered(point, arm, stream)) is not None), default=None)
