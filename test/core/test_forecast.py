"""Stage C, first half: when the next frame of a guarded stream is expected."""

import pytest
from vig_core.forecast import ArrivalForecast
from vig_core.units import ms
from virtual_server import model

T, D = 100, 60


def forecast(jitter=0.0, arrived=0.0, captured=0.0, deadline=D):
    """Make a forecast that has seen one frame; times in milliseconds."""
    contract = model('m', period=T, deadline=deadline, release_jitter_ns=ms(jitter)).contract
    made = ArrivalForecast(contract)
    made.note(arrived_at_ns=ms(arrived), captured_at_ns=ms(captured))
    return made


def test_nothing_is_expected_of_a_stream_that_never_arrived():
    made = ArrivalForecast(model('m', period=T).contract)
    assert made.expected(0) is None
    assert made.expected(-(1 << 40)) is None
    assert made.expected_from_ns(5) is None


def test_one_period_after_the_last_arrival():
    expected = forecast(arrived=8, captured=0).expected(ms(20))
    assert expected.arrival_ns == ms(108)
    assert expected.budget_ns == ms(D - 8)
    assert not expected.is_overdue
    assert expected.changes_at_ns == ms(108) + 1


def test_a_capture_later_than_its_arrival_counts_as_the_arrival():
    assert forecast(arrived=8, captured=9).expected(ms(20)).budget_ns == ms(D)


def test_a_transport_longer_than_the_deadline_leaves_no_budget_below_zero():
    assert forecast(arrived=90, captured=0).expected(ms(100)).budget_ns == 0


@pytest.mark.parametrize('jitter, transport, window', [
    (0, 0, 0), (0, 8, 8), (5, 8, 10), (3, 8, 8), (0, 90, D)])
def test_overdue_it_is_expected_any_moment_up_to_the_window(jitter, transport, window):
    made = forecast(jitter, arrived=transport, captured=0)
    due_ns, window_ns = ms(transport + T), ms(window)
    for late_ns in (1, window_ns // 2, window_ns):
        if not 0 < late_ns <= window_ns:
            continue
        expected = made.expected(due_ns + late_ns)
        assert expected.is_overdue
        assert expected.arrival_ns == due_ns + late_ns
        assert expected.changes_at_ns == due_ns + window_ns + 1
    rolled = made.expected(due_ns + window_ns + 1)
    assert not rolled.is_overdue
    assert rolled.arrival_ns == due_ns + ms(T)


def test_it_rolls_on_three_times_and_then_the_stream_is_stopped():
    made = forecast(jitter=5)
    assert [made.expected(ms(at)).arrival_ns for at in (0, 110.000001, 210.000001)] == [
        ms(100), ms(200), ms(300)]
    assert made.expected(ms(310.000001)).arrival_ns == ms(400)
    assert made.expected(ms(410)).arrival_ns == ms(410)
    assert made.expected(ms(410) + 1) is None
    assert made.alive_until_ns == ms(410)


def test_a_stopped_stream_starts_again_with_any_frame():
    made = forecast()
    made.note(arrived_at_ns=ms(900), captured_at_ns=ms(-5))
    assert made.expected(ms(900)).arrival_ns == ms(1000)


@pytest.mark.parametrize('captured, due', [(0, 100), (-1, 100), (1, 150)])
def test_only_a_newer_capture_says_something_about_the_next(captured, due):
    made = forecast()
    made.note(arrived_at_ns=ms(50), captured_at_ns=ms(captured))
    assert made.expected(ms(60)).arrival_ns == ms(due)


def test_forgetting_expects_nothing():
    made = forecast()
    made.forget()
    assert made.expected(ms(50)) is None
    made.note(arrived_at_ns=ms(60), captured_at_ns=ms(-500))
    assert made.expected(ms(60)).arrival_ns == ms(160)


def test_the_short_answer_equals_the_long_one():
    made = forecast(jitter=5, arrived=8, captured=0)
    for now in range(0, 500, 3):
        expected = made.expected(ms(now))
        from_ns = made.expected_from_ns(ms(now))
        assert expected is None and from_ns is None or (
            max(ms(now), from_ns) == expected.arrival_ns)
