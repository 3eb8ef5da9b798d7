"""Stage A: what waits, what a newer capture replaces, what a full queue ends."""

from making import request
import pytest
from vig_core import queue as stage_a
from vig_core.queue import WaitingQueue
from vig_core.request import Reason
from vig_core.units import ms
from vig_core.why import Overtaken, Replaced
from virtual_server import model


def ids(requests):
    """Numbers of requests, in order."""
    return [each.request_id for each in requests]


@pytest.mark.parametrize('captured, stays, goes', [(11, 2, 1), (10, 2, 1), (9.999999, 1, 2)])
def test_of_two_captures_the_newer_stays_and_of_equal_ones_the_later_arrival(
        captured, stays, goes):
    queue = WaitingQueue(model('m'))
    assert queue.offer(request(1, queue.model, 10)) == ()
    ended, = queue.offer(request(2, queue.model, captured, arrived=12))
    assert (ended.request.request_id, ended.reason) == (goes, Reason.SUPERSEDED)
    assert ids(queue) == [stays]


def test_what_ends_for_it_names_the_other_and_by_how_much_it_is_older():
    queue = WaitingQueue(model('m'))
    queue.offer(request(1, queue.model, 10))
    older, = queue.offer(request(2, queue.model, 7.5, arrived=12))
    assert older.because == Overtaken(1, ms(2.5), has_started=False)
    replaced, = queue.offer(request(3, queue.model, 14))
    assert replaced.because == Replaced(3, ms(4))


@pytest.mark.parametrize('captured, is_refused', [(10, True), (9, True), (10.000001, False)])
def test_a_capture_not_newer_than_the_newest_dispatched_never_waits(captured, is_refused):
    queue = WaitingQueue(model('m'))
    first = request(1, queue.model, 10)
    queue.offer(first)
    queue.remove(first)
    queue.note_dispatched(first)
    ended = queue.offer(request(2, queue.model, captured, arrived=20))
    assert bool(ended) is is_refused
    assert len(queue) == (0 if is_refused else 1)


def test_the_newest_dispatched_is_not_forgotten_when_an_older_one_starts():
    queue = WaitingQueue(model('m'))
    for number, captured in ((1, 10), (2, 5)):
        queue.note_dispatched(request(number, queue.model, captured))
    ended, = queue.offer(request(3, queue.model, 8, arrived=20))
    assert ended.reason is Reason.SUPERSEDED


def test_forgetting_lets_an_old_capture_wait_again():
    queue = WaitingQueue(model('m'))
    queue.note_dispatched(request(1, queue.model, 10))
    queue.forget_dispatched()
    assert queue.offer(request(2, queue.model, 5, arrived=20)) == ()


def test_keys_are_remembered_apart_and_their_number_is_bounded(monkeypatch):
    monkeypatch.setattr(stage_a, 'MAX_REMEMBERED_KEYS', 3)
    queue = WaitingQueue(model('m', 'latest_per_key', capacity=9))
    for number, key in enumerate('abcd'):
        queue.note_dispatched(request(number, queue.model, 10 + number, key=key))
    assert queue.offer(request(5, queue.model, 13, arrived=20, key='d'))
    assert queue.offer(request(6, queue.model, 12, arrived=20, key='c'))
    assert queue.offer(request(7, queue.model, 10, arrived=20, key='a')) == ()


def test_a_key_that_was_never_served_goes_before_one_that_was():
    queue = WaitingQueue(model('m', 'latest_per_key', capacity=9))
    queue.note_dispatched(request(1, queue.model, 1, key='a'))
    queue.offer(request(2, queue.model, 2, key='a'))
    queue.offer(request(3, queue.model, 3, key='b'))
    assert queue.head.request_id == 3
    queue.offer(request(4, queue.model, 2.5, arrived=4, key='c'))
    assert queue.head.request_id == 4


@pytest.mark.parametrize('policy', ['fifo', 'never_drop'])
def test_a_line_has_one_head_and_keeps_its_order(policy):
    queue = WaitingQueue(model('m', policy, capacity=3))
    for number, captured in ((1, 10), (2, 5), (3, 20)):
        assert queue.offer(request(number, queue.model, captured, arrived=30)) == ()
    assert queue.head.request_id == 1
    assert ids(queue) == [1, 2, 3]
    queue.remove(queue.head)
    assert queue.head.request_id == 2


def test_an_empty_queue_has_no_head():
    for policy in ('latest', 'latest_per_key', 'fifo', 'never_drop'):
        assert WaitingQueue(model('m', policy)).head is None


@pytest.mark.parametrize('policy, overflow, criticality, loser', [
    ('fifo', 'reject_new', 'normal', 3), ('fifo', 'backpressure_client', 'normal', 3),
    ('fifo', 'reject_oldest_non_protected', 'high', 1),
    ('fifo', 'reject_oldest_non_protected', 'protected', 3),
    ('never_drop', 'reject_oldest_non_protected', 'normal', 3),
    ('latest_per_key', 'reject_new', 'normal', 3),
    ('latest_per_key', 'reject_oldest_non_protected', 'normal', 1)])
def test_a_full_queue_ends_one_request_with_capacity(policy, overflow, criticality, loser):
    queue = WaitingQueue(model('m', policy, capacity=2, overflow=overflow,
                               criticality=criticality))
    for number in (1, 2):
        queue.offer(request(number, queue.model, number, key=str(number)))
    ended, = queue.offer(request(3, queue.model, 3, key='3'))
    assert (ended.request.request_id, ended.reason) == (loser, Reason.CAPACITY)
    assert len(queue) == 2
    assert loser not in ids(queue)


def test_superseding_in_a_full_queue_needs_no_room():
    queue = WaitingQueue(model('m', 'latest_per_key', capacity=2))
    for number in (1, 2):
        queue.offer(request(number, queue.model, number, key=str(number)))
    ended, = queue.offer(request(3, queue.model, 3, key='1'))
    assert ended.reason is Reason.SUPERSEDED
    assert sorted(ids(queue)) == [2, 3]
