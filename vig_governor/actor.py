"""
The actor: one thread that owns the scheduler, feeds it events and carries out its actions.

Rules. Nobody else touches the scheduler. The thread never waits for anything but its own
inbox on the steady clock: it hands dispatches to the dispatcher's threads and results to
the sink. Every accepted request is ended towards the sink exactly once, also when the
scheduler, the encoder or the sink itself raises. Knows nothing of ROS.
"""

from collections.abc import Callable
from concurrent.futures import Future
import logging
from queue import Empty, SimpleQueue
import threading
from typing import Any, TypeVar

from vig_core.actions import Action, Dispatch, ReleaseInput, ReportOverload, Terminate
from vig_core.errors import RefusedEvent
from vig_core.events import (BackendCompleted, BackendFailed, CancelRequested, DispatchRefused,
                             DrainExpired, DrainStarted, Event, ExecutionInherited,
                             ExecutionsProvenOver, QuantumCompleted, RequestArrived, Woke)
from vig_core.request import Reason
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.backend.base import OutputTensor
from vig_governor.held import ended_by_hand, HeldInputs, Sent
from vig_governor.ports import ActorStopped, Clock, Payload, Scheduling, Sending, Sink
from vig_governor.threads import NamedThread
from vig_governor.timing import Timings

_log = logging.getLogger(__name__)
_T = TypeVar('_T')
_PAUSE_AFTER_FAILURE_NS = 100 * NS_PER_MS
_SHORTEST_SLEEP_NS = NS_PER_MS
_ANSWERS = (BackendCompleted, BackendFailed, DispatchRefused, QuantumCompleted)


class Actor:
    """
    Feeds one scheduler for the time between activation and deactivation.

    :param scheduler: owned by the actor's thread from ``start`` to ``stop``.
    :param sending: takes dispatches; its completions come back through ``post``.
    :param on_unproven: called when a request ended whose execution nobody saw end; never waits.
    :ivar decision_ns: how long ``handle`` takes.
    :ivar wakeup_lateness_ns: from the instant that the scheduler asked for to its ``Woke``.
    :ivar receipt_to_decision_ns: from the receipt of a message to the end of its decision.
    :ivar completion_to_dispatch_ns: from an answer in hand to the next request handed to a sender,
        where one was waiting for it.
    """

    def __init__(self, scheduler: Scheduling, *, clock: Clock, sending: Sending,
                 sink: Sink, on_unproven: Callable[[], object] = lambda: None) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._sending = sending
        self._sink = sink
        self._lock = threading.Lock()
        self._inbox: SimpleQueue[tuple[Any, Any, int]] = SimpleQueue()
        self._rested = threading.Condition()
        self._open: dict[int, Payload] = {}
        self._held = HeldInputs(sending, on_unproven)
        self._now_ns = 0
        self._woke_at_ns = 0
        self._quiet_until_ns = 0
        self._is_rest_awaited = False
        self._is_accepting = True
        self._must_end = False
        self.decision_ns = Timings()
        self.wakeup_lateness_ns = Timings()
        self.receipt_to_decision_ns = Timings()
        self.completion_to_dispatch_ns = Timings()
        self._thread = NamedThread(self._run, 'vig-actor')

    def start(self) -> None:
        """Begin to take events."""
        self._thread.start()

    def post(self, event: Event, payload: Any = None) -> None:
        """
        Hand over one fact, from any thread, without waiting; a late answer frees its memory.

        :param payload: a :class:`Payload` with ``RequestArrived``, the output tensors with
            ``BackendCompleted``, the ``Quantum`` with ``QuantumCompleted``.
        """
        posted_at_ns = self._clock.now_ns()
        with self._lock:
            if self._is_accepting:
                self._inbox.put((event, payload, posted_at_ns))
                return
        self._held.heard_late(event)

    def inherit(self, before: 'Actor', attribute: Callable[[Sent], Sent]) -> None:
        """Hold a slot, named by ``attribute``, for each end that ``before``, stopped, misses."""
        for request_id, sent in before._held.leave(self.post):
            counts_as = attribute(sent)
            self._held.adopt(request_id, counts_as)
            self.post(ExecutionInherited(request_id, *counts_as))

    def prove_over(self, request_ids: tuple[int, ...], detail: str) -> None:
        """Say that these executions are over, from any thread; see ``watch.Holder``."""
        self.post(ExecutionsProvenOver(request_ids, detail))

    def ask(self, question: Callable[[], _T], *, timeout_s: float = 1.0) -> _T:
        """
        Run ``question`` on the actor's thread between two events and give its answer.

        :raises ActorStopped: when the actor has ended.
        :raises TimeoutError: when no answer came in time.
        """
        if threading.current_thread() is self._thread:
            return question()
        answer: Future[_T] = Future()
        with self._lock:
            if not self._is_accepting or not self._thread.is_alive():
                raise ActorStopped('the actor is not running')
            self._inbox.put((question, answer, 0))
        return answer.result(timeout_s)

    def snapshot(self, *, timeout_s: float = 1.0) -> Any:
        """Give the scheduler's counters, computed on the actor's thread; raises as ``ask``."""
        return self.ask(lambda: self._scheduler.snapshot(now_ns=self._tick()),
                        timeout_s=timeout_s)

    def cancel(self, is_meant: Callable[[int, Payload], bool], detail: str) -> int:
        """
        Withdraw every open request for which ``is_meant(request_id, payload)`` holds.

        :returns: how many of them ended by it; raises as ``ask``.
        """
        def withdraw() -> int:
            meant = [request_id for request_id, payload in self._open.items()
                     if is_meant(request_id, payload)]
            for request_id in meant:
                self._step(CancelRequested(request_id, detail), None, self._tick())
            # A job that runs ends at its next boundary.
            return sum(request_id not in self._open or self._open[request_id].job is not None
                       for request_id in meant)
        return self.ask(withdraw)

    def drain(self, *, deadline_s: float) -> bool:
        """
        Take no new work, let what was accepted end, and stop; every request is ended then.

        :param deadline_s: how long running work may take; the rest ends ``cancelled``.
        :returns: whether everything ended by itself.
        """
        self.post(DrainStarted())
        is_clean = self._wait_until_all_ended(deadline_s)
        if not is_clean:
            self.post(DrainExpired(f'still running {deadline_s:g} s after the drain began'))
            self._wait_until_all_ended(1.0)
        self.stop()
        return is_clean

    def stop(self) -> bool:
        """End the thread; what is still open ends ``cancelled``. Says if it ended; idempotent."""
        self._must_end = True
        self._inbox.put((None, None, 0))
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=5.0)
        return not self._thread.is_alive()

    @property
    def open_requests(self) -> int:
        """How many accepted requests have not been ended yet."""
        return len(self._open)

    @property
    def unproven_executions(self) -> int:
        """How many ended requests the server may still be computing, also after ``stop``."""
        return len(self._held)

    def _wait_until_all_ended(self, timeout_s: float) -> bool:
        with self._rested:
            self._is_rest_awaited = True
            return self._rested.wait_for(
                lambda: self._inbox.empty() and not self._open or not self._thread.is_alive(),
                timeout_s)

    def _run(self) -> None:
        while not self._is_over():
            item, payload, posted_at_ns = self._next_item()
            if item is None:
                continue
            if isinstance(payload, Future):
                self._answer(item, payload)
            else:
                self._step(item, payload, posted_at_ns)
            if isinstance(item, Woke):
                self._woke_at_ns = self._now_ns
            del item, payload
        for request_id in list(self._open):
            self._end_by_hand(request_id, Reason.CANCELLED, 'the governor stopped')
        with self._rested:
            self._rested.notify_all()

    def _is_over(self) -> bool:
        """End only with an empty inbox, and let nothing in afterwards."""
        if not self._must_end:
            return False
        with self._lock:
            self._is_accepting = not self._inbox.empty()
            return not self._is_accepting

    def _next_item(self) -> tuple[Any, Any, int]:
        """Give what was posted, or ``Woke`` at the instant that the scheduler named."""
        if self._inbox.empty():
            asked_ns = self._next_wakeup_ns()
            if self._is_rest_awaited:
                with self._rested:
                    self._rested.notify_all()
            while asked_ns is not None:
                now_ns = self._clock.now_ns()
                left_ns = max(asked_ns, self._quiet_until_ns) - now_ns
                if left_ns <= 0 and self._inbox.empty():
                    self.wakeup_lateness_ns.add(now_ns - asked_ns)
                    return Woke(), None, now_ns
                try:
                    return self._inbox.get(timeout=max(left_ns, 0) / NS_PER_S)
                except Empty:
                    continue
        return self._inbox.get()

    def _next_wakeup_ns(self) -> int | None:
        try:
            asked_ns = self._scheduler.next_wakeup_ns()
            if asked_ns is not None and asked_ns <= self._woke_at_ns:
                # To be woken for the same instant again and again gets no busy loop.
                self._quiet_until_ns = max(self._quiet_until_ns,
                                           self._woke_at_ns + _SHORTEST_SLEEP_NS)
            return asked_ns
        except Exception:
            _log.exception('the scheduler failed to say when to wake up')
            return self._tick() + _PAUSE_AFTER_FAILURE_NS

    def _tick(self) -> int:
        self._now_ns = max(self._now_ns, self._clock.now_ns())
        return self._now_ns

    def _answer(self, question: Callable[[], Any], answer: 'Future[Any]') -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            answer.set_result(question())
        except Exception as error:
            answer.set_exception(error)

    def _step(self, event: Event, payload: Any, posted_at_ns: int) -> None:
        if isinstance(event, RequestArrived):
            self._open[event.request_id] = payload
        elif isinstance(event, ExecutionsProvenOver):
            held = self._held.unproven(event.request_ids)
            if not held:
                return
            event = ExecutionsProvenOver(held, event.detail)
        elif isinstance(event, QuantumCompleted):
            # Before the next quantum is sent: it takes a slot anew and goes on behind this text.
            self._held.release(event.request_id)
            if event.request_id in self._open:
                self._open[event.request_id].append(payload)
        now_ns = self._tick()
        try:
            actions = self._scheduler.handle(event, now_ns=now_ns)
        except RefusedEvent as error:
            self._refused(event, error)
            return
        except Exception:
            _log.exception('the scheduler failed on %s; its request ends', event)
            self._failed(event)
            return
        finally:
            decided_at_ns = self._clock.now_ns()
            self.decision_ns.add(decided_at_ns - now_ns)
            if isinstance(event, RequestArrived):
                self.receipt_to_decision_ns.add(
                    decided_at_ns - (payload.received_at_ns or posted_at_ns))
        answered = event.request_id if isinstance(event, BackendCompleted) else None
        endings: list[Terminate] = []
        for action in actions:
            try:
                self._carry_out(action, endings)
            except Exception:
                _log.exception('could not carry out %s', action)
        if isinstance(event, _ANSWERS) and any(isinstance(each, Dispatch) for each in actions):
            self.completion_to_dispatch_ns.add(self._clock.now_ns() - posted_at_ns)
        # The server works already; now the clients are told.
        for ending in endings:
            self._end(ending, payload or () if ending.request_id == answered else ())
        if isinstance(event, QuantumCompleted) and event.request_id in self._open:
            self._sink.on_written(event.request_id, self._open[event.request_id])

    def _carry_out(self, action: Action, endings: list[Terminate]) -> None:
        if isinstance(action, Terminate):
            endings.append(action)
            if action.holds_input:
                self._held.hold(action.request_id)
            else:
                self._held.release(action.request_id)
        elif isinstance(action, ReleaseInput):
            self._held.release(action.request_id)
        elif isinstance(action, ReportOverload):
            self._sink.on_decided(action, None)
        else:
            payload = self._open.get(action.request_id)
            if isinstance(action, Dispatch):
                if payload is None:
                    self.post(DispatchRefused(action.request_id, Reason.BACKEND_FAILED,
                                              'the request was already ended'))
                    return
                self._held.note_sent(action.request_id,
                                     (action.model, action.backend_model))
                self._sending.submit(action, payload)
            self._sink.on_decided(action, payload)

    def _end(self, action: Terminate, outputs: tuple[OutputTensor, ...]) -> None:
        payload = self._open.pop(action.request_id, None)
        if payload is None:
            return
        try:
            self._sink.on_terminated(action, payload, outputs)
        except Exception:
            _log.exception('could not report the end of request %d (%s)',
                           action.request_id, action.reason.value)

    def _end_by_hand(self, request_id: int, reason: Reason, detail: str) -> None:
        """End a request without the scheduler; what was sent may still be executed."""
        payload = self._open.get(request_id)
        if payload is None:
            return
        self._end(ended_by_hand(request_id, payload.stream, reason, detail,
                                self._held.hold_if_sent(request_id)), ())

    def _refused(self, event: Event, error: RefusedEvent) -> None:
        if isinstance(event, RequestArrived):
            _log.error('request %d of stream %s refused: %s', event.request_id, event.stream,
                       error)
            self._end_by_hand(event.request_id, Reason.CAPACITY, str(error))
        elif not isinstance(event, CancelRequested):
            # An answer or a proof for a request whose end is known, or that nobody knows.
            _log.info('%s came too late to matter: %s', event, error)
            self._held.release_if_over(event)

    def _failed(self, event: Event) -> None:
        self._quiet_until_ns = self._now_ns + _PAUSE_AFTER_FAILURE_NS
        request_id = getattr(event, 'request_id', None)
        self._held.release_if_over(event)
        if request_id is not None:
            self._end_by_hand(request_id, Reason.BACKEND_FAILED,
                              'internal error of the governor; its log has the traceback')
