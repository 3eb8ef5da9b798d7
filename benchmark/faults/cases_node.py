"""Faults of the node's own life: signals, transitions, death."""

import signal
import subprocess
import time

from benchmark.faults.registry import fault
from benchmark.faults.staging import DRAIN_S, until
from benchmark.faults.world import World


def busy(world: World, count: int = 3) -> list[int]:
    """Publish frames on the slow stream until one runs and the others wait."""
    frames = world.publish('slow', count)
    until(lambda: world.received('slow') >= count and world.dispatched('slow') >= 1, 3.0,
          'the frames did not arrive')
    return frames


def ends_by(world: World, number: signal.Signals) -> None:
    """Three frames are accepted, the signal comes, all three are answered, code 0."""
    frames = busy(world)
    world.signal_node(number)
    assert world.wait_for_end(DRAIN_S + 5.0) == 0, world.log[-2000:]
    assert world.ends(frames) == {'completed': 3}
    world.mended()


@fault('SIGTERM with one frame running and two waiting: all are answered, code 0',
       recovery_s=25.0)
def sigterm_with_work(world: World) -> None:
    ends_by(world, signal.SIGTERM)


@fault('SIGINT with one frame running and two waiting: all are answered, code 0', recovery_s=25.0)
def sigint_with_work(world: World) -> None:
    ends_by(world, signal.SIGINT)


@fault('SIGTERM while the server stands still: all are cancelled within the drain, code 0',
       recovery_s=25.0)
def sigterm_while_the_server_is_frozen(world: World) -> None:
    world.wait_until_warm()
    world.server.pause()
    try:
        frames = busy(world)
        world.signal_node(signal.SIGTERM)
        begin_s = time.monotonic()
        assert world.wait_for_end(DRAIN_S + 8.0) == 0, world.log[-2000:]
        assert time.monotonic() - begin_s < DRAIN_S + 6.0
    finally:
        world.server.resume()
    ends = world.ends(frames)
    assert ends['completed'] == 0 and sum(ends.values()) == 3, ends
    world.mended()


@fault('a second SIGTERM while the drain goes on ends the node at once', recovery_s=25.0)
def second_signal(world: World) -> None:
    world.wait_until_warm()
    world.server.pause()
    try:
        frames = busy(world, 2)
        world.signal_node(signal.SIGTERM)
        try:
            world.wait_for_end(0.7)
            raise AssertionError('the first signal ended it although the drain goes on')
        except subprocess.TimeoutExpired:
            world.signal_node(signal.SIGTERM)
        begin_s = time.monotonic()
        assert world.wait_for_end(3.0) == 128 + signal.SIGTERM
        assert time.monotonic() - begin_s < 1.5
    finally:
        world.server.resume()
    world.forgive(frames)
    world.mended()


@fault('the node is killed (SIGKILL) with work and started again', recovery_s=25.0)
def node_killed(world: World) -> None:
    frames = busy(world, 2)
    names = world.region_names()
    world.signal_node(signal.SIGKILL)
    assert world.wait_for_end(5.0) == -signal.SIGKILL
    world.forgive(frames)
    assert not names, f'a killed node leaves {names}'
    world.mended()


@fault('the node stands still for 1.5 s (SIGSTOP), then goes on', is_fast=True)
def node_frozen(world: World) -> None:
    world.signal_node(signal.SIGSTOP)
    frames = world.publish('quick', 3)
    time.sleep(1.5)
    world.signal_node(signal.SIGCONT)
    world.mended()
    assert sum(world.ends(frames).values()) == 3


@fault('deactivated with work, activated again: all are answered first', recovery_s=8.0,
       is_fast=True)
def deactivated_with_work(world: World) -> None:
    frames = busy(world)
    assert world.change('deactivate')
    assert world.ends(frames) == {'completed': 3}
    world.mended()
    assert world.change('activate')
    world.wait_until_listening()


@fault('deactivated while the server stands still, activated again', recovery_s=10.0)
def deactivated_while_the_server_is_frozen(world: World) -> None:
    world.wait_until_warm()
    world.server.pause()
    try:
        frames = busy(world)
        begin_s = time.monotonic()
        assert world.change('deactivate')
        assert time.monotonic() - begin_s < DRAIN_S + 3.0
        ends = world.ends(frames)
        assert ends['completed'] == 0 and sum(ends.values()) == 3, ends
    finally:
        world.server.resume()
    world.mended()
    assert world.change('activate')
    world.wait_until_listening()
    # The server could not be told of the memory of this stream; its next frame tries again.
    assert world.run_one('slow') == 'completed'


@fault('deactivated, cleaned up, configured and activated with work', recovery_s=12.0)
def whole_round_through_the_lifecycle(world: World) -> None:
    frames = busy(world)
    for transition in ('deactivate', 'cleanup', 'configure', 'activate'):
        assert world.change(transition), transition
    assert world.ends(frames) == {'completed': 3}
    world.mended()
    world.wait_until_listening()


@fault('shut down by the lifecycle with work: all are answered, and the process ends with 0',
       recovery_s=25.0, is_fast=True)
def shutdown_transition_with_work(world: World) -> None:
    frames = busy(world)
    assert world.change('shutdown_active')
    assert world.ends(frames) == {'completed': 3}
    world.signal_node(signal.SIGTERM)
    assert world.wait_for_end(5.0) == 0
    world.mended()


@fault('SIGTERM before it is configured: code 0', starts_itself=True,
       recovery_s=25.0)
def sigterm_unconfigured(world: World) -> None:
    _ends_idle(world, ())


@fault('SIGTERM while it is inactive: code 0', starts_itself=True,
       recovery_s=25.0)
def sigterm_inactive(world: World) -> None:
    _ends_idle(world, ('configure',))


@fault('SIGTERM after it was deactivated: code 0', starts_itself=True,
       recovery_s=25.0)
def sigterm_deactivated(world: World) -> None:
    _ends_idle(world, ('configure', 'activate', 'deactivate'))


@fault('shut down by the lifecycle while unconfigured, then SIGTERM: code 0', starts_itself=True,
       recovery_s=25.0)
def shutdown_transition_unconfigured(world: World) -> None:
    _ends_idle(world, ('shutdown_unconfigured',))


@fault('shut down by the lifecycle while inactive, then SIGTERM: code 0', starts_itself=True,
       recovery_s=25.0)
def shutdown_transition_inactive(world: World) -> None:
    _ends_idle(world, ('configure', 'shutdown_inactive'))


def _ends_idle(world: World, transitions: tuple[str, ...]) -> None:
    world.start_node(waits=False, autostart=False)
    for transition in transitions:
        assert world.change(transition), transition
    until(lambda: world.readiness, 10.0, 'the node says nothing')
    world.signal_node(signal.SIGTERM)
    assert world.wait_for_end(5.0) == 0
    assert 'Traceback' not in world.log
    world.mended()
    world.start_node()


@fault('SIGTERM while configure waits for a server that stands still: code 0',
       starts_itself=True, recovery_s=25.0)
def sigterm_while_configuring(world: World) -> None:
    world.server.pause()
    try:
        world.start_node(waits=False)
        until(lambda: 'vig' in world.log or 'configure' in world.log or world.readiness, 8.0,
              'the node does not start')
        world.signal_node(signal.SIGTERM)
        assert world.wait_for_end(8.0) == 0, world.log
    finally:
        world.server.resume()
    assert 'Traceback' not in world.log
    world.mended()
    world.start_node()
