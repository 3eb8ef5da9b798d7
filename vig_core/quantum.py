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

from vig_core.cooperative import Cooperative, Job
from vig_core.lookahead import Reservation
from vig_core.model import Model
from vig_core.why_waiting import NothingFits

NEVER = 1 << 62


@dataclass(slots=True)
class Gap:
    """
    The time until somebody else needs the slot.

    :ivar budget_ns: from the start of the job; ``None`` without end.
    :ivar ends_for: the stream whose frame ends it; empty without end.
    :ivar until_ns: first later instant at which time alone can lengthen it.
    :ivar longest_ns: the longest before a frame of that stream, as long as none stays away.
    """

    budget_ns: int | None
    ends_for: str
    until_ns: int
    longest_ns: int = NEVER


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


def find_gap(expected: Iterable[Reservation], free_at_ns: Sequence[int], now_ns: int,
             is_apart: Callable[[Reservation], bool],
             overruns_at_ns: Sequence[int] = ()) -> Gap:
    """
    Find out until when nobody of a higher class needs the first slot.

    :param expected: frames of strictly higher classes in arrival order; read as far as needed.
    :param free_at_ns: predicted end of what runs on each slot; the first is the job's.
    :param is_apart: whether a frame must not arrive while the job runs, on whatever slot.
    :param overruns_at_ns: instants from which on some of these predictions move with the clock.
    """
    others = list(free_at_ns[1:])
    until_ns = min((at_ns for at_ns in (*others, *overruns_at_ns) if at_ns > now_ns),
                   default=NEVER)
    for frame in expected:
        until_ns = min(until_ns, frame.changes_at_ns)
        first_ns = min(others, default=NEVER)
        if first_ns > frame.arrival_ns or is_apart(frame):
            return Gap(max(0, frame.arrival_ns - free_at_ns[0]), frame.stream, until_ns,
                       frame.longest_gap_ns)
        others[others.index(first_ns)] = frame.arrival_ns + frame.stay.alone_ns
    return Gap(None, '', until_ns)


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
        interference_ns.get((name, backend_model)) for name, _ in frame.beside.runs))


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
