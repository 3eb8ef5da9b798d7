"""A credit in use, and what a slot does with those that it has given."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vig_core.clockwork import Clockwork, Instant, NEVER
from vig_core.request import Request


@dataclass(slots=True, eq=False)
class Claim:
    """
    A credit in use.

    :ivar taken_at_ns: when it was dispatched.
    :ivar begins_at_ns: when the execution began as far as is known.
    :ivar planned_ns: conservative runtime, from dispatch to answer.
    :ivar keeps_ns: how long it keeps its slot from the next, conservatively, from its begin.
    :ivar optimistic_ns: the same by the median.
    :ivar clears_at_ns: it cannot have cleared its slot before, however early it began.
    :ivar expected_at_ns: the same by the median.
    :ivar ahead: how many executions must end before it can begin; -1 where nobody knows.
    :ivar followed_at_ns: when the last of them was answered.
    :ivar neighbours: backend models that ran at the same time at any moment of this one.
    """

    request: Request
    slot: int
    taken_at_ns: int
    begins_at_ns: int
    planned_ns: int
    keeps_ns: int
    optimistic_ns: int
    clears_at_ns: int
    expected_at_ns: int
    ahead: int = 0
    followed_at_ns: int | None = None
    is_quarantined: bool = False
    neighbours: frozenset[str] = frozenset()

    @property
    def backend_model(self) -> str:
        """What it runs."""
        assert self.request.variant is not None
        return self.request.variant.backend_model

    def apart_ns(self, now_ns: int) -> int | None:
        """Time since the answer that it followed; ``None`` where it followed none."""
        return None if self.followed_at_ns is None else now_ns - self.followed_at_ns


def ends_at(claims: Sequence[Claim], clock: Clockwork, *,
            is_likely: bool = False) -> Iterator[Instant]:
    """
    Predict when each execution on a slot clears it, first to run first.

    ``NEVER`` where only a proof can tell.

    :param is_likely: by the medians; otherwise conservatively.
    """
    end = (clock.now_ns, True)
    for claim in claims:
        if claim.is_quarantined:
            end = (NEVER, False)
        else:
            keeps_ns, clears_at_ns = ((claim.optimistic_ns, claim.expected_at_ns) if is_likely
                                      else (claim.keeps_ns, claim.clears_at_ns))
            begins_ns, is_moving = (claim.begins_at_ns, False) if claim is claims[0] else end
            clears = clock.later((begins_ns + keeps_ns, is_moving), (clears_at_ns, False))
            end = clock.later(clears, end)
        yield end


def dry_at(claims: Sequence[Claim], clock: Clockwork, *, is_likely: bool = False) -> Instant:
    """Predict when a slot has run what it has taken; see ``ends_at``."""
    end = (clock.now_ns, True)
    for end in ends_at(claims, clock, is_likely=is_likely):
        pass
    return end


def is_quarantined(claims: Sequence[Claim]) -> bool:
    """Whether any of them has an end that is not proven: then the slot takes nothing new."""
    return any(claim.is_quarantined for claim in claims)
