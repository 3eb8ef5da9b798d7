"""Simulated time, jumps, and stamps that are not what they seem."""

from rosgraph_msgs.msg import Clock

from stage import config_text, image, model_text, stream_text

from vig.msg import RequestStatus

from waiting import wait_until

SECOND = 10**9


class Simulation:
    """Publishes ``/clock`` and waits until the governor's clock shows it."""

    def __init__(self, stage):
        self.stage = stage
        self.publisher = stage.client.create_publisher(Clock, '/clock', 10)

    def show(self, seconds):
        wait_until(lambda: self.publisher.get_subscription_count() >= 1)
        message = Clock()
        message.clock.sec, message.clock.nanosec = divmod(round(seconds * SECOND), SECOND)
        self.publisher.publish(message)
        wait_until(lambda: self.stage.node.get_clock().now().nanoseconds == seconds * SECOND)


def simulated(stage):
    path = stage.write(config_text(stage.endpoint, models=[model_text('detector', 'echo')],
                                   streams=[stream_text('front', '/cam', 'detector')]))
    stage.governor(path, use_sim_time=True)
    stage.activate()
    return stage.outputs('/cam')


def test_after_a_jump_back_the_first_frame_runs(stage):
    """C02: a bag loop from 861 s to 851 s."""
    results, statuses = simulated(stage)
    clock, camera = Simulation(stage), stage.camera()
    for count, now in enumerate((851, 861, 851), start=1):
        clock.show(now)
        camera.publish(image(stamp_ns=now * SECOND - 10_000_000))
        statuses.wait_for(count)
    assert [status.reason for status in statuses.messages] == 3 * [RequestStatus.COMPLETED]


def test_a_jump_back_cancels_what_waits(stage):
    path = stage.write(config_text(
        stage.endpoint, models=[model_text('detector', 'slow', runtime_ms=310)],
        streams=[stream_text('front', '/cam', 'detector')]))
    stage.governor(path, use_sim_time=True)
    stage.activate()
    results, statuses = stage.outputs('/cam')
    clock, camera = Simulation(stage), stage.camera()
    clock.show(861)
    intake = stage.node.session.intakes['front']
    for count, stamp in enumerate((860.90, 860.95), start=1):
        camera.publish(image(stamp_ns=round(stamp * SECOND)))
        wait_until(lambda: intake.received == count)
    clock.show(851)
    statuses.wait_for(2)
    by_reason = {status.reason: status for status in statuses.messages}
    assert 'jumped by -10.000 s' in by_reason[RequestStatus.CANCELLED].detail
    assert RequestStatus.COMPLETED in by_reason


def test_every_stamp_and_age_is_of_simulated_time(stage):
    """C04: status and diagnostics are stamped near 100 s, ages are those of the simulation."""
    results, statuses = simulated(stage)
    clock, camera = Simulation(stage), stage.camera()
    clock.show(100)
    camera.publish(image(stamp_ns=99_900_000_000))
    statuses.wait_for(1)
    assert 0.1 <= statuses.messages[0].age.nanosec / SECOND < 0.9
    seen = len(stage.status), len(stage.diagnostics)
    assert stage.status.wait_for(seen[0] + 1)[-1].header.stamp.sec == 100
    assert stage.diagnostics.wait_for(seen[1] + 1)[-1].header.stamp.sec == 100


def test_without_a_clock_the_node_says_why_nothing_runs(stage):
    results, statuses = simulated(stage)
    stage.camera().publish(image())
    assert statuses.wait_for(1)[0].reason == RequestStatus.INVALID_STAMP
    stage.entry('governor', b'\x01', 'no /clock message has arrived')


def test_a_clock_that_is_published_but_not_used_is_warned_of(stage):
    stage.one_camera()
    stage.client.create_publisher(Clock, '/clock', 10)
    stage.entry('governor', b'\x01', 'use_sim_time is false')


def test_a_stamp_from_the_future_does_not_shadow_the_next_good_frame(stage):
    """S04: 4 s ahead, then a good one."""
    results, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    now_ns = stage.node.get_clock().now().nanoseconds
    camera.publish(image(stamp_ns=now_ns + 4 * SECOND))
    statuses.wait_for(1)
    camera.publish(image(stamp_ns=now_ns))
    statuses.wait_for(2)
    assert [status.reason for status in statuses.messages] == [
        RequestStatus.INVALID_STAMP, RequestStatus.COMPLETED]


def test_an_older_frame_never_runs_after_a_newer_one(stage):
    """S10: stamps 100, 133, 116, 166: 116 never runs after 133, stamps of results increase."""
    results, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    base_ns = stage.node.get_clock().now().nanoseconds - SECOND
    for count, offset_ms in enumerate((100, 133, 116, 166), start=1):
        camera.publish(image(stamp_ns=base_ns + offset_ms * 1_000_000))
        statuses.wait_for(count)
    done, superseded = RequestStatus.COMPLETED, RequestStatus.SUPERSEDED
    assert [status.reason for status in statuses.messages] == [done, done, superseded, done]
