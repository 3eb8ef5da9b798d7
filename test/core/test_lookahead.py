"""Stage C, second half: a veto only where the candidate is the cause."""

from math import isqrt

from hypothesis import given, settings, strategies as st
import pytest
from vig_core.clockwork import Clockwork
from vig_core.contract import Contract
from vig_core.lookahead import veto
from vig_core.reservation import pace_budget_ns, Reservation, Stay


def place(arrival, planned, deadline, stream='cam', changes=10_000, moving=False, likely=None):
    """A reservation in plain numbers; probably it takes what is planned."""
    return Reservation(stream, arrival, Stay(planned, planned),
                       planned if likely is None else likely, deadline, moving, changes)


def ask(reservations, free, stay, now, likely=None):
    """Ask for a candidate while what runs ends at these instants, and probably at the others."""
    free, likely = ([(each, each <= now) for each in ends] for ends in (free, likely or free))
    return veto(reservations, free, stay, Clockwork(now), lambda clock: list(likely))


def judge(reservations, free, planned, now, likely=None):
    """Ask for a candidate of which nothing was learned."""
    return ask(reservations, free, Stay(planned, planned), now, likely)


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


@pytest.mark.parametrize('likely, late', [(100, 10), (140, 10), (141, None)])
def test_what_is_late_by_plan_only_is_not_lost(likely, late):
    """By plan it ends at 170; by the medians 20 after what runs."""
    frame = place(100, 30, 160, likely=20)
    found = judge([frame], [140], 10, 90, [likely])
    assert (None if found is None else found.late_ns) == late
    assert judge([place(200, 30, 220, likely=20)], [140], 60, 90, [likely]) is None


@pytest.mark.parametrize('first, second, late', [(25, 20, 5), (30, 20, 5), (30, 21, None)])
def test_the_medians_of_all_before_it_decide_whether_a_frame_is_lost(first, second, late):
    frames = [place(100, 30, 120, 'lost', likely=first), place(105, 30, 150, likely=second)]
    found = judge(frames, [90], 15, 90)
    assert (None if found is None else (found.victim.stream, found.late_ns)) == (
        late and ('cam', late))


def test_on_two_slots_a_frame_probably_takes_the_one_that_is_probably_free_first():
    frame = place(100, 30, 131, likely=20)
    assert judge([frame], [90, 140], 20, 90, [90, 90]) is not None
    assert judge([frame], [102, 140], 20, 90, [90, 140]).late_ns == 20
    assert judge([frame], [102, 140], 20, 90, [115, 111]).late_ns == 20
    assert judge([frame], [102, 140], 20, 90, [115, 112]) is None


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


def full_simulation(reservations, free, stay, likely):
    """
    First reservation that the candidate makes late, or later; now is 0.

    In time without it, by plan or by the medians, and by plan late with it.
    """
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
    likely = list(likely)
    for each, alone_ns, beside_ns in zip(reservations, finishes(alone), finishes(beside)):
        slot = likely.index(min(likely))
        likely[slot] = max(likely[slot], each.arrival_ns) + each.likely_ns
        if min(alone_ns, likely[slot]) <= each.deadline_ns and (
                beside_ns > max(each.deadline_ns, alone_ns)):
            return each, beside_ns - max(each.deadline_ns, alone_ns)
    return None


small = st.integers(0, 40)
reserved = st.lists(st.tuples(small, st.integers(1, 15), st.integers(0, 25)), max_size=7)
stays = st.builds(lambda median, slack, more: Stay(median + slack, median + slack + more, slack),
                  st.integers(1, 15), st.integers(0, 6), st.integers(0, 5))


@settings(max_examples=400)
@given(st.lists(st.tuples(small, stays, st.integers(-20, 25), st.integers(0, 8)), max_size=7),
       st.lists(st.tuples(small, st.integers(0, 8)), min_size=1, max_size=3), stays)
def test_stopping_early_finds_what_the_full_simulation_finds(raw, free, stay):
    reservations = [
        Reservation(str(number), arrival, each, max(0, each.planned_ns - each.slack_ns - sooner),
                    arrival + each.alone_ns + budget, False, 10_000)
        for number, (arrival, each, budget, sooner)
        in enumerate(sorted(raw, key=lambda row: row[0]))]
    free = [min(free), *sorted(free)[1:]]
    ends, likely = [end for end, _ in free], [max(0, end - sooner) for end, sooner in free]
    found = ask(iter(reservations), ends, stay, 0, likely)
    expected = full_simulation(reservations, ends, stay, likely)
    assert (None if found is None else (found.victim, found.late_ns)) == expected


def test_the_slack_of_two_that_were_learned_adds_up_in_squares():
    """Medians of 40 and 30, slacks of 3 and 4: together 75, where two whole slacks were 77."""
    frame = Reservation('cam', 95, Stay(34, 34, 4), 30, 165, False, 10_000)
    assert ask([frame], [90], Stay(43, 43, 3), 80) is None
    assert ask([frame], [90], Stay(44, 44, 3), 80).late_ns == 1
    assert ask([frame], [90], Stay(43, 43), 80).late_ns == 2
    assert ask([frame], [90], Stay(43, 43, 3), 90).late_ns == 2, 'idle before it'


def test_a_slot_that_runs_dry_costs_the_way_of_the_next():
    """20 behind another, 30 on an idle slot: the frame that comes later ends by itself."""
    frame = Reservation('cam', 100, Stay(20, 30), 20, 130, False, 10_000)
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


slots = st.lists(st.tuples(small, st.sampled_from([0, 0, 3, 8]), st.integers(0, 9)),
                 min_size=1, max_size=3)
frames = st.lists(st.tuples(st.integers(0, 20), stays, st.integers(-20, 25), st.integers(0, 12),
                            st.integers(0, 9)), max_size=4)


def verdict_at(now, slots, frames, stay):
    """
    Judge at an instant.

    :param slots: when what runs ends by its plan, how long what is pipelined behind it takes, and
        how much sooner it probably ends.
    :param frames: when they are due, how long they take, their slack, how late they may come, and
        how much less than planned they probably take.
    """
    clock = Clockwork(now)
    free_at = [(max(now, end) + behind, end <= now) for end, behind, _ in slots]
    for end, _, _ in slots:
        clock.note(end)
    first = clock.first(free_at)
    order = [first, *(slot for slot in range(len(slots)) if slot != first)]

    def likely_free(clock):
        for end, _, sooner in slots:
            clock.note(end - sooner)
        return [(max(now, slots[slot][0] - slots[slot][2]) + slots[slot][1],
                 slots[slot][0] - slots[slot][2] <= now) for slot in order]
    reservations = [
        Reservation(str(number), max(now, due), each,
                    max(0, each.planned_ns - each.slack_ns - sooner),
                    max(now, due) + each.alone_ns + slack, now > due,
                    due + 1 + (window if now > due else 0))
        for number, (due, each, slack, window, sooner) in enumerate(frames) if now <= due + window]
    return veto(reservations, [free_at[slot] for slot in order], stay, clock, likely_free)


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
