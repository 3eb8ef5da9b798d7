"""
Which waiting request starts now, if any: the gates in their order.

For the heads of all queues, ranked: ``no_corun`` ban, stage D (variant), patience (a fresher frame
is worth waiting for), stage C (look-ahead).
The first that passes starts; one that is held back does not hold back a shorter one behind it,
unless that one would prolong its ban.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from vig_core import corun
from vig_core.actions import OverloadState
from vig_core.choosing import Chooser
from vig_core.clockwork import Clockwork, Instant, NEVER
from vig_core.contract import Criticality, QueuePolicy
from vig_core.cutting import Cutter
from vig_core.estimate import Occupancy, RuntimeBook
from vig_core.guards import Expected, Guard, Guards
from vig_core.held import Held, Selection
from vig_core.interference import added_ns
from vig_core.ledger import Ledger
from vig_core.lookahead import fits_with_one_more_slot, longest_that_fits_ns, Veto, veto
from vig_core.model import Model, System
from vig_core.patience import Wait, wait_for_successor
from vig_core.quantum import longest_gap_ns
from vig_core.request import Request
from vig_core.reservation import Beside, pace_budget_ns, Reservation, Stay
from vig_core.slots import LEAST_SHARE, SlotTable
from vig_core.variants import Choice, VariantSelector
from vig_core.why_waiting import Vetoed


class Selector:
    """The gates between a ranked candidate and a free credit."""

    def __init__(self, system: System, slots: SlotTable, runtimes: RuntimeBook,
                 selectors: Mapping[str, VariantSelector], guards: Guards,
                 ledger: Ledger) -> None:
        """Look at the scheduler's parts; change none of them."""
        self._system = system
        self._slots = slots
        self._runtimes = runtimes
        self._selectors = selectors
        self._guards = guards
        self._ledger = ledger
        self._banned: dict[str, frozenset[str]] = {
            name: frozenset(other for pair in system.no_corun if name in pair
                            for other in pair - {name} or {name})
            for name in system.models}
        self._has_bans = bool(system.no_corun)
        self._longest_gaps_ns = {name: longest_gap_ns(model, system.slots)
                                 for name, model in system.models.items() if model.is_guarded}
        self._likely_ns = {
            name: slots.alone_ns(min(map(runtimes.median_ns, selector.variants), default=0))
            for name, selector in selectors.items()}
        self._interference_ns = system.interference_ns
        self._alone_ns: dict[str, Sequence[int]] = {}
        self._book_version = -1
        self._chooser = Chooser(slots, runtimes, selectors)
        self._cutter = Cutter(system, slots, runtimes, self._banned)
        self._coupling = corun.Coupling(system.interference_ns, system.instances)
        self._limited = frozenset(
            model.name for model in system.models.values()
            if any(variant.backend_model in system.instances for variant in model.variants))
        self._is_coupled = bool(self._limited or system.no_corun or system.interference_ns) and (
            system.slots > 1 or system.pipelining_depth > 0)

    def select(self, candidates: Iterable[Request], *, now_ns: int, overload: OverloadState,
               is_guarding: bool) -> Selection:
        """
        Find the first candidate that may start on a free credit.

        :param candidates: ranked, the first to serve first; read only as far as needed.
        :param is_guarding: False while draining: nothing is expected any more.
        """
        found = Selection()
        predicted = Clockwork(now_ns)
        soonest = self._slots.next_free(predicted)
        running_models = ({claim.request.model.name for claim in self._slots}
                          if self._has_bans else None)
        co_runners = ([claim.backend_model for claim in self._slots]
                      if self._interference_ns else None)
        waiting_for_an_end: list[Request] = []
        arrivals: Sequence[Expected] | None = None if is_guarding else []
        for request in candidates:
            model = request.model
            if running_models and not running_models.isdisjoint(self._banned[model.name]):
                found.held.append(Held(request, None, None))
                waiting_for_an_end.append(request)
                continue
            if waiting_for_an_end and self._is_prolonging(model, waiting_for_an_end):
                found.held.append(Held(request, None, None))
                continue
            plans_ns = self._plans_ns(model.name, co_runners)
            if request.job is not None:
                plans_ns = self._cutter.rest_plans_ns(
                    request, request.job, self._selectors[model.name].variants, co_runners)
            clock = Clockwork(now_ns, predicted.until_ns)
            begins = (self._chooser.begins(request, clock) if model.name in self._limited
                      else ())
            choice = self._chooser.choose(request, soonest[0][0], overload, plans_ns, begins)
            if choice.behind_id is not None:
                self._chooser.note_change(request, soonest[0], overload, plans_ns, begins, clock)
                found.held.append(Held(request, choice, None, behind_id=choice.behind_id,
                                       until_ns=clock.until_ns))
                waiting_for_an_end.append(request)
                continue
            free_at = soonest if not begins else self._slots.next_free(
                clock, choice.variant.backend_model)
            wait = self._wait(request, choice, free_at, clock) if is_guarding else None
            stopper, shortage = None, None
            if wait is None and model.criticality is not Criticality.PROTECTED:
                if arrivals is None:
                    arrivals = self._guards.in_arrival_order(now_ns)
                if model.cooperative is not None and model.cooperative.is_split:
                    stopper, shortage = self._cutter.cut(
                        request, choice, free_at, clock,
                        partial(self._reservations, arrivals, model, now_ns),
                        partial(self._look_ahead, request, choice, free_at,
                                waiting_for_an_end, arrivals, clock))
                else:
                    stopper = self._look_ahead(request, choice, free_at, waiting_for_an_end,
                                               arrivals, clock)
            if wait is None and stopper is None and shortage is None:
                found.start, found.choice = request, choice
                return found
            self._chooser.note_change(request, soonest[0], overload, plans_ns, begins, clock)
            found.held.append(Held(request, choice, stopper, wait, shortage,
                                   until_ns=clock.until_ns))
            if shortage is not None:
                found.held[-1].because = shortage.because
            elif wait is not None and not request.is_waiting_for_fresher:
                found.held[-1].because = wait.because(now_ns)
            elif stopper is not None and not request.is_deferred and arrivals is not None:
                found.held[-1].because = self._why_vetoed(
                    request.model, choice, stopper, arrivals, free_at, now_ns)
        return found

    def _why_vetoed(self, model: Model, choice: Choice, stopper: Veto,
                    arrivals: Iterable[Expected], free_at: Sequence[Instant],
                    now_ns: int) -> Vetoed:
        """Say what would have had to be different, where that is cheap to know."""
        fits_ns, fits_beside, under_way_ns = None, False, self._slots.overlap_ns
        if not self._is_coupled:
            stay = self._stay(choice.planned_ns, choice.occupancy)
            keeps_ns = max(stay.planned_ns, now_ns + stay.alone_ns - free_at[0][0])
            fits_ns = longest_that_fits_ns(
                lambda: self._reservations(arrivals, model, now_ns), free_at, keeps_ns,
                stopper.late_ns, now_ns, self._slots.likely_free)
            fits_beside = fits_with_one_more_slot(
                self._reservations(arrivals, model, now_ns), free_at, stay.alone_ns, now_ns,
                self._slots.likely_free)
            if fits_ns is not None:
                fits_ns = min(fits_ns + choice.planned_ns - keeps_ns, LEAST_SHARE * fits_ns)
        return stopper.because(now_ns, choice.planned_ns, under_way_ns, fits_ns, fits_beside)

    def _plans_ns(self, name: str, co_runners: Sequence[str] | None = None) -> Sequence[int]:
        """Plan each variant of a model, beside what runs; kept while no plan changes."""
        if self._book_version != self._runtimes.version:
            self._book_version = self._runtimes.version
            self._alone_ns.clear()
        alone_ns = self._alone_ns.get(name)
        if alone_ns is None:
            alone_ns = self._alone_ns[name] = [
                self._runtimes.plan_ns(variant) for variant in self._selectors[name].variants]
        if not co_runners:
            return alone_ns
        return [planned_ns + added_ns(self._interference_ns, variant.backend_model, co_runners)
                for planned_ns, variant in zip(alone_ns, self._selectors[name].variants)]

    def _look_ahead(self, request: Request, choice: Choice, free_at: Sequence[Instant],
                    held: Sequence[Request], arrivals: Iterable[Expected],
                    clock: Clockwork) -> Veto | None:
        if self._is_coupled:
            return self._veto_beside(request, choice, held, arrivals, clock)
        return veto(self._reservations(arrivals, request.model, clock.now_ns), free_at,
                    self._stay(choice.planned_ns, choice.occupancy), clock,
                    self._slots.likely_free)

    def _stay(self, planned_ns: int, occupancy: Occupancy | None) -> Stay:
        """Say how long a run of this plan keeps a slot."""
        alone_ns = self._slots.alone_ns(planned_ns)
        if occupancy is None or occupancy.planned_ns >= alone_ns:
            return Stay(alone_ns, alone_ns)
        return Stay(occupancy.planned_ns, alone_ns, occupancy.planned_ns - occupancy.median_ns)

    def _wait(self, request: Request, choice: Choice, free_at: Sequence[Instant],
              clock: Clockwork) -> Wait | None:
        """
        Ask whether a frame waits for its successor.

        Only under ``latest``: with several keys the one whose turn it is would hold up the others.
        """
        if request.model.policy is not QueuePolicy.LATEST or request.job is not None:
            return None
        account = self._ledger.of(request)
        if account.forecast is None:
            return None
        if request.model.name in self._limited:
            free_at = self._slots.successor_free(choice.variant.backend_model, clock)
        return wait_for_successor(request, choice.variant.profile, free_at=free_at,
                                  forecast=account.forecast, monitor=account.monitor, clock=clock)

    def _is_prolonging(self, model: Model, ahead: Iterable[Request]) -> bool:
        """
        Whether a run of ``model`` would prolong the ban on one of those that go before it.

        Not where an execution without a proven end holds that one: nobody knows until when. Nor
        within a class of a miss-aware system, where who goes first changes with time alone.
        """
        unproven = {claim.request.model.name for claim in self._slots if claim.is_quarantined}
        return any(model.name in self._banned[first.model.name]
                   and unproven.isdisjoint(self._banned[first.model.name])
                   and (first.model.criticality < model.criticality
                        or not self._system.is_miss_aware)
                   for first in ahead)

    def _veto_beside(self, request: Request, choice: Choice, held: Sequence[Request],
                     arrivals: Iterable[Expected], clock: Clockwork) -> Veto | None:
        """
        Ask the look-ahead where what runs at the same time concerns each other.

        :param held: those before this one that wait for the end of a ban.
        """
        backend_model = choice.variant.backend_model
        schedule = corun.Schedule.of(self._slots, clock, backend_model)
        begins_ns, is_moving = schedule.free_at[0]
        candidate = corun.Tenant(request.model.name, backend_model, 0, (
            begins_ns + self._slots.alone_ns(choice.planned_ns), is_moving))
        below = request.model.criticality
        waiting = [each for each in held if each.model.criticality < below]
        streams = {each.stream for each in waiting}
        reservations = [self._reserve_waiting(each) for each in waiting]
        reservations += (each for each in self._reservations(arrivals, request.model, clock.now_ns)
                         if each.stream not in streams)
        return corun.veto(reservations, schedule, candidate, clock, self._coupling, lambda clock: (
            corun.Schedule.of(self._slots, clock, backend_model, is_likely=True)))

    def _reserve_waiting(self, request: Request) -> Reservation:
        runs = self._runs(request.model)
        planned_ns = min(planned_ns for _, planned_ns, _ in runs)
        return Reservation(
            request.stream, request.arrived_at_ns, Stay(planned_ns, planned_ns),
            self._likely_ns[request.model.name],
            request.deadline_at_ns - self._slots.overlap_ns, False, NEVER,
            Beside(request.model.name, self._banned[request.model.name], runs, None))

    def _runs(self, model: Model) -> tuple[tuple[str, int, int], ...]:
        return tuple(
            (variant.backend_model, self._slots.alone_ns(planned_ns),
             self._slots.alone_ns(self._runtimes.median_ns(variant))) for variant, planned_ns
            in zip(self._selectors[model.name].variants, self._plans_ns(model.name)))

    def _reservations(self, arrivals: Iterable[Expected], candidate: Model,
                      now_ns: int) -> Iterator[Reservation]:
        """Give the reservations of strictly higher classes one by one; a guard keeps its own."""
        version = self._runtimes.version
        for _, _, guard in arrivals:
            if guard.model.criticality >= candidate.criticality:
                continue
            kept = guard.reservation
            if (kept is None or kept.is_moving or now_ns >= kept.changes_at_ns
                    or (guard.book_version != version and not self._is_as_planned(guard))):
                kept = guard.reservation = self._reserve(guard, now_ns, is_paced=False)
                guard.paced = None
            guard.book_version = version
            if kept is not None and candidate.is_guarded:
                if guard.paced is None:
                    guard.paced = self._reserve(guard, now_ns, is_paced=True)
                kept = guard.paced
            if kept is not None:
                yield kept

    def _is_as_planned(self, guard: Guard) -> bool:
        """Whether a kept reservation still has the runtime that is planned now."""
        kept = guard.reservation
        return (not self._is_coupled and kept is not None
                and kept.stay == self._fastest(guard.model.name))

    def _fastest(self, name: str) -> Stay:
        """Say how long the fastest variant of a model keeps a slot."""
        plans_ns = self._plans_ns(name)
        planned_ns = min(plans_ns)
        return self._stay(planned_ns, self._runtimes.occupancy(
            self._selectors[name].variants[plans_ns.index(planned_ns)]))

    def _reserve(self, guard: Guard, now_ns: int, *, is_paced: bool) -> Reservation | None:
        """
        Make the reservation of an expected frame, if it can run at all.

        It is in danger only if not even its fastest usable variant would be in time (adr/0005).

        :param is_paced: it needs to keep its pace only, not its deadline.
        """
        expected = guard.forecast.expected(now_ns)
        if expected is None or not self._selectors[guard.model.name].variants:
            return None
        stay = self._fastest(guard.model.name)
        budget_ns = expected.budget_ns
        if is_paced:
            budget_ns = pace_budget_ns(
                guard.model.contract, budget_ns, stay.alone_ns if self._system.learns_occupancy
                else min(self._plans_ns(guard.model.name)))
        # What is under way does not keep the slot: all of it ends earlier by that.
        under_way_ns = self._slots.overlap_ns
        return Reservation(
            guard.stream, expected.arrival_ns, stay,
            self._likely_ns[guard.model.name],
            expected.arrival_ns + max(budget_ns - under_way_ns, stay.alone_ns),
            expected.is_overdue, expected.changes_at_ns,
            Beside(guard.model.name, self._banned[guard.model.name], self._runs(guard.model),
                   budget_ns - under_way_ns) if self._is_coupled else None,
            self._longest_gaps_ns[guard.model.name])
