"""What ``/diagnostics`` says when a stream is silent for a reason that somebody can mend."""

from itertools import cycle
from pathlib import Path
import re
import time

import rclpy
from rclpy.duration import Duration
from rclpy.qos import QoSProfile, QoSReliabilityPolicy

from sensor_msgs.msg import CompressedImage, Image

from stage import config_text, feed, image, model_text, stream_text

from vig.msg import RequestStatus

from vig_core.actions import OverloadState, ReportOverload
from vig_core.request import Reason
from vig_governor.reports import CHECK_PERIOD_S

from waiting import wait_until

OK, WARN, ERROR = b'\x00', b'\x01', b'\x02'
PAGE = Path(__file__).resolve().parents[2] / 'docs' / 'diagnostics.md'


def test_zero_stamps_are_refused_named_and_both_remedies_said(stage):
    """S01: five messages, none runs, one log line, diagnostics ERROR."""
    results, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    for count in range(1, 6):
        camera.publish(image(stamp_ns=0))
        statuses.wait_for(count)
    assert {status.reason for status in statuses.messages} == {RequestStatus.INVALID_STAMP}
    entry = stage.entry('stream front', ERROR, 'bad_stamp: arrival')
    assert 'time_source: arrival' in entry.message and 'streams.front' in entry.message
    assert not results.messages


def test_zero_stamps_run_as_captured_on_arrival_if_the_stream_says_so(stage):
    results, statuses = stage.one_camera(stream_extra='bad_stamp: arrival')
    stage.activate()
    camera = stage.camera()
    for count in range(1, 4):
        camera.publish(image(stamp_ns=0))
        results.wait_for(count)
    assert {status.reason for status in statuses.messages} == {RequestStatus.COMPLETED}
    assert results.messages[0].header.stamp.sec == 0


def test_a_camera_that_is_slightly_ahead_runs_and_is_warned_of_with_the_offset(stage):
    _, statuses = stage.one_camera(stream_extra='max_clock_skew_ms: 60000')
    stage.activate()
    stamp_ns = stage.node.get_clock().now().nanoseconds + 30 * 10**9
    stage.camera().publish(image(stamp_ns=stamp_ns))
    assert statuses.wait_for(1)[0].reason == RequestStatus.COMPLETED
    stage.entry('stream front', WARN, ' s ahead of ROS time')


def test_a_stream_without_data_yet_is_no_error(stage):
    stage.one_camera()
    stage.activate()
    stage.entry('stream front', OK, 'no message yet')
    stage.entry('backend', OK, 'triton 2.51')
    stage.entry('governor', OK, 'active')


def test_a_best_effort_camera_is_received_by_default(stage):
    """Q01: the default subscription is best effort."""
    results, _ = stage.one_camera()
    stage.activate()
    stage.camera(reliable=False).publish(image())
    results.wait_for(1)


def test_a_reliability_that_does_not_match_is_an_error_within_two_seconds(stage):
    """Q01: RELIABLE asked for by an override, BEST_EFFORT offered."""
    from stage import config_text, model_text, stream_text
    path = stage.write(config_text(stage.endpoint, models=[model_text('detector', 'echo')],
                                   streams=[stream_text('front', '/cam', 'detector')]))
    stage.governor(path, **{'qos_overrides./cam.subscription.reliability': 'reliable'})
    stage.activate()
    quality = QoSProfile(depth=1, reliability=QoSReliabilityPolicy.BEST_EFFORT)
    stage.client.create_publisher(Image, '/cam', quality)
    entry = stage.entry('stream front', ERROR, 'RELIABILITY', timeout=4)
    assert 'qos_overrides./cam.subscription' in entry.message


def test_a_publisher_of_another_type_is_named(stage):
    stage.one_camera()
    stage.activate()
    context = rclpy.Context()
    rclpy.init(context=context)
    stranger = rclpy.create_node('stranger', context=context)
    try:
        stranger.create_publisher(CompressedImage, '/cam', 1)
        stage.entry('stream front', ERROR,
                    '/cam is published as sensor_msgs/msg/CompressedImage, '
                    'but streams.front.type is sensor_msgs/msg/Image')
    finally:
        stranger.destroy_node()
        context.try_shutdown()


def test_a_camera_that_falls_silent_becomes_an_error(stage):
    """D03, D01: silent for three expected periods and a second."""
    _, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    feed(camera, statuses, 3)
    stage.entry('stream front', ERROR, 'no message for', timeout=5)


def test_old_frames_warn_although_the_rate_is_fine(stage):
    """R05: age is its own diagnostic."""
    _, statuses = stage.one_camera(max_age_ms=500, deadline_ms=200)
    stage.activate()
    camera = stage.camera()
    for count in range(1, 4):
        stamp_ns = stage.node.get_clock().now().nanoseconds - 10**9
        camera.publish(image(stamp_ns=stamp_ns))
        statuses.wait_for(count)
    assert {status.reason for status in statuses.messages} == {RequestStatus.STALE}
    stage.entry('stream front', WARN, 'older than max_age')


def test_a_model_that_is_slower_than_max_age_is_said_to_fit_nothing(stage):
    """R03: diagnostics ERROR before and while every frame ends stale."""
    _, statuses = stage.one_camera(runtime_ms=2400, max_age_ms=1000, deadline_ms=1000)
    stage.activate()
    camera = stage.camera()
    feed(camera, statuses, 5)
    assert {status.reason for status in statuses.messages} == {RequestStatus.STALE}
    stage.entry('stream front', ERROR, 'no variant fits')


def test_a_bag_without_simulated_time_gets_a_hint(stage):
    """C01, S03: an old stamp ends stale and the detail says what it looks like."""
    _, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    now_ns = stage.node.get_clock().now().nanoseconds
    camera.publish(image(stamp_ns=now_ns - 2 * 365 * 86400 * 10**9))
    statuses.wait_for(1)
    camera.publish(image(stamp_ns=312_400_000_000))
    statuses.wait_for(2)
    assert {status.reason for status in statuses.messages} == {RequestStatus.STALE}
    assert 'use_sim_time' in statuses.messages[0].detail
    assert 'time since boot' in statuses.messages[1].detail


def test_the_governor_says_how_fast_it_is_itself(stage):
    results, _ = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    camera.publish(image())
    results.wait_for(1)
    names = ('decision', 'receipt_to_decision', 'encode')

    def figures():
        values = {pair.key: pair.value for pair in stage.entry('governor', OK, '').values}
        return values if all(f'{name}_p50_us' in values for name in names) else None
    values = wait_until(figures)
    for name in names:
        assert 0 < float(values[f'{name}_p50_us']) <= float(values[f'{name}_p99_us']) < 10**7


def test_a_failing_server_is_an_error_that_quotes_it(stage):
    _, statuses = stage.one_camera(backend_model='failing', runtime_ms=10)
    stage.activate()
    stage.camera().publish(image(255))
    statuses.wait_for(1)
    stage.entry('stream front', ERROR, 'the image asked for an error')


def test_a_server_that_hangs_holds_the_slot_and_says_not_ready(stage, triton):
    """T08, T03: timeout for the client, the slot stays taken until the answer proves the end."""
    from stage import config_text, model_text, stream_text
    path = stage.write(config_text(
        stage.endpoint, models=[model_text('detector', 'echo')],
        streams=[stream_text('front', '/cam', 'detector')],
        backend='  inference_timeout_ms: 300\n'))
    stage.governor(path)
    results, statuses = stage.outputs('/cam')
    stage.activate()
    camera = stage.camera()
    triton.pause()
    try:
        camera.publish(image())
        assert statuses.wait_for(1)[0].reason == RequestStatus.BACKEND_TIMEOUT
        assert statuses.messages[0].holds_input
        stage.entry('backend', ERROR, '1 of 1 slots are held')
        wait_until(lambda: stage.status.messages and not stage.status.messages[-1].ready)
    finally:
        triton.resume()
    stage.entry('backend', OK, '0 of 1 slots busy')
    assert not results.messages
    camera.publish(image())
    results.wait_for(1)


def test_a_profile_that_was_measured_on_something_else_is_a_warning(stage):
    stage.one_camera()
    stage.activate()
    stage.node.session.authority.doubts = {'echo': 'artifact.digest: recorded ab, found cd'}
    entry = stage.entry('governor', WARN, 'the profile of echo was measured on something else')
    assert 'artifact.digest: recorded ab, found cd' in entry.message


def test_each_entry_names_its_hardware_and_its_values_with_units(stage):
    results, _ = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    feed(camera, results, 2)

    def values_of(part):
        entry = stage.entry(part, OK, '')
        assert entry.hardware_id
        return {pair.key: pair.value for pair in entry.values}
    front = wait_until(
        lambda: (found := values_of('stream front')).get('completed') == '2' and found)
    for name in ('age_p50', 'age_of_newest_result', 'planned_runtime', 'stamp_offset'):
        assert front[name].endswith(' ms'), name
    assert front['rate'].endswith(' Hz') and front['variant'] == 'only'
    assert front['margin'].endswith(' %') and front['completed'] == '2'
    backend = values_of('backend')
    assert backend['connection'] == 'up' and backend['foreign_executions'] == '0'
    assert backend['last_error'] == '' and backend['slots_quarantined'] == '0'
    governor = values_of('governor')
    assert governor['overload'] == 'normal' and governor['deliberate_idle_share'].endswith('%')
    told = set(re.findall(r'`([a-z_0-9]+)`', PAGE.read_text()))
    untold = {name.replace('_p99_us', '_p50_us') for name in {*front, *backend, *governor}} - told
    assert untold <= {reason.value for reason in Reason}, 'docs/diagnostics.md lacks them'


def test_the_last_error_of_the_server_is_kept_in_its_entry(stage):
    _, statuses = stage.one_camera(backend_model='failing', runtime_ms=10)
    stage.activate()
    stage.camera().publish(image(255))
    statuses.wait_for(1)

    def last_error():
        values = stage.entry('backend', OK, '').values
        return next(pair.value for pair in values if pair.key == 'last_error')
    assert 'the image asked for an error' in wait_until(last_error)


def one_report_a_minute(stage):
    """Start a governor with the camera ``front`` whose periodic reports come too late to count."""
    path = stage.write(config_text(stage.endpoint, models=[model_text('detector', 'echo')],
                                   streams=[stream_text('front', '/cam', 'detector')]))
    stage.governor(path, diagnostics_period_s=60.0)
    stage.activate()
    assert not stage.diagnostics.messages, 'a level that is OK from the start is no change'


def test_a_change_of_the_overload_state_is_published_at_once(stage):
    """Not up to a second later: the period is set to a minute."""
    one_report_a_minute(stage)
    stage.node.session.publishing.on_decided(
        ReportOverload(OverloadState.NORMAL, OverloadState.DEGRADED, 'too late'), None)
    stage.entry('governor', OK, 'active')


def test_a_stream_that_dies_and_comes_back_is_published_at_once_both_times(stage):
    one_report_a_minute(stage)
    _, statuses = stage.outputs('/cam')
    camera = stage.camera()
    feed(camera, statuses, 3)
    stage.entry('stream front', ERROR, 'no message for', timeout=5)
    feed(camera, statuses, 1)
    stage.entry('stream front', OK, ' in', timeout=5)
    assert len(stage.diagnostics.messages) == 2, 'nothing is published that has not changed'


def test_a_level_that_flaps_is_published_a_few_times_a_second_at_most(stage):
    one_report_a_minute(stage)
    monitor = stage.node.session.monitors[0]
    end_s = time.monotonic() + 2.0
    faults = cycle(['', 'a type that flaps'])
    while time.monotonic() < end_s:
        monitor.intake.mismatch = next(faults)
        stage.client.get_clock().sleep_for(Duration(seconds=0.013))
    assert 2 <= len(stage.diagnostics.messages) <= 2.0 / CHECK_PERIOD_S + 1
