"""
What a run was worth to its consumers, computed from what the consumer noted.

Both arms are judged by these functions, over the same span, from capture times in the headers and
instants of reception. Times are nanoseconds of the ROS clock.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vig_core.units import NS_PER_MS

from vig_governor.demo.plan import DemoStream
from vig_governor.measure.runtime import quantile
from vig_governor.measure.supply import supply


@dataclass(frozen=True, slots=True)
class StreamReport:
    """
    One stream in one arm.

    :ivar frames: captures in the span, from the camera's own log.
    :ivar longest_gap_ms: longest time without a usable result at hand.
    :ivar unusable: share of the frames' results that were older than ``max_age`` on reception.
    :ivar reasons: how requests ended, by reason.
    :ivar variants: executions by variant.
    """

    stream: str
    criticality: str
    frames: int
    results: int
    covered: int
    cycles: int
    longest_gap_ms: float
    age_p50_ms: float | None
    age_p95_ms: float | None
    unusable_percent: float
    reasons: dict[str, int]
    variants: dict[str, int]

    @property
    def coverage_percent(self) -> float:
        """Share of the consumer cycles with a usable result."""
        return 100 * self.covered / self.cycles if self.cycles else 0.0

    def as_json(self) -> dict[str, Any]:
        """Give the figures with their units in the keys."""
        return {'class': self.criticality, 'frames': self.frames, 'results': self.results,
                'coverage_percent': round(self.coverage_percent, 2),
                'uncovered_cycles': self.cycles - self.covered, 'cycles': self.cycles,
                'longest_gap_ms': self.longest_gap_ms,
                'age_p50_ms': self.age_p50_ms, 'age_p95_ms': self.age_p95_ms,
                'results_older_than_max_age_percent': round(self.unusable_percent, 2),
                'ends': self.reasons, 'variants': self.variants}


def judge(stream: DemoStream, notes: dict[str, Any], captures: Sequence[Sequence[int]], *,
          start_ns: int, end_ns: int) -> StreamReport:
    """
    Judge one stream over a span of captures.

    :param notes: ``results`` and ``statuses`` as the consumer wrote them.
    :param captures: the camera's log.
    """
    results = notes['results']
    ages = [received - captured for captured, received in results
            if start_ns <= captured < end_ns]
    statuses = [status for status in notes['statuses'] if start_ns <= status[0] < end_ns]
    given = supply(
        results, start_ns=start_ns, end_ns=end_ns, period_ns=stream.period_ms * NS_PER_MS,
        max_age_ns=stream.max_age_ms * NS_PER_MS)
    too_old = sum(age > stream.max_age_ms * NS_PER_MS for age in ages)
    return StreamReport(
        stream.name, stream.criticality,
        frames=sum(start_ns <= capture[0] < end_ns for capture in captures),
        results=len(ages), covered=given.covered, cycles=given.cycles,
        longest_gap_ms=_ms(given.longest_gap_ns),
        age_p50_ms=_ms(quantile(ages, 50)) if ages else None,
        age_p95_ms=_ms(quantile(ages, 95)) if ages else None,
        unusable_percent=100 * too_old / len(ages) if ages else 0.0,
        reasons=dict(Counter(status[1] for status in statuses)),
        variants=dict(Counter(status[2] for status in statuses if status[1] == 'completed')))


def _ms(duration_ns: int) -> float:
    return round(duration_ns / NS_PER_MS, 2)
