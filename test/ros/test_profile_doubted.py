"""A running node whose profile was measured on something else plans it wider, and says so."""

from stage import config_text, image, model_text, stream_text

from vig_core.margin import DOUBT_POINTS

from waiting import wait_until

FLOOR = 110
ELSEWHERE = 'manifest: {revision: 2, runtime: {server: triton}, resources: {instances: 4}}}'
GAP = 'manifest: {revision: 2, runtime: {server: triton, library_version: "10.3"}}}'


def started(stage, manifest, *, backend_model='quick'):
    """Activate a governor of one camera whose profile has a manifest; give its publisher."""
    model = model_text('detector', backend_model)
    assert model.count('p99_us: 61000}') == 1
    path = stage.write(config_text(
        stage.endpoint, models=[model.replace('p99_us: 61000}', f'p99_us: 61000, {manifest}')],
        streams=[stream_text('front', '/cam', 'detector')]))
    stage.governor(path)
    stage.activate()
    return stage.camera()


def margin(stage):
    """Give the margin in the newest status of the node, or nothing before the first."""
    streams = [one for status in stage.status.messages[-1:] for one in status.streams]
    return streams[0].margin_percent if streams else 0


def test_other_instance_groups_widen_the_margin_of_a_running_node_and_frames_still_run(stage):
    publisher = started(stage, ELSEWHERE)
    results, _ = stage.outputs('/cam')
    entry = stage.entry('governor', b'\x01', 'resources.instances: recorded 4, found 1')
    assert 'measure again with vig calibrate' in entry.message
    wait_until(lambda: margin(stage) == FLOOR + DOUBT_POINTS, 5, lambda: str(margin(stage)))
    publisher.publish(image())
    results.wait_for(1)
    wait_until(lambda: stage.status.messages[-1].streams[0].variant == 'only', 5)
    planned = stage.status.messages[-1].streams[0].planned_runtime
    assert planned.nanosec >= 61_000_000 * (FLOOR + DOUBT_POINTS - 5) // 100


def test_what_was_widened_narrows_again_while_the_model_proves_its_runtime(stage):
    publisher = started(stage, ELSEWHERE)
    wait_until(lambda: margin(stage) == FLOOR + DOUBT_POINTS, 10)
    results, _ = stage.outputs('/cam')

    def narrowed():
        publisher.publish(image())
        return len(results) > 2 and margin(stage) < FLOOR + DOUBT_POINTS
    wait_until(narrowed, 30, lambda: f'margin {margin(stage)} after {len(results)} results')
    assert margin(stage) > FLOOR


def test_a_gap_in_the_manifest_widens_nothing(stage, caplog):
    caplog.set_level('INFO')
    publisher = started(stage, GAP)
    wait_until(lambda: 'the profile of quick: 1 fields verified' in caplog.text, 10,
               lambda: caplog.text)
    results, _ = stage.outputs('/cam')
    publisher.publish(image())
    results.wait_for(1)
    wait_until(lambda: stage.status.messages and stage.status.messages[-1].streams, 5)
    assert margin(stage) == FLOOR


def test_weights_exchanged_under_the_same_version_widen_it_after_the_next_activation(
        ros, tmp_path):
    """Calibrate, exchange, activate: the node finds out by itself; a repository of its own."""
    from stage import Stage
    from triton_fixture import model_repository, require_triton
    from vig_governor.measure.artifact import read_artifact
    from vig_governor.triton_server import TritonServer
    require_triton()
    repository = model_repository(tmp_path / 'models', {
        'quick': ('sleeper', {'delay_ms': '5'})})
    artifact = read_artifact(repository, 'quick')
    recorded = f'manifest: {{revision: 2, artifact: {{digest: "{artifact.digest}"}}}}}}'
    with TritonServer(repository) as server:
        stage = Stage(tmp_path, server.grpc_endpoint)
        try:
            text = config_text(
                server.grpc_endpoint, backend=f'  model_repository: {repository}\n',
                models=[model_text('detector', 'quick').replace(
                    'p99_us: 61000}', f'p99_us: 61000, {recorded}')],
                streams=[stream_text('front', '/cam', 'detector')])
            stage.governor(stage.write(text))
            stage.activate()
            wait_until(lambda: margin(stage) == FLOOR, 10)
            weights = repository / 'quick' / '1' / 'model.py'
            weights.write_text(weights.read_text() + '# other weights, same version\n')
            assert stage.change('deactivate')[0] and stage.change('activate')[0]
            stage.entry('governor', b'\x01', 'artifact.digest', timeout=15)
            wait_until(lambda: margin(stage) == FLOOR + DOUBT_POINTS, 5)
        finally:
            stage.close()
