"""
One cell of a measurement: one model, one independent run, released back to back or on a grid.

Rules:

- Every release point ends as exactly one of four: ``ok``, ``overrun`` (answered after the next
  point), ``failed``, ``skipped`` (it passed while the request before still ran). Back to back
  there is no next point, so nothing overruns and nothing is skipped.
- The grid is absolute: point k lies at ``begin + k * period``, however late the one before was.
- The runtimes of overruns count. To leave them out would cut the tail off the distribution.
- A cell that says too little, or during which the machine changed, is thrown away as a whole,
  with its reasons.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
import time
from typing import Protocol

from vig_core.units import NS_PER_US, text_ms

from vig_governor.measure.exchange import Exchange, MeasurementFailed
from vig_governor.measure.runtime import quantile

MIN_SAMPLES = 20
"""Fewer name no 95 % quantile: it would be the longest run."""

MIN_SAMPLES_FOR_P99 = 100
MAX_FAILED_PERCENT = 5
MAX_RESOLUTION_NS = 10 * NS_PER_US
MIN_STEPS_PER_RUNTIME = 100
_CLOCK_READINGS = 2000


class Timer(Protocol):
    """A monotonic clock that can be waited on."""

    def now_ns(self) -> int:
        """Read it."""

    def wait_until(self, instant_ns: int) -> None:
        """Return at an instant or a little later; at once if it has passed."""


class SystemTimer:
    """The monotonic clock of this machine."""

    def now_ns(self) -> int:
        """Read it."""
        return time.monotonic_ns()

    def wait_until(self, instant_ns: int) -> None:
        """Sleep; the caller measures how late it wakes."""
        time.sleep(max(0, instant_ns - time.monotonic_ns()) / 1e9)


@dataclass(frozen=True, slots=True)
class Cell:
    """
    What was seen.

    :ivar durations_ns: runtimes of all answered requests, overruns included.
    :ivar latest_release_ns: the worst delay of a release behind its point; 0 back to back.
    :ivar reasons: why the cell is thrown away; empty keeps it.
    """

    backend_model: str
    run: int
    period_ns: int | None
    ok: int
    overrun: int
    failed: int
    skipped: int
    durations_ns: tuple[int, ...]
    latest_release_ns: int
    failure: str = ''
    reasons: tuple[str, ...] = ()

    @property
    def release_points(self) -> int:
        """All points of the cell; the four counters add up to it."""
        return self.ok + self.overrun + self.failed + self.skipped

    @property
    def is_kept(self) -> bool:
        """Whether the cell counts."""
        return not self.reasons

    def quantile_ns(self, percent: float) -> int:
        """
        Give the nearest-rank quantile of the runtimes.

        :raises ValueError: nothing was answered.
        """
        return quantile(self.durations_ns, percent)

    def judged(self, resolution_ns: int, changes: tuple[str, ...] = ()) -> 'Cell':
        """
        Give the cell with every reason against it.

        :param resolution_ns: the smallest step of the clock.
        :param changes: what changed on the machine or the server meanwhile, as sentences.
        """
        reasons = []
        answered = len(self.durations_ns)
        if answered < MIN_SAMPLES:
            reasons.append(f'{answered} answers, at least {MIN_SAMPLES} are needed')
        if self.failed * 100 > self.release_points * MAX_FAILED_PERCENT:
            reasons.append(f'{self.failed} of {self.release_points} requests failed, at most '
                           f'{MAX_FAILED_PERCENT} % may (last: {self.failure})')
        if answered and self.quantile_ns(50) < MIN_STEPS_PER_RUNTIME * resolution_ns:
            reasons.append(
                f'the median of {text_ms(self.quantile_ns(50))} is less than '
                f'{MIN_STEPS_PER_RUNTIME} steps of the clock ({resolution_ns} ns each)')
        return replace(self, reasons=(*reasons, *changes))


def clock_resolution_ns(read: Callable[[], int] = time.monotonic_ns) -> int:
    """
    Measure the smallest step of the clock that everything else is measured with.

    :raises MeasurementFailed: it is too coarse to measure an inference with.
    """
    steps, last = [], read()
    for _ in range(_CLOCK_READINGS):
        now = read()
        if now > last:
            steps.append(now - last)
            last = now
    if not steps or min(steps) > MAX_RESOLUTION_NS:
        step = f'moves in steps of {min(steps) // NS_PER_US} us' if steps else 'does not move'
        raise MeasurementFailed(f'the clock of this machine {step}; nothing can be measured with '
                                f'it (at most {MAX_RESOLUTION_NS // NS_PER_US} us are of use)')
    return min(steps)


def measure_cell(backend_model: str, run: int, send: Callable[[int], Exchange], timer: Timer, *,
                 points: int, period_ns: int | None, on_point: Callable[[], None]) -> Cell:
    """
    Go through the release points of one cell.

    :param send: sends the request of point k and waits for its end.
    :param points: how many release points.
    :param period_ns: of the grid; ``None`` for back to back.
    :param on_point: called after each point, for whoever shows progress.
    """
    ok = overrun = failed = skipped = latest_ns = 0
    durations, failure = [], ''
    begin_ns = timer.now_ns()
    for point in range(points):
        if period_ns is not None:
            due_ns = begin_ns + point * period_ns
            if point and timer.now_ns() > due_ns:
                skipped += 1
                on_point()
                continue
            timer.wait_until(due_ns)
            latest_ns = max(latest_ns, timer.now_ns() - due_ns)
        exchange = send(point)
        if exchange.failure:
            failed += 1
            failure = exchange.failure
        else:
            durations.append(exchange.duration_ns)
            if (period_ns is not None
                    and exchange.ended_at_ns > begin_ns + (point + 1) * period_ns):
                overrun += 1
            else:
                ok += 1
        on_point()
    return Cell(backend_model, run, period_ns, ok, overrun, failed, skipped, tuple(durations),
                latest_ns, failure)
