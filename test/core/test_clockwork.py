"""Instants that move with the clock: each comparison knows when it comes out differently."""

from hypothesis import given, strategies as st
import pytest
from vig_core.clockwork import Clockwork, NEVER

NOW = 20
instants = st.tuples(st.integers(0, 40), st.booleans())


def moved(instant, by):
    """Give an instant as it is later."""
    return (instant[0] + by, True) if instant[1] else instant


def first_change(answer):
    """Say when an answer that is asked for later is another one; ``NEVER`` within 50 ns."""
    return next((NOW + by for by in range(1, 50) if answer(by) != answer(0)), NEVER)


@given(instants, instants)
def test_a_comparison_notes_exactly_when_its_answer_changes(one, other):
    clock = Clockwork(NOW)
    assert clock.is_later(one, other) == (one[0] > other[0])
    assert clock.until_ns == first_change(
        lambda by: Clockwork(NOW).is_later(moved(one, by), moved(other, by)))


@given(instants, instants)
def test_the_later_one_is_known_until_then(one, other):
    clock = Clockwork(NOW)
    later = clock.later(one, other)
    for by in range(50):
        if NOW + by < clock.until_ns:
            assert moved(later, by)[0] == max(moved(one, by)[0], moved(other, by)[0])


@given(st.lists(instants, min_size=1, max_size=4))
def test_the_first_one_stays_the_first_until_then(each):
    clock = Clockwork(NOW)
    place = clock.first(each)
    assert each[place][0] == min(at_ns for at_ns, _ in each)
    for by in range(50):
        if NOW + by < clock.until_ns:
            later = [moved(one, by) for one in each]
            assert Clockwork(NOW + by).first(later) == place


@given(st.lists(instants, max_size=4))
def test_an_order_is_the_same_until_then(each):
    clock = Clockwork(NOW)
    clock.note_order(each)

    def order(by):
        later = [moved(one, by)[0] for one in each]
        return [[(one > other) - (one < other) for other in later] for one in later]
    assert clock.until_ns == first_change(order)


@pytest.mark.parametrize('noted, until', [((), 30), ((25, 27), 25), ((20, 19, 31), 30)])
def test_the_earliest_instant_after_now_is_kept(noted, until):
    clock = Clockwork(NOW, 30)
    for at_ns in noted:
        clock.note(at_ns)
    assert clock.until_ns == until
