"""Field cases that concern the core, by their ids, with the numbers of the table."""

import pytest
from vig_core.events import CancelRequested, Stamp, TimeJumped
from vig_core.units import ms
from virtual_server import arrive, model, system, variant, VirtualServer


def frames(name, count, period, *, age=lambda k: 0.0, first_id=0, **options):
    """Arrivals of a camera: frame k arrives at k periods, ``age(k)`` after its capture."""
    return [arrive(first_id + k, name, k * period, k * period - age(k), **options)
            for k in range(count)]


def run(model_, exec_ms, arrivals, until=None, **options):
    """One model that takes ``exec_ms`` on one slot."""
    return VirtualServer(system(model_, **options), lambda dispatch: ms(exec_ms),
                         arrivals).run(None if until is None else ms(until))


def test_r01_a_slow_model_runs_only_the_newest_frames():
    done = run(model('m', p50=290, max_age=2000), 290, frames('m', 20, 100))
    assert list(done.starts) == [0, 2, 5, 8, 11, 14, 17, 19]
    assert len(done.ended('superseded')) == 12
    assert len(done.ended('completed')) == 8


def test_r03_when_no_variant_can_meet_max_age_nothing_runs():
    done = run(model('m', p50=2400, deadline=3000, max_age=1000), 2400, frames('m', 5, 100))
    assert done.starts == {}
    assert len(done.ended('stale')) == 5
    assert [done.end_of(k)[0] for k in range(5)] == [ms(100 * k) for k in range(5)]


def test_r05_frames_that_arrive_too_old_are_stale_by_age_and_runtime():
    arrivals = frames('m', 30, 100, age=lambda k: 20 + 20 * k)
    done = run(model('m', p50=50, max_age=500), 50, arrivals)
    assert list(done.starts) == list(range(22))
    assert done.ended('stale') == list(range(22, 30))


@pytest.mark.parametrize('max_age, expected', [(450, 'big'), (150, 'small'), (60, None)])
def test_r07_the_best_variant_that_lands_inside_max_age(max_age, expected):
    m = model('m', deadline=max_age, max_age=max_age, variants=(
        variant('m', 'big', p50=400), variant('m', 'small', p50=90, quality=0.5)))
    done = VirtualServer(system(m), {'m_big': ms(400), 'm_small': ms(90)},
                         [arrive(0, 'm', 0)]).run()
    chosen = [action.variant_id for _, action in done.witness.dispatched.values()]
    assert chosen == ([expected] if expected else [])
    assert done.witness.reasons() == {0: 'completed' if expected else 'stale'}


def test_r08_one_frame_and_silence_is_one_dispatch_and_one_result():
    done = run(model('m', p50=20), 20, frames('m', 1, 33), until=500)
    assert list(done.starts) == [0]
    assert done.ended('completed') == [0]


def test_r09_three_cameras_share_one_slot_fairly():
    instants = sorted((offset + k * 1000 / 30, name)
                      for name, offset in (('a', 0), ('b', 11), ('c', 22)) for k in range(30))
    cameras = [arrive(number, 'm', at, stream=name, key=name)
               for number, (at, name) in enumerate(instants) if at < 1000]
    done = run(model('m', 'latest_per_key', capacity=3, p50=20, max_age=500), 20, cameras)
    by_camera = dict.fromkeys('abc', 0)
    for request_id in done.starts:
        by_camera[done.witness.arrivals[request_id].stream] += 1
    assert by_camera == {'a': 18, 'b': 17, 'c': 17}


@pytest.mark.parametrize('ready, low_start, protected_end', [(50, 50, 140), (75, 130, 130)])
def test_r10_a_long_low_job_starts_only_if_the_protected_frame_still_lands(
        ready, low_start, protected_end):
    s = system(model('cam', criticality='protected', p50=30, deadline=60, max_age=60, period=100),
               model('low', 'fifo', criticality='best_effort', p50=60))
    done = VirtualServer(s, {'cam_main': ms(30), 'low_main': ms(60)}, [
        arrive(0, 'cam', 0), arrive(1, 'low', ready), arrive(2, 'cam', 100)]).run()
    assert done.starts[1] == ms(low_start)
    assert done.end_of(2)[0] == ms(protected_end)
    assert done.end_of(2)[1].age_ns == ms(protected_end - 100)


def test_r13_two_models_on_one_slot_run_one_after_the_other():
    s = system(model('a', p50=40), model('b', p50=40))
    done = VirtualServer(s, {'a_main': ms(40), 'b_main': ms(40)},
                         [arrive(0, 'a', 0), arrive(1, 'b', 0)]).run()
    assert [done.end_of(k)[0] for k in (0, 1)] == [ms(40), ms(80)]
    assert done.peak == 1


def test_r14_with_a_slow_model_results_are_rare_but_fresh():
    done = run(model('m', p50=700, deadline=2000, max_age=2000), 700, frames('m', 150, 1000 / 30))
    assert len(done.starts) == 9
    assert len(done.ended('superseded')) == 141
    ages_ns = [at_ns - done.witness.arrivals[k].generation_ns
               for k, at_ns in done.starts.items() if at_ns <= ms(149 * 1000 / 30)]
    assert max(ages_ns) <= ms(33.4)


def test_r15_a_backend_error_ends_that_frame_only():
    done = VirtualServer(system(model('m', p50=20)), {'m_main': ms(20)},
                         frames('m', 11, 100)[1:], failing=[5]).run()
    assert done.ended('backend_failed') == [5]
    assert done.ended('completed') == [1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_s01_frames_with_an_invalid_stamp_never_run():
    done = run(model('m', p50=20), 20, frames('m', 5, 100, stamp=Stamp.INVALID,
                                              stamp_detail='the stamp is zero'))
    assert done.starts == {}
    assert done.ended('invalid_stamp') == [0, 1, 2, 3, 4]
    assert done.end_of(0)[1].detail == 'the stamp is zero'


def test_s04_an_invalid_stamp_does_not_shadow_the_next_good_frame():
    done = run(model('m', p50=20), 20, [
        arrive(0, 'm', 4, stamp=Stamp.INVALID), arrive(1, 'm', 40, captured=-10)])
    assert done.witness.reasons() == {0: 'invalid_stamp', 1: 'completed'}


def test_s09_three_messages_with_one_stamp_are_one_run():
    done = run(model('m', p50=20), 20, [arrive(k, 'm', 30 * k, captured=0) for k in range(3)])
    assert list(done.starts) == [0]
    assert done.ended('superseded') == [1, 2]
    assert 'duplicate capture' in done.end_of(2)[1].detail


def test_s10_a_capture_older_than_the_newest_dispatched_never_runs():
    stamps = (100, 133, 116, 166)
    done = run(model('m', p50=5), 5, [
        arrive(k, 'm', 200 + 40 * k, captured=stamp) for k, stamp in enumerate(stamps)])
    assert list(done.starts) == [0, 1, 3]
    results = [done.witness.arrivals[k].generation_ns for k in done.ended('completed')]
    assert results == sorted(set(results))


def test_c02_the_first_frame_after_a_backward_jump_runs():
    done = run(model('m', p50=5), 5, [
        arrive(0, 'm', 851, captured=851), arrive(1, 'm', 861, captured=861),
        (ms(870), TimeJumped('the bag begins again')), arrive(2, 'm', 871, captured=851)])
    assert list(done.starts) == [0, 1, 2]


def test_c02_what_waits_at_a_jump_is_cancelled():
    done = run(model('m', 'fifo', capacity=4, p50=50), 50, [
        arrive(0, 'm', 0), arrive(1, 'm', 1), arrive(2, 'm', 2),
        (ms(10), TimeJumped('the bag begins again'))])
    assert done.witness.reasons() == {0: 'completed', 1: 'cancelled', 2: 'cancelled'}


@pytest.mark.parametrize('first, second', [('a', 'b'), ('b', 'a')])
def test_c10_at_equal_stamps_the_order_of_arrival_decides_nothing(first, second):
    s = system(model('a', p50=20, deadline=60, max_age=60),
               model('b', p50=20, deadline=30, max_age=30), model('hog', p50=5))
    done = VirtualServer(s, {'a_main': ms(20), 'b_main': ms(20), 'hog_main': ms(5)}, [
        arrive(0, 'hog', 8), arrive(1, first, 10, captured=10),
        arrive(2, second, 10, captured=10)]).run()
    ends = {done.witness.arrivals[k].model: (at_ns, action.reason.value)
            for k, (at_ns, action) in done.witness.ended.items()}
    assert ends == {'hog': (ms(13), 'completed'), 'b': (ms(33), 'completed'),
                    'a': (ms(53), 'completed')}


def test_t01_a_lost_request_ends_at_the_limit_and_the_second_slot_goes_on():
    done = VirtualServer(
        system(model('m', 'fifo', capacity=4, p50=20), slots=2, inference_timeout_ns=ms(300)),
        {'m_main': ms(20)}, [arrive(0, 'm', 0), arrive(1, 'm', 310)], lost=[0]).run(ms(400))
    assert done.end_of(0)[0] == ms(300)
    assert done.witness.reasons() == {0: 'backend_timeout', 1: 'completed'}
    snapshot = done.witness.scheduler.snapshot(now_ns=ms(400))
    assert (snapshot.slots_quarantined, snapshot.is_ready) == (1, True)


def test_t03_a_request_that_timed_out_still_occupies_its_slot():
    done = VirtualServer(
        system(model('m', p50=20, max_age=900), inference_timeout_ns=ms(100)),
        {'m_main': ms(500)}, frames('m', 5, 100)).run()
    assert done.peak == 1
    assert done.end_of(0)[0] == ms(100)
    assert done.starts == {0: 0, 4: ms(500)}
    assert done.witness.scheduler.snapshot(now_ns=ms(1100)).late_answers == 2


def test_t05_and_t18_one_request_is_with_the_server_and_the_newest_runs_next():
    done = run(model('m', p50=20), 20, [arrive(k, 'm', k) for k in range(3)])
    assert done.peak == 1
    assert list(done.starts) == [0, 2]
    assert done.ended('superseded') == [1]


@pytest.mark.parametrize('slots, depth', [(1, 0), (1, 1), (2, 0), (2, 2)])
def test_t21_a_burst_never_reaches_the_server(slots, depth):
    done = run(model('m', 'fifo', capacity=8, p50=20), 20,
               [arrive(k, 'm', k) for k in range(1000)], slots=slots, pipelining_depth=depth)
    assert done.peak == slots * (1 + depth)
    assert len(done.ended('capacity')) + len(done.ended('completed')) + len(
        done.ended('infeasible')) == 1000


def test_a_client_that_withdraws_a_running_request_still_gets_its_answer():
    done = run(model('m', p50=20), 20, [arrive(0, 'm', 0), (ms(5), CancelRequested(0))])
    assert done.witness.reasons() == {0: 'completed'}
