"""The clairvoyant floor against all schedules of small cases, and against cases done by hand."""

from itertools import combinations
from random import Random

import pytest
from vig_core.sim.bound import floor_of, KnownFrame
from vig_core.sim.report import uncovered_instants, uncovered_windows


def schedules(frames, max_age, delays, free=0, done=()):
    """All results of running these frames in order, each delayed by some of ``delays``."""
    if not frames:
        yield list(done)
        return
    frame = frames[0]
    for delay in delays:
        end = max(free, frame.arrives_at_ns) + delay + frame.runtime_ns
        if end - frame.captured_at_ns <= max_age:
            yield from schedules(frames[1:], max_age, delays, end,
                                 (*done, (end, frame.captured_at_ns)))


def best(frames, count, delays, **numbers):
    """Least count over every subset of the frames."""
    return min(count(results, **numbers)
               for size in range(len(frames) + 1)
               for subset in combinations(frames, size)
               for results in schedules(subset, numbers['max_age_ns'], delays))


@pytest.mark.parametrize('seed', range(60))
def test_nothing_is_better_than_the_floor_and_something_is_as_good(seed):
    chance = Random(seed)
    period = chance.randint(3, 6)
    max_age = chance.randint(period, 2 * period + 2)
    frames = []
    for index in range(5):
        captured = index * period + chance.randint(0, 2)
        frames.append(KnownFrame(captured, captured + chance.randint(0, 1),
                                 chance.randint(1, 2 * period)))
    numbers = {'period_ns': period, 'max_age_ns': max_age,
               'duration_ns': period * 6 + chance.randint(0, period - 1)}
    floor = floor_of(frames, **numbers)
    assert floor.instants == best(frames, uncovered_instants, (0, 1), **numbers)
    assert floor.windows == best(frames, uncovered_windows, range(max_age + 1), **numbers)
    assert floor.eager_windows == best(frames, uncovered_windows, (0,), **numbers)


def test_without_frames_every_cycle_is_uncovered():
    floor = floor_of([], period_ns=10, max_age_ns=20, duration_ns=105)
    assert (floor.cycles, floor.instants, floor.windows) == (10, 10, 10)
    assert floor.instant_permille == floor.window_permille == 1000


def test_skipping_a_long_run_pays_and_the_floor_knows_it():
    frames = [KnownFrame(0, 0, 19), KnownFrame(10, 10, 5), KnownFrame(20, 20, 5)]
    floor = floor_of(frames, period_ns=10, max_age_ns=20, duration_ns=40)
    assert floor.instants == 1


def test_holding_a_run_back_can_fill_a_window_that_an_eager_schedule_leaves_empty():
    frames = [KnownFrame(0, 0, 2), KnownFrame(5, 5, 2)]
    floor = floor_of(frames, period_ns=10, max_age_ns=20, duration_ns=20)
    assert (floor.windows, floor.eager_windows) == (0, 1)
