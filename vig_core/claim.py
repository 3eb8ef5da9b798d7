"""A credit in use, and what a slot does with those that it has given."""

from collections.abc import Sequence
from dataclasses import dataclass

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

    def frees_at_ns(self, begins_at_ns: int) -> int:
        """Say when it clears its slot, conservatively, if it begins then."""
        return max(begins_at_ns + self.keeps_ns, self.clears_at_ns)

    def apart_ns(self, now_ns: int) -> int | None:
        """Time since the answer that it followed; ``None`` where it followed none."""
        return None if self.followed_at_ns is None else now_ns - self.followed_at_ns


def dry_at_ns(claims: Sequence[Claim], now_ns: int) -> int:
    """Predict conservatively when a slot has run what it has taken, first to run first."""
    dry_ns = now_ns
    for claim in claims:
        begins_ns = claim.begins_at_ns if claim is claims[0] else dry_ns
        dry_ns = max(dry_ns, claim.frees_at_ns(begins_ns))
    return dry_ns


def is_quarantined(claims: Sequence[Claim]) -> bool:
    """Whether any of them has an end that is not proven: then the slot takes nothing new."""
    return any(claim.is_quarantined for claim in claims)
