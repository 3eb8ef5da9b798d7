"""
Stage B, carried out: end what would be worthless even if it started as early as it can.

Rules:

- The next candidates are looked at while a credit is free; under pressure, or while nobody knows
  when anything can start, all that waits is.
- On entering ``protected_only`` the waiting requests of lower classes end; from then on the door
  refuses them. ``never_drop`` stays.
"""

from collections.abc import Mapping

from vig_core import freshness
from vig_core.actions import OverloadState
from vig_core.admission import class_refused, REFUSED_CLASSES
from vig_core.contract import QueuePolicy
from vig_core.estimate import RuntimeBook
from vig_core.overload import OverloadController
from vig_core.queue import WaitingQueue
from vig_core.request import Reason, Request
from vig_core.roster import NEVER, Roster
from vig_core.variants import VariantSelector


class Sweep:
    """
    Ends waiting requests before anything starts.

    :ivar is_watching_all: whether all that waits is looked at, or the next candidates only.
    """

    def __init__(self, roster: Roster, overload: OverloadController,
                 selectors: Mapping[str, VariantSelector], runtimes: RuntimeBook) -> None:
        """Look at the next candidates; ``selectors`` have the variants of each model."""
        self._roster = roster
        self._overload = overload
        self._selectors = selectors
        self._runtimes = runtimes
        self._state = OverloadState.NORMAL
        self.is_watching_all = False

    def run(self) -> None:
        """End what has to, at the roster's present instant."""
        roster = self._roster
        if self._overload.state is not self._state:
            self._enter(self._overload.state)
        is_watching_all = (self._state is not OverloadState.NORMAL
                           or roster.slots.is_fully_quarantined)
        if is_watching_all is not self.is_watching_all:
            self.is_watching_all = is_watching_all
            for request in roster.waiting():
                roster.watch(request)
        while roster.has_waiting and (is_watching_all or roster.slots.has_credit):
            start_ns = roster.slots.earliest_start_ns(roster.now_ns)
            if start_ns < roster.next_useless_ns:
                return
            self._end_useless(start_ns)

    def _end_useless(self, start_ns: int) -> None:
        roster, next_ns = self._roster, NEVER
        roster.next_useless_ns = NEVER
        for request in roster.waiting() if self.is_watching_all else roster.heads():
            useless_ns = request.useless_from_ns
            if useless_ns is None:
                continue
            if start_ns >= useless_ns:
                roster.remove(request, *freshness.verdict(
                    request, start_ns, self._candidates(request)))
            elif useless_ns < next_ns:
                next_ns = useless_ns
        roster.next_useless_ns = min(roster.next_useless_ns, next_ns)

    def _candidates(self, request: Request) -> list[tuple[str, int, int]]:
        """Give id, median and plan of what may run; of a job, for a text of one token more."""
        model, runtimes = request.model, self._runtimes
        variants = self._selectors[model.name].variants
        if request.job is None or model.cooperative is None:
            return [(variant.variant_id, variant.profile.p50_ns, runtimes.plan_ns(variant))
                    for variant in variants]
        cost_ns = model.cooperative.cost_ns(
            0 if request.variant is None else request.job.context, 1, is_new=request.job.is_new)
        return [(variant.variant_id, model.in_proportion_ns(variant, cost_ns),
                 runtimes.plan_quantum_ns(model, variant, cost_ns))
                for variant in (variants if request.variant is None else (request.variant,))]

    def _enter(self, state: OverloadState) -> None:
        self._state = state
        if state is OverloadState.PROTECTED_ONLY:
            for queue in self._roster.queues.values():
                self._refuse_class(queue)

    def _refuse_class(self, queue: WaitingQueue) -> None:
        if (queue.model.policy is not QueuePolicy.NEVER_DROP
                and queue.model.criticality in REFUSED_CLASSES[self._state]):
            for request in list(queue):
                self._roster.remove(request, Reason.INFEASIBLE, class_refused(
                    queue.model.criticality, self._overload))
