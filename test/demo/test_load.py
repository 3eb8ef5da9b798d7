"""The cameras ask for more than the slot can do, on slow and on fast machines."""

import pytest

from vig_governor.demo import load
from vig_governor.demo.plan import DemoPlan, DemoStream, DemoVariant
from vig_governor.measure.runtime import RuntimeSamples

FAST = {'face': 4.0, 'pose': 18.5, 'objects': 10.6, 'study': 18.5, 'heavy': 35.7}
SLOW = {'face': 12.0, 'pose': 48.0, 'objects': 30.0, 'study': 48.0, 'heavy': 106.0}
"""Medians in ms, as they were measured on two machines."""


def stream(name, model, rate_hz, criticality, deadline_ms, max_age_ms):
    return DemoStream(name, 'v', (4, 4), rate_hz, criticality, deadline_ms, max_age_ms,
                      (DemoVariant('only', model, 1.0),), model, 'face', seed=0)


PLAN = DemoPlan((
    stream('face', 'face', 30.0, 'protected', 80, 120),
    stream('pose', 'pose', 10.0, 'high', 90, 250),
    stream('street', 'objects', 5.0, 'normal', 200, 500),
    stream('study', 'study', 10.0, 'best_effort', 1000, 2000),
    stream('archive', 'heavy', 5.0, 'best_effort', 1000, 2000)), ())


def profiles(medians_ms, factor=1.0):
    return {name: RuntimeSamples(name, ((round(factor * ms * 1e6),),))
            for name, ms in medians_ms.items()}


def rates(plan):
    return {stream.name: stream.rate_hz for stream in plan.streams}


@pytest.mark.parametrize('medians_ms, factor', [
    (medians_ms, factor) for medians_ms in (FAST, SLOW) for factor in (0.6, 0.8, 1.0, 1.3, 1.6)])
def test_all_cameras_ask_for_too_much_and_the_first_one_for_little(medians_ms, factor):
    measured = profiles(medians_ms, factor)
    plan = load.loaded(PLAN, measured)
    assert 1.3 <= load.demand(plan, measured) <= 1.5
    assert load.share(plan.streams[0], measured) <= 0.4
    assert all(1 <= stream.rate_hz <= 75 for stream in plan.streams)


def test_a_fast_machine_has_faster_cameras_and_they_need_younger_results():
    slow, fast = (load.loaded(PLAN, profiles(each)) for each in (SLOW, FAST))
    assert rates(slow) == {'face': 30, 'pose': 10, 'street': 5, 'study': 5, 'archive': 2}
    assert rates(fast) == {'face': 75, 'pose': 25, 'street': 12.5, 'study': 15, 'archive': 7.5}
    assert [(each.deadline_ms, each.max_age_ms) for each in fast.streams] == [
        (32, 48), (36, 100), (80, 200), (1000, 2000), (1000, 2000)]
    assert [(each.deadline_ms, each.max_age_ms) for each in slow.streams] == [
        (each.deadline_ms, each.max_age_ms) for each in PLAN.streams]


@pytest.mark.parametrize('asked', [1.0, 1.2, 2.0])
def test_another_load_is_met_by_the_lowest_class_alone(asked):
    measured = profiles(FAST)
    plan, usual = load.loaded(PLAN, measured, asked), load.loaded(PLAN, measured)
    assert load.demand(plan, measured) == pytest.approx(asked, abs=0.1)
    assert plan.streams[:3] == usual.streams[:3]


@pytest.mark.parametrize('asked, rate_hz', [(0.2, 1.0), (5.0, 60.0)])
def test_a_load_out_of_reach_is_met_as_far_as_it_goes(asked, rate_hz):
    plan = load.loaded(PLAN, profiles(FAST), asked)
    assert [stream.rate_hz for stream in plan.streams[3:]] == [rate_hz, rate_hz]


def test_on_a_very_slow_machine_the_first_camera_has_its_lowest_rate():
    plan = load.loaded(PLAN, profiles(SLOW, 5.0))
    assert rates(plan) == {'face': 15, 'pose': 5, 'street': 2.5, 'study': 1, 'archive': 1}


def test_the_first_camera_is_only_as_fast_as_leaves_room_for_what_is_guarded_too():
    spread = {**profiles(FAST), 'pose': RuntimeSamples('pose', ((18_500_000, 32_000_000),))}
    assert rates(load.loaded(PLAN, spread))['face'] == 60
    # 13 + 32 - 2 - 2 * 4.4 ms of room, and a run of pose is planned with 35.2 ms; then 33.
    spread['pose'] = RuntimeSamples('pose', ((18_500_000, 30_000_000),))
    assert rates(load.loaded(PLAN, spread))['face'] == 75


def test_what_was_chosen_is_told_in_one_line_with_its_reason():
    measured = profiles(FAST)
    assert load.describe(load.loaded(PLAN, measured), measured) == (
        'chosen by these medians: face 75, pose 25, street 12.5, study 15, archive 7.5 Hz; all '
        'ask for 1.4 of what the slot can do, face for 0.30')


def test_cameras_that_somebody_else_starts_have_the_chosen_rates(tmp_path):
    plan = load.loaded(PLAN, profiles(FAST))
    assert load.at_written_rates(tmp_path, PLAN) == PLAN
    load.write_rates(tmp_path, plan)
    assert load.at_written_rates(tmp_path, PLAN) == plan
