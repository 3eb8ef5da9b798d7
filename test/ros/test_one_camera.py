"""One camera through the whole node and a real server: what a robot's developer sees first."""

from itertools import pairwise
import struct
import time
import zlib

from builtin_interfaces.msg import Time

from stage import image

from vig.msg import RequestStatus
from vig.srv import CancelRequests, Explain

from waiting import wait_until


def test_a_frame_comes_back_as_result_and_status_with_its_header_untouched(stage):
    results, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    sent = image(9, frame_id='left_eye')
    camera.publish(sent)
    result, = results.wait_for(1)
    status, = statuses.wait_for(1)
    assert result.header == sent.header
    assert status.header == sent.header
    assert (result.stream, result.model, result.variant) == ('front', 'detector', 'only')
    assert result.quality == 0.75 and not result.obsolete
    assert status.reason == RequestStatus.COMPLETED and status.deadline_met
    assert status.request_id == result.request_id > 0
    assert status.backend_time.nanosec > 0 and status.age.sec == 0
    checksum, shape = result.outputs
    assert (checksum.name, checksum.datatype) == ('CHECKSUM', 'UINT32')
    assert struct.unpack('<I', checksum.data) == (zlib.crc32(bytes(sent.data)),)
    assert struct.unpack('<3q', shape.data) == (6, 8, 3)


def test_the_stamp_comes_back_exactly_however_late_the_answer_is(stage):
    """S11: the stamp is the capture, not the finish."""
    results, statuses = stage.one_camera(backend_model='slow', runtime_ms=310)
    stage.activate()
    stamp_ns = time.time_ns() - 50_000_000
    stage.camera().publish(image(stamp_ns=stamp_ns))
    result, = results.wait_for(1)
    assert result.header.stamp.sec * 10**9 + result.header.stamp.nanosec == stamp_ns
    assert 0.35 < statuses.messages[0].age.nanosec / 1e9 < 0.9


def test_only_the_newest_frame_runs_and_every_frame_has_one_status(stage):
    """R01: run + superseded = received."""
    results, statuses = stage.one_camera(backend_model='slow', runtime_ms=310,
                                         max_age_ms=5000, deadline_ms=5000)
    stage.activate()
    camera = stage.camera(reliable=True)
    intake = stage.node.session.intakes['front']
    for count in range(1, 7):
        camera.publish(image())
        wait_until(lambda: intake.received == count)
    statuses.wait_for(6)
    reasons = [status.reason for status in statuses.messages]
    ran = reasons.count(RequestStatus.COMPLETED)
    assert ran + reasons.count(RequestStatus.SUPERSEDED) == 6
    assert len(results) == ran < 6
    assert len({status.request_id for status in statuses.messages}) == 6
    stamps = [(result.header.stamp.sec, result.header.stamp.nanosec)
              for result in results.messages]
    assert all(earlier < later for earlier, later in pairwise(stamps))


def test_one_failing_frame_ends_alone(stage):
    """R15: an error of the server ends that frame only."""
    results, statuses = stage.one_camera(backend_model='failing', runtime_ms=10)
    stage.activate()
    camera = stage.camera()
    for index, value in enumerate((1, 1, 255, 254, 1), start=1):
        camera.publish(image(value))
        statuses.wait_for(index)
    reasons = [status.reason for status in statuses.messages]
    failed, done = RequestStatus.BACKEND_FAILED, RequestStatus.COMPLETED
    assert reasons == [done, done, failed, failed, done]
    assert 'the image asked for an error' in statuses.messages[2].detail
    assert len(results) == 3


def test_status_counts_what_happened(stage):
    results, statuses = stage.one_camera()
    stage.activate()
    stage.camera().publish(image())
    statuses.wait_for(1)
    seen = wait_until(lambda: next((
        status for status in reversed(stage.status.messages)
        if status.streams and status.streams[0].completed == 1), None))
    assert seen.lifecycle_state == 'active' and seen.ready and seen.slots_total == 1
    stream, = seen.streams
    assert (stream.stream, stream.received, stream.dispatched) == ('front', 1, 1)
    assert stream.has_result and stream.variant == 'only'


def test_two_frames_of_one_capture_run_once(stage):
    """S09: a capture runs at most once."""
    results, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    sent = image()
    for count in (1, 2, 3):
        camera.publish(sent)
        statuses.wait_for(count)
    reasons = [status.reason for status in statuses.messages]
    assert reasons == [RequestStatus.COMPLETED] + 2 * [RequestStatus.SUPERSEDED]
    assert len(results) == 1


def test_the_governor_explains_its_last_decisions(stage):
    results, statuses = stage.one_camera()
    stage.activate()
    stage.camera().publish(image())
    statuses.wait_for(1)
    client = stage.client.create_client(Explain, '/governor/explain')
    assert client.wait_for_service(5)
    told = stage.call(client, Explain.Request(stream='front')).decisions
    assert len(told) == 2
    assert 'was sent to echo as variant only' in told[0]
    assert 'were left to its deadline' in told[0]
    assert 'ended completed' in told[1] and statuses.messages[0].detail in told[1]
    number = statuses.messages[0].request_id
    gone = stage.call(client, Explain.Request(stream='front', request_id=number + 70))
    assert not gone.success and f'remembered: requests {number} to {number}' in gone.message
    stamp = statuses.messages[0].header.stamp
    assert stage.call(client, Explain.Request(stream='front', stamp=stamp)).decisions == told
    other = stage.call(client, Explain.Request(stream='front', stamp=Time(sec=stamp.sec)))
    assert not other.success
    assert f'about stamp {stamp.sec}.000000000 of stream front' in other.message
    assert f'with stamps {stamp.sec}.{stamp.nanosec:09d} to' in other.message
    wrong = stage.call(client, Explain.Request(stream='rear'))
    assert not wrong.success and wrong.message == "there is no stream 'rear'; there are front"


def test_a_client_withdraws_what_waits_and_is_told_what_it_got_wrong(stage):
    _, statuses = stage.one_camera(backend_model='slow', runtime_ms=310, policy='fifo',
                                   capacity=4)
    client = stage.client.create_client(CancelRequests, '/governor/cancel')
    assert client.wait_for_service(5)
    idle = stage.call(client, CancelRequests.Request())
    assert not idle.success and idle.message == 'the governor is not active'
    stage.activate()
    camera = stage.camera(reliable=True)
    intake = stage.node.session.intakes['front']
    for count in (1, 2, 3):
        camera.publish(image())
        wait_until(lambda: intake.received == count)
    answer = stage.call(client, CancelRequests.Request(stream='front'))
    assert answer.success and answer.cancelled == 2
    wrong = stage.call(client, CancelRequests.Request(stream='rear'))
    assert not wrong.success and 'there are front' in wrong.message
    gone = stage.call(client, CancelRequests.Request(request_id=77))
    assert not gone.success and 'request 77' in gone.message
    statuses.wait_for(3)
    assert sorted(status.reason for status in statuses.messages) == [
        RequestStatus.COMPLETED, RequestStatus.CANCELLED, RequestStatus.CANCELLED]
