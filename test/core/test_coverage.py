"""What the consumer sees at each of its cycles."""

from hypothesis import given, settings, strategies as st
import pytest
from vig_core.contract import Contract, MissBudget
from vig_core.coverage import CycleMonitor


def monitor(cycle=10, max_age=25, phase=0, needs_new=False, budget=None):
    """A monitor in plain numbers."""
    return CycleMonitor(Contract(
        deadline_ns=5, max_age_ns=max_age, consumer_period_ns=cycle, phase_ns=phase,
        require_new_sample_each_cycle=needs_new,
        miss_budget=None if budget is None else MissBudget(*budget)), 100)


def test_the_first_cycle_is_one_period_and_the_phase_after_the_origin():
    assert monitor().next_cycle_ns == 110
    assert monitor(phase=3).next_cycle_ns == 113


def test_a_cycle_is_judged_only_after_its_instant():
    each = monitor()
    assert each.judge_before(110) == (0, 0)
    each.deliver(105)
    assert each.judge_before(111) == (1, 0)


@pytest.mark.parametrize('captured, covered', [(85, 1), (84, 0)])
def test_covered_while_the_age_is_at_most_max_age(captured, covered):
    each = monitor()
    each.deliver(captured)
    assert each.judge_before(111) == (covered, 1 - covered)


def test_one_result_covers_cycles_until_it_is_too_old():
    each = monitor()
    each.deliver(100)
    assert each.judge_before(1000) == (2, 87)


def test_where_each_cycle_needs_a_new_sample_one_result_covers_one():
    each = monitor(needs_new=True)
    each.deliver(100)
    assert each.judge_before(200) == (1, 8)
    each.deliver(100)
    assert each.judge_before(211) == (0, 2)
    each.deliver(212)
    assert each.judge_before(221) == (1, 0)


def test_an_older_capture_does_not_replace_a_newer_one():
    each = monitor()
    each.deliver(108)
    each.deliver(80)
    assert each.judge_before(131) == (3, 0)


def test_the_weakly_hard_window_is_observed_once_it_is_full():
    each = monitor(budget=(1, 4, 1))
    each.judge_before(131)
    assert (each.is_observed, each.misses, each.misses_left, each.is_violated) == (
        False, 3, -2, True)
    each.deliver(138)
    each.judge_before(141)
    assert each.is_observed
    assert (each.misses, each.consecutive) == (3, 0)


def test_the_next_miss_is_fatal_when_it_would_break_either_bound():
    each = monitor(budget=(2, 4, 1))
    assert not each.is_next_miss_fatal
    each.judge_before(111)
    assert each.is_next_miss_fatal
    each.deliver(118)
    each.judge_before(121)
    assert not each.is_next_miss_fatal


def test_a_miss_that_leaves_the_window_makes_room_for_another():
    each = monitor(max_age=5, budget=(1, 2, 1))
    each.judge_before(111)
    each.deliver(118)
    each.judge_before(121)
    assert each.misses == 1
    assert not each.is_next_miss_fatal
    each.judge_before(131)
    assert (each.misses, each.is_violated) == (1, False)


deliveries = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=12)


@settings(max_examples=300)
@given(deliveries, st.booleans(), st.one_of(st.none(), st.integers(1, 80)),
       st.one_of(st.none(), st.just((1, 3, 1)), st.just((2, 9, 2))), st.integers(1, 30))
def test_judging_in_bulk_equals_judging_one_by_one(raw, needs_new, max_age, budget, cycle):
    bulk, single = (monitor(cycle, max_age, needs_new=needs_new, budget=budget)
                    for _ in range(2))
    for offset, age in sorted(raw):
        at = 100 + offset
        total = bulk.judge_before(at)
        parts = [single.judge_before(instant) for instant in range(100, at + 1)]
        assert total == (sum(good for good, _ in parts), sum(bad for _, bad in parts))
        for each in (bulk, single):
            each.deliver(at - age)
    bulk.judge_before(700)
    for instant in range(100, 701):
        single.judge_before(instant)
    seen = [(each.judged, each.covered, each.misses, each.consecutive, each.misses_left,
             each.is_violated, each.is_observed, each.is_next_miss_fatal, each.next_cycle_ns)
            for each in (bulk, single)]
    assert seen[0] == seen[1]
