"""Cameras whose clocks are wrong: their frames end with a reason, and no good frame suffers."""

import time

from benchmark.faults.registry import fault
from benchmark.faults.world import World

SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS


@fault('three frames are stamped ten seconds ahead')
def stamps_from_the_future(world: World) -> None:
    frames = world.publish('quick', 3, ahead_ns=10 * SECOND_NS)
    assert world.ends(frames) == {'invalid_stamp': 3}
    assert all('ahead of ROS time' in detail for detail in world.details(frames))
    world.mended()


@fault('three frames are stamped with the time since boot', is_fast=True)
def stamps_since_boot(world: World) -> None:
    frames = world.publish('quick', 3, ahead_ns=time.monotonic_ns() - time.time_ns())
    assert world.ends(frames) == {'stale': 3}
    assert all('looks like time since boot' in detail for detail in world.details(frames))
    world.mended()


@fault('three frames come from a recording of last week')
def stamps_of_a_recording(world: World) -> None:
    frames = world.publish('quick', 3, ahead_ns=-7 * DAY_NS)
    assert world.ends(frames) == {'stale': 3}
    assert all('the clocks differ by' in detail for detail in world.details(frames))
    world.mended()


@fault('a second sender, whose clock is ten seconds ahead, publishes between the good frames')
def two_senders_with_different_clocks(world: World) -> None:
    for _ in range(4):
        assert world.run_one('quick', ahead_ns=10 * SECOND_NS) == 'invalid_stamp'
        assert world.run_one('quick') == 'completed'
    world.mended()
