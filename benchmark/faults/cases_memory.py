"""Faults of the memory that the node shares with the server."""

import os
import signal

from benchmark.faults.registry import fault
from benchmark.faults.staging import until
from benchmark.faults.world import World
import tritonclient.grpc as triton
from vig_governor.triton_server import TritonServer

BIG = {'width': 640, 'height': 480}


def by_reference(world: World) -> None:
    """Publish big frames until the server has been told of their memory."""
    for _ in range(3):
        assert world.run_one('sized', **BIG) == 'completed'


@fault('the server is restarted and has forgotten the memory of every stream', recovery_s=6.0)
def memory_lost_after_a_restart(world: World) -> None:
    by_reference(world)
    world.server.kill()
    world.server.start()
    world.mended()
    world.recover(6.0, 'sized')
    by_reference(world)


@fault('somebody unregisters all shared memory at the server', is_fast=True)
def memory_unregistered_by_somebody(world: World) -> None:
    by_reference(world)
    stranger = triton.InferenceServerClient(world.endpoint)
    stranger.unregister_system_shared_memory()
    stranger.close()
    world.mended()
    frames = world.publish('sized', 2, **BIG)
    assert world.ends(frames) == {'completed': 2}


@fault('the server lives in a container with a /dev/shm of its own: frames are copied instead',
       starts_itself=True, recovery_s=8.0)
def memory_refused(world: World) -> None:
    with TritonServer(world.models, load=list(world.streams), wrapper=apart()) as other:
        world.start_node(endpoint=other.grpc_endpoint)
        assert world.run_one('sized', **BIG) == 'completed'
        assert 'copied through the connection' in world.log, world.log
        world.mended()
        world.recover(8.0)
        world.end_node()


def apart() -> tuple[str, ...]:
    """Give a command that runs another one where /dev/shm is empty."""
    as_root = () if os.geteuid() == 0 else ('--user', '--map-root-user')
    return ('unshare', *as_root, '--mount', 'sh', '-c',
            'mount -t tmpfs tmpfs /dev/shm && exec "$@"', 'sh')


@fault('a former run was killed and left regions registered at the server', starts_itself=True,
       recovery_s=25.0)
def memory_leaked_by_a_former_run(world: World) -> None:
    client = triton.InferenceServerClient(world.endpoint)

    def registered() -> set[str]:
        return set(client.get_system_shared_memory_status(as_json=True).get('regions', {}))

    try:
        world.start_node()
        by_reference(world)
        left = registered()
        assert left, 'nothing was shared'
        world.signal_node(signal.SIGKILL)
        world.wait_for_end(5.0)
        world.mended()
        world.start_node()
        until(lambda: not left & registered(), 5.0,
              lambda: f'{len(left & registered())} regions of the killed node are left')
    finally:
        client.close()
