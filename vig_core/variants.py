"""
Stage D, variant resolution: the best variant that still meets the deadline.

Rules:

- Usable: approved and good enough. Best quality first; if none meets the deadline with the
  conservative estimate, the fastest one, which is not always the one of lowest quality.
- From ``degraded`` on the fastest usable variant.
- Downgrade at once. Upgrade only after a reserve that lasted ``variant_dwell``; twice as long
  under freshness pressure.
- Where the usable variants are not interchangeable only the first declared of them runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vig_core.actions import OverloadState
from vig_core.clockwork import NEVER
from vig_core.estimate import Occupancy
from vig_core.model import Model, Variant
from vig_core.why_waiting import Chosen, Reading

UPGRADE_DWELL_FACTOR_UNDER_PRESSURE = 2


@dataclass(slots=True)
class Choice:
    """
    A variant for one dispatch.

    :ivar has_reserve: a better variant would have met the deadline too.
    :ivar left_ns: from its begin to the deadline.
    :ivar better: the variants of a higher quality, and their plans; ``NEVER`` for one whose
        instances wait for a proof of an end.
    :ivar tokens: of a generative job: to write at most.
    :ivar reads: of a generative job: to read before, where that takes time.
    :ivar occupancy: how long it keeps its slot from the next, where that was learned.
    :ivar behind_id: a request that uses the instance that it needs; ``None`` where one is free.
    """

    variant: Variant
    planned_ns: int
    has_reserve: bool
    left_ns: int
    tokens: int = 0
    better: Sequence[tuple[Variant, int]] = ()
    is_overloaded: bool = False
    occupancy: Occupancy | None = None
    reads: int = 0
    behind_id: int | None = None

    def begin_later(self, wait_ns: int, behind_id: int | None) -> None:
        """Take the wait for its slot and instance, with which it was chosen, out of its plan."""
        self.planned_ns -= wait_ns
        self.left_ns -= wait_ns
        self.behind_id = behind_id

    @property
    def because(self) -> Chosen | Reading:
        """Say why it is this one."""
        chosen = Chosen(self.planned_ns, self.left_ns, tuple(
            (variant.variant_id, planned_ns) for variant, planned_ns in self.better
            if planned_ns < NEVER), self.is_overloaded)
        return Reading(chosen, self.reads) if self.reads else chosen


class VariantSelector:
    """
    The variants of one model in falling quality, and the hysteresis between them.

    :ivar variants: what may run, best first; empty means that the model can serve nothing.
    """

    def __init__(self, model: Model) -> None:
        """Begin with the best variant."""
        self._contract = model.contract
        self.variants = tuple(sorted(model.runnable_variants,
                                     key=lambda variant: -variant.quality))
        self._current = 0
        self._reserve_since_ns: int | None = None

    @property
    def current(self) -> Variant | None:
        """The variant that ran last, or the best one before the first run."""
        return self.variants[self._current] if self.variants else None

    def resolve(self, *, start_ns: int, deadline_ns: int, overload: OverloadState,
                plans_ns: Sequence[int]) -> Choice:
        """
        Choose for a run that would begin at ``start_ns``; changes nothing.

        :param plans_ns: conservative runtime of each of ``variants``.
        :raises ValueError: the model has no usable variant.
        """
        budget_ns = deadline_ns - start_ns
        if len(plans_ns) == 1:
            return Choice(self.variants[0], plans_ns[0], False, budget_ns)
        fastest = plans_ns.index(min(plans_ns))
        if overload in _FASTEST_ONLY:
            return Choice(self.variants[fastest], plans_ns[fastest], False, budget_ns,
                          is_overloaded=True)
        target = 0
        while target < len(plans_ns) and plans_ns[target] > budget_ns:
            target += 1
        if target == len(plans_ns):
            target = fastest
        has_reserve = target < self._current and plans_ns[self._current] <= budget_ns
        if has_reserve and not self._may_upgrade(start_ns, overload):
            target = self._current
        return Choice(self.variants[target], plans_ns[target], has_reserve, budget_ns,
                      better=list(zip(self.variants[:target], plans_ns)) if target else ())

    def next_change_ns(self, *, start_ns: int, deadline_ns: int, overload: OverloadState,
                       plans_ns: Sequence[int]) -> int | None:
        """First later start for which ``resolve`` would choose differently, if there is one."""
        if len(plans_ns) == 1 or overload in _FASTEST_ONLY:
            return None
        starts_ns = [deadline_ns - planned_ns + 1 for planned_ns in plans_ns]
        upgrade_ns = self.upgrade_ns(start_ns, overload)
        if upgrade_ns is not None:
            starts_ns.append(upgrade_ns)
        return min((other_ns for other_ns in starts_ns if other_ns > start_ns), default=None)

    def upgrade_ns(self, start_ns: int, overload: OverloadState) -> int | None:
        """First later start at which the reserve has lasted long enough, if there is one."""
        if self._reserve_since_ns is None or overload in _FASTEST_ONLY:
            return None
        upgrade_ns = self._reserve_since_ns + self._dwell_ns(overload)
        return upgrade_ns if upgrade_ns > start_ns else None

    def commit(self, choice: Choice, now_ns: int) -> None:
        """Remember what was dispatched."""
        index = self.variants.index(choice.variant)
        if not choice.has_reserve or index < self._current:
            self._reserve_since_ns = None
        elif self._reserve_since_ns is None:
            self._reserve_since_ns = now_ns
        self._current = index

    def _may_upgrade(self, now_ns: int, overload: OverloadState) -> bool:
        since_ns = self._reserve_since_ns
        return since_ns is not None and now_ns - since_ns >= self._dwell_ns(overload)

    def _dwell_ns(self, overload: OverloadState) -> int:
        factor = (UPGRADE_DWELL_FACTOR_UNDER_PRESSURE
                  if overload is OverloadState.FRESHNESS_PRESSURE else 1)
        return self._contract.variant_dwell_ns * factor


_FASTEST_ONLY = frozenset({OverloadState.DEGRADED, OverloadState.REJECT_BEST_EFFORT,
                           OverloadState.PROTECTED_ONLY})
