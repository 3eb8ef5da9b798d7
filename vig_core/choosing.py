"""
Stage D for one candidate: which variant, when that could begin, and until when the answer holds.

Rules: those of ``variants``. A candidate begins when its slot is free. Where a backend model has
fewer instances than there are slots it begins when an instance is free too, which is another
instant for each variant: what has to wait for one is planned with that wait.
"""

from collections.abc import Mapping, Sequence

from vig_core.actions import OverloadState
from vig_core.estimate import RuntimeBook
from vig_core.instances import Begin, NEVER, soonest_change_ns
from vig_core.request import Request
from vig_core.slots import SlotTable
from vig_core.variants import Choice, VariantSelector


class Chooser:
    """Chooses variants for candidates; changes nothing."""

    def __init__(self, slots: SlotTable, runtimes: RuntimeBook,
                 selectors: Mapping[str, VariantSelector]) -> None:
        """Look at the scheduler's parts."""
        self._slots = slots
        self._runtimes = runtimes
        self._selectors = selectors

    def begins(self, request: Request, now_ns: int) -> Sequence[Begin]:
        """Predict when each variant of a request could begin, with a slot and an instance."""
        variants = (self._selectors[request.model.name].variants if request.variant is None
                    else (request.variant,))
        return [self._slots.begin(variant.backend_model, now_ns) for variant in variants]

    def choose(self, request: Request, start_ns: int, overload: OverloadState,
               plans_ns: Sequence[int], begins: Sequence[Begin]) -> Choice:
        """
        Choose the variant of a request; a job stays with the one that it began with.

        :param start_ns: when the slot is free that is free first.
        :param plans_ns: conservative runtime of each variant.
        :param begins: of each variant; empty where every slot has an instance for it.
        """
        if begins:
            plans_ns = [NEVER if begin.at_ns >= NEVER else begin.at_ns - start_ns + planned_ns
                        for begin, planned_ns in zip(begins, plans_ns)]
        if request.variant is not None:
            choice = Choice(request.variant, plans_ns[0], False,
                            request.deadline_at_ns - start_ns)
        else:
            choice = self._selectors[request.model.name].resolve(
                start_ns=start_ns, deadline_ns=request.deadline_at_ns, overload=overload,
                plans_ns=plans_ns)
        if request.job is None:
            choice.occupancy = self._runtimes.occupancy(choice.variant)
        elif request.model.cooperative is not None:
            choice.tokens = request.job.remaining
            choice.reads = request.model.cooperative.reads(request.job)
        if begins:
            variants = self._selectors[request.model.name].variants
            begin = begins[0 if request.variant else variants.index(choice.variant)]
            choice.begin_later(begin.at_ns - start_ns, begin.behind_id)
        return choice

    def recheck_ns(self, request: Request, start_ns: int, now_ns: int, overload: OverloadState,
                   plans_ns: Sequence[int], begins: Sequence[Begin]) -> int | None:
        """
        First later instant at which another variant would be chosen for this candidate.

        Its start stands still until what runs on its slot overruns, and moves with the clock then.
        """
        if request.variant is not None:
            return None
        selector = self._selectors[request.model.name]
        if begins:
            changes_ns = selector.upgrade_ns(start_ns, overload)
        else:
            changes_ns = selector.next_change_ns(
                start_ns=start_ns, deadline_ns=request.deadline_at_ns, overload=overload,
                plans_ns=plans_ns)
        changes_at_ns = None if changes_ns is None else (
            changes_ns - start_ns + self._slots.next_moves_from_ns(now_ns))
        return changes_at_ns if len(begins) < 2 else soonest_change_ns(
            begins, plans_ns, request.deadline_at_ns, now_ns, changes_at_ns)
