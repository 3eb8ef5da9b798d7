"""Faults of the server: killed, stopped, restarted, slow, gone, wrong."""

from benchmark.faults.registry import fault
from benchmark.faults.staging import add_model, until
from benchmark.faults.world import World
import numpy as np
import psutil
import tritonclient.grpc as triton


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
    world.wait_until_warm()
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
    ends = world.ends(late)
    assert ends == {'backend_timeout': 1}, (ends, world.details(late))
    until(lambda: not world.is_ready, 3.0, 'the node still says that it is ready')
    behind = world.publish('quick')
    world.mended()
    assert world.ends(behind) in ({'completed': 1}, {'stale': 1})


@fault('the model raises an exception')
def model_raises_exceptions(world: World) -> None:
    frames = world.publish('failing', 3, value=254)
    assert world.ends(frames) == {'backend_failed': 3}
    assert 'the image asked for an exception' in world.details(frames)[0]
    world.mended()


@fault('the server is killed while nothing runs, and started again', recovery_s=6.0)
def server_killed_while_idle(world: World) -> None:
    world.server.kill()
    until(lambda: not world.is_ready, 8.0, 'the node still says that it is ready')
    world.finding('does not answer')
    frames = world.publish('quick', 3)
    assert world.ends(frames)['completed'] == 0
    world.server.start()
    world.mended()


@fault('the server is told to end (SIGTERM) while a frame runs: that one is answered',
       recovery_s=6.0)
def server_ended_in_mid_inference(world: World) -> None:
    running = world.publish('slow')
    until(lambda: world.dispatched('slow') >= 1, 3.0, 'nothing was sent')
    world.server.stop()
    assert world.ends(running) == {'completed': 1}
    world.server.start()
    world.mended()


@fault('the server is killed twice, the second time while it is warmed up', recovery_s=8.0)
def server_killed_twice(world: World) -> None:
    for _ in range(2):
        frames = world.publish('slow', 2)
        until(lambda: world.dispatched('slow') >= 1 or world.received('slow') >= 2, 3.0,
              'nothing arrived')
        world.server.kill()
        world.ends(frames)
        world.server.start()
    world.mended()


@fault('a server that is slow to start: the model takes three seconds to load', recovery_s=8.0)
def slow_start(world: World) -> None:
    world.server.kill()
    code = world.models / 'quick' / '1' / 'model.py'
    text = code.read_text(encoding='utf-8')
    code.write_text(text.replace('"""Read the model parameter ``delay_ms``."""',
                                 'time.sleep(3)'), encoding='utf-8')
    assert code.read_text(encoding='utf-8') != text
    try:
        frames = world.publish('quick', 2)
        world.server.start()
    finally:
        code.write_text(text, encoding='utf-8')
    world.mended()
    assert world.ends(frames)['completed'] <= 1


@fault('a model is loaded again with the same files while frames come', is_fast=True)
def model_reloaded(world: World) -> None:
    frames = world.publish('quick', 2)
    world.server.load_model('quick')
    world.mended()
    assert sum(world.ends(frames).values()) == 2


@fault('a model is loaded again with other weights (three times as slow)')
def model_reloaded_with_other_weights(world: World) -> None:
    add_model(world.models, 'quick', 'sleeper', 60)
    try:
        world.server.load_model('quick')
        until(lambda: int(world.value('backend', 'restarts_seen') or 0) >= 1, 8.0,
              'the new model was not seen')
        assert world.run_one('quick') == 'completed'
    finally:
        add_model(world.models, 'quick', 'sleeper', 20)
        world.server.load_model('quick')
    world.mended()


@fault('a model is loaded again with another input: named, and its frames end with that reason',
       recovery_s=8.0, is_fast=True)
def model_reloaded_with_another_signature(world: World) -> None:
    config = world.models / 'quick' / 'config.pbtxt'
    text = config.read_text(encoding='utf-8')
    config.write_text(text.replace('TYPE_UINT8', 'TYPE_FP32', 1), encoding='utf-8')
    try:
        world.server.load_model('quick')
        world.finding('inputs were IMAGE UINT8', 8.0)
        frames = world.publish('quick')
        assert world.ends(frames) == {'backend_failed': 1}
        assert 'when the governor was configured' in world.details(frames)[0]
    finally:
        config.write_text(text, encoding='utf-8')
        world.server.load_model('quick')
    world.mended()


@fault('the server is restarted with another model under the same name', recovery_s=8.0)
def server_restarted_with_changed_model(world: World) -> None:
    world.server.kill()
    add_model(world.models, 'quick', 'pair', 0)
    try:
        world.server.start()
        world.finding('inputs were IMAGE UINT8', 8.0)
        frames = world.publish('quick', 2)
        assert world.ends(frames) == {'backend_failed': 2}
    finally:
        add_model(world.models, 'quick', 'sleeper', 20)
        world.server.load_model('quick')
    world.mended()


@fault('the server is restarted without the model, which is loaded later', recovery_s=8.0)
def server_restarted_without_the_model(world: World) -> None:
    world.server.kill()
    world.server.start()
    world.server.unload_model('quick')
    world.finding("'quick'", 8.0)
    frames = world.publish('quick', 2)
    ends = world.ends(frames)
    assert ends['completed'] == 0, ends
    world.server.load_model('quick')
    world.mended()


@fault("the model's own process is killed: its frames end, loading it again brings it back",
       recovery_s=8.0)
def model_process_killed(world: World) -> None:
    victims = [child for child in psutil.Process(world.server.pid).children(recursive=True)
               if any('models/quick/' in part for part in child.cmdline())]
    assert victims, 'the model has no process'
    for victim in victims:
        victim.kill()
    psutil.wait_procs(victims, 3.0)
    frames = world.publish('quick', 2)
    assert world.ends(frames)['completed'] == 0
    world.server.unload_model('quick')
    world.server.load_model('quick')
    world.mended()


@fault('a model answers a shape that its configuration does not promise', recovery_s=8.0,
       is_fast=True)
def wrong_output_shape(world: World) -> None:
    code = world.models / 'quick' / '1' / 'model.py'
    text = code.read_text(encoding='utf-8')
    code.write_text(text.replace('[begin_ns, time.monotonic_ns()]',
                                 '[begin_ns, begin_ns, begin_ns]'), encoding='utf-8')
    try:
        world.server.load_model('quick')
        frames = world.publish('quick')
        assert world.ends(frames) == {'backend_failed': 1}
        assert 'promises INT64 [2]' in world.details(frames)[0], world.details(frames)
    finally:
        code.write_text(text, encoding='utf-8')
        world.server.load_model('quick')
    world.mended()


@fault('somebody else calls the model: said, and its counter frees nothing', recovery_s=6.0)
def foreign_caller(world: World) -> None:
    stranger = triton.InferenceServerClient(world.endpoint)
    wire = triton.InferInput('IMAGE', [1, 1, 3], 'UINT8')
    wire.set_data_from_numpy(np.zeros((1, 1, 3), np.uint8))

    def is_noticed() -> bool:
        # What it runs before the governor has a baseline becomes part of that.
        stranger.infer('quick', [wire])
        return any("'quick' has run" in status.message and 'for somebody else' in status.message
                   for array in world.diagnostics[-1:] for status in array.status)

    try:
        until(is_noticed, 12.0, lambda: f'not noticed; the node said:\n{world.log[-2500:]}')
    finally:
        stranger.close()
    assert world.run_one('quick') == 'completed'
    world.server.kill()
    world.server.start()
    world.mended()


@fault('nobody is at the address when the node starts; the server comes three seconds later',
       starts_itself=True, recovery_s=20.0)
def server_unreachable_at_configure(world: World) -> None:
    world.server.kill()
    world.start_node(waits=False)
    world.finding('no Triton server answered', 15.0)
    world.server.start()
    world.mended()
    world.wait_until_listening()


@fault('the server stands still when the node starts, then goes on', starts_itself=True,
       recovery_s=12.0)
def server_frozen_at_configure(world: World) -> None:
    world.server.pause()
    try:
        world.start_node(waits=False)
        world.finding('no Triton server answered', 15.0)
    finally:
        world.server.resume()
    world.mended()
    world.wait_until_listening()


@fault('a model is missing when the node starts, and is loaded later', starts_itself=True,
       recovery_s=12.0)
def model_missing_at_configure(world: World) -> None:
    world.server.unload_model('quick')
    try:
        world.start_node(waits=False)
        world.finding("'quick'", 15.0)
    finally:
        world.server.load_model('quick')
    world.mended()
    world.wait_until_listening()
