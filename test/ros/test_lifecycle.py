"""Configure, activate, deactivate, clean up: each whole, each undone when it fails."""

import threading

from stage import config_text, image, model_text, stream_text

from vig.msg import RequestStatus

from waiting import wait_until


def subscribed(stage, topic='/cam'):
    """Count the subscriptions of the governor on a topic, as the node itself holds them."""
    return [each.topic_name for each in stage.node.subscriptions].count(topic)


def test_nothing_that_was_sent_while_inactive_is_ever_run(stage):
    """L01: subscriptions exist only while the node is active."""
    results, statuses = stage.one_camera()
    assert stage.change('configure')[0]
    camera = stage.camera(subscribers=0)
    for _ in range(5):
        camera.publish(image(1))
    assert stage.change('activate')[0]
    wait_until(lambda: camera.get_subscription_count() == 1)
    camera.publish(image(2, frame_id='after'))
    statuses.wait_for(1)
    assert [status.header.frame_id for status in statuses.messages] == ['after']
    assert len(results) == 1


def test_a_failed_configure_leaves_nothing_and_the_next_one_works(stage):
    """L04: a bad model name, then the right one; one subscription per topic."""
    results, statuses = stage.one_camera(backend_model='ecko')
    nodes_publishers = len(list(stage.node.publishers))
    success, seconds = stage.change('configure')
    assert not success and seconds < 5
    assert "has no model 'ecko'" in stage.node.last_failure
    assert 'echo' in stage.node.last_failure
    assert stage.state() == 'unconfigured'
    assert len(list(stage.node.publishers)) == nodes_publishers
    stage.write(config_text(stage.endpoint, models=[model_text('detector', 'echo')],
                            streams=[stream_text('front', '/cam', 'detector')]))
    stage.activate()
    assert subscribed(stage) == 1
    stage.camera().publish(image())
    results.wait_for(1)


def test_a_server_that_hangs_fails_configure_in_time_and_a_retry_works(stage, triton):
    """L02: bounded well below the five seconds that a lifecycle manager waits."""
    stage.one_camera()
    triton.pause()
    try:
        success, seconds = stage.change('configure')
    finally:
        triton.resume()
    assert not success and seconds < 5
    assert 'no Triton server answered' in stage.node.last_failure
    assert stage.change('configure')[0], stage.node.last_failure


def test_two_rounds_through_the_lifecycle_do_not_subscribe_twice(stage):
    results, statuses = stage.one_camera()
    before = len(list(stage.node.publishers))
    stage.activate()
    assert stage.change('deactivate')[0] and subscribed(stage) == 0
    assert stage.change('cleanup')[0]
    assert len(list(stage.node.publishers)) == before
    stage.activate()
    assert subscribed(stage) == 1
    stage.camera().publish(image())
    statuses.wait_for(1)
    assert stage.change('deactivate')[0]
    assert len(results) == len(statuses) == 1


def test_a_wrong_value_is_named_and_the_node_stays_unconfigured(stage):
    """L05: no exception is swallowed; the log says file, line, key and value."""
    stage.governor(stage.write(
        config_text(stage.endpoint, models=[model_text('detector', 'echo', max_age_ms=-1)],
                    streams=[stream_text('front', '/cam', 'detector')])))
    success, _ = stage.change('configure')
    assert not success and stage.state() == 'unconfigured'
    assert 'max_age_ms' in stage.node.last_failure and '-1' in stage.node.last_failure
    assert 'vig.yaml:' in stage.node.last_failure
    stage.entry('governor', b'\x02', 'max_age_ms')


def test_deactivation_answers_what_is_accepted_before_the_publishers_fall_silent(stage):
    """L09: the running inference ends 300 ms later and is published."""
    results, statuses = stage.one_camera(backend_model='slow', runtime_ms=310)
    stage.activate()
    stage.camera().publish(image(1))
    wait_until(lambda: stage.node.session.publishing.dispatched['front'])
    assert stage.change('deactivate')[0]
    statuses.wait_for(1)
    assert statuses.messages[0].reason == RequestStatus.COMPLETED
    results.wait_for(1)


def test_deactivation_cancels_with_a_status_what_does_not_end_in_time(stage, triton):
    """L09: the server stands still; the drain ends after drain_deadline_s."""
    results, statuses = stage.one_camera(
        backend_model='slow', runtime_ms=310, policy='fifo', capacity=4)
    stage.activate()
    camera = stage.camera(reliable=True)
    intake = stage.node.session.intakes['front']
    triton.pause()
    resume = threading.Timer(20, triton.resume)
    resume.start()
    try:
        for count in (1, 2, 3):
            camera.publish(image())
            wait_until(lambda: intake.received == count)
        success, seconds = stage.change('deactivate')
    finally:
        resume.cancel()
        triton.resume()
    assert success and 2 <= seconds < 5
    statuses.wait_for(3)
    assert {status.reason for status in statuses.messages} == {RequestStatus.CANCELLED}
    assert len(statuses) == 3 and not results.messages
    ended = stage.node.last_actor
    wait_until(lambda: ended.unproven_executions == 0, 5, 'the late answer is not booked')


def test_what_an_activation_left_unproven_holds_its_slot_in_the_next(stage, triton):
    """The server stands still over deactivate and activate; its late answer frees the slot."""
    _, statuses = stage.one_camera(
        backend_model='slow', runtime_ms=310, policy='fifo', capacity=4)
    stage.activate()
    camera = stage.camera(reliable=True)
    triton.pause()
    resume = threading.Timer(25, triton.resume)
    resume.start()
    try:
        camera.publish(image())
        wait_until(lambda: stage.node.session.publishing.dispatched['front'])
        assert stage.change('deactivate')[0]
        statuses.wait_for(1)
        assert stage.change('activate')[0], stage.node.last_failure
        camera.publish(image())
        wait_until(lambda: stage.node.session.intakes['front'].received == 1)
        snapshot = stage.node.session.snapshot()
        assert (snapshot.slots_quarantined, snapshot.streams[0].waiting) == (1, 1)
        assert not stage.node.session.publishing.dispatched['front']
    finally:
        resume.cancel()
        triton.resume()
    statuses.wait_for(2)
    assert [status.reason for status in statuses.messages] == [
        RequestStatus.CANCELLED, RequestStatus.COMPLETED]
    assert stage.node.session.snapshot().slots_quarantined == 0


def test_a_bug_in_a_transition_is_logged_and_the_node_can_be_configured_again(
        stage, monkeypatch):
    results, _ = stage.one_camera()

    def explode(*_):
        raise ZeroDivisionError('a bug')
    monkeypatch.setattr('vig_governor.node.assemble', explode)
    assert not stage.change('configure')[0]
    assert 'ZeroDivisionError: a bug' in stage.node.last_failure
    assert stage.state() == 'unconfigured'
    monkeypatch.undo()
    stage.activate()
    stage.camera().publish(image())
    results.wait_for(1)


def test_shutdown_from_active_drains_and_finalizes(stage):
    results, statuses = stage.one_camera(backend_model='slow', runtime_ms=310)
    stage.activate()
    stage.camera().publish(image())
    wait_until(lambda: stage.node.session.publishing.dispatched['front'])
    assert stage.change('shutdown')[0]
    assert statuses.wait_for(1)[0].reason == RequestStatus.COMPLETED
    assert stage.state() == 'finalized'


def test_autostart_waits_for_the_server_and_then_runs(stage, triton, monkeypatch):
    monkeypatch.setattr('vig_governor.node.AUTOSTART_RETRY_S', 0.2)
    monkeypatch.setattr('vig_governor.assembly._CONNECT_TIMEOUT_S', 0.3)
    path = stage.write(config_text(stage.endpoint, models=[model_text('detector', 'echo')],
                                   streams=[stream_text('front', '/cam', 'detector')]))
    triton.pause()
    try:
        stage.governor(path, autostart=True)
        assert stage.state() == 'unconfigured'
        assert 'no Triton server answered' in stage.node.last_failure
    finally:
        triton.resume()
    wait_until(lambda: stage.state() == 'active', 15)
