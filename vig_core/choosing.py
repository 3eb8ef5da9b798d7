"""
Stage D for one candidate: which variant, when that could begin, and until when the answer holds.

Rules: those of ``variants``. A candidate begins when its slot is free. Where a backend model has
fewer instances than there are slots it begins when an instance is free too, which is another
instant for each variant: what has to wait for one is planned with that wait.
"""

from collections.abc import Mapping, Sequence

from vig_core.actions import OverloadState
from vig_core.clockwork import Clockwork, Instant, NEVER
from vig_core.estimate import RuntimeBook
from vig_core.instances import Begin
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

    def begins(self, request: Request, clock: Clockwork) -> Sequence[Begin]:
        """Predict when each variant of a request could begin, with a slot and an instance."""
        variants = (self._selectors[request.model.name].variants if request.variant is None
                    else (request.variant,))
        return [self._slots.begin(variant.backend_model, clock) for variant in variants]

    def choose(self, request: Request, start_ns: int, overload: OverloadState,
               plans_ns: Sequence[int], begins: Sequence[Begin]) -> Choice:
        """
        Choose the variant of a request; a job stays with the one that it began with.

        :param start_ns: when the slot is free that is free first.
        :param plans_ns: conservative runtime of each variant.
        :param begins: of each variant; empty where every slot has an instance for it.
        """
        if begins:
            plans_ns = [NEVER if begin.at[0] >= NEVER else begin.at[0] - start_ns + planned_ns
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
            choice.begin_later(begin.at[0] - start_ns, begin.behind_id)
        return choice

    def note_change(self, request: Request, start: Instant, overload: OverloadState,
                    plans_ns: Sequence[int], begins: Sequence[Begin], clock: Clockwork) -> None:
        """Note when time alone makes another variant the choice for this candidate."""
        if request.variant is not None:
            return
        selector = self._selectors[request.model.name]
        if begins:
            changes_ns = selector.upgrade_ns(start[0], overload)
            ends = [(begin.at[0] + planned_ns, begin.at[1])
                    for begin, planned_ns in zip(begins, plans_ns) if begin.at[0] < NEVER]
            clock.note_order(ends)
            for end in ends:
                clock.is_later(end, (request.deadline_at_ns, False))
        else:
            changes_ns = selector.next_change_ns(
                start_ns=start[0], deadline_ns=request.deadline_at_ns, overload=overload,
                plans_ns=plans_ns)
        if changes_ns is not None:
            clock.is_later((changes_ns, False), start)
