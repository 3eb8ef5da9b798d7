"""Stage C, second half: a veto only where the candidate is the cause."""

from math import isqrt

from hypothesis import given, settings, strategies as st
import pytest
from vig_core.clockwork import Clockwork
from vig_core.contract import Contract
from vig_core.lookahead import pace_budget_ns, Reservation, Stay, veto


def place(arrival, planned, deadline, stream='cam', changes=10_000, moving=False):
    """A reservation in plain numbers."""
    return Reservation(stream, arrival, Stay(planned, planned), deadline, moving, changes)


def ask(reservations, free, stay, now):
    """Ask for a candidate while what runs ends at these instants."""
    return veto(reservations, [(each, each <= now) for each in free], stay, Clockwork(now))


def judge(reservations, free, planned, now):
    """Ask for a candidate of which nothing was learned."""
    return ask(reservations, free, Stay(planned, planned), now)


@pytest.mark.parametrize('planned, late', [(40, None), (41, 1), (90, 50)])
def test_the_candidate_may_end_where_the_frame_still_meets_its_deadline(planned, late):
    found = judge([place(100, 30, 160)], [90], planned, 90)
    assert (None if found is None else found.late_ns) == late


@pytest.mark.parametrize('budget, changes, longer', [
    (25, {}, 20), (25, {'max_age_ns': 50}, 10), (25, {'max_age_ns': 500}, 20),
    (25, {'max_age_ns': 30}, 0), (25, {'max_age_ns': None}, 0), (0, {}, 0),
    (25, {'require_new_sample_each_cycle': True}, 0)])
def test_a_stream_keeps_its_pace_while_the_successor_can_be_in_time(budget, changes, longer):
    contract = Contract(**{'deadline_ns': 30, 'max_age_ns': 60, 'period_ns': 30, **changes})
    assert pace_budget_ns(contract, budget, 10) == budget + longer


def test_nothing_expected_vetoes_nothing():
    assert judge([], [0], 10**9, 0) is None


def test_a_frame_that_is_late_anyway_vetoes_nothing():
    assert judge([place(100, 30, 129)], [90], 500, 90) is None
    assert judge([place(100, 30, 160)], [131], 500, 90) is None


def test_reservations_add_up():
    first, second = place(100, 30, 160, 'a'), place(100, 30, 165, 'b')
    assert judge([first], [90], 20, 90) is None
    assert judge([second], [90], 20, 90) is None
    found = judge([first, second], [90], 20, 90)
    assert (found.victim, found.late_ns) == (second, 5)


def test_a_second_slot_serves_the_frame():
    frame = place(100, 30, 131)
    assert judge([frame], [90], 500, 90) is not None
    assert judge([frame], [90, 95], 500, 90) is None
    assert judge([frame], [90, 102], 500, 90) is not None


def test_frames_that_fit_together_on_two_slots_are_served_by_both():
    frames = [place(100, 30, 131, 'a'), place(100, 30, 131, 'b')]
    assert judge(frames, [90, 90], 5, 90) is None
    assert judge(frames, [90, 90], 20, 90).victim.stream == 'b'


def test_a_veto_names_the_first_instant_at_which_time_alone_changes_something():
    assert judge([place(100, 30, 160, changes=101)], [75], 60, 75).until_ns == 101
    assert judge([place(100, 30, 160, changes=101)], [80], 60, 75).until_ns == 80


def full_simulation(reservations, free, stay):
    """First reservation that is in time without the candidate and late with it; now is 0."""
    def put(slots, slot, arrival, moves, stay):
        end, is_moving, squares = slots[slot]
        both = squares + stay.slack_ns ** 2
        behind = end - isqrt(squares) + stay.planned_ns - stay.slack_ns + isqrt(both)
        alone = arrival + stay.alone_ns
        slots[slot] = (behind, is_moving, both) if behind > alone else (alone, moves, 0)

    def finishes(slots):
        out = []
        for each in reservations:
            slot = min(range(len(slots)), key=lambda one: slots[one][:2])
            put(slots, slot, each.arrival_ns, False, each.stay)
            out.append(slots[slot][0])
        return out
    alone, beside = ([(free_ns, free_ns <= 0, 0) for free_ns in free] for _ in range(2))
    put(beside, 0, 0, True, stay)
    for each, alone_ns, beside_ns in zip(reservations, finishes(alone), finishes(beside)):
        if alone_ns <= each.deadline_ns < beside_ns:
            return each, beside_ns - each.deadline_ns
    return None


small = st.integers(0, 40)
reserved = st.lists(st.tuples(small, st.integers(1, 15), st.integers(0, 25)), max_size=7)
stays = st.builds(lambda median, slack, more: Stay(median + slack, median + slack + more, slack),
                  st.integers(1, 15), st.integers(0, 6), st.integers(0, 5))


@settings(max_examples=400)
@given(st.lists(st.tuples(small, stays, st.integers(0, 25)), max_size=7),
       st.lists(small, min_size=1, max_size=3), stays)
def test_stopping_early_finds_what_the_full_simulation_finds(raw, free, stay):
    reservations = [
        Reservation(str(number), arrival, each, arrival + each.alone_ns + budget, False, 10_000)
        for number, (arrival, each, budget) in enumerate(sorted(raw, key=lambda row: row[0]))]
    free = [min(free), *sorted(free)[1:]]
    found = ask(iter(reservations), free, stay, 0)
    expected = full_simulation(reservations, free, stay)
    assert (None if found is None else (found.victim, found.late_ns)) == expected


def test_the_slack_of_two_that_were_learned_adds_up_in_squares():
    """Medians of 40 and 30, slacks of 3 and 4: together 75, where two whole slacks were 77."""
    frame = Reservation('cam', 95, Stay(34, 34, 4), 165, False, 10_000)
    assert ask([frame], [90], Stay(43, 43, 3), 80) is None
    assert ask([frame], [90], Stay(44, 44, 3), 80).late_ns == 1
    assert ask([frame], [90], Stay(43, 43), 80).late_ns == 2
    assert ask([frame], [90], Stay(43, 43, 3), 90).late_ns == 2, 'idle before it'


def test_a_slot_that_runs_dry_costs_the_way_of_the_next():
    """20 behind another, 30 on an idle slot: the frame that comes later ends by itself."""
    frame = Reservation('cam', 100, Stay(20, 30), 130, False, 10_000)
    assert ask([frame], [90], Stay(20, 20), 90) is None
    assert ask([frame], [90], Stay(21, 21), 90).late_ns == 1
    assert ask([frame], [100], Stay(5, 20), 90) is None
    assert ask([frame], [100], Stay(5, 21), 90).late_ns == 1


@settings(max_examples=400)
@given(reserved, small, st.integers(1, 60))
def test_on_one_slot_the_verdict_is_one_latest_end_for_the_candidate(raw, free, planned):
    """Whoever ends before a limit passes, whoever ends after it does not: it is monotone."""
    reservations = [place(arrival, runtime, arrival + runtime + slack)
                    for arrival, runtime, slack in sorted(raw)]
    verdicts = [judge(iter(reservations), [free], length, 0) is not None
                for length in range(1, planned + 1)]
    assert verdicts == sorted(verdicts)
    limit = 1 << 62
    finishes, at = [], free
    for each in reservations:
        at = max(at, each.arrival_ns) + each.stay.planned_ns
        finishes.append(at)
    for each, alone_ns in zip(reversed(reservations), reversed(finishes)):
        if alone_ns <= each.deadline_ns:
            limit = min(limit, each.deadline_ns)
        limit -= each.stay.planned_ns
    assert verdicts == [free + length > limit for length in range(1, planned + 1)]


slots = st.lists(st.tuples(small, st.sampled_from([0, 0, 3, 8])), min_size=1, max_size=3)
frames = st.lists(st.tuples(st.integers(0, 20), stays, st.integers(0, 25), st.integers(0, 12)),
                  max_size=4)


def verdict_at(now, slots, frames, stay):
    """
    Judge at an instant.

    :param slots: when what runs ends by its plan, and how long what is pipelined behind it takes.
    :param frames: when they are due, how long they take, their slack, and how late they may come.
    """
    clock = Clockwork(now)
    free_at = [(max(now, end) + behind, end <= now) for end, behind in slots]
    for end, _ in slots:
        clock.note(end)
    first = clock.first(free_at)
    reservations = [
        Reservation(str(number), max(now, due), each,
                    max(now, due) + each.alone_ns + slack, now > due,
                    due + 1 + (window if now > due else 0))
        for number, (due, each, slack, window) in enumerate(frames) if now <= due + window]
    return veto(reservations, [free_at[first], *free_at[:first], *free_at[first + 1:]], stay,
                clock)


@settings(max_examples=400)
@given(slots, frames, stays)
def test_no_verdict_changes_before_the_instant_that_a_veto_names(slots, frames, stay):
    frames = sorted(frames, key=lambda row: row[0])
    for begin in range(0, 25, 4):
        first = verdict_at(begin, slots, frames, stay)
        for now in range(begin + 1, begin + 60):
            if first is None or now >= first.until_ns:
                break
            assert verdict_at(now, slots, frames, stay) is not None, (begin, now)
