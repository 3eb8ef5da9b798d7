"""Faults of the server: killed, stopped, restarted, slow, gone, wrong."""

from benchmark.faults.registry import fault
from benchmark.faults.world import until, World


@fault('the server is killed while a frame runs, and started again', recovery_s=6.0,
       is_fast=True)
def server_killed_in_mid_inference(world: World) -> None:
    running = world.publish('slow', 3)
    until(lambda: world.dispatched('slow') >= 1, 3.0, 'nothing was sent')
    world.server.kill()
    ends = world.ends(running)
    assert ends['completed'] == 0 and ends['backend_failed'] >= 1, ends
    world.server.start()
    world.mended()


@fault('the server stands still for two seconds (SIGSTOP), then goes on', is_fast=True)
def server_frozen_and_continued(world: World) -> None:
    world.server.pause()
    try:
        frames = world.publish('quick', 3)
        until(lambda: not world.is_ready, 4.0, 'the node still says that it is ready')
        world.finding('slots are held')
    finally:
        world.server.resume()
    world.mended()
    ends = world.ends(frames)
    assert ends['backend_timeout'] == 1, ends


@fault('the model answers with an error', is_fast=True)
def model_answers_errors(world: World) -> None:
    for _ in range(5):
        assert world.run_one('failing', value=255) == 'backend_failed'
    frames = world.publish('failing', value=255)
    world.ends(frames)
    assert 'the image asked for an error' in world.details(frames)[0]
    assert world.run_one('failing', value=1) == 'completed'
    world.mended()


@fault('a model is unloaded while the server runs, and loaded again', is_fast=True)
def model_unloaded_and_loaded(world: World) -> None:
    world.server.unload_model('quick')
    frames = world.publish('quick', 3)
    ends = world.ends(frames)
    assert ends == {'backend_failed': 3}, ends
    assert all("'quick'" in detail for detail in world.details(frames)), world.details(frames)
    world.server.load_model('quick')
    world.mended()


@fault('an inference takes longer than the timeout; its late answer frees the slot', is_fast=True)
def inference_beyond_the_timeout(world: World) -> None:
    late = world.publish('hang')
    assert world.ends(late)['backend_timeout'] == 1
    until(lambda: not world.is_ready, 3.0, 'the node still says that it is ready')
    behind = world.publish('quick')
    world.mended()
    assert world.ends(behind) in ({'completed': 1}, {'stale': 1})
