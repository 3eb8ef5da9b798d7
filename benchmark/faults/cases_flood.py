"""More than anybody should send, from cameras and from operators."""

from benchmark.faults.registry import fault
from benchmark.faults.world import World


@fault('two hundred frames come as fast as they can be published', is_fast=True)
def burst_of_frames(world: World) -> None:
    before = world.dispatched('slow')
    ends = world.ends(world.publish('slow', 200), 30.0)
    assert sum(ends.values()) == 200, ends
    assert world.dispatched('slow') - before < 100, ends
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
