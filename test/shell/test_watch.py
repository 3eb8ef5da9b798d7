"""The watch of the server, against a fake server that fails as it is told."""

import threading

from holder import Holder
import pytest
from vig_core.reconcile import Ending
from vig_governor import watch
from vig_governor.backend.base import Answered, BackendUnavailable, ModelSignature, TensorSpec
from vig_governor.backend.calls import ModelCounts
from vig_governor.backend.tally import Tally
from waiting import wait_until

IMAGE = TensorSpec('IMAGE', 'UINT8', (-1, -1, 3))
SCORE = TensorSpec('SCORE', 'FP32', (1,))


def signature(*outputs):
    return ModelSignature('m', (IMAGE,), outputs or (SCORE,))


class FakeServer:
    """One model ``m``; every attribute is what the server will say next."""

    endpoint = 'fake:1'

    def __init__(self):
        self.tally = Tally()
        self.is_up = True
        self.is_frozen = False
        self.is_loaded = True
        self.process = 'one'
        self.finished = 0
        self.found = signature()
        self.objection = ''
        self.warmed = 0
        self.asked = []

    def identity(self, *, timeout_s):
        if not self.is_up:
            raise BackendUnavailable('the server does not answer')
        return self.process

    def nobody_listens(self, *, timeout_s):
        return not self.is_up and not self.is_frozen

    def statistics(self, backend_model, *, timeout_s):
        self.asked.append(backend_model)
        if not self.is_loaded:
            raise BackendUnavailable(f'{backend_model} is not available')
        return ModelCounts(self.finished, 0, self.finished)

    def inspect(self, backend_model, *, timeout_s):
        return self.found

    def forget_the_dead(self):
        return 0

    def object_to(self, backend_model, reason):
        self.objection = reason

    def open_stream(self, stream, *, slots, transport):
        pass

    def acquire(self, stream, request_id):
        return self

    def allocate(self, name, shape, datatype):
        return self

    def fill(self, value):
        pass

    def release(self, request_id):
        pass

    def infer(self, request_id, backend_model, slot, on_end):
        self.warmed += 1
        self.tally.note_sent(backend_model, request_id)
        self.finished += 1
        self.tally.note_ended(backend_model, request_id, Ending.COUNTED)
        on_end(Answered(()))

    def restart(self, process):
        self.finished, self.process = 0, process


@pytest.fixture
def server():
    return FakeServer()


@pytest.fixture
def made(server, monkeypatch):
    monkeypatch.setattr(watch, 'LONGEST_PAUSE_S', 0.05)
    made = watch.ServerWatch(server, {'m': signature()})
    made._backoff = watch.Backoff(0.01, 0.05)
    made.start()
    assert made.wait_until_warm(5.0)
    yield made
    made.close()


def test_every_model_is_warmed_up_once_before_anything_else(server, made):
    assert server.warmed == 1 and server.tally.is_counting('m')


def test_a_claim_whose_connection_broke_ends_when_the_counter_has_seen_it(server, made):
    holder = Holder(5)
    made.attach(holder)
    server.tally.note_sent('m', 5)
    server.tally.note_ended('m', 5, Ending.BROKEN)
    with pytest.raises(AssertionError):
        wait_until(lambda: not holder.held, 0.3)
    server.finished += 1
    wait_until(lambda: not holder.held)
    assert made.state.reconciled == 1 and server.warmed == 1


def test_a_restarted_server_frees_the_claim_only_after_it_has_executed_something(server, made):
    holder = Holder(5)
    made.attach(holder)
    server.tally.note_sent('m', 5)
    server.is_up = False
    server.tally.note_ended('m', 5, Ending.BROKEN)
    wait_until(lambda: made.state.silent_since_s is not None)
    assert holder.held
    server.restart('two')
    server.is_up = True
    wait_until(lambda: not holder.held)
    assert server.warmed == 2 and made.state.restarts == 1
    assert made.state.silent_since_s is None


def test_a_server_that_is_replaced_during_the_first_warm_up_is_seen_to_be_another_for_all_models(
        monkeypatch):
    server, holder, answer = FakeServer(), Holder(5), threading.Event()
    serve = server.infer

    def serve_late(request_id, backend_model, slot, on_end):
        if backend_model == 'a':
            assert answer.wait(10.0)
        serve(request_id, backend_model, slot, on_end)

    monkeypatch.setattr(server, 'infer', serve_late)
    made = watch.ServerWatch(server, {'a': signature(), 'm': signature()})
    made._backoff = watch.Backoff(0.01, 0.05)
    made.attach(holder)
    made.start()
    try:
        wait_until(lambda: server.asked == ['a', 'm'])
        server.tally.note_sent('m', 5)
        server.tally.note_ended('m', 5, Ending.BROKEN)
        server.is_up = server.is_loaded = False
        answer.set()
        wait_until(lambda: made.state.silent_since_s is not None)
        server.restart('two')
        server.is_up = server.is_loaded = True
        wait_until(lambda: not holder.held)
    finally:
        answer.set()
        made.close()


def test_a_server_that_was_not_seen_away_frees_nothing_that_broke(server, made):
    holder = Holder(5)
    made.attach(holder)
    server.tally.note_sent('m', 5)
    server.is_frozen, server.is_up = True, False
    server.tally.note_ended('m', 5, Ending.BROKEN)
    wait_until(lambda: made.state.silent_since_s is not None)
    server.restart('two')
    server.is_up = True
    wait_until(lambda: made.state.restarts == 1 and server.warmed == 2)
    with pytest.raises(AssertionError):
        wait_until(lambda: not holder.held, 0.3)


def test_a_model_that_is_away_is_named_until_it_is_back(server, made):
    server.is_loaded = False
    made.poke()
    wait_until(lambda: 'm is not available' in made.state.away.get('m', ''))
    server.is_loaded = True
    wait_until(lambda: not made.state.away)


def test_a_model_with_another_signature_gets_no_frame_until_it_is_what_it_was(server, made):
    server.found = signature(TensorSpec('SCORE', 'FP32', (2,)))
    server.restart('two')
    made.poke()
    wait_until(lambda: made.state.changed)
    assert 'outputs were SCORE FP32 [1]' in server.objection
    assert 'SCORE FP32 [2] now' in server.objection
    server.found = signature()
    wait_until(lambda: not made.state.changed)
    assert server.objection == ''


def test_somebody_elses_executions_are_counted_and_end_nothing(server, made):
    holder = Holder()
    made.attach(holder)
    server.finished += 4
    made.poke()
    wait_until(lambda: made.state.foreign == {'m': 4})
    holder.held = {5}
    server.tally.note_sent('m', 5)
    server.finished += 1
    server.tally.note_ended('m', 5, Ending.BROKEN)
    with pytest.raises(AssertionError):
        wait_until(lambda: not holder.held, 0.3)


def test_the_watch_survives_a_bug_and_goes_on(server, made, monkeypatch):
    def explode(*_, **__):
        raise ZeroDivisionError
    monkeypatch.setattr(server, 'statistics', explode)
    made.poke()
    monkeypatch.undo()
    server.finished += 1
    made.poke()
    wait_until(lambda: made.state.foreign)


def test_pauses_double_up_to_a_limit_with_some_chance_in_them():
    backoff = watch.Backoff(1.0, 4.0)
    pauses = [backoff.take() for _ in range(50)]
    for pause, middle in zip(pauses, (1.0, 2.0, *[4.0] * 48)):
        assert 0.75 * middle <= pause <= 1.25 * middle
    assert len(set(pauses)) > 40
    backoff.reset()
    assert backoff.take() <= 1.25


def test_whoever_asks_is_told_of_each_model_that_begins_anew(server, made):
    anew = []
    made.on_anew = anew.append
    server.restart('another process')
    made.poke()
    wait_until(lambda: anew == ['m'])


def test_whoever_counts_on_what_a_model_has_read_is_told_when_it_begins_anew(server, made):
    told = []
    made.on_forgotten = lambda model: told.append((model, server.warmed))
    server.restart('another process')
    made.poke()
    wait_until(lambda: len(told) == 3)
    assert told == [('m', 1), ('m', 1), ('m', 2)], 'before the warm-up and after it'


def test_what_somebody_else_lets_a_model_read_takes_the_place_of_our_texts(server, made):
    told = []
    made.on_forgotten = told.append
    for calls in (1, 2):
        server.finished += 1
        made.poke()
        wait_until(lambda: made.state.foreign == {'m': calls})
    wait_until(lambda: told == ['m', 'm'])


def test_a_model_that_was_away_is_warmed_up_and_that_is_told_too(server, made):
    told = []
    server.is_loaded = False
    made.poke()
    wait_until(lambda: made.state.away)
    made.on_forgotten = told.append
    server.is_loaded = True
    wait_until(lambda: told == ['m', 'm'])
    assert not made.state.restarts
