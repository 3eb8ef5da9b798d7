"""
What running beside each other costs: directed, absolute, pair by pair.

Rules:

- In every run the victim is measured alone and then beside each neighbour, which runs without a
  pause meanwhile. The added time of a run is the difference of the two 95 % quantiles of that
  run, never below 0; the result is the median over the runs. So a machine that grows slower
  during the calibration does not look like interference.
- Two directions are two measurements. Nothing is summed over several neighbours and nothing is
  carried over to pairs that were not measured.
- A pair is suggested for ``no_corun`` where taking turns would be faster on average, see
  ``suggest_taking_turns``. It is a suggestion: nothing is changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median_low
import threading
from types import TracebackType

from vig_governor.backend.base import Backend
from vig_governor.measure.cells import Cell
from vig_governor.measure.exchange import Caller
from vig_governor.measure.inputs import Feed
from vig_governor.measure.profiling import MeasuredProfile, Profiler

MIN_NEIGHBOUR_RUNS = 5
HEURISTIC = 'taking turns ends both sooner on average than running together'

Pair = tuple[str, str]
"""Victim and co-tenant, both backend models."""


class Neighbour:
    """
    Runs one model again and again in a thread of its own; a context manager.

    :ivar answered: how often so far.
    :ivar failure: what ended it early, or empty.
    """

    def __init__(self, backend: Backend, backend_model: str, feed: Feed, *,
                 timeout_s: float) -> None:
        self.answered = 0
        self.failure = ''
        self._backend_model = backend_model
        self._feed = feed
        self._timeout_s = timeout_s
        self._caller = Caller(backend, 'neighbour', timeout_s=timeout_s)
        self._is_running = threading.Event()
        self._must_end = threading.Event()
        self._thread = threading.Thread(target=self._run, name='neighbour', daemon=True)

    def _run(self) -> None:
        try:
            while not self._must_end.is_set():
                exchange = self._caller.call(self._backend_model, self._feed[self.answered])
                if exchange.failure:
                    self.failure = exchange.failure
                    return
                self.answered += 1
                self._is_running.set()
        except Exception as error:  # whatever it is, the cell beside it must not count
            self.failure = f'{type(error).__name__}: {error}'
        finally:
            self._is_running.set()

    def __enter__(self) -> 'Neighbour':
        self._thread.start()
        self._is_running.wait(self._timeout_s)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._must_end.set()
        self._thread.join(2 * self._timeout_s)


@dataclass(frozen=True, slots=True)
class Beside:
    """
    One victim beside one neighbour.

    :ivar cells: alone and beside of each run, in this order.
    """

    victim: str
    co_tenant: str
    cells: tuple[tuple[Cell, Cell], ...]

    @property
    def added_ns(self) -> int | None:
        """Added time on the victim; ``None`` where no run counts: that is not 0."""
        kept = self._kept
        if not kept:
            return None
        return median_low(max(0, beside.quantile_ns(95) - alone.quantile_ns(95))
                          for alone, beside in kept)

    @property
    def p50_ns(self) -> int | None:
        """Median runtime of the victim beside the neighbour."""
        return median_low(beside.quantile_ns(50) for _, beside in self._kept) if self._kept \
            else None

    @property
    def _kept(self) -> list[tuple[Cell, Cell]]:
        return [(alone, beside) for alone, beside in self.cells
                if alone.is_kept and beside.is_kept]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A pair for ``no_corun``: both directions and what decided, in ns."""

    pair: Pair
    added_ns: tuple[int, int]
    together_ns: int
    in_turn_ns: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything measured of one system."""

    profiles: Mapping[str, MeasuredProfile]
    pairs: tuple[Beside, ...]


def calibrate(profiler: Profiler, backend: Backend, pairs: Iterable[Pair]) -> Calibration:
    """
    Measure every model alone and every victim beside every neighbour of its pairs.

    :raises MeasurementFailed: no answer in time.
    """
    wanted = list(pairs)
    alone: dict[str, list[Cell]] = {name: [] for name in profiler.feeds}
    beside: dict[Pair, list[tuple[Cell, Cell]]] = {pair: [] for pair in wanted}
    for run in range(profiler.plan.runs):
        for victim in profiler.feeds:
            cell = profiler.cell(victim, run)
            alone[victim].append(cell)
            for pair in wanted:
                if pair[0] == victim:
                    beside[pair].append((cell, _beside(profiler, backend, pair, run)))
    return Calibration(
        {name: MeasuredProfile(name, tuple(cells)) for name, cells in alone.items()},
        tuple(Beside(victim, other, tuple(cells))
              for (victim, other), cells in beside.items()))


def suggest_taking_turns(calibration: Calibration) -> tuple[Suggestion, ...]:
    """
    Name the pairs that had better not run together, if both directions are measured.

    Both start at once. Together: the one that ends first needs its runtime beside the other,
    the other goes on alone with what is left of it. In turn: the mean of both orders. Where the
    sum of the two completion times is smaller in turn, the pair is suggested.
    """
    medians = {name: profile.quantile_ns(50) for name, profile in calibration.profiles.items()}
    by_pair = {(one.victim, one.co_tenant): one for one in calibration.pairs}
    found = []
    for (victim, other), one in by_pair.items():
        back = by_pair.get((other, victim))
        if victim > other or back is None:
            continue
        a_ns, b_ns, a_beside_ns, b_beside_ns = (
            medians[victim], medians[other], one.p50_ns, back.p50_ns)
        if (a_ns is None or b_ns is None or a_beside_ns is None or b_beside_ns is None
                or one.added_ns is None or back.added_ns is None):
            continue
        together_ns = _together_ns(a_ns, max(a_ns, a_beside_ns), b_ns, max(b_ns, b_beside_ns))
        in_turn_ns = 3 * (a_ns + b_ns) // 2
        if together_ns > in_turn_ns:
            found.append(Suggestion((victim, other), (one.added_ns, back.added_ns),
                                    together_ns, in_turn_ns))
    return tuple(found)


def _together_ns(a_ns: int, a_beside_ns: int, b_ns: int, b_beside_ns: int) -> int:
    """Sum of the completion times of two jobs that start together, by their slow-downs."""
    if a_beside_ns > b_beside_ns:
        a_ns, a_beside_ns, b_ns, b_beside_ns = b_ns, b_beside_ns, a_ns, a_beside_ns
    done_ns = a_beside_ns * b_ns // b_beside_ns
    return a_beside_ns + a_beside_ns + b_ns - done_ns


def _beside(profiler: Profiler, backend: Backend, pair: Pair, run: int) -> Cell:
    victim, other = pair
    with Neighbour(backend, other, profiler.feeds[other],
                   timeout_s=profiler.plan.timeout_s) as neighbour:
        before = neighbour.answered
        cell = profiler.cell(victim, run)
        answered = neighbour.answered - before
    reasons = []
    if neighbour.failure:
        reasons.append(f'the neighbour {other} failed: {neighbour.failure}')
    elif answered < MIN_NEIGHBOUR_RUNS:
        reasons.append(f'the neighbour {other} ended only {answered} times meanwhile, at least '
                       f'{MIN_NEIGHBOUR_RUNS} are needed')
    return replace(cell, reasons=(*cell.reasons, *reasons))
