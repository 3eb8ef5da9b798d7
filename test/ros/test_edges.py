"""The edges of the node without a node: intake and publishing with messages of a real ROS."""

import logging

import pytest

from rclpy.qos import QoSDurabilityPolicy
from rclpy.serialization import deserialize_message

from stage import image

from vig.msg import InferenceResult, RequestStatus

from vig_core.actions import OverloadState, ReportOverload, Terminate
from vig_core.contract import Contract, Criticality
from vig_core.events import Stamp
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.snapshot import StreamSnapshot
from vig_governor.backend.base import OutputTensor
from vig_governor.config.streams import StreamBinding
from vig_governor.diagnostics import StreamDiagnostics
from vig_governor.encoders.base import InputOptions
from vig_governor.intake import CaptureOrder, Intake
from vig_governor.ports import Payload
from vig_governor.publishing import Publishing, StreamOutputs
from vig_governor.qos import status_qos

HOUR = 3600 * 10**9
NOW = 1_780_000_000 * 10**9


class SetClock:
    """A clock that the test sets."""

    def __init__(self):
        self.at_ns = HOUR

    def now_ns(self):
        return self.at_ns


class Outlet:
    """A publisher that keeps what it is given, or refuses it."""

    def __init__(self):
        self.messages = []
        self.fault = None
        self.readers = 1
        self.qos_profile = status_qos()

    def get_subscription_count(self):
        return self.readers

    def publish(self, message):
        if self.fault is not None:
            raise self.fault
        self.messages.append(message)


def binding(**options):
    return StreamBinding('front', '/cam', 'sensor_msgs/msg/Image', 'detector', 'front',
                         InputOptions('IMAGE', 'image'), **options)


def intake(posted, clock, **options):
    return Intake(binding(**options), clock=clock, ros_now_ns=lambda: NOW + clock.at_ns,
                  numbers=iter(range(1, 1000)), post=lambda *event: posted.append(event))


def test_three_hundred_frames_of_another_clock_are_counted_and_said_a_few_times(caplog):
    """S06: two computers 560,000 s apart, 30 Hz for 10 s: at most ten lines, 300 counted."""
    clock, posted = SetClock(), []
    take = intake(posted, clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(300):
            clock.at_ns += 33_000_000
            take(image(stamp_ns=NOW + clock.at_ns - 560_000 * 10**9))
    assert take.faults[Stamp.CLAMPED].count == len(posted) == 300
    assert 1 <= len(caplog.records) <= 10
    assert 'clocks differ by' in caplog.text


@pytest.mark.parametrize('seconds', [-2**31, -1, 0, 1, 2**31 - 1])
@pytest.mark.parametrize('nanoseconds', [0, 2**32 - 1])
def test_no_stamp_raises(seconds, nanoseconds):
    """C08: whatever a message says, the executor goes on and the request exists."""
    clock, posted = SetClock(), []
    message = image()
    message.header.stamp.sec, message.header.stamp.nanosec = seconds, nanoseconds
    intake(posted, clock)(message)
    (event, payload), = posted
    assert 0 <= event.generation_ns <= clock.at_ns
    assert payload.message is message


def test_a_slow_topic_is_never_called_silent(caplog):
    """D01: 0.3 Hz, judged every second for 30 s: never an error; three periods of silence are."""
    clock, posted = SetClock(), []
    take = intake(posted, clock)
    model = Model('detector', Criticality.NORMAL, Contract(deadline_ns=10**9),
                  (Variant('only', 'echo', RuntimeProfile(10, 20)),))
    monitor = StreamDiagnostics(take, model, '/cam', str)
    for second in range(40):
        if second * 10 % 33 < 10 and second < 30:
            take(image(stamp_ns=NOW + clock.at_ns))
        level = monitor.report('governor', None, clock.at_ns).level
        assert level == b'\x00' or second > 36
        clock.at_ns += 10**9
    assert level == b'\x02', 'the last message came in second 27'


def guarded(take):
    """Judge a stream whose contract promises 10 Hz."""
    model = Model('detector', Criticality.HIGH, Contract(deadline_ns=10**8, period_ns=10**8),
                  (Variant('only', 'echo', RuntimeProfile(10, 20)),))
    return StreamDiagnostics(take, model, '/cam', str)


def test_a_stream_with_a_period_is_dead_after_three_of_them_and_not_before():
    clock, posted = SetClock(), []
    take = intake(posted, clock)
    monitor = guarded(take)
    assert monitor.report('governor', None, clock.at_ns).level == b'\x00'
    for _ in range(20):
        take(image(stamp_ns=NOW + clock.at_ns))
        clock.at_ns += 10**8
    clock.at_ns += 2 * 10**8
    assert monitor.report('governor', None, clock.at_ns).level == b'\x00'
    entry = monitor.report('governor', None, clock.at_ns + 1)
    assert entry.level == b'\x02' and 'no message for 300.0 ms on /cam' in entry.message


def test_a_stream_below_its_rate_warns_and_does_not_flicker():
    clock, posted = SetClock(), []
    take = intake(posted, clock)
    monitor = guarded(take)
    levels = []
    for gap_ms in (100, 140, 160, 140, 120):
        for _ in range(60):
            take(image(stamp_ns=NOW + clock.at_ns))
            clock.at_ns += gap_ms * 10**6
        levels.append(monitor.report('governor', None, clock.at_ns).level)
    assert levels == [b'\x00', b'\x00', b'\x01', b'\x01', b'\x00']
    assert {'rate', 'rate_of_contract', 'last_message', 'stamp_offset'} <= {
        pair.key for pair in monitor.report('governor', None, clock.at_ns).values}


def seen(**fields):
    """Make the snapshot of a stream that has a miss budget and background work."""
    return StreamSnapshot(
        'front', 'detector', Criticality.HIGH, 9, 0, 0, {}, None, None, None, 0, 0, None, None,
        100, '', **fields)


def test_looks_between_two_periods_do_not_shorten_what_a_finding_lasts():
    """A refused frame is told of for three periods, however often one looks."""
    clock, posted = SetClock(), []
    take = intake(posted, clock)
    monitor = guarded(take)
    take(image(stamp_ns=0))
    levels = []
    for _ in range(4):
        levels.append({monitor.report('governor', None, clock.at_ns).level for _ in range(5)})
        monitor.end_period()
    assert levels == [{b'\x02'}, {b'\x02'}, {b'\x02'}, {b'\x00'}]


def test_what_a_contract_promises_is_among_the_values():
    clock, posted = SetClock(), []
    monitor = guarded(intake(posted, clock))
    entry = monitor.report('governor', seen(
        weakly_hard_window=100, weakly_hard_misses=2, weakly_hard_left=1, judged_cycles=4,
        covered_cycles=3, longest_gap_ns=5 * 10**6, background_ended=4, background_completed=1,
        background_required_percent=20), clock.at_ns)
    values = {pair.key: pair.value for pair in entry.values}
    assert (values['misses'], values['misses_left'], values['window_observed']) == (
        '2 of 100', '1', 'False')
    assert (values['coverage'], values['longest_gap']) == ('0.7500', '5.0 ms')
    assert values['background_progress'] == '25% of 20 % required'


def test_a_message_that_cannot_be_accepted_is_logged_and_raises_nothing(caplog):
    clock, posted = SetClock(), []
    intake(posted, clock)(object())
    assert not posted and 'could not be accepted' in caplog.text


def test_one_capture_has_one_instant_however_the_clocks_are_read():
    order = CaptureOrder()
    assert order.place(100, 1000, 0) == 1000
    assert order.place(100, 1003, 0) == 1000
    assert order.place(101, 998, 0) == 1001
    assert order.place(99, 1010, 0) == 1000
    order.forget()
    assert order.place(50, 2000, 0) == 2000


def test_older_stamps_are_newer_captures_once_their_clock_was_set_back():
    order = CaptureOrder()
    assert order.place(9_000_000_000, 1_000_000_000, 0) == 1_000_000_000
    back_ns = -5_000_000_000
    for frame in range(1, 4):
        generation_ns = 1_000_000_000 + 33_000_000 * frame
        assert order.place(4_000_000_000 + 33_000_000 * frame, generation_ns,
                           back_ns) == generation_ns
    assert order.place(4_000_000_000, 1_120_000_000, back_ns) == 1_098_999_999


@pytest.fixture
def publishing():
    variant = Variant('only', 'echo', RuntimeProfile(10, 20), quality=0.5)
    model = Model('detector', Criticality.NORMAL, Contract(deadline_ns=100), (variant,))
    made = {}

    def make(**options):
        made['outputs'] = StreamOutputs(binding(**options), Outlet(), Outlet())
        made['overloads'] = []
        sink = Publishing(System({'detector': model}), {'front': made['outputs']},
                          on_overload=lambda: made['overloads'].append(1))
        return sink, made
    return make


def ended(reason, **options):
    return Terminate(5, 'front', 'detector', 'only', reason, 'because', 3_500_000_000, 7,
                     backend_ns=9, **options)


@pytest.mark.parametrize('is_wanted', [True, False])
def test_an_obsolete_result_is_published_only_where_the_stream_wants_it(publishing, is_wanted):
    sink, made = publishing(deliver_obsolete=is_wanted)
    outputs = (OutputTensor('BOXES', 'FP32', (1, 4), bytes(16)),)
    sink.on_terminated(ended(Reason.OBSOLETE), Payload('front', image()), outputs)
    assert len(made['outputs'].status.messages) == 1
    results = [deserialize_message(written, InferenceResult)
               for written in made['outputs'].result.messages]
    assert [result.obsolete for result in results] == ([True] if is_wanted else [])
    if is_wanted:
        assert results[0].outputs[0].data.tobytes() == bytes(16)
        assert (results[0].age.sec, results[0].age.nanosec) == (3, 500_000_000)


def test_what_nobody_reads_is_not_written(publishing):
    sink, made = publishing()
    for outlet in (made['outputs'].result, made['outputs'].status):
        outlet.readers = 0
    sink.on_terminated(ended(Reason.COMPLETED), Payload('front', image()), ())
    assert not made['outputs'].result.messages and not made['outputs'].status.messages


def test_what_late_readers_get_is_written_without_a_reader(publishing):
    sink, made = publishing()
    for outlet in (made['outputs'].result, made['outputs'].status):
        outlet.readers = 0
        outlet.qos_profile.durability = QoSDurabilityPolicy.TRANSIENT_LOCAL
    sink.on_terminated(ended(Reason.COMPLETED), Payload('front', image()), ())
    assert len(made['outputs'].result.messages) == len(made['outputs'].status.messages) == 1


def test_a_result_that_cannot_be_published_still_has_its_status(publishing):
    sink, made = publishing()
    made['outputs'].result.fault = RuntimeError('publisher gone')
    with pytest.raises(RuntimeError):
        sink.on_terminated(ended(Reason.COMPLETED), Payload('front', image()), ())
    assert len(made['outputs'].status.messages) == 1


def test_a_change_of_the_overload_state_is_reported_at_once(publishing):
    sink, made = publishing()
    sink.on_decided(ReportOverload(OverloadState.NORMAL, OverloadState.DEGRADED, 'too late'), None)
    assert made['overloads'] == [1] and sink.overload_detail == 'too late'


def test_the_remark_about_a_stamp_is_in_the_status_of_a_frame_that_did_not_complete(publishing):
    sink, made = publishing()
    sink.on_terminated(ended(Reason.STALE), Payload('front', image(), 'looks like a bag'), ())
    status = deserialize_message(made['outputs'].status.messages[0], RequestStatus)
    assert status.detail == 'because; looks like a bag'
