"""More of everything than anybody should send: the node goes on and says what it did not take."""

import itertools
import random
import threading

from builtin_interfaces.msg import Time

from hypothesis import given, HealthCheck, settings, strategies as st

from lifecycle_msgs.srv import GetState

import pytest

from rclpy.parameter import Parameter
from rclpy.qos import QoSDurabilityPolicy, QoSProfile

from sensor_msgs.msg import Image

from stage import config_text, image, model_text, SHUTDOWN, stream_text, TRANSITIONS

from vig.msg import RequestStatus
from vig.srv import CancelRequests, Explain

from vig_core.request import Reason
from vig_governor.services import cancel, explain

from waiting import wait_until


def ended(stream):
    """Count the requests of a stream's snapshot that have ended."""
    return sum(stream.counts.get(reason, 0) for reason in Reason)


def settled(stage):
    """Wait until nothing waits or runs, and give the counters of the streams."""
    def all_over():
        seen = stage.node.session.snapshot()
        return seen and all(ended(each) == each.received for each in seen.streams) and seen
    return wait_until(all_over, 20, lambda: stage.node.session.snapshot()).streams


def test_a_thousand_frames_in_a_second_end_one_by_one_and_few_reach_the_server(stage):
    """T21, through the middleware: whatever arrives ends once; one at a time is sent."""
    stage.one_camera(backend_model='quick', runtime_ms=21)
    stage.activate()
    camera = stage.camera(reliable=True)
    frame, pause = image(), threading.Event()
    for _ in range(1000):
        frame.header.stamp = stage.node.get_clock().now().to_msg()
        camera.publish(frame)
        pause.wait(0.001)
    intake = stage.node.session.intakes['front']
    wait_until(lambda: intake.received >= 10, 10)
    stream, = settled(stage)
    assert stream.received == intake.received
    dispatched = stage.node.session.publishing.dispatched['front']
    assert dispatched < intake.received / 2, 'one slot, 20 ms each'
    assert stream.counts[Reason.COMPLETED] == dispatched
    assert stage.node.session.actor.open_requests == 0


def test_a_burst_that_the_middleware_hands_over_whole_leaves_nothing_open(stage):
    stage.one_camera(backend_model='quick', runtime_ms=21)
    stage.activate()
    session = stage.node.session
    stamps = itertools.count(stage.node.get_clock().now().nanoseconds)
    for _ in range(1000):
        session.intakes['front'](image(stamp_ns=next(stamps)))
    stream, = settled(stage)
    assert stream.received == 1000 and session.publishing.dispatched['front'] < 50
    assert stream.counts[Reason.SUPERSEDED] + stream.counts[Reason.COMPLETED] == 1000


def test_a_hundred_streams_are_configured_in_time_and_each_frame_ends(stage):
    names = [f's{number}' for number in range(100)]
    stage.governor(stage.write(config_text(
        stage.endpoint, models=[model_text('detector', 'echo', policy='fifo', capacity=200)],
        streams=[stream_text(name, f'/{name}', 'detector') for name in names])))
    success, seconds = stage.change('configure')
    assert success and seconds < 5, stage.node.last_failure
    success, seconds = stage.change('activate')
    assert success and seconds < 5, stage.node.last_failure
    for name in names:
        stage.node.session.intakes[name](image())
    streams = settled(stage)
    assert [stream.counts.get(Reason.COMPLETED) for stream in streams] == 100 * [1]
    assert stage.change('deactivate')[0] and stage.change('cleanup')[0]


def test_topics_that_nobody_publishes_cost_nothing_and_too_many_are_refused(stage):
    def text(count):
        return config_text(
            stage.endpoint, models=[model_text('detector', 'echo', policy='fifo', capacity=9)],
            streams=[stream_text(f's{number}', f'/nobody{number}', 'detector')
                     for number in range(count)])
    stage.governor(stage.write(text(257)))
    assert not stage.change('configure')[0]
    assert 'streams' in stage.node.last_failure and 'at most 256' in stage.node.last_failure
    stage.write(text(3))
    stage.activate()
    entries = stage.entry('stream s2', b'\x00', 'no message yet')
    assert entries


@pytest.mark.parametrize('limit_mib, reason', [(512, Reason.COMPLETED), (32, Reason.CAPACITY)])
def test_a_message_of_fifty_megabytes_runs_or_finds_no_room_by_name(stage, limit_mib, reason):
    stage.governor(stage.write(config_text(
        stage.endpoint, models=[model_text('detector', 'echo')],
        backend=f'  max_inflight_mib: {limit_mib}\n',
        streams=[stream_text('front', '/cam', 'detector')])))
    stage.activate()
    _, statuses = stage.outputs('/cam')
    stage.node.session.intakes['front'](image(width=4096, height=4096))
    stream, = settled(stage)
    assert stream.counts[reason] == 1
    assert statuses.wait_for(1)[0].detail or reason is Reason.COMPLETED


@pytest.mark.parametrize('seed', range(3))
def test_transitions_in_any_order_leave_a_node_that_works(stage, seed):
    results, _ = stage.one_camera()
    chosen = random.Random(seed)
    for _ in range(25):
        stage.change(chosen.choice(sorted(TRANSITIONS)))
        session = stage.node.session
        if session is not None and chosen.random() < 0.5:
            session.intakes['front'](image())
    for transition in {'active': ['deactivate', 'cleanup'], 'inactive': ['cleanup'],
                       'unconfigured': []}[stage.state()]:
        assert stage.change(transition)[0]
    threads = [each.name for each in threading.enumerate() if each.name.startswith('vig-')]
    assert not [name for name in threads if 'actor' in name], threads
    stage.activate()
    assert [each.topic_name for each in stage.node.subscriptions].count('/cam') == 1
    before = len(results)
    stage.camera().publish(image())
    results.wait_for(before + 1)
    assert set(SHUTDOWN) >= {stage.state()}


def test_services_that_are_called_all_at_once_all_answer(stage):
    """Ten calls at once of each: more than that the queue of a ROS service does not hold."""
    stage.one_camera()
    stage.activate()
    stage.node.session.intakes['front'](image())
    settled(stage)
    calls = [(stage.client.create_client(kind, name), make) for kind, name, make in (
        (Explain, '/governor/explain', lambda n: Explain.Request(stream='front', request_id=n)),
        (CancelRequests, '/governor/cancel',
         lambda n: CancelRequests.Request(stream='x' * n * 100, request_id=n)),
        (GetState, '/governor/get_state', lambda n: GetState.Request()))]
    assert all(client.wait_for_service(10) for client, _ in calls)
    answers = []
    for first in range(0, 50, 10):
        futures = [client.call_async(make(number)) for number in range(first, first + 10)
                   for client, make in calls]
        wait_until(lambda: all(future.done() for future in futures), 20,
                   lambda: f'{sum(future.done() for future in futures)} of {len(futures)}')
        answers += [future.result() for future in futures]
    assert all(answer.success or answer.message for answer in answers
               if hasattr(answer, 'success'))


WORDS = st.sampled_from(['', 'front', 'Front', '/front', '*', '%s%n', '{0}', '\0']) | st.text(
    st.characters(exclude_categories=['Cs']), max_size=300)


def test_any_request_to_a_service_is_answered_in_words(stage):
    stage.one_camera()
    stage.activate()
    stage.node.session.intakes['front'](image())
    settled(stage)

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(stream=WORDS, number=st.integers(0, 2**64 - 1), last=st.integers(0, 2**32 - 1),
           sec=st.integers(-2**31, 2**31 - 1), nanosec=st.integers(0, 2**32 - 1))
    def ask(stream, number, last, sec, nanosec):
        told = explain(stage.node, Explain.Request(
            stream=stream, request_id=number, last=last, stamp=Time(sec=sec, nanosec=nanosec)),
            Explain.Response())
        assert told.success or 0 < len(told.message) < 1000
        withdrawn = cancel(stage.node, CancelRequests.Request(stream=stream, request_id=number),
                           CancelRequests.Response())
        assert withdrawn.success or 0 < len(withdrawn.message) < 1000
    ask()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(width=st.integers(0, 2**32 - 1), height=st.integers(0, 2**32 - 1),
       step=st.integers(0, 2**32 - 1), encoding=st.text(max_size=40), data=st.binary(max_size=64))
def fuzz(stage, statuses, width, height, step, encoding, data):
    """Publish one odd frame through the intake and read its status."""
    message = image()
    message.width, message.height, message.step = width, height, step
    message.encoding = encoding.replace('\0', '')
    message.data = data
    before = len(statuses)
    stage.node.session.intakes['front'](message)
    status = statuses.wait_for(before + 1)[-1]
    assert status.reason == RequestStatus.COMPLETED or 0 < len(status.detail) < 2000


def test_any_frame_ends_with_a_named_reason(stage, caplog):
    _, statuses = stage.one_camera()
    stage.activate()
    fuzz(stage, statuses)
    assert 'Traceback' not in caplog.text


def test_a_durability_that_does_not_match_is_said(stage):
    """Q01 for the other policy: transient local asked for, volatile offered."""
    path = stage.write(config_text(stage.endpoint, models=[model_text('detector', 'echo')],
                                   streams=[stream_text('front', '/cam', 'detector')]))
    stage.governor(path, **{'qos_overrides./cam.subscription.durability': 'transient_local'})
    stage.activate()
    stage.client.create_publisher(Image, '/cam', QoSProfile(
        depth=1, durability=QoSDurabilityPolicy.VOLATILE))
    stage.entry('stream front', b'\x02', 'DURABILITY', timeout=4)


def test_a_parameter_that_would_change_nothing_is_refused_with_what_to_do_first(stage):
    """D07: accepted at run time and without effect is what nobody should have to find out."""
    stage.one_camera()
    node = stage.node

    def said(name, value):
        answer, = node.set_parameters([Parameter(name, value=value)])
        return answer.reason if not answer.successful else 'accepted'
    assert said('log_decisions', True) == 'accepted'
    stage.activate()
    assert 'deactivate first' in said('log_decisions', False)
    assert 'deactivate and cleanup first' in said('config', '/other.yaml')
    assert stage.change('deactivate')[0]
    assert said('log_decisions', False) == 'accepted'
    assert 'cleanup first' in said('config', '/other.yaml')
