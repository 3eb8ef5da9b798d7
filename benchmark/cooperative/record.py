"""
What one arm brought: the camera's coverage as its consumer sees it, answers and tokens.

Everything is judged over one window. The questions begin with it; an answer counts if its end was
delivered within it, and a text that is still open then counts nothing, not even for its share.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
import threading
from typing import Any

from vig_core.units import NS_PER_MS

COMPLETED = 'completed'


@dataclass(frozen=True, slots=True)
class Ended:
    """One job that ended, with what it had written until then; on the steady clock."""

    at_ns: int
    reason: str
    tokens: int = 0
    quanta: int = 0


@dataclass(slots=True)
class Record:
    """
    One arm as it happens; used from several threads.

    :ivar results: capture and delivery of each result, on the steady clock.
    """

    results: list[tuple[int, int]] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    frames: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def delivered(self, captured_ns: int, now_ns: int) -> None:
        """Note one result of the camera's model."""
        with self.lock:
            self.results.append((captured_ns, now_ns))

    def ended(self, end: Ended) -> None:
        """Note the end of one job."""
        with self.lock:
            self.ends.append(end)


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    One arm in figures.

    :ivar coverage: of the consumer's cycles, in percent.
    :ivar longest_gap_ms: without a fresh result.
    :ivar frames: captured, and ``delivered`` results, before and after the window too.
    :ivar refused: jobs without an answer, by reason.
    :ivar tokens: of the answers, and ``quanta`` the requests that they took.
    """

    arm: str
    slots: int
    rate_hz: float
    coverage: float
    longest_gap_ms: float
    frames: int
    delivered: int
    answers: int
    refused: dict[str, int]
    tokens: int
    quanta: int

    def as_json(self) -> dict[str, Any]:
        """Give all figures."""
        return asdict(self)


def judge(record: Record, arm: str, slots: int, rate_hz: float, window: range,
          max_age_ns: int) -> Outcome:
    """
    Judge each consumer cycle: the newest delivered result covers it while it is young.

    :param window: the instants of the cycles; its stop is the end of the window.
    """
    covered = _covered(record.results, window, max_age_ns)
    longest = run = 0
    for is_covered in covered:
        run = 0 if is_covered else run + 1
        longest = max(longest, run)
    ends = [end for end in record.ends if window.start <= end.at_ns < window.stop]
    answers = [end for end in ends if end.reason == COMPLETED]
    return Outcome(
        arm, slots, rate_hz, 100 * sum(covered) / max(1, len(covered)),
        longest * window.step / NS_PER_MS, record.frames, len(record.results), len(answers),
        dict(Counter(end.reason for end in ends if end.reason != COMPLETED)),
        sum(end.tokens for end in answers), sum(end.quanta for end in answers))


def _covered(results: Sequence[tuple[int, int]], cycles: range, max_age_ns: int) -> list[bool]:
    by_delivery = sorted(results, key=lambda result: result[1])
    newest, at, covered = -1, 0, []
    for cycle_ns in cycles:
        while at < len(by_delivery) and by_delivery[at][1] <= cycle_ns:
            newest = max(newest, by_delivery[at][0])
            at += 1
        covered.append(newest >= 0 and cycle_ns - newest <= max_age_ns)
    return covered
