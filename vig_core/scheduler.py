"""
The scheduler: a function of its history.

One way in, ``handle(event, now_ns=...)``; one way out, its return value. It owns no clock and no
timer: ``next_wakeup_ns`` says when to call again if nothing happens before.

Rules:

- An event is validated, then applied; a refused one leaves no trace.
- Every accepted request ends with exactly one ``Terminate``.
- What lies between two calls happens as if the call had come in time: consumer cycles, the
  overload grid and inference timeouts before ``now_ns`` are settled before the event.
"""

from collections.abc import Callable, Iterable
from typing import Any

from vig_core import freshness, order
from vig_core.actions import Action, Defer
from vig_core.admission import check_arrival, check_report, inherited_variant, refusal
from vig_core.errors import RefusedEvent
from vig_core.estimate import HORIZON_NS, RuntimeBook
from vig_core.events import (BackendCompleted, BackendFailed, CancelRequested, DispatchRefused,
                             DrainExpired, DrainStarted, Event, ExecutionInherited,
                             ExecutionsProvenOver, ProfileDoubted, RequestArrived, Stamp,
                             TimeJumped, Woke)
from vig_core.guards import Guards
from vig_core.ledger import Ledger
from vig_core.model import System
from vig_core.overload import OverloadController
from vig_core.request import Reason, Request, State, Trigger
from vig_core.roster import NEVER, Roster
from vig_core.selection import Held, Selector
from vig_core.snapshot import SystemSnapshot
from vig_core.sweep import Sweep
from vig_core.units import text_ms
from vig_core.variants import VariantSelector


class Scheduler:
    """Decides before dispatch which inference is still worth running."""

    def __init__(self, system: System, *, origin_ns: int = 0) -> None:
        """
        Begin with nothing waiting and nothing running.

        :param origin_ns: where consumer cycles are counted from; no event may lie before it.
        """
        self._system = system
        self._variants = {name: VariantSelector(model) for name, model in system.models.items()}
        self._optimistic_ns = {name: freshness.optimistic_runtime_ns(model)
                               for name, model in system.models.items()}
        self._runtimes = RuntimeBook(system)
        self._guards = Guards()
        self._overload = OverloadController(origin_ns, system.slowest_guarded_cycle_ns)
        self._ledger = Ledger(system, self._overload, origin_ns)
        self._roster = Roster(system, self._ledger, origin_ns)
        self._sweep = Sweep(self._roster, self._overload, self._optimistic_ns)
        self._selector = Selector(system, self._roster.slots, self._runtimes, self._variants,
                                  self._guards, self._ledger)
        self._last_id = -1
        self._is_draining = False
        self._held_until_ns = NEVER

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs for a client; held credits do not count."""
        return all(request.state is State.ABANDONED for request in self._roster.requests.values())

    @property
    def running_ids(self) -> tuple[int, ...]:
        """The requests that hold a credit, those of clients that gave up included."""
        return tuple(claim.request.request_id for claim in self._roster.slots)

    def snapshot(self, *, now_ns: int) -> SystemSnapshot:
        """Describe counters and state at an instant not before the last event; no change."""
        return self._ledger.snapshot(now_ns, self._roster.slots, self._variants, self._runtimes)

    def handle(self, event: Event, *, now_ns: int) -> tuple[Action, ...]:
        """
        Take in one event at one instant and say what to do.

        :raises RefusedEvent: the event contradicts the history; the state is unchanged.
        """
        self._check(event, now_ns)
        self._roster.now_ns = now_ns
        self._time_out(before_ns=now_ns)
        self._catch_up()
        _HANDLERS[type(event)](self, event)
        self._time_out(before_ns=now_ns + 1)
        self._start_what_may()
        return self._roster.take_actions()

    def next_wakeup_ns(self) -> int | None:
        """Say when to call again with ``Woke`` if nothing happens before; ``None`` for never."""
        roster = self._roster
        slots, now_ns, soonest_ns = roster.slots, roster.now_ns, NEVER
        if slots.oldest_dispatch_ns is not None:
            soonest_ns = slots.oldest_dispatch_ns + self._system.inference_timeout_ns
        if not self._overload.is_quiet or self._guards.is_any_alive(now_ns):
            soonest_ns = min(soonest_ns, self._overload.next_grid_ns)
        if roster.has_waiting:
            soonest_ns = min(soonest_ns, self._held_until_ns, slots.opens_at_ns)
            useless_ns = roster.next_useless_ns
            if useless_ns < NEVER and (self._sweep.is_watching_all or slots.has_credit):
                soonest_ns = min(soonest_ns, slots.too_late_from_ns(useless_ns))
        return max(now_ns, soonest_ns) if soonest_ns < NEVER else None

    def _check(self, event: Event, now_ns: int) -> None:
        if type(event) not in _HANDLERS:
            raise RefusedEvent(f'{event!r} is no event')
        if now_ns < self._roster.now_ns:
            raise RefusedEvent(
                f'{now_ns} ns lies before the last event at {self._roster.now_ns} ns')
        if isinstance(event, RequestArrived):
            check_arrival(event, now_ns=now_ns, last_id=self._last_id,
                          models=self._system.models,
                          model_of_stream=self._ledger.model_of(event.stream))
        else:
            check_report(event, self._roster.requests)
            if isinstance(event, ExecutionInherited):
                inherited_variant(event, last_id=self._last_id, models=self._system.models,
                                  requests=self._roster.requests)
            if (isinstance(event, ProfileDoubted)
                    and not self._runtimes.knows(event.backend_model)):
                raise RefusedEvent(f'{event.backend_model!r} is the model of no variant')

    # ---- time ----

    def _catch_up(self) -> None:
        while self._overload.next_grid_ns <= self._roster.now_ns:
            grid_ns = self._overload.next_grid_ns
            self._ledger.settle(grid_ns)
            self._runtimes.forget_before(grid_ns - HORIZON_NS)
            self._roster.actions += self._overload.judge(
                may_climb=self._guards.is_any_alive(grid_ns))
            if self._overload.is_quiet and not self._guards.is_any_alive(grid_ns):
                self._overload.skip_to(self._roster.now_ns)
        self._ledger.settle(self._roster.now_ns)
        self._runtimes.look(self._roster.now_ns)

    def _time_out(self, before_ns: int) -> None:
        limit_ns = before_ns - self._system.inference_timeout_ns
        oldest_ns = self._roster.slots.oldest_dispatch_ns
        if oldest_ns is None or oldest_ns >= limit_ns:
            return
        late = [claim.request for claim in self._roster.slots if not claim.is_quarantined
                and claim.request.dispatched_at_ns is not None
                and claim.request.dispatched_at_ns < limit_ns]
        for request in late:
            self._roster.give_up(
                request, Reason.BACKEND_TIMEOUT,
                f'no answer within {text_ms(self._system.inference_timeout_ns)}; '
                'its slot stays taken until an end is proven')

    # ---- events ----

    def _on_arrived(self, event: RequestArrived) -> None:
        model = self._system.models[event.model]
        self._last_id = event.request_id
        request = Request(
            request_id=event.request_id, model=model, stream=event.stream, key=event.key,
            generation_ns=event.generation_ns, arrived_at_ns=self._roster.now_ns,
            sequence=event.request_id, payload_bytes=event.payload_bytes,
            deadline_at_ns=event.generation_ns + model.contract.deadline_ns,
            useless_from_ns=freshness.useless_from_ns(model, event.generation_ns,
                                                      self._optimistic_ns[model.name]))
        account = self._ledger.open(event.stream, model, self._roster.now_ns)
        queue = self._roster.queues[model.name]
        if event.stamp is not Stamp.INVALID and account.is_guarded:
            account.forecast = self._guards.note(request, queue.supersession_key(request.key))
            account.alive_until_ns = account.forecast.alive_until_ns
        refused = refusal(
            event, model, overload=self._overload.state, is_draining=self._is_draining,
            has_variant=bool(self._variants[model.name].variants),
            bytes_before=self._roster.inflight_bytes - queue.replaced_bytes(request.key),
            bytes_allowed=self._system.max_inflight_bytes)
        self._roster.accept(request)
        if refused is not None:
            self._roster.drop(request, *refused)
        else:
            self._roster.enqueue(request)

    def _on_completed(self, event: BackendCompleted) -> None:
        request = self._roster.requests[event.request_id]
        if request.state is State.ABANDONED:
            self._ledger.late_answers += 1
            self._ledger.stale_compute_ns += self._roster.backend_ns(request)
            self._roster.release(request, Trigger.ANSWERED)
            return
        claim = self._roster.slots.end(request.request_id, now_ns=self._roster.now_ns)
        assert request.variant is not None
        self._runtimes.observe(request.variant, max(0, self._roster.now_ns - claim.begins_at_ns),
                               claim.neighbours, self._roster.now_ns, claim.planned_ns)
        age_ns = self._roster.now_ns - request.generation_ns
        max_age_ns = request.model.contract.max_age_ns
        if max_age_ns is not None and age_ns > max_age_ns:
            self._ledger.stale_compute_ns += self._roster.backend_ns(request)
            self._roster.end(
                request, Reason.OBSOLETE,
                f'{text_ms(age_ns)} old at delivery, {text_ms(age_ns - max_age_ns)} '
                'beyond max_age')
            return
        late_ns = self._roster.now_ns - request.deadline_at_ns
        self._roster.end(
            request, Reason.COMPLETED,
            f'deadline missed by {text_ms(late_ns)}' if late_ns > 0
            else f'{text_ms(-late_ns)} before its deadline')

    def _on_failed(self, event: BackendFailed) -> None:
        request = self._roster.requests[event.request_id]
        if not event.is_over:
            if request.state is State.RUNNING:
                self._roster.give_up(request, Reason.BACKEND_FAILED, event.detail)
            return
        self._on_over(request, Reason.BACKEND_FAILED, event.detail, is_answered=True)

    def _on_dispatch_refused(self, event: DispatchRefused) -> None:
        self._on_over(self._roster.requests[event.request_id], event.reason, event.detail,
                      is_answered=False)

    def _on_over(self, request: Request, reason: Reason, detail: str, *,
                 is_answered: bool) -> None:
        if request.state is State.ABANDONED:
            self._roster.release(request, Trigger.ANSWERED)
            return
        self._roster.slots.end(request.request_id, now_ns=self._roster.now_ns)
        self._roster.end(request, reason, detail, is_answered=is_answered)

    def _on_cancelled(self, event: CancelRequested) -> None:
        request = self._roster.requests.get(event.request_id)
        if request is not None and request.state is State.WAITING:
            self._roster.remove(request, Reason.CANCELLED, event.detail)

    def _on_proven_over(self, event: ExecutionsProvenOver) -> None:
        for request_id in event.request_ids:
            self._roster.release(self._roster.requests[request_id], Trigger.PROVEN_OVER)

    def _on_inherited(self, event: ExecutionInherited) -> None:
        variant = inherited_variant(event, last_id=self._last_id, models=self._system.models,
                                    requests=self._roster.requests)
        self._last_id = event.request_id
        now_ns = self._roster.now_ns
        self._roster.inherit(Request(
            event.request_id, self._system.models[event.model], stream='', key='',
            generation_ns=now_ns, arrived_at_ns=now_ns, sequence=0, payload_bytes=0,
            deadline_at_ns=now_ns, state=State.ABANDONED, variant=variant,
            dispatched_at_ns=now_ns))

    def _on_doubted(self, event: ProfileDoubted) -> None:
        self._runtimes.doubt(event.backend_model, self._roster.now_ns)

    def _on_time_jumped(self, event: TimeJumped) -> None:
        for request in self._roster.waiting():
            self._roster.remove(request, Reason.CANCELLED, event.detail)
        for queue in self._roster.queues.values():
            queue.forget_dispatched()
        self._guards.forget()
        self._ledger.expect_nothing()

    def _on_drain_started(self, event: DrainStarted) -> None:
        self._is_draining = True

    def _on_drain_expired(self, event: DrainExpired) -> None:
        self._is_draining = True
        for request in list(self._roster.requests.values()):
            if request.state is State.WAITING:
                self._roster.remove(request, Reason.CANCELLED, event.detail)
            elif request.state is State.RUNNING:
                self._roster.give_up(request, Reason.CANCELLED, event.detail)

    def _on_woke(self, event: Woke) -> None:
        """Look again; ``handle`` does."""

    # ---- decisions ----

    def _start_what_may(self) -> None:
        roster, slots = self._roster, self._roster.slots
        is_idling = False
        self._held_until_ns = NEVER
        slots.look(roster.now_ns)
        self._sweep.run()
        while roster.has_waiting and slots.has_credit:
            found = self._selector.select(
                order.ranked(roster.heads(), self._ledger.is_next_miss_fatal
                             if self._system.is_miss_aware else None),
                now_ns=roster.now_ns, overload=self._overload.state,
                is_guarding=not self._is_draining)
            for held in found.held:
                self._defer(held)
            if found.start is None or found.choice is None:
                is_idling = self._hold(found.held)
                break
            roster.start(found.start, found.choice)
            self._variants[found.start.model.name].commit(found.choice, roster.now_ns)
            self._sweep.run()
        self._ledger.idle.set(slots.total - slots.busy if is_idling else 0, roster.now_ns)

    def _hold(self, held: Iterable[Held]) -> bool:
        """Note when to look again at what is held; says whether slots idle for it on purpose."""
        is_idling = False
        for each in held:
            if each.recheck_ns is not None:
                self._held_until_ns = min(self._held_until_ns, each.recheck_ns)
            for hold in (each.veto, each.wait):
                if hold is not None:
                    is_idling = True
                    self._held_until_ns = min(self._held_until_ns, hold.until_ns)
        return is_idling

    def _defer(self, held: Held) -> None:
        """Say each kind of hold once per request (adr/0004)."""
        request, veto, wait, now_ns = held.request, held.veto, held.wait, self._roster.now_ns
        if veto is not None and held.choice is not None and not request.is_deferred:
            request.is_deferred = True
            self._ledger.of(request).deferred += 1
            self._roster.actions.append(Defer(
                request.request_id, veto.until_ns, veto.victim.stream,
                veto.sentence(now_ns, held.choice.planned_ns,
                              self._roster.slots.overlap_ns)))
        elif wait is not None and not request.is_waiting_for_fresher:
            request.is_waiting_for_fresher = True
            self._roster.actions.append(Defer(
                request.request_id, wait.until_ns, request.stream, wait.sentence(now_ns)))


_HANDLERS: dict[type, Callable[[Scheduler, Any], None]] = {
    RequestArrived: Scheduler._on_arrived,
    BackendCompleted: Scheduler._on_completed,
    BackendFailed: Scheduler._on_failed,
    DispatchRefused: Scheduler._on_dispatch_refused,
    CancelRequested: Scheduler._on_cancelled,
    ExecutionsProvenOver: Scheduler._on_proven_over,
    ExecutionInherited: Scheduler._on_inherited,
    ProfileDoubted: Scheduler._on_doubted,
    TimeJumped: Scheduler._on_time_jumped,
    DrainStarted: Scheduler._on_drain_started,
    DrainExpired: Scheduler._on_drain_expired,
    Woke: Scheduler._on_woke,
}
