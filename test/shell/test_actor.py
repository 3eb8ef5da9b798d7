"""The actor against a scripted scheduler: who owns what, who is told what, and when."""

import logging
import threading
import time
import weakref

import pytest

from vig_core.actions import Dispatch, ReleaseInput, Terminate
from vig_core.errors import RefusedEvent
from vig_core.events import (BackendCompleted, BackendFailed, CancelRequested, DispatchRefused,
                             DrainExpired, DrainStarted, ExecutionInherited,
                             ExecutionsProvenOver, RequestArrived, Woke)
from vig_core.request import Reason
from vig_core.units import NS_PER_MS
from vig_governor.actor import Actor, ActorStopped
from vig_governor.ports import Payload

from waiting import wait_until


class MonotonicClock:
    """The steady clock, an hour ahead."""

    def now_ns(self):
        return time.monotonic_ns() + 3600 * 10**9


class ScriptedScheduler:
    """Runs one request at a time, in order; each event may be given another reaction."""

    def __init__(self):
        self.events = []
        self.instants = []
        self.threads = set()
        self.reactions = {}
        self.wakeup_ns = None
        self.running = None
        self.waiting = []
        self.is_draining = False

    @property
    def is_idle(self):
        return self.running is None and not self.waiting

    def next_wakeup_ns(self):
        return self.wakeup_ns

    def snapshot(self, *, now_ns):
        return threading.current_thread().name

    def handle(self, event, *, now_ns):
        self.events.append(event)
        self.instants.append(now_ns)
        self.threads.add(threading.current_thread().name)
        reaction = self.reactions.get(type(event))
        if reaction is not None:
            return reaction(event, now_ns)
        if isinstance(event, Woke):
            self.wakeup_ns = None
            return ()
        actions = []
        if isinstance(event, RequestArrived):
            self.waiting.append(event.request_id)
        elif isinstance(event, BackendCompleted):
            self.running = None
            actions.append(end(event.request_id, Reason.COMPLETED, backend_ns=5))
        elif isinstance(event, BackendFailed | DispatchRefused):
            self.running = None
            actions.append(end(event.request_id, Reason.BACKEND_FAILED, detail=event.detail))
        elif isinstance(event, CancelRequested) and event.request_id in self.waiting:
            self.waiting.remove(event.request_id)
            actions.append(end(event.request_id, Reason.CANCELLED, detail=event.detail))
        elif isinstance(event, DrainExpired):
            left = [*self.waiting, *([self.running] if self.running is not None else [])]
            actions += [end(each, Reason.CANCELLED, holds_input=each == self.running)
                        for each in left]
            self.waiting.clear()
        if self.running is None and self.waiting:
            self.running = self.waiting.pop(0)
            actions.append(Dispatch(self.running, 'detector', 'large', 'detector_large', 10))
        return tuple(actions)


class Recorder:
    """Both neighbours of the actor: takes dispatches and endings, answers nothing."""

    def __init__(self):
        self.sent = []
        self.released = []
        self.ended = []
        self.holding = []
        self.decided = []
        self.threads = set()
        self.fault = None

    def submit(self, action, payload):
        self.sent.append((action.request_id, payload))

    def release(self, request_id):
        self.released.append(request_id)

    def on_decided(self, action, payload):
        self.decided.append((action, payload))

    def on_terminated(self, action, payload, outputs):
        self.threads.add(threading.current_thread().name)
        self.ended.append((action.request_id, action.reason, payload, outputs))
        self.holding += [action.request_id] if action.holds_input else []
        if self.fault is not None:
            raise self.fault


def end(request_id, reason, *, detail='', backend_ns=None, holds_input=False):
    return Terminate(request_id, 'front', 'detector', None, reason, detail, 1, 1,
                     backend_ns=backend_ns, holds_input=holds_input)


def arrived(request_id):
    return RequestArrived(request_id, 'detector', 'front', 'front', 3600 * 10**9)


class Stage:
    """An actor between a scripted scheduler and a recorder."""

    def __init__(self):
        self.scheduler = ScriptedScheduler()
        self.neighbour = Recorder()
        self.actor = Actor(self.scheduler, clock=MonotonicClock(), sending=self.neighbour,
                           sink=self.neighbour)

    def arrive(self, *request_ids):
        for request_id in request_ids:
            self.actor.post(arrived(request_id), Payload('front', f'message {request_id}'))

    def reasons(self):
        return [(request_id, reason.value) for request_id, reason, _, _ in self.neighbour.ended]


@pytest.fixture
def stage():
    made = Stage()
    made.actor.start()
    yield made
    made.actor.stop()


def test_a_dispatch_carries_the_message_and_the_answer_carries_the_outputs(stage):
    stage.arrive(1)
    wait_until(lambda: stage.neighbour.sent)
    stage.actor.post(BackendCompleted(1), ('boxes',))
    wait_until(lambda: stage.neighbour.ended)
    assert stage.neighbour.sent == [(1, Payload('front', 'message 1'))]
    assert stage.neighbour.ended == [
        (1, Reason.COMPLETED, Payload('front', 'message 1'), ('boxes',))]


def test_only_the_thread_of_the_actor_touches_the_scheduler(stage):
    posters = [threading.Thread(target=stage.arrive, args=range(base, base + 50))
               for base in (0, 50, 100)]
    for poster in posters:
        poster.start()
    for poster in posters:
        poster.join()
    wait_until(lambda: len(stage.scheduler.events) >= 150)
    assert stage.scheduler.threads == {'vig-actor'}
    assert stage.actor.snapshot() == 'vig-actor'
    assert stage.scheduler.instants == sorted(stage.scheduler.instants)


def test_it_wakes_by_itself_at_the_instant_that_the_scheduler_names(stage):
    target = MonotonicClock().now_ns() + 30 * NS_PER_MS
    stage.scheduler.wakeup_ns = target
    stage.arrive(1)
    wait_until(lambda: Woke() in stage.scheduler.events)
    woke_at = stage.scheduler.instants[stage.scheduler.events.index(Woke())]
    assert 0 <= woke_at - target < 200 * NS_PER_MS
    assert stage.actor.wakeup_lateness_ns.count == 1
    assert stage.scheduler.events.count(Woke()) == 1


def test_an_error_inside_the_scheduler_is_logged_ends_its_request_and_the_actor_survives(
        stage, caplog):
    def explode(event, now_ns):
        del stage.scheduler.reactions[RequestArrived]
        raise ZeroDivisionError('a bug')
    stage.scheduler.reactions[RequestArrived] = explode
    with caplog.at_level(logging.ERROR):
        stage.arrive(1, 2)
        wait_until(lambda: stage.neighbour.sent)
    assert stage.reasons() == [(1, 'backend_failed')]
    assert 'ZeroDivisionError: a bug' in caplog.text
    assert stage.neighbour.sent[0][0] == 2


def test_an_arrival_that_the_scheduler_refuses_ends_with_a_status(stage):
    def refuse(event, now_ns):
        raise RefusedEvent('no such model')
    stage.scheduler.reactions[RequestArrived] = refuse
    stage.arrive(1)
    wait_until(lambda: stage.neighbour.ended)
    assert stage.reasons() == [(1, 'capacity')]


def test_a_client_that_cannot_be_told_does_not_stop_the_others(stage, caplog):
    stage.neighbour.fault = OSError('publisher gone')
    stage.arrive(1, 2)
    wait_until(lambda: stage.neighbour.sent)
    stage.actor.post(BackendCompleted(1), ())
    wait_until(lambda: len(stage.neighbour.sent) == 2)
    assert stage.reasons() == [(1, 'completed')]
    assert 'publisher gone' in caplog.text


def test_input_memory_is_released_at_the_end_unless_the_backend_still_reads_it(stage):
    stage.scheduler.reactions[Woke] = lambda event, now: (
        end(1, Reason.BACKEND_TIMEOUT, holds_input=True),)
    stage.arrive(1)
    stage.actor.post(Woke())
    wait_until(lambda: stage.neighbour.ended)
    assert stage.neighbour.released == []
    assert stage.actor.unproven_executions == 1
    stage.scheduler.reactions[BackendCompleted] = lambda event, now: (ReleaseInput(1),)
    stage.actor.post(BackendCompleted(1), ('late',))
    wait_until(lambda: stage.neighbour.released == [1])
    assert stage.actor.unproven_executions == 0
    assert stage.reasons() == [(1, 'backend_timeout')]


def test_a_drain_waits_for_running_work_and_ends_clean(stage):
    stage.arrive(1)
    wait_until(lambda: stage.neighbour.sent)
    answer = threading.Timer(0.05, stage.actor.post, (BackendCompleted(1), ('boxes',)))
    answer.start()
    assert stage.actor.drain(deadline_s=5) is True
    assert DrainStarted() in stage.scheduler.events
    assert stage.reasons() == [(1, 'completed')]


def test_a_drain_that_takes_too_long_cancels_what_is_left(stage):
    stage.arrive(1, 2, 3)
    wait_until(lambda: stage.neighbour.sent)
    assert stage.actor.drain(deadline_s=0.05) is False
    assert sorted(stage.reasons()) == [(1, 'cancelled'), (2, 'cancelled'), (3, 'cancelled')]
    assert any(isinstance(event, DrainExpired) for event in stage.scheduler.events)


def test_stopping_without_a_drain_still_ends_every_request(stage):
    stage.arrive(1, 2)
    stage.actor.stop()
    assert sorted(stage.reasons()) == [(1, 'cancelled'), (2, 'cancelled')]
    assert stage.actor.open_requests == 0


def test_stopping_without_a_drain_holds_the_input_of_what_was_sent_and_of_nothing_else(stage):
    stage.arrive(1, 2)
    wait_until(lambda: stage.neighbour.sent)
    stage.actor.stop()
    assert stage.neighbour.holding == [1] and stage.actor.unproven_executions == 1
    stage.actor.prove_over((1, 2), 'the counter has seen it')
    assert stage.neighbour.released == [1] and stage.actor.unproven_executions == 0


def test_a_proof_reaches_the_scheduler_only_for_what_is_held(stage):
    stage.scheduler.reactions[Woke] = lambda event, now: (
        end(1, Reason.BACKEND_TIMEOUT, holds_input=True),)
    stage.arrive(1)
    stage.actor.post(Woke())
    wait_until(lambda: stage.actor.unproven_executions)
    stage.scheduler.reactions[ExecutionsProvenOver] = lambda event, now: (ReleaseInput(1),)
    stage.actor.prove_over((7, 8), 'of somebody else')
    stage.actor.prove_over((7, 1), 'seen')
    wait_until(lambda: stage.neighbour.released == [1])
    assert [event for event in stage.scheduler.events
            if isinstance(event, ExecutionsProvenOver)] == [ExecutionsProvenOver((1,), 'seen')]


def test_a_request_that_a_bug_ends_is_held_only_if_it_was_sent_and_not_answered(stage):
    def explode(event, now_ns):
        raise ZeroDivisionError('a bug')
    stage.arrive(1)
    wait_until(lambda: stage.neighbour.sent)
    stage.scheduler.reactions[BackendCompleted] = explode
    stage.scheduler.reactions[RequestArrived] = explode
    stage.actor.post(BackendCompleted(1), ())
    stage.arrive(2)
    wait_until(lambda: len(stage.neighbour.ended) == 2)
    assert stage.neighbour.holding == [] and 1 in stage.neighbour.released


def test_an_answer_after_the_end_frees_its_memory_and_an_unproven_one_does_not(stage):
    stage.actor.stop()
    stage.actor.post(BackendFailed(7, 'connection lost', is_over=False))
    stage.actor.post(BackendCompleted(8), ())
    assert stage.neighbour.released == [8]


def test_an_actor_inherits_what_the_one_before_it_has_not_seen_end(stage):
    stage.arrive(1, 2)
    wait_until(lambda: stage.neighbour.sent)
    stage.actor.stop()
    heir = Actor(stage.scheduler, clock=MonotonicClock(), sending=stage.neighbour,
                 sink=stage.neighbour)
    heir.inherit(stage.actor, lambda sent: sent)
    assert (stage.actor.unproven_executions, heir.unproven_executions) == (0, 1)
    stage.scheduler.reactions[BackendCompleted] = lambda event, now: (ReleaseInput(1),)
    heir.start()
    try:
        stage.actor.post(BackendCompleted(1), ('late',))
        wait_until(lambda: stage.neighbour.released == [1])
        assert heir.unproven_executions == 0
        assert [type(event) for event in stage.scheduler.events][-2:] == [
            ExecutionInherited, BackendCompleted]
    finally:
        heir.stop()


def test_a_question_to_a_stopped_actor_is_refused(stage):
    stage.actor.stop()
    with pytest.raises(ActorStopped):
        stage.actor.snapshot()


def test_cancelling_reports_how_many_requests_ended(stage):
    stage.arrive(1, 2, 3)
    wait_until(lambda: stage.neighbour.sent)
    ended = stage.actor.cancel(lambda request_id, payload: payload.stream == 'front', 'withdrawn')
    assert ended == 2
    assert sorted(stage.reasons()) == [(2, 'cancelled'), (3, 'cancelled')]


def test_it_keeps_no_message_of_a_request_that_ended(stage):
    class Message:
        pass
    message = Message()
    seen = weakref.ref(message)
    stage.scheduler.reactions[RequestArrived] = lambda event, now: (
        end(event.request_id, Reason.STALE),)
    stage.neighbour.on_terminated = lambda *_: None
    stage.actor.post(arrived(1), Payload('front', message))
    del message
    wait_until(lambda: seen() is None, what='the message is still referenced')


def test_a_scheduler_that_always_wants_to_wake_up_does_not_burn_the_processor(stage):
    def explode(event, now_ns):
        raise ValueError('a bug')
    stage.scheduler.reactions[Woke] = explode
    stage.scheduler.wakeup_ns = 1
    stage.arrive(1)
    wait_until(lambda: stage.scheduler.events.count(Woke()) >= 2)
    first, second = [at for event, at in zip(stage.scheduler.events, stage.scheduler.instants)
                     if event == Woke()][:2]
    assert second - first > 90 * NS_PER_MS


def test_an_instant_that_comes_right_after_a_wake_up_is_not_slept_through(stage):
    target = MonotonicClock().now_ns() + 20 * NS_PER_MS
    later = target + NS_PER_MS // 4

    def ask_for_another(event, now_ns):
        stage.scheduler.wakeup_ns = later if now_ns < later else None
        return ()
    stage.scheduler.reactions[Woke] = ask_for_another
    stage.scheduler.wakeup_ns = target
    stage.arrive(1)
    wait_until(lambda: stage.scheduler.wakeup_ns is None)
    assert stage.actor._quiet_until_ns == 0


def test_an_instant_asked_for_again_after_it_was_served_waits_a_millisecond(stage):
    target = MonotonicClock().now_ns() + 5 * NS_PER_MS
    stage.scheduler.reactions[Woke] = lambda event, now_ns: ()
    stage.scheduler.wakeup_ns = target
    stage.arrive(1)
    wait_until(lambda: stage.scheduler.events.count(Woke()) >= 5)
    woken = [at for event, at in zip(stage.scheduler.events, stage.scheduler.instants)
             if event == Woke()]
    assert min(after - before for before, after in zip(woken, woken[1:])) >= NS_PER_MS
    assert stage.actor.wakeup_lateness_ns.quantile_ns(100) >= 4 * NS_PER_MS


def test_the_time_from_receipt_to_decision_begins_at_the_receipt(stage):
    received_at_ns = MonotonicClock().now_ns() - 70 * NS_PER_MS
    stage.actor.post(arrived(1), Payload('front', 'message 1', '', received_at_ns))
    wait_until(lambda: stage.actor.receipt_to_decision_ns.count == 1)
    assert 70 * NS_PER_MS <= stage.actor.receipt_to_decision_ns.quantile_ns(50) < 10**10


def test_an_answer_that_starts_the_next_request_counts_and_a_last_one_does_not(stage):
    stage.arrive(1, 2)
    wait_until(lambda: stage.neighbour.sent)
    stage.actor.post(BackendCompleted(1), ())
    wait_until(lambda: len(stage.neighbour.sent) == 2)
    stage.actor.post(BackendCompleted(2), ())
    wait_until(lambda: stage.actor.open_requests == 0)
    assert stage.actor.completion_to_dispatch_ns.count == 1
