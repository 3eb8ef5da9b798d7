"""How best-effort work gets on, and when it starves."""

import pytest
from vig_core.background import Background
from vig_core.contract import Contract, Criticality
from vig_core.model import System
from vig_core.units import ms
from virtual_server import arrive, model, system, VirtualServer


def background(window=4, percent=0, **contract):
    """A best-effort stream in plain numbers, with a deadline of 10."""
    return Background(Contract(deadline_ns=10, observation_window=window, **contract), percent)


def test_progress_is_of_the_last_requests_that_ended():
    each = background()
    for is_completed in (True, True, False, False, False):
        each.end(is_completed)
    assert (each.completed, each.ended) == (1, 4)


@pytest.mark.parametrize('percent, ends, is_short', [
    (50, [False], False), (50, [False, False], True), (50, [True, False], False),
    (25, [False] * 3, False), (25, [False] * 4, True), (0, [False] * 4, False)])
def test_progress_is_short_once_a_single_completion_would_be_enough(percent, ends, is_short):
    each = background(percent=percent)
    for is_completed in ends:
        each.end(is_completed)
    assert each.is_short is is_short


def test_a_stream_starves_each_time_its_work_has_waited_for_a_window():
    each = background(window=3)
    each.wait(1, 100)
    assert [each.starved(now) for now in (100, 129, 130, 159, 160)] == [0, 0, 1, 1, 2]


def test_a_start_ends_the_starvation_and_keeps_the_count():
    each = background(window=3)
    each.wait(2, 100)
    each.wait(1, 145, has_started=True)
    assert [each.starved(now) for now in (145, 174, 175)] == [1, 1, 2]


def test_work_that_ends_without_a_start_has_waited_and_a_pause_has_not():
    each = background(window=3)
    for begin in (100, 500, 900):
        each.wait(1, begin)
        each.wait(0, begin + 15)
    assert each.starved(2000) == 1


def test_a_window_is_measured_in_cycles_where_the_contract_has_them():
    each = background(window=3, consumer_period_ns=7)
    each.wait(1, 0)
    assert (each.starved(20), each.starved(21)) == (0, 1)


def test_what_a_protected_stream_asks_for_holds_for_all_best_effort_streams():
    cam = model('cam', criticality='protected', minimum_background_progress_percent=5)
    own = model('own', criticality='best_effort', minimum_background_progress_percent=20)
    low, normal = model('low', criticality='best_effort'), model('mid')
    made = system(cam, own, low, normal)
    assert [made.background_percent(each) for each in (cam, own, low, normal)] == [0, 20, 5, 0]
    assert System({'low': low}).background_percent(low) == 0


def test_a_job_that_no_gap_has_room_for_starves_and_its_status_says_so():
    cam = model('cam', criticality='protected', p50=20, deadline=33, max_age=66, period=33)
    job = model('job', criticality='best_effort', p50=60, deadline=100, max_age=300,
                observation_window=10, minimum_background_progress_percent=50)
    done = VirtualServer(system(cam, job, streams={'cam': 'cam', 'job': 'job'}),
                         {'cam_main': ms(20), 'job_main': ms(60)}, sorted(
        [arrive(2 * k, 'cam', 33 * k) for k in range(100)]
        + [arrive(2 * k + 1, 'job', 33 * k + 1) for k in range(0, 100, 10)],
        key=lambda each: each[0])).run(ms(3299))
    seen = done.witness.scheduler.snapshot(now_ns=ms(3299)).streams[1]
    assert seen.criticality is Criticality.BEST_EFFORT
    assert (seen.background_completed, seen.is_background_short) == (0, True)
    assert (seen.background_required_percent, seen.starved) == (50, 2)


def test_progress_of_one_that_gets_on_is_what_was_completed_of_what_ended():
    job = model('job', criticality='best_effort', p50=10, observation_window=4)
    done = VirtualServer(system(job), lambda _: ms(10), [
        arrive(0, 'job', 0), arrive(1, 'job', 1), arrive(2, 'job', 2),
        arrive(3, 'job', 100)]).run()
    seen = done.witness.scheduler.snapshot(now_ns=ms(200)).streams[0]
    assert (seen.background_ended, seen.background_progress, seen.starved) == (4, 0.75, 0)
