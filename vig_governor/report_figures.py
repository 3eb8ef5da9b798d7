"""The figures of one stream of a recorded run; coverage and budgets as the core judges them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from vig_core.background import Background
from vig_core.contract import Contract, Criticality, MissBudget
from vig_core.coverage import supply_of
from vig_core.request import Reason
from vig_core.units import NS_PER_MS, quantile_ns

from vig_governor.history import Cycle, Frame, History, Totals


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """
    What became of a miss budget over a whole run.

    :ivar word: ``kept``, ``violated``, or ``not a full window yet``.
    :ivar numbers: one sentence with M, K and L.
    """

    word: str
    numbers: str


@dataclass(frozen=True, slots=True)
class Progress:
    """
    How best-effort work got on over a whole run.

    :ivar worst: completed of ended requests in its worst full window; of all where none was full.
    :ivar short: requests at whose end fewer were completed than the contracts ask for.
    """

    worst: tuple[int, int]
    short: int


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """
    The headline of one stream.

    :ivar gap_ns: longest time without a fresh result; ``None`` where no cycle is defined.
    :ivar verdict: what became of the miss budget; ``None`` without one.
    :ivar progress: of a best-effort stream of which a request ended; ``None`` of another.
    """

    received: int
    reasons: Counter[Reason]
    in_time: int
    cycles: int
    uncovered: int
    gap_ns: int | None
    ages_ns: tuple[int, ...]
    variants: Counter[str]
    verdict: BudgetVerdict | None
    progress: Progress | None
    totals: Totals

    @classmethod
    def of(cls, history: History, stream: str) -> 'StreamFigures':
        """Count the requests and cycles of a stream."""
        frames = [frame for frame in history.frames if frame.stream == stream]
        cycles = history.cycles.get(stream, [])
        done = [frame for frame in frames if frame.reason is Reason.COMPLETED]
        return cls(
            len(frames), Counter(frame.reason for frame in frames if frame.reason is not None),
            sum(frame.is_deadline_met for frame in done), len(cycles),
            sum(not cycle.is_covered for cycle in cycles),
            _longest_gap_ns(history, frames, history.streams[stream].contract),
            tuple(sorted(frame.age_ns for frame in done)),
            Counter(frame.variant for frame in done),
            _judge(history.streams[stream].contract.miss_budget, cycles),
            _progress(history, stream, frames), history.totals.get(stream, Totals()))

    @property
    def coverage(self) -> float | None:
        """Share of the cycles that were covered; ``None`` where none is defined."""
        return 1 - self.uncovered / self.cycles if self.cycles else None

    def age(self, percent: int) -> str:
        """Give a quantile of the ages of delivered results, with its unit."""
        age_ns = quantile_ns(self.ages_ns, percent)
        return '–' if age_ns is None else f'{age_ns / NS_PER_MS:.1f} ms'


def _longest_gap_ns(history: History, frames: Sequence[Frame], contract: Contract) -> int | None:
    """Measure from the first cycle on; in the middle of a run from where all is known."""
    if contract.cycle_ns is None:
        return None
    begin_ns = history.begin_ns + (contract.max_age_ns or 0) if history.begin_ns else 0
    ends = sorted((frame.ended_ns, index) for index, frame in enumerate(frames)
                  if frame.ended_ns is not None)
    return supply_of(
        contract, ((at_ns, frames[index].captured_ns if (
            frames[index].reason is Reason.COMPLETED) else None) for at_ns, index in ends),
        origin_ns=begin_ns // contract.cycle_ns * contract.cycle_ns,
        until_ns=history.end_ns).longest_gap_ns


def _progress(history: History, stream: str, frames: Sequence[Frame]) -> Progress | None:
    ends = sorted((frame.ended_ns, frame.request_id, frame.reason is Reason.COMPLETED)
                  for frame in frames if frame.ended_ns is not None)
    model = history.streams[stream]
    if model.criticality is not Criticality.BEST_EFFORT or not ends:
        return None
    background = Background(
        model.contract, history.totals.get(stream, Totals()).required_percent)
    windows, short = [], 0
    for _, _, is_completed in ends:
        background.end(is_completed)
        short += background.is_short
        if background.ended == model.contract.observation_window:
            windows.append(background.completed)
    return Progress((min(windows, default=background.completed), background.ended), short)


def _judge(budget: MissBudget | None, cycles: Sequence[Cycle]) -> BudgetVerdict | None:
    if budget is None:
        return None
    violated = sum(cycle.is_violated for cycle in cycles)
    numbers = (f'worst window {max((cycle.misses for cycle in cycles), default=0)} of '
               f'{budget.window_cycles} missed ({budget.max_misses} allowed), '
               f'{max((cycle.consecutive for cycle in cycles), default=0)} in a row '
               f'({budget.max_consecutive} allowed)')
    if violated:
        return BudgetVerdict('violated', f'at {violated} of {len(cycles)} cycles; {numbers}')
    if len(cycles) < budget.window_cycles:
        return BudgetVerdict('not a full window yet', numbers)
    return BudgetVerdict('kept', numbers)
