"""Requests and deliberate idle are reconstructed from statuses (milliseconds)."""

from vig_core.units import NS_PER_MS

from vig_governor.demo.timeline import gaps, idle_spans, Life, lives


def life(arrived, began, ended, reason='completed'):
    return Life('s', arrived * NS_PER_MS, arrived * NS_PER_MS,
                None if began is None else began * NS_PER_MS, ended * NS_PER_MS, reason)


def idle(requests, end):
    return [(first // NS_PER_MS, last // NS_PER_MS)
            for first, last in idle_spans(requests, start_ns=0, end_ns=end * NS_PER_MS)]


def test_a_request_that_ran_is_traced_back_from_its_end():
    status = [100 * NS_PER_MS, 'completed', 'full', 30 * NS_PER_MS, 5 * NS_PER_MS,
              20 * NS_PER_MS]
    assert lives({'s': {'statuses': [status]}}) == [
        Life('s', 100 * NS_PER_MS, 105 * NS_PER_MS, 110 * NS_PER_MS, 130 * NS_PER_MS,
             'completed')]


def test_a_request_that_never_ran_has_no_execution():
    status = [100 * NS_PER_MS, 'superseded', '', 30 * NS_PER_MS, 25 * NS_PER_MS, 0]
    assert lives({'s': {'statuses': [status]}}) == [
        Life('s', 100 * NS_PER_MS, 105 * NS_PER_MS, None, 130 * NS_PER_MS, 'superseded')]


def test_a_gap_with_work_waiting_is_idle_on_purpose_from_its_arrival_on():
    assert idle([life(0, 0, 10), life(15, 30, 40)], end=40) == [(15, 30)]


def test_a_gap_without_work_is_not_idle_on_purpose():
    assert idle([life(0, 0, 10), life(30, 30, 40)], end=60) == []


def test_a_request_that_ends_stale_while_the_slot_is_idle_was_held_back():
    assert idle([life(0, 0, 10), life(5, None, 30, 'stale'), life(40, 40, 50)], end=50) == [
        (10, 30)]


def test_the_hand_over_between_two_executions_is_not_a_decision():
    assert idle([life(0, 0, 10), life(5, 12, 20)], end=20) == []


def test_a_stream_has_a_gap_from_when_its_newest_result_is_too_old_until_the_next_one():
    requests = [life(0, 5, 10), life(20, 25, 60), life(40, 41, 50), life(90, None, 95, 'stale'),
                life(100, 101, 110)]
    found = gaps(requests, 's', 30 * NS_PER_MS)
    # 0 + 30 until 50, 40 + 30 until 110; the older capture that comes at 60 changes nothing.
    assert found == [(30 * NS_PER_MS, 50 * NS_PER_MS), (70 * NS_PER_MS, 110 * NS_PER_MS)]
    assert gaps(requests, 'another', 30 * NS_PER_MS) == []
