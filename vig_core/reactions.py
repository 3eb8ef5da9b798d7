"""
What each event changes, before anything new may start.

Rules:

- An event is checked, then applied; a refused one leaves no trace.
- An answer, an error and a refused dispatch give the credit back; a request whose client gave up
  only frees what it held.
"""

from collections.abc import Callable, Mapping
from typing import Any

from vig_core import freshness
from vig_core.admission import check_event, inherited_variant, refusal
from vig_core.boundary import Boundaries
from vig_core.cooperative import Job
from vig_core.errors import RefusedEvent
from vig_core.estimate import RuntimeBook
from vig_core.events import (BackendCompleted, BackendFailed, CancelRequested, CyclesInherited,
                             DispatchRefused, DrainExpired, DrainStarted, Event,
                             ExecutionInherited, ExecutionsProvenOver, ProfileDoubted,
                             QuantumCompleted, RequestArrived, Stamp, TextsForgotten,
                             TimeJumped, Woke)
from vig_core.guards import Guards
from vig_core.ledger import Ledger
from vig_core.model import System
from vig_core.overload import OverloadController
from vig_core.request import Reason, Request, State, Trigger
from vig_core.roster import Roster
from vig_core.variants import VariantSelector


class Reactions:
    """
    The way in: events are checked here and change the scheduler's parts.

    :ivar is_draining: nothing new is taken in any more.
    """

    def __init__(self, system: System, roster: Roster, ledger: Ledger, runtimes: RuntimeBook,
                 guards: Guards, overload: OverloadController,
                 variants: Mapping[str, VariantSelector],
                 optimistic_ns: Mapping[str, int]) -> None:
        """Change these parts, which the scheduler owns."""
        self._system = system
        self._roster = roster
        self._ledger = ledger
        self._runtimes = runtimes
        self._guards = guards
        self._overload = overload
        self._variants = variants
        self._optimistic_ns = optimistic_ns
        self._boundaries = Boundaries(roster, ledger, runtimes, overload)
        self._last_id = -1
        self.is_draining = False

    def check(self, event: Event, now_ns: int) -> None:
        """
        Refuse an event that contradicts the history; changes nothing.

        :raises RefusedEvent: it does.
        """
        if type(event) not in _HANDLERS:
            raise RefusedEvent(f'{event!r} is no event')
        if now_ns < self._roster.now_ns:
            raise RefusedEvent(
                f'{now_ns} ns lies before the last event at {self._roster.now_ns} ns')
        check_event(event, now_ns=now_ns, last_id=self._last_id, models=self._system.models,
                    ledger=self._ledger, requests=self._roster.requests, runtimes=self._runtimes)

    def apply(self, event: Event) -> None:
        """Take in an event that was checked, at the roster's present instant."""
        _HANDLERS[type(event)](self, event)

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
        if model.cooperative is not None:
            request.job = Job(event.prompt_tokens, model.cooperative.bound(event.max_tokens))
        account = self._ledger.open(event.stream, model, self._roster.now_ns)
        queue = self._roster.queues[model.name]
        if event.stamp is not Stamp.INVALID and account.is_guarded:
            account.forecast = self._guards.note(request, queue.supersession_key(request.key))
            account.alive_until_ns = account.forecast.alive_until_ns
        refused = refusal(
            event, model, overload=self._overload, is_draining=self.is_draining,
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
            self._on_late_answer(request)
            return
        claim = self._roster.slots.end(request.request_id, now_ns=self._roster.now_ns)
        assert request.variant is not None
        self._runtimes.observe(request.variant, max(0, self._roster.now_ns - claim.begins_at_ns),
                               claim.neighbours, self._roster.now_ns, claim.planned_ns,
                               apart_ns=claim.apart_ns(self._roster.now_ns))
        self._roster.deliver(request, claim)

    def _on_quantum_completed(self, event: QuantumCompleted) -> None:
        request = self._roster.requests[event.request_id]
        if request.state is State.ABANDONED:
            self._on_late_answer(request)
        else:
            self._boundaries.reach(request, event)

    def _on_late_answer(self, request: Request) -> None:
        self._ledger.late_answers += 1
        self._ledger.stale_compute_ns += self._roster.run_ns(request)
        self._roster.release(request, Trigger.ANSWERED)

    def _on_failed(self, event: BackendFailed) -> None:
        request = self._roster.requests[event.request_id]
        if not event.is_over:
            self._roster.texts.forget_all()
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
        if request is None:
            return
        if request.state is State.WAITING:
            self._roster.remove(request, Reason.CANCELLED, event.detail)
        elif request.job is not None and request.job.withdrawn is None:
            request.job.withdrawn = event.detail

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

    def _on_cycles_inherited(self, event: CyclesInherited) -> None:
        self._ledger.inherit(event, self._roster.now_ns)

    def _on_doubted(self, event: ProfileDoubted) -> None:
        self._runtimes.doubt(event.backend_model, self._roster.now_ns)

    def _on_texts_forgotten(self, event: TextsForgotten) -> None:
        self._roster.texts.forget(event.backend_model)

    def _on_time_jumped(self, event: TimeJumped) -> None:
        for request in self._roster.waiting():
            self._roster.remove(request, Reason.CANCELLED, event.detail)
        for request in self._roster.requests.values():
            if request.job is not None and request.job.withdrawn is None:
                request.job.withdrawn = event.detail
        for queue in self._roster.queues.values():
            queue.forget_dispatched()
        self._guards.forget()
        self._ledger.expect_nothing()

    def _on_drain_started(self, event: DrainStarted) -> None:
        self.is_draining = True

    def _on_drain_expired(self, event: DrainExpired) -> None:
        self.is_draining = True
        for request in list(self._roster.requests.values()):
            if request.state is State.WAITING:
                self._roster.remove(request, Reason.CANCELLED, event.detail)
            elif request.state is State.RUNNING:
                self._roster.give_up(request, Reason.CANCELLED, event.detail)

    def _on_woke(self, event: Woke) -> None:
        """Look again; ``handle`` does."""


_HANDLERS: dict[type, Callable[[Reactions, Any], None]] = {
    RequestArrived: Reactions._on_arrived,
    BackendCompleted: Reactions._on_completed,
    QuantumCompleted: Reactions._on_quantum_completed,
    BackendFailed: Reactions._on_failed,
    DispatchRefused: Reactions._on_dispatch_refused,
    CancelRequested: Reactions._on_cancelled,
    ExecutionsProvenOver: Reactions._on_proven_over,
    ExecutionInherited: Reactions._on_inherited,
    CyclesInherited: Reactions._on_cycles_inherited,
    ProfileDoubted: Reactions._on_doubted,
    TextsForgotten: Reactions._on_texts_forgotten,
    TimeJumped: Reactions._on_time_jumped,
    DrainStarted: Reactions._on_drain_started,
    DrainExpired: Reactions._on_drain_expired,
    Woke: Reactions._on_woke,
}
