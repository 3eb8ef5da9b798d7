"""What the consumer sees at each of its cycles."""

from hypothesis import given, settings, strategies as st
import pytest
from vig_core.clockwork import Clockwork
from vig_core.contract import Contract, DeliverySemantics, MissBudget
from vig_core.coverage import CycleMonitor, supply_of


def monitor(cycle=10, max_age=25, phase=0, needs_new=False, budget=None,
            semantics='latest_state'):
    """A monitor in plain numbers."""
    return CycleMonitor(Contract(
        deadline_ns=5, max_age_ns=max_age, consumer_period_ns=cycle, phase_ns=phase,
        require_new_sample_each_cycle=needs_new,
        delivery_semantics=DeliverySemantics(semantics),
        miss_budget=None if budget is None else MissBudget(*budget)), 100)


def test_the_first_cycle_is_one_period_and_the_phase_after_the_origin():
    assert monitor().next_cycle_ns == 110
    assert monitor(phase=3).next_cycle_ns == 113


def test_a_cycle_is_judged_only_after_its_instant():
    each = monitor()
    assert each.judge_before(110) == (0, 0)
    each.deliver(105, 105)
    assert each.judge_before(111) == (1, 0)


@pytest.mark.parametrize('captured, covered', [(85, 1), (84, 0)])
def test_covered_while_the_age_is_at_most_max_age(captured, covered):
    each = monitor()
    each.deliver(captured, 100)
    assert each.judge_before(111) == (covered, 1 - covered)


def test_one_result_covers_cycles_until_it_is_too_old():
    each = monitor()
    each.deliver(100, 100)
    assert each.judge_before(1000) == (2, 87)


def test_where_each_cycle_needs_a_new_sample_one_result_covers_one():
    each = monitor(needs_new=True)
    each.deliver(100, 100)
    assert each.judge_before(200) == (1, 8)
    each.deliver(100, 200)
    assert each.judge_before(211) == (0, 2)
    each.deliver(212, 212)
    assert each.judge_before(221) == (1, 0)


def test_an_older_capture_does_not_replace_a_newer_one():
    each = monitor()
    each.deliver(108, 108)
    each.deliver(80, 109)
    assert each.judge_before(131) == (3, 0)


def test_the_weakly_hard_window_is_observed_once_it_is_full():
    each = monitor(budget=(1, 4, 1))
    each.judge_before(131)
    assert (each.window.is_observed, each.window.misses, each.window.left,
            each.window.is_violated) == (False, 3, 0, True)
    each.deliver(138, 138)
    each.judge_before(141)
    assert each.window.is_observed
    assert (each.window.misses, each.window.consecutive) == (3, 0)


def test_the_next_miss_is_fatal_when_it_would_break_either_bound():
    each = monitor(budget=(2, 4, 1))
    assert not each.window.is_next_miss_fatal
    each.judge_before(111)
    assert each.window.is_next_miss_fatal
    each.deliver(118, 118)
    each.judge_before(121)
    assert not each.window.is_next_miss_fatal


def test_a_miss_that_leaves_the_window_makes_room_for_another():
    each = monitor(max_age=5, budget=(1, 2, 1))
    each.judge_before(111)
    each.deliver(118, 118)
    each.judge_before(121)
    assert each.window.misses == 1
    assert not each.window.is_next_miss_fatal
    each.judge_before(131)
    assert (each.window.misses, each.window.is_violated) == (1, False)


def test_every_event_a_lost_event_is_a_miss_of_the_cycle_in_which_it_was_lost():
    each = monitor(semantics='every_event')
    each.deliver(104, 105)
    each.lose()
    assert each.judge_before(111) == (0, 1)
    assert each.judge_before(141) == (3, 0), 'a quiet cycle loses nothing'
    each.deliver(90, 145)
    assert each.judge_before(151) == (1, 0), 'an older capture is a result too'


def test_every_event_with_new_samples_a_quiet_cycle_is_a_miss():
    each = monitor(semantics='every_event', needs_new=True)
    each.deliver(104, 105)
    assert each.judge_before(141) == (1, 3)


def test_in_a_stateful_sequence_a_result_behind_a_later_capture_is_a_miss():
    each = monitor(semantics='stateful_sequence')
    each.deliver(103, 105)
    each.deliver(104, 106)
    assert each.judge_before(111) == (1, 0)
    each.deliver(102, 115)
    assert each.judge_before(131) == (1, 1)
    each.lose()
    assert each.judge_before(141) == (0, 1)


def test_under_latest_state_a_request_without_a_result_is_no_miss_by_itself():
    each = monitor()
    each.deliver(105, 105)
    each.lose()
    assert each.judge_before(111) == (1, 0)


def serves(each, captured, delivered):
    """Ask whether a result that stands still would cover a cycle."""
    return each.can_serve(captured_at_ns=captured, delivered_at=(delivered, False),
                          clock=Clockwork(112))


def test_a_result_serves_a_cycle_that_needs_a_new_one_though_an_old_one_is_fresh():
    old, new = monitor(), monitor(needs_new=True)
    for each in (old, new):
        each.deliver(108, 108)
        each.judge_before(111)
    assert not serves(old, 107, 119)
    assert serves(new, 112, 119)
    new.deliver(112, 112)
    assert not serves(new, 113, 119)
    assert serves(new, 113, 125)
    assert not serves(new, 113, 139)


def test_a_gap_is_a_time_without_a_fresh_result_from_the_first_cycle_on():
    each = monitor(max_age=15)
    assert each.longest_gap_ns(109) == 0
    assert each.longest_gap_ns(117) == 7
    each.deliver(112, 118)
    assert [each.longest_gap_ns(now) for now in (120, 135, 136)] == [8, 8, 9]
    each.deliver(130, 131)
    assert each.longest_gap_ns(145) == 8


def test_without_max_age_there_is_no_gap_after_the_first_result():
    each = monitor(max_age=None)
    each.deliver(112, 118)
    assert each.longest_gap_ns(100_000) == 8


def test_the_left_misses_are_the_coming_ones_in_a_row_that_the_budget_bears():
    each = monitor(budget=(3, 6, 2), max_age=1)
    assert each.window.left == 2
    each.judge_before(111)
    assert each.window.left == 1
    each.deliver(120, 120)
    each.judge_before(121)
    assert each.window.left == 2, 'the row is broken, two of three are left'
    each.judge_before(131)
    each.deliver(140, 140)
    each.judge_before(141)
    assert (each.window.misses, each.window.left) == (2, 1)
    for now in (150, 160):
        each.deliver(now, now)
        each.judge_before(now + 1)
    assert (each.window.misses, each.window.left) == (2, 2), 'the oldest miss leaves first'


@settings(max_examples=300)
@given(st.lists(st.booleans(), max_size=30), st.integers(1, 6).flatmap(
    lambda most: st.tuples(st.just(most), st.integers(most + 1, 9), st.integers(0, most))))
def test_the_left_misses_are_what_trying_finds(cycles, budget):
    window = monitor(budget=budget).window
    for is_covered in cycles:
        window.add(is_covered, 1)
    trial, survived = window.copy(), 0
    while not trial.is_violated:
        trial.add(False, 1)
        survived += not trial.is_violated
    assert window.left == survived
    assert window.is_next_miss_fatal is (window.left == 0)
    assert window.misses == window.cycles.count(False)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40), st.booleans()), max_size=15),
       st.sampled_from(DeliverySemantics), st.booleans(), st.integers(0, 20),
       st.integers(0, 300))
def test_a_window_that_is_handed_over_is_that_of_a_monitor_which_never_stopped(
        raw, semantics, needs_new, phase, stops_at):
    """Nothing is delivered while nobody is there; the cycles go on all the same."""
    options = {'semantics': semantics, 'needs_new': needs_new, 'phase': phase,
               'budget': (2, 9, 2)}
    whole, first, second = (monitor(**options) for _ in range(3))
    events = sorted(raw)

    def play(each, chosen):
        for offset, age, is_lost in chosen:
            each.judge_before(100 + offset)
            if is_lost:
                each.lose()
            else:
                each.deliver(100 + offset - age, 100 + offset)
    before = [event for event in events if event[0] <= stops_at]
    after = [event for event in events if event[0] > stops_at + 50]
    play(whole, before + after)
    play(first, before)
    first.judge_before(100 + stops_at)
    second.inherit(first.bequeath('cam', 1), 100 + stops_at + 50)
    assert (second.judged, second.covered) == (0, 0)
    play(second, after)
    for each in (whole, second):
        each.judge_before(500)
    assert second.window.cycles == whole.window.cycles
    assert second.window.consecutive == whole.window.consecutive
    assert second.next_cycle_ns == whole.next_cycle_ns


def test_only_what_counts_is_in_the_supply_and_everything_up_to_the_end_is_judged():
    contract = Contract(deadline_ns=5, max_age_ns=15, period_ns=10)
    ends = [(28, 25), (33, None), (46, 46)]
    supply = supply_of(contract, ends, origin_ns=0, until_ns=45)
    assert (supply.cycles, supply.covered, supply.longest_gap_ns) == (4, 2, 18)
    supply = supply_of(contract, ends, origin_ns=0, until_ns=45,
                       counts=lambda instant: 20 < instant)
    assert (supply.cycles, supply.covered) == (2, 2)


def test_the_supply_counts_the_cycles_after_which_the_budget_was_broken():
    contract = Contract(deadline_ns=5, max_age_ns=15, consumer_period_ns=10,
                        miss_budget=MissBudget(1, 4, 1))
    supply = supply_of(contract, [(28, 25), (56, 55)], origin_ns=0, until_ns=75)
    assert (supply.cycles, supply.covered, supply.violated) == (7, 4, 4)


deliveries = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=12)


@settings(max_examples=300)
@given(deliveries, st.booleans(), st.one_of(st.none(), st.integers(1, 80)),
       st.one_of(st.none(), st.just((1, 3, 1)), st.just((2, 9, 2))), st.integers(1, 30),
       st.sampled_from(DeliverySemantics))
def test_judging_in_bulk_equals_judging_one_by_one(raw, needs_new, max_age, budget, cycle,
                                                   semantics):
    bulk, single = (monitor(cycle, max_age, needs_new=needs_new, budget=budget,
                            semantics=semantics)
                    for _ in range(2))
    for offset, age in sorted(raw):
        at = 100 + offset
        total = bulk.judge_before(at)
        parts = [single.judge_before(instant) for instant in range(100, at + 1)]
        assert total == (sum(good for good, _ in parts), sum(bad for _, bad in parts))
        for each in (bulk, single):
            if age % 7:
                each.deliver(at - age, at)
            else:
                each.lose()
    bulk.judge_before(700)
    for instant in range(100, 701):
        single.judge_before(instant)
    seen = [(each.judged, each.covered, each.window.cycles, each.window.misses,
             each.window.consecutive, each.longest_gap_ns(700), each.next_cycle_ns)
            for each in (bulk, single)]
    assert seen[0] == seen[1]
