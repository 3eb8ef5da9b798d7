"""What is remembered about a stream: by request, by stamp, the newest requests."""

import pytest
from vig_core.actions import Defer, Dispatch, Terminate
from vig_core.request import Reason

from vig_governor.decisions import DecisionLog, newest

STAMPS = {1: (7, 100), 2: (7, 200), 3: (7, 300)}


def end(number):
    return Terminate(number, 'front', 'm', None, Reason.SUPERSEDED, 'another came', 1, 1)


@pytest.fixture
def log():
    log = DecisionLog()
    for decision in (Dispatch(1, 'm', 'main', 'm_main', 1), Defer(2, 9, 'rear', 'rear comes'),
                     end(1), end(2), end(3)):
        log.add('front', decision, STAMPS[decision.request_id])
    return log


def test_a_stream_is_told_whole_and_oldest_first(log):
    told = log.tell('front')
    assert [text.split()[1] for text in told] == ['1', '2', '1', '2', '3']
    assert log.tell('rear') == [] and log.requests('rear') == []


def test_a_request_and_a_stamp_find_the_same_decisions(log):
    assert log.tell('front', request_id=2) == log.tell('front', stamp=(7, 200))
    assert len(log.tell('front', request_id=2)) == 2
    assert log.tell('front', request_id=2, stamp=(7, 100)) == []


def test_the_last_requests_come_with_all_their_decisions(log):
    assert [text.split()[1] for text in log.tell('front', last=2)] == ['2', '2', '3']
    assert log.tell('front', last=9) == log.tell('front')
    assert newest([], 3) == []


def test_each_sentence_carries_the_detail_of_its_decision(log):
    assert log.tell('front', request_id=2) == [
        'request 2 was held back for stream rear: rear comes',
        'request 2 ended superseded at age 0.0 ms: another came']


def test_the_oldest_are_forgotten():
    log = DecisionLog(kept=2)
    for number in (1, 2, 3):
        log.add('front', end(number), STAMPS[number])
    assert log.requests('front') == [2, 3]
    assert log.stamps('front') == [(7, 200), (7, 300)]
