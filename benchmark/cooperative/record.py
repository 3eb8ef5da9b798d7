"""What one arm brought: the camera's coverage as its consumer sees it, answers and tokens."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
import threading
from typing import Any

from vig_core.units import NS_PER_MS


@dataclass(slots=True)
class Record:
    """
    One arm as it happens; used from several threads.

    :ivar results: capture and delivery of each result, on the steady clock.
    :ivar ends: jobs by the reason of their end; ``completed`` are answers.
    :ivar tokens: of whole answers only.
    """

    results: list[tuple[int, int]] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    frames: int = 0
    tokens: int = 0
    all_tokens: int = 0
    quanta: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def delivered(self, captured_ns: int, now_ns: int) -> None:
        """Note one result of the camera's model."""
        with self.lock:
            self.results.append((captured_ns, now_ns))

    def ended(self, reason: str, tokens: int, quanta: int) -> None:
        """Note the end of one job."""
        with self.lock:
            self.ends[reason] = self.ends.get(reason, 0) + 1
            self.tokens += tokens if reason == 'completed' else 0
            self.all_tokens += tokens
            self.quanta += quanta


@dataclass(frozen=True, slots=True)
class Outcome:
    """One arm in figures; ``coverage`` in percent, ``longest_gap_ms`` without a fresh result."""

    arm: str
    slots: int
    coverage: float
    longest_gap_ms: float
    frames: int
    delivered: int
    answers: int
    refused: int
    tokens: int
    quanta: int

    def as_json(self) -> dict[str, Any]:
        """Give all figures."""
        return asdict(self)


def judge(record: Record, arm: str, slots: int, begin_ns: int, end_ns: int, period_ns: int,
          max_age_ns: int) -> Outcome:
    """Judge each consumer cycle: the newest delivered result covers it while it is young."""
    cycles = range(begin_ns, end_ns, period_ns)
    covered = _covered(record.results, cycles, max_age_ns)
    longest = run = 0
    for is_covered in covered:
        run = 0 if is_covered else run + 1
        longest = max(longest, run)
    answers = record.ends.get('completed', 0)
    return Outcome(
        arm, slots, 100 * sum(covered) / max(1, len(covered)),
        longest * period_ns / NS_PER_MS, record.frames, len(record.results), answers,
        sum(record.ends.values()) - answers, record.tokens, record.quanta)


def _covered(results: Sequence[tuple[int, int]], cycles: range, max_age_ns: int) -> list[bool]:
    by_delivery = sorted(results, key=lambda result: result[1])
    newest, at, covered = -1, 0, []
    for cycle_ns in cycles:
        while at < len(by_delivery) and by_delivery[at][1] <= cycle_ns:
            newest = max(newest, by_delivery[at][0])
            at += 1
        covered.append(newest >= 0 and cycle_ns - newest <= max_age_ns)
    return covered
