"""
Profiles of backend models, each alone on the server, from independent runs.

All models go through run 1, then all through run 2 and so on, so that what disturbs the machine
for a while spoils one run of each and not all of one. A quantile is the median of the runs'.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median_low
from typing import Protocol

from vig_governor.backend.base import Backend, BackendUnavailable, ModelSignature
from vig_governor.measure.cells import (
    Cell, clock_resolution_ns, measure_cell, MIN_SAMPLES_FOR_P99, SystemTimer, Timer,
)
from vig_governor.measure.exchange import Caller, MeasurementFailed
from vig_governor.measure.inputs import Feed
from vig_governor.measure.state import (
    changes_between, Counters, MachineState, read_state, server_changes, settled_counts,
)

BACK_TO_BACK, GRID = 'back_to_back', 'grid'


class MeasuredBackend(Backend, Counters, Protocol):
    """A server that also counts."""


@dataclass(frozen=True, slots=True)
class Plan:
    """
    How to measure.

    :ivar points: release points of each cell.
    :ivar period_ns: of the release grid; ``None`` for back to back.
    """

    runs: int = 3
    points: int = 120
    warmup: int = 10
    period_ns: int | None = None
    timeout_s: float = 10.0

    @property
    def release(self) -> str:
        """Word for the manifest."""
        return BACK_TO_BACK if self.period_ns is None else GRID

    @property
    def steps(self) -> int:
        """Requests and skipped points of all runs of one model."""
        return self.runs * (self.warmup + self.points)

    def describe(self) -> str:
        """Say it in one line."""
        how = ('back to back' if self.period_ns is None else
               f'on an absolute grid of {self.period_ns // 1000} us')
        return (f'{self.runs} runs of {self.points} release points {how}, '
                f'{self.warmup} warm-up requests before each')


@dataclass(frozen=True, slots=True)
class MeasuredProfile:
    """What was measured of one backend model."""

    backend_model: str
    cells: tuple[Cell, ...]

    @property
    def kept(self) -> tuple[Cell, ...]:
        """The cells that count."""
        return tuple(cell for cell in self.cells if cell.is_kept)

    @property
    def samples(self) -> int:
        """Answered requests of all cells that count."""
        return sum(len(cell.durations_ns) for cell in self.kept)

    def quantile_ns(self, percent: float) -> int | None:
        """
        Give the median over the kept cells of their quantiles, the lower of two middles.

        ``None`` without a kept cell, and for the 99 % quantile where a cell has fewer than 100
        samples: it would be the longest run, whatever that was.
        """
        kept = self.kept
        if not kept or (percent >= 99 and any(len(cell.durations_ns) < MIN_SAMPLES_FOR_P99
                                              for cell in kept)):
            return None
        return median_low(cell.quantile_ns(percent) for cell in kept)

    @property
    def is_complete(self) -> bool:
        """Whether the profile can be planned with."""
        return self.quantile_ns(99) is not None


class Profiler:
    """
    Measures cells on one server that nothing else may use meanwhile.

    :param resolution_ns: smallest step of the clock, checked before anything is measured.
    :param on_point: told the model after every release point.
    """

    def __init__(self, backend: MeasuredBackend, feeds: Mapping[str, Feed], plan: Plan, *,
                 timer: Timer | None = None,
                 read: Callable[[], MachineState] = read_state,
                 on_point: Callable[[str], None] = lambda _: None) -> None:
        self.resolution_ns = clock_resolution_ns()
        self.plan = plan
        self.feeds = feeds
        self._backend = backend
        self._timer = timer or SystemTimer()
        self._read = read
        self._on_point = on_point
        self._caller = Caller(backend, 'measurement', timeout_s=plan.timeout_s)

    def cell(self, backend_model: str, run: int) -> Cell:
        """
        Warm up, measure, judge.

        :raises MeasurementFailed: no answer in time.
        :raises BackendUnavailable: the server is gone.
        """
        feed = self.feeds[backend_model]
        for turn in range(self.plan.warmup):
            self._caller.call(backend_model, feed[turn])
            self._on_point(backend_model)
        state, counts = self._read(), settled_counts(self._backend, backend_model)
        cell = measure_cell(
            backend_model, run, lambda point: self._caller.call(backend_model, feed[point]),
            self._timer, points=self.plan.points, period_ns=self.plan.period_ns,
            on_point=lambda: self._on_point(backend_model))
        sent = cell.release_points - cell.skipped
        return cell.judged(self.resolution_ns, (
            *changes_between(state, self._read()),
            *server_changes(backend_model, counts, self._backend.statistics(backend_model),
                            sent)))


def profile_alone(profiler: Profiler) -> dict[str, MeasuredProfile]:
    """
    Measure every model alone.

    :raises MeasurementFailed: see ``Profiler.cell``.
    """
    cells: dict[str, list[Cell]] = {name: [] for name in profiler.feeds}
    for run, name in _turns(profiler):
        cells[name].append(profiler.cell(name, run))
    return {name: MeasuredProfile(name, tuple(found)) for name, found in cells.items()}


def inspect_all(backend: Backend, names: Mapping[str, bool], *,
                timeout_s: float = 5.0) -> dict[str, ModelSignature]:
    """
    Describe every backend model.

    :param names: and whether each may be a decoupled one.
    :raises MeasurementFailed: names every model that is not there or cannot be measured.
    """
    found, missing = {}, []
    for name, may_stream in names.items():
        try:
            found[name] = backend.inspect(name, timeout_s=timeout_s, may_stream=may_stream)
        except BackendUnavailable as error:
            missing.append(str(error))
    if missing:
        raise MeasurementFailed('\n'.join(missing))
    return found


def _turns(profiler: Profiler) -> Iterator[tuple[int, str]]:
    return ((run, name) for run in range(profiler.plan.runs) for name in profiler.feeds)
