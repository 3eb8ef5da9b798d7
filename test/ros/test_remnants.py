"""What runs at the server holds its slot over ``cleanup`` and ``configure`` too; a real server."""

import pytest
from stage import config_text, image, model_text, stream_text
from waiting import wait_until

LONG_MS = 4000


@pytest.fixture
def mortal(ros, tmp_path_factory):
    """Give a server of its own whose model ``long`` takes four seconds."""
    from triton_fixture import model_repository, require_triton
    from vig_governor.triton_server import TritonServer
    require_triton()
    folder = model_repository(tmp_path_factory.mktemp('mortal'), {
        'echo': ('echo', {}), 'long': ('sleeper', {'delay_ms': str(LONG_MS)})})
    with TritonServer(folder, load=['echo', 'long']) as server:
        yield server


def contract(endpoint, model, backend_model, runtime_ms):
    """Write a file with one camera whose drain is short."""
    text = config_text(
        endpoint, models=[model_text(model, backend_model, runtime_ms=runtime_ms, policy='fifo',
                                     capacity=4, deadline_ms=20_000, max_age_ms=30_000)],
        streams=[stream_text('front', '/cam', model)])
    return text.replace('drain_deadline_s: 2',
                        'drain_deadline_s: 0.2\n  inference_timeout_ms: 20000')


@pytest.fixture
def left(stage, mortal, monkeypatch):
    """Give a stage whose node has just sent a frame to ``long``, and its statuses."""
    monkeypatch.setattr('vig_governor.node.WARM_UP_WAIT_S', 0.1)
    path = stage.write(contract(mortal.grpc_endpoint, 'detector', 'long', LONG_MS + 50))
    stage.governor(path)
    _, statuses = stage.outputs('/cam')
    stage.activate()
    wait_until(lambda: executions(mortal) == 1, 10, 'the warm-up is not over')
    stage.camera(reliable=True).publish(image())
    wait_until(lambda: stage.node.session.publishing.dispatched['front'])
    wait_until(lambda: stage.node.governed.backend.tally.has_open('long'))
    return stage, statuses


def cleaned_up(stage):
    """Deactivate and clean up; the running inference is not waited for."""
    assert stage.change('deactivate')[0] and stage.change('cleanup')[0], stage.node.last_failure
    assert stage.node.governed is None and stage.node.last_actor.unproven_executions == 1


def executions(server):
    """Ask the server how often ``long`` has run."""
    import tritonclient.grpc as triton
    client = triton.InferenceServerClient(server.grpc_endpoint)
    try:
        stats = client.get_inference_statistics('long', client_timeout=2.0).model_stats
        return sum(each.inference_stats.success.count for each in stats)
    finally:
        client.close()


def is_held(stage):
    """Publish a frame and see that it waits behind what nobody has seen end."""
    stage.camera(reliable=True).publish(image())
    wait_until(lambda: stage.node.session.intakes['front'].received == 1)
    snapshot = stage.node.session.snapshot()
    return (snapshot.slots_quarantined, snapshot.streams[0].waiting) == (1, 1)


def is_served(stage, statuses):
    """See that the slot is given back and the waiting frame runs; both frames have one status."""
    statuses.wait_for(2, 30)
    return ([status.reason for status in statuses.messages]
            == [statuses.messages[0].CANCELLED, statuses.messages[0].COMPLETED]
            and stage.node.session.snapshot().slots_quarantined == 0
            and stage.node.last_actor.unproven_executions == 0)


def test_a_slot_stays_held_over_cleanup_and_configure_until_the_late_answer(left, mortal):
    stage, statuses = left
    cleaned_up(stage)
    assert executions(mortal) == 1
    stage.activate()
    assert is_held(stage)
    wait_until(lambda: stage.node.session.snapshot().slots_quarantined == 0, 10)
    wait_until(lambda: executions(mortal) >= 2, 1, 'the slot was given back without a proof')
    assert is_served(stage, statuses)
    assert stage.change('deactivate')[0] and stage.change('cleanup')[0]
    assert len(stage.node._remnants) == 0


def test_a_new_contract_without_that_model_still_finds_the_slot_held(left, mortal):
    """Its warm-up answers at once; only what the old contract sent keeps the slot."""
    stage, statuses = left
    cleaned_up(stage)
    stage.write(contract(mortal.grpc_endpoint, 'other', 'echo', 10))
    stage.activate()
    assert is_held(stage)
    assert is_served(stage, statuses) and executions(mortal) == 2
    watch = stage.node.governed.watch
    wait_until(lambda: set(watch._signatures) == {'echo'}, 10, 'the old model is still watched')


def test_a_restarted_server_frees_it_once_it_is_seen_to_execute(left, mortal):
    stage, statuses = left
    mortal.kill()
    wait_until(lambda: stage.node.session.snapshot().slots_quarantined == 1, 5)
    cleaned_up(stage)
    mortal.start()
    stage.write(contract(mortal.grpc_endpoint, 'other', 'echo', 10))
    stage.activate()
    wait_until(lambda: stage.node.session.snapshot().slots_quarantined == 0, 15)
    assert executions(mortal) == 1, 'only a warm-up can have proven it'
    stage.camera(reliable=True).publish(image())
    wait_until(lambda: len(statuses) == 2, 10)
    assert [status.reason for status in statuses.messages] == [
        statuses.messages[0].BACKEND_FAILED, statuses.messages[0].COMPLETED]


def test_a_proof_between_cleanup_and_configure_is_heard(left, mortal):
    stage, _ = left
    cleaned_up(stage)
    wait_until(lambda: stage.node.last_actor.unproven_executions == 0, 10)
    stage.activate()
    assert stage.node.session.snapshot().slots_quarantined == 0
    assert len(stage.node._remnants) == 0


def test_another_server_does_not_make_the_slot_free(left, triton):
    """Both may use the same accelerator: what nobody has seen end still holds the slot."""
    stage, statuses = left
    cleaned_up(stage)
    stage.write(contract(triton.grpc_endpoint, 'detector', 'echo', 10))
    stage.activate()
    assert is_held(stage)
    assert is_served(stage, statuses)


def test_a_node_that_is_destroyed_leaves_no_connection_behind(left):
    stage, _ = left
    cleaned_up(stage)
    kept = [link.backend for link in stage.node._remnants._kept]
    assert len(kept) == 1
    stage.node._remnants.close()
    assert kept[0]._is_closed and len(stage.node._remnants) == 0
