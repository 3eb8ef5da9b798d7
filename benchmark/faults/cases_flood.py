"""More than anybody should send, from cameras and from operators."""

from benchmark.faults.registry import fault
from benchmark.faults.staging import Footprint, until
from benchmark.faults.world import World

BIG = {'width': 4100, 'height': 4100}
"""An image of 50.4 MB, 48.1 MiB."""
BUDGET = '  max_inflight_mib: 64'
TOO_BIG = {'width': 4800, 'height': 4800}
"""An image of 69.1 MB, 65.9 MiB."""


@fault('two hundred frames come as fast as they can be published', is_fast=True)
def burst_of_frames(world: World) -> None:
    before = world.dispatched('slow')
    ends = world.ends(world.publish('slow', 200), 30.0)
    assert sum(ends.values()) == 200, ends
    assert world.dispatched('slow') - before < 100, ends
    world.mended()


@fault('messages of 50 MB, and one that is larger than all payloads may be together',
       starts_itself=True, recovery_s=5.0, is_fast=True)
def messages_of_fifty_megabytes(world: World) -> None:
    world.start_node(backend=BUDGET)
    assert world.run_one('sized', **BIG) == 'completed', world.log[-2000:]
    before = Footprint(world.pid)
    for _ in range(4):
        others = world.publish('quick', 2)
        assert world.run_one('sized', **BIG) == 'completed', 'the budget was not given back'
        assert world.ends(others) == {'completed': 2}
    too_big, others = world.publish('sized', **TOO_BIG), world.publish('quick', 2)
    assert world.ends(too_big) == {'capacity': 1}
    detail, = world.details(too_big)
    assert 'exceed the budget of 64.0 MiB by 1.9 MiB' in detail, detail
    assert world.ends(others) == {'completed': 2}
    assert world.run_one('sized', **BIG) == 'completed', 'what was refused is booked'
    until(lambda: Footprint(world.pid).rss_mib < before.rss_mib + 45, 3.0, lambda: (
        f'{before.rss_mib:.0f} MiB before and {Footprint(world.pid).rss_mib:.0f} MiB after'))
    world.mended()


@fault('the node goes up and down through its lifecycle five times, with work each time')
def lifecycle_five_times(world: World) -> None:
    for _ in range(5):
        frames = world.publish('quick', 2)
        for transition in ('deactivate', 'cleanup', 'configure', 'activate'):
            assert world.change(transition), f'{transition}: {world.log}'
        assert sum(world.ends(frames).values()) == 2
        world.wait_until_listening()
    world.mended()
