"""
How much a generative job may write before the next expected frame is there.

Rules:

- The budget ends when a frame of a strictly higher class is expected to arrive, not when it would
  have to start at the latest: the reserve is not ours to spend.
- On several slots an expected frame that finds another slot free on arrival ends no budget, one
  that must not run beside this job does. The first for which no other slot is free does, and
  without any such frame the budget has no end.
- The quantum is the largest that fits with the conservative estimate, at least ``min_tokens``
  unless less remains. If nothing fits the job waits, and says so with its numbers.
- A gap is never longer than the period of the stream whose frame ends it, on one slot without the
  median time of that frame. What needs more is hopeless while that stream runs: that is said too.
- Where pieces of this size would cost more than ``max_overhead_permille`` on top of the rest in
  one piece, the rest is asked for in one piece, under the ordinary look-ahead.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vig_core.clockwork import Clockwork, Instant, NEVER
from vig_core.cooperative import Cooperative, Job
from vig_core.model import Model
from vig_core.reservation import Reservation
from vig_core.why_waiting import NothingFits


@dataclass(slots=True)
class Gap:
    """
    The time until somebody else needs the slot.

    :ivar begins_at: when the job would start.
    :ivar ends_at: when the frame that ends it is expected; ``None`` without end.
    :ivar ends_for: the stream of that frame; empty without end.
    :ivar longest_ns: the longest before a frame of that stream, as long as none stays away.
    """

    begins_at: Instant
    ends_at: Instant | None = None
    ends_for: str = ''
    longest_ns: int = NEVER

    @property
    def budget_ns(self) -> int | None:
        """How long it is; ``None`` without end."""
        return None if self.ends_at is None else max(0, self.ends_at[0] - self.begins_at[0])

    def holds(self, planned_ns: int, clock: Clockwork) -> bool:
        """Whether a quantum that is planned with this fits."""
        begins_ns, is_moving = self.begins_at
        return self.ends_at is None or not clock.is_later(
            (begins_ns + planned_ns, is_moving), self.ends_at)


@dataclass(slots=True)
class Shortage:
    """
    No quantum fits.

    :ivar gap: the time that is too short.
    :ivar tokens: of the smallest quantum.
    :ivar smallest_ns: what that one is planned with.
    :ivar reads: tokens that the server has to read for it.
    :ivar until_ns: first later instant at which time alone can change this.
    """

    gap: Gap
    tokens: int
    smallest_ns: int
    reads: int
    until_ns: int

    @property
    def is_hopeless(self) -> bool:
        """Whether no gap before that stream is ever so long."""
        return self.smallest_ns > self.gap.longest_ns

    @property
    def because(self) -> NothingFits:
        """The numbers that decided."""
        return NothingFits(self.gap.ends_for, self.gap.budget_ns or 0, self.tokens,
                           self.smallest_ns, self.reads,
                           self.gap.longest_ns if self.is_hopeless else None)


def longest_gap_ns(guarded: Model, slots: int) -> int:
    """Give the longest time without a need for the slot between two frames of a stream."""
    assert guarded.contract.period_ns is not None
    if slots > 1:
        return guarded.contract.period_ns
    return guarded.contract.period_ns - min(
        (variant.profile.p50_ns for variant in guarded.runnable_variants), default=0)


def find_gap(expected: Iterable[Reservation], free_at: Sequence[Instant],
             is_apart: Callable[[Reservation], bool], clock: Clockwork) -> Gap:
    """
    Find out until when nobody of a higher class needs the first slot.

    :param expected: frames of strictly higher classes in arrival order; read as far as needed.
    :param free_at: predicted end of what runs on each slot; the first is the job's.
    :param is_apart: whether a frame must not arrive while the job runs, on whatever slot.
    """
    start, *others = free_at
    for frame in expected:
        clock.note(frame.changes_at_ns)
        arrival = (frame.arrival_ns, frame.is_moving)
        first = clock.first(others)
        if not others or is_apart(frame) or clock.is_later(others[first], arrival):
            return Gap(start, arrival, frame.stream, frame.longest_gap_ns)
        others[first] = (frame.arrival_ns + frame.stay.alone_ns, frame.is_moving)
    return Gap(start)


def frames_apart(banned: frozenset[str], backend_model: str,
                 interference_ns: Mapping[tuple[str, str], int]
                 ) -> Iterator[Callable[[Reservation], bool]]:
    """
    Say which frames must not arrive while a quantum runs, on whatever slot.

    Those that may not run beside it; where the look-ahead finds that not enough, those too that
    it slows.

    :param banned: models that the job must not run beside.
    :param backend_model: that of the job.
    """
    yield lambda frame: frame.beside is not None and frame.beside.model in banned
    yield lambda frame: frame.beside is not None and (frame.beside.model in banned or any(
        interference_ns.get((name, backend_model)) for name, *_ in frame.beside.runs))


def tokens_within(job: Job, cooperative: Cooperative, budget_ns: int | None,
                  plan_ns: Callable[[int], int]) -> int:
    """
    Give the tokens of the largest quantum that fits; 0 where nothing does.

    :param plan_ns: conservative runtime of a quantum of so many tokens; grows with them.
    """
    most = job.remaining
    least = min(cooperative.min_tokens, most)
    if budget_ns is None or plan_ns(most) <= budget_ns:
        return most
    if plan_ns(least) > budget_ns:
        return 0
    while most - least > 1:
        middle = (least + most) // 2
        if plan_ns(middle) <= budget_ns:
            least = middle
        else:
            most = middle
    return least


def is_worth_splitting(job: Job, cooperative: Cooperative, tokens: int) -> bool:
    """Whether pieces of this size keep to the agreed overhead."""
    limit = cooperative.max_overhead_permille
    return limit is None or cooperative.overhead_permille(
        job.context, job.remaining, tokens, is_new=job.is_new) <= limit
