"""Stage C where what runs at the same time concerns each other: bans and interference."""

from hypothesis import given, settings, strategies as st
import pytest
from vig_core import lookahead
from vig_core.clockwork import Clockwork, NEVER
from vig_core.corun import Coupling, Schedule, Tenant, veto
from vig_core.reservation import Beside, Reservation, Stay


def place(arrival, planned, deadline, name='cam', banned=(), moving=False, changes=10_000,
          likely=None):
    """A reservation in plain numbers; its backend model carries its name."""
    likely = planned if likely is None else likely
    return Reservation(
        name, arrival, Stay(planned, planned), likely, deadline, moving, changes, Beside(
            name, frozenset(banned), ((name, planned, likely),), deadline - arrival))


def judge(reservations, free, planned, *, now=0, running=(), interference=None, name='llm',
          instances=None, likely=None):
    """
    Ask for a candidate ``llm`` that starts when the first slot is free.

    :param likely: when what runs on each slot probably ends; by default as planned.
    """
    def schedule(clock, free, is_likely):
        free_at = []
        for end in free:
            clock.note(end)
            free_at.append((max(now, end), end <= now))
        return Schedule(free_at, [
            Tenant(who, who, slot, free_at[slot] if slot >= 0 else (NEVER, False))
            for who, slot in running], is_likely)
    clock = Clockwork(now)
    planned_ends = schedule(clock, free, False)
    begins_at, is_moving = planned_ends.free_at[0]
    return veto(iter(reservations), planned_ends,
                Tenant(name, name, 0, (begins_at + planned, is_moving)), clock,
                Coupling(interference or {}, instances or {}),
                lambda clock: schedule(clock, likely or free, True))


@pytest.mark.parametrize('planned, late', [(40, None), (41, 1), (90, 50)])
def test_a_banned_candidate_may_end_where_the_frame_still_meets_its_deadline(planned, late):
    found = judge([place(100, 30, 160, banned=['llm'])], [90, 90], planned, now=90)
    assert (None if found is None else found.late_ns) == late


@pytest.mark.parametrize('likely, late', [(100, 10), (140, 10), (141, None)])
def test_what_is_late_by_plan_only_behind_a_ban_is_not_lost(likely, late):
    """By plan it ends at 170; by the medians 20 after the llm, which it must not run beside."""
    frame = place(100, 30, 160, banned=['llm', 'job'], likely=20)
    found = judge([frame], [90, 140], 60, now=90, running=[('llm', 1)], name='job',
                  likely=[90, likely])
    assert (None if found is None else found.late_ns) == late


def test_a_candidate_that_is_not_banned_leaves_the_other_slot_to_the_frame():
    assert judge([place(100, 30, 131, banned=['llm'])], [90, 90], 500, name='job') is None


def test_behind_the_end_of_a_running_ban_nothing_is_the_candidates_fault():
    frame = place(100, 30, 160, banned=['llm'])
    assert judge([frame], [90, 300], 500, running=[('llm', 1)], name='job') is None
    assert judge([frame], [90, 130], 30, running=[('llm', 1)], name='job') is None


def test_a_frame_behind_an_unproven_end_holds_nothing_back_and_takes_no_slot():
    frame, other = place(100, 30, 131, banned=['llm']), place(110, 30, 141, 'front')
    running = [('llm', -1)]
    assert judge([frame], [90], 500, running=running, name='job') is None
    found = judge([frame, other], [90], 500, running=running, name='job')
    assert (found.victim, found.late_ns) == (other, 590 + 30 - 141)


def test_two_frames_that_must_not_run_together_are_reserved_one_after_the_other():
    frames = [place(100, 30, 130), place(100, 30, 165, 'front', banned=['cam'])]
    assert judge(frames, [90, 90], 10, now=90, name='job') is None
    assert judge(frames, [90, 90], 15, now=90, name='job') is None
    assert judge(frames, [90], 15, now=90, name='job').victim.stream == 'cam'
    late = [place(100, 30, 130), place(100, 30, 160, 'front', banned=['cam', 'job'])]
    assert judge(late, [90, 90], 30, now=90, name='job') is None
    assert judge(late, [90, 90], 41, now=90, name='job').late_ns == 1


def test_a_frame_that_waits_for_a_ban_keeps_nobody_from_the_slot_until_then():
    """Both cameras wait for the end at 200; the second slot belongs to the front until then."""
    frames = [place(100, 30, 130, 'a', banned=['llm']), place(101, 30, 131, 'b', banned=['llm']),
              place(110, 30, 140, 'front')]
    found = judge(frames, [90, 200], 30, now=90, running=[('llm', 1)], name='job')
    assert (found.victim.stream, found.late_ns) == ('front', 10)


@pytest.mark.parametrize('added, late', [(0, None), (30, None), (31, 1)])
def test_a_frame_beside_the_candidate_takes_longer_by_the_measured_interference(added, late):
    found = judge([place(100, 30, 160)], [90, 90], 50, now=90,
                  interference={('cam', 'llm'): added, ('llm', 'cam'): 500})
    assert (None if found is None else found.late_ns) == late


def test_interference_counts_only_while_the_other_still_runs():
    slow = {('cam', 'llm'): 100}
    assert judge([place(100, 30, 135)], [90, 90], 10, now=90, interference=slow) is None
    assert judge([place(100, 30, 135)], [90, 90], 11, now=90, interference=slow).late_ns == 95


@pytest.mark.parametrize('ends, count, late', [
    ([160], 1, None), ([161], 1, None), ([160], 2, 1), ([100, 160], 2, None)])
def test_a_frame_begins_when_an_instance_of_its_model_is_free(ends, count, late):
    """The job that ends at 131 keeps the slot from it; that harms none while none is free."""
    frame = place(100, 30, 160)
    found = judge([frame], [90, *ends], 41, now=90, name='job', instances={'cam': count},
                  running=[('cam', number) for number in range(1, len(ends) + 1)])
    assert (None if found is None else found.late_ns) == late


def test_a_candidate_on_the_same_backend_model_uses_its_instance():
    frame = place(100, 30, 135)
    assert judge([frame], [90, 90], 15, now=90, name='cam', instances={'cam': 1}) is None
    assert judge([frame], [90, 90], 16, now=90, name='cam', instances={'cam': 1}).late_ns == 1
    assert judge([frame], [90, 90], 16, now=90, name='cam', instances={'cam': 2}) is None


def test_of_several_variants_the_one_counts_that_ends_first():
    """The small one would be in use until 300; the large one is slower and free."""
    frame = place(100, 30, 150)
    frame.beside = Beside('cam', frozenset(), (('small', 10, 10), ('large', 40, 40)), 50)
    limits = {'small': 1, 'large': 1}
    running = [('small', 1)]
    assert judge([frame], [90, 300, 90], 500, running=running, instances=limits, now=90) is None
    found = judge([frame], [90, 300], 30, running=running, instances=limits, now=90)
    assert found.late_ns == 120 + 40 - 150


def test_a_frame_that_waits_for_an_instance_keeps_nobody_from_the_slot_until_then():
    frames = [place(100, 30, 160), place(101, 30, 190), place(110, 30, 150, 'front')]
    found = judge(frames, [90, 130], 30, now=90, running=[('cam', 1)], name='job',
                  instances={'cam': 1})
    assert found is None
    found = judge(frames, [90, 130], 31, now=90, running=[('cam', 1)], name='job',
                  instances={'cam': 1})
    assert (found.victim.stream, found.late_ns) == ('front', 1)


def test_one_slot_uses_one_instance_whatever_it_runs_one_after_the_other():
    free_at = [(90, True), (130, False)]
    tenants = [Tenant('cam', 'cam', 1, (110, False)), Tenant('cam', 'cam', 1, (130, False))]
    schedule = Schedule(list(free_at), list(tenants))
    frame = place(100, 30, 160)
    assert schedule.serve(frame, frame.beside, Clockwork(90), Coupling({}, {'cam': 2}))[0] == (
        130, False)
    schedule = Schedule(list(free_at), [*tenants[:1], Tenant('cam', 'cam', -1, (130, False))])
    assert schedule.serve(frame, frame.beside, Clockwork(90), Coupling({}, {'cam': 2}))[0] == (
        140, False)


def test_the_verdict_of_a_pair_of_instants_flips_when_the_moving_one_passes():
    clock = Clockwork(100)
    assert not clock.is_later((100, True), (107, False))
    assert clock.until_ns == 108
    assert clock.is_later((105, False), (100, True))
    assert clock.until_ns == 105
    assert clock.is_later((120, True), (107, False))
    assert clock.is_later((120, False), (110, False))
    assert clock.until_ns == 105


small = st.integers(0, 40)
reserved = st.lists(st.tuples(small, st.integers(1, 15), st.integers(0, 25)), max_size=7)
names = st.sampled_from(['a', 'b', 'c', 'llm', 'run'])
worlds = st.fixed_dictionaries({
    'free': st.lists(small, min_size=1, max_size=3), 'raw': reserved,
    'sooner': st.lists(st.integers(0, 9), min_size=7, max_size=7),
    'who': st.lists(names, min_size=7, max_size=7), 'planned': st.integers(1, 60),
    'bans': st.lists(st.frozensets(names, min_size=1, max_size=2), max_size=3),
    'interference': st.dictionaries(st.tuples(names, names), st.integers(1, 9), max_size=3),
    'instances': st.dictionaries(names, st.integers(1, 2), max_size=2)})


def reservations_of(world):
    """All reservations of a drawn world, in arrival order."""
    return [place(arrival, runtime, arrival + runtime + slack, name, banned={
        other for pair in world['bans'] if name in pair for other in pair - {name} or {name}},
        likely=max(0, runtime - sooner)) for (arrival, runtime, slack), name, sooner
        in zip(sorted(world['raw']), world['who'], world['sooner'])]


@settings(max_examples=200)
@given(worlds)
def test_where_nothing_is_coupled_it_says_what_the_plain_lookahead_says(world):
    reservations = reservations_of({**world, 'bans': []})
    free = sorted(world['free'])
    likely = [max(0, end - sooner) for end, sooner in zip(free, world['sooner'])]
    found = judge(reservations, free, world['planned'], likely=likely)
    plain = lookahead.veto(
        iter(reservations), [(each, each <= 0) for each in free],
        Stay(world['planned'], world['planned']), Clockwork(0),
        lambda clock: [(each, each <= 0) for each in likely])
    assert (found is None) == (plain is None)
    assert found is None or (found.victim, found.late_ns) == (plain.victim, plain.late_ns)


def verdict_of(world, now):
    """Victim and lateness in a drawn world at an instant."""
    free = [max(now, end) for end in world['free']]
    order = [free.index(min(free)), *(slot for slot in range(len(free))
                                      if slot != free.index(min(free)))]
    return judge(reservations_of(world), [world['free'][slot] for slot in order],
                 world['planned'], now=now, interference=world['interference'],
                 instances=world['instances'],
                 running=[('run', number) for number in range(len(order))],
                 likely=[world['free'][slot] - world['sooner'][slot] for slot in order])


@settings(max_examples=200)
@given(worlds)
def test_no_verdict_changes_before_the_instant_that_a_veto_names(world):
    """Up to the first arrival, time alone moves the candidate and what overruns."""
    last = min((arrival for arrival, _, _ in world['raw']), default=0)
    first = verdict_of(world, 0)
    for now in range(1, last + 1):
        if first is None or now >= first.until_ns:
            break
        again = verdict_of(world, now)
        assert again is not None
