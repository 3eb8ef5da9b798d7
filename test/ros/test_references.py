"""Frames that stay where they are: a real producer, the real node, a real server."""

from contextlib import contextmanager
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import time
import zlib

import numpy as np
import pytest

from stage import config_text, model_text, Reader, stream_text

import tritonclient.grpc

from vig.msg import InferenceResult, RequestStatus, TensorReference

from vig_governor.backend.references import References
from vig_governor.producer import ProducerError, TensorProducer

from waiting import wait_until

ROOT = Path(__file__).parents[2]
TOPIC = '/cam/tensor'
SHAPE = (24, 32, 3)
SIZE = 24 * 32 * 3
PREFIX = f'/vig_ros_test_{os.getpid()}_'


def reference_text(name='front', topic=TOPIC, model='detector', extra=''):
    """Write the block of a stream of references."""
    return (f'  {name}:\n    topic: {topic}\n    type: vig/msg/TensorReference\n'
            f'    model: {model}\n    input: {{tensor: IMAGE, encoder: reference}}\n{extra}')


def activate(stage, backend_model='echo', *, stream_extra='', backend='', **model):
    """Start a governor with one stream of references; give result and status readers."""
    path = stage.write(config_text(
        stage.endpoint, models=[model_text('detector', backend_model, **model)],
        streams=[reference_text(extra=stream_extra)], backend=backend))
    stage.governor(path)
    outputs = stage.outputs(TOPIC)
    stage.activate()
    return outputs


@contextmanager
def producing(node, **options):
    """Give a producer on a node that is spun, known to the governor."""
    producer = TensorProducer(node, TOPIC, **{
        'tensor': 'IMAGE', 'shape': SHAPE, 'frame_id': 'front', **options})
    try:
        wait_until(lambda: producer.is_heard, 10, 'the governor')
        wait_until(lambda: not producer._is_alone(), 10, "the governor's statuses")
        yield producer
    finally:
        producer.close()


def publish(producer, value=7):
    with producer.frame() as (array, _):
        array[...] = value
    return zlib.crc32(np.full(SHAPE, value, np.uint8))


def checksum(result):
    return int(np.frombuffer(next(output.data for output in result.outputs
                                  if output.name == 'CHECKSUM'), np.uint32)[0])


@pytest.fixture(autouse=True)
def lent_names(monkeypatch):
    """Keep every name under which a producer's region was registered."""
    names, introduce = set(), References._introduce

    def note(references, region):
        introduce(references, region)
        names.add(region.name)

    monkeypatch.setattr(References, '_introduce', note)
    return names


@pytest.fixture
def registered(stage, lent_names):
    """Give a function that names the producers' regions that the server has registered."""
    with tritonclient.grpc.InferenceServerClient(stage.endpoint) as client:
        yield lambda: lent_names & set(client.get_system_shared_memory_status().regions)


def own_files():
    return [name for name in os.listdir('/dev/shm')
            if re.match(rf'vig_(producer_)?{os.getpid()}_', name)]


def test_frames_reach_the_model_unchanged_and_their_memory_comes_back(stage, registered):
    results, statuses = activate(stage)
    with producing(stage.client) as producer:
        sums = []
        for count in range(1, 13):
            sums.append(publish(producer, count))
            statuses.wait_for(count)
            wait_until(lambda: not producer.lent)
        results.wait_for(12)
        assert [checksum(result) for result in results.messages] == sums
        assert {status.reason for status in statuses.messages} == {RequestStatus.COMPLETED}
        assert all(result.header.frame_id == 'front' for result in results.messages)
        backend = stage.node.governed.backend
        assert backend.sent_by_reference == 12
        assert backend.sent_inline <= 1, 'only the warm-up, which has no producer'
        assert len(registered()) == 1, 'one frame at a time needs one memory'
        assert (producer.sent, producer.dropped, producer.given_up) == (12, 0, 0)
    wait_until(lambda: not registered(), what='the end of the registrations')
    assert not own_files()


def test_an_array_can_not_be_written_after_its_frame_was_lent(stage):
    activate(stage)
    with producing(stage.client) as producer:
        with producer.frame() as (array, header):
            array[...] = 1
            assert header.frame_id == 'front'
        with pytest.raises(ValueError, match='read-only'):
            array[0] = 2


def test_a_failing_block_publishes_nothing_and_loses_no_memory(stage):
    _, statuses = activate(stage)
    with producing(stage.client, slots=1) as producer:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                with producer.frame():
                    raise ZeroDivisionError
        publish(producer)
        statuses.wait_for(1)
        assert producer.sent == 1 and len(statuses) == 1


def test_a_producer_that_ends_waits_for_the_frame_that_runs_and_loses_none(stage):
    _, statuses = activate(stage, 'slow', runtime_ms=310)
    with producing(stage.client) as producer:
        publish(producer)
        wait_until(lambda: stage.node.session.intakes['front'].received == 1)
        publish(producer)
        producer.close(timeout_s=10)
        statuses.wait_for(2)
        assert {status.reason for status in statuses.messages} == {RequestStatus.COMPLETED}
        assert producer.given_up == 0 and not own_files()


def test_a_producer_that_ends_waits_for_a_status_no_longer_than_it_was_told(stage):
    activate(stage, 'slow', runtime_ms=310)
    with producing(stage.client) as producer:
        publish(producer)
        wait_until(lambda: stage.node.session.intakes['front'].received == 1)
        begin_s = time.monotonic()
        producer.close(timeout_s=0.2)
        assert 0.2 <= time.monotonic() - begin_s < 2.0
        assert not own_files()


def test_superseded_frames_give_their_memory_back_while_another_runs(stage):
    _, statuses = activate(stage, 'slow', runtime_ms=310)
    with producing(stage.client, slots=3) as producer:
        for count in range(1, 7):
            publish(producer, count)
            wait_until(lambda: stage.node.session.intakes['front'].received == count)
            wait_until(lambda: producer.lent <= 2)
        statuses.wait_for(6)
        wait_until(lambda: not producer.lent)
        assert producer.dropped == producer.given_up == 0


def make_region(key, *, size=SIZE, mode=0o600, owner=None):
    file = os.open(f'/dev/shm{key}', os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.ftruncate(file, size)
    os.fchmod(file, mode)
    if owner is not None:
        os.fchown(file, owner, owner)
    os.close(file)


@pytest.fixture
def regions():
    """Give a maker of regions that are removed in the end."""
    yield lambda name, **options: make_region(PREFIX + name, **options)
    for name in os.listdir('/dev/shm'):
        if name.startswith(PREFIX[1:]):
            os.unlink(f'/dev/shm/{name}')


def test_each_bad_reference_ends_its_own_frame_with_the_reason_and_no_other(
        stage, regions, registered):
    results, statuses = activate(stage)
    regions('good')
    regions('small', size=SIZE - 1)
    regions('open', mode=0o666)
    cases = [
        ({'region': PREFIX + 'none'}, 'is not there'),
        ({'region': '/elsewhere'}, 'is no allowed name'),
        ({'region': f'{PREFIX}../x'}, 'is no allowed name'),
        ({'region': PREFIX + 'small'}, f'holds {SIZE - 1} bytes'),
        ({'region': PREFIX + 'open'}, 'may be written by everybody'),
        ({'offset': 1}, f'takes {SIZE} from byte 1 on'),
        ({'offset': 2**64 - 1}, 'from byte 18446744073709551615 on'),
        ({'byte_size': SIZE - 1}, f'takes {SIZE}'),
        ({'byte_size': 0}, 'says 0 bytes'),
        ({'datatype': 'FP32'}, 'of the model is UINT8'),
        ({'name': 'PICTURE'}, "feeds 'IMAGE'"),
        ({'shape': [SIZE]}, 'wants [-1, -1, -1]'),
        ({'shape': [2**62, 2**62, 2**62]}, 'takes'),
    ]
    if os.geteuid() == 0:
        regions('foreign', owner=12345)
        cases.append(({'region': PREFIX + 'foreign'}, 'belongs to user 12345'))
    camera = stage.camera(TOPIC, kind=TensorReference)

    def send(**fields):
        message = TensorReference(**{
            'region': PREFIX + 'good', 'byte_size': SIZE, 'name': 'IMAGE', 'datatype': 'UINT8',
            'shape': SHAPE, **fields})
        message.header.stamp = stage.client.get_clock().now().to_msg()
        camera.publish(message)
        return statuses.wait_for(len(statuses) + 1)[-1]

    for fields, words in cases:
        status = send(**fields)
        assert status.reason == RequestStatus.BACKEND_FAILED and words in status.detail, fields
        assert not status.holds_input and len(status.detail) < 500
        assert send().reason == RequestStatus.COMPLETED
    results.wait_for(len(cases))
    assert len(results) == len(cases)
    assert len(registered()) == 1


def test_a_replaced_region_is_read_anew(stage, regions):
    results, statuses = activate(stage)
    camera = stage.camera(TOPIC, kind=TensorReference)
    sums = []
    for count, value in enumerate((1, 2), start=1):
        regions('front')
        with open(f'/dev/shm{PREFIX}front', 'r+b') as file:
            file.write(bytes([value]) * SIZE)
        sums.append(zlib.crc32(bytes([value]) * SIZE))
        message = TensorReference(region=PREFIX + 'front', byte_size=SIZE, name='IMAGE',
                                  datatype='UINT8', shape=SHAPE)
        message.header.stamp = stage.client.get_clock().now().to_msg()
        camera.publish(message)
        statuses.wait_for(count)
        os.unlink(f'/dev/shm{PREFIX}front')
    results.wait_for(2)
    assert [checksum(result) for result in results.messages] == sums


def test_memory_of_a_timed_out_frame_is_given_up_and_never_written_again(stage):
    _, statuses = activate(stage, 'slow', runtime_ms=310, backend='  inference_timeout_ms: 60\n')
    with producing(stage.client, slots=1) as producer:
        publish(producer)
        status = statuses.wait_for(1)[0]
        assert status.reason == RequestStatus.BACKEND_TIMEOUT and status.holds_input
        wait_until(lambda: producer.given_up == 1)
        publish(producer)
        assert producer.sent == 2 and producer.dropped == 0
        wait_until(lambda: stage.node.session.actor.unproven_executions == 0)


def test_a_restarted_server_costs_no_more_than_the_frames_of_its_absence(
        stage, triton, registered):
    results, statuses = activate(stage)
    with producing(stage.client) as producer:
        publish(producer)
        statuses.wait_for(1)
        triton.stop()
        try:
            publish(producer)
            assert statuses.wait_for(2)[1].reason == RequestStatus.BACKEND_FAILED
        finally:
            triton.start()

        def completes():
            count = len(statuses)
            publish(producer)
            return statuses.wait_for(count + 1)[-1].reason == RequestStatus.COMPLETED

        wait_until(completes, 20)
        assert producer.dropped == 0
    wait_until(lambda: not registered())


def test_a_producer_survives_the_restart_of_its_governor(stage, registered):
    _, statuses = activate(stage)
    with producing(stage.client, slots=2) as producer:
        publish(producer)
        statuses.wait_for(1)
        assert stage.change('deactivate')[0] and stage.change('cleanup')[0]
        wait_until(lambda: not producer.is_heard)
        publish(producer)
        assert producer.unheard == 1
        stage.activate()
        wait_until(lambda: producer.is_heard, 10)
        publish(producer)
        assert statuses.wait_for(2)[1].reason == RequestStatus.COMPLETED
        assert stage.change('deactivate')[0]
        assert len(registered()) == 1
        assert stage.change('cleanup')[0]
        assert not registered()


def test_a_producer_whose_node_is_not_spun_drops_the_newest_and_says_so(stage, ros, capfd):
    activate(stage)
    node = ros.create_node('never_spun')
    producer = TensorProducer(node, TOPIC, tensor='IMAGE', shape=SHAPE, slots=2)
    wait_until(lambda: producer.is_heard, 10)
    wait_until(lambda: not producer._is_alone(), 10)
    for _ in range(5):
        publish(producer)
    assert (producer.sent, producer.dropped, producer.lent) == (2, 3, 2)
    producer.close()
    node.destroy_node()
    assert not own_files()
    assert 'the newest is dropped' in capfd.readouterr().err


def test_two_streams_of_one_producer_both_end_before_its_memory_is_used_again(stage):
    path = stage.write(config_text(
        stage.endpoint, models=[model_text('quick', 'echo'),
                                model_text('slow', 'slow', runtime_ms=310)],
        streams=[reference_text('one', model='quick'),
                 reference_text('two', model='slow', extra='    output: /second\n')],
        backend='  pipelining_depth: 1\n'))
    stage.governor(path)
    first = Reader(stage.client, RequestStatus, f'{TOPIC}/vig/status')
    second = Reader(stage.client, RequestStatus, '/second/status')
    stage.activate()
    with producing(stage.client, slots=1,
                   statuses=[f'{TOPIC}/vig/status', '/second/status']) as producer:
        publish(producer)
        first.wait_for(1)
        second.wait_for(1)
        wait_until(lambda: not producer.lent)
        assert producer.given_up == 0


@pytest.mark.parametrize('options, words', [
    ({'datatype': 'BYTES'}, 'datatype'), ({'shape': (0, 3)}, 'every axis'),
    ({'slots': 0}, 'slots is 0'), ({'group': 'no such group'}, 'does not exist'),
    ({'shape': (2**50,)}, 'no shared memory of')])
def test_what_a_producer_gets_wrong_is_said_at_once(stage, options, words):
    with pytest.raises(ProducerError, match=words):
        TensorProducer(stage.client, TOPIC,
                       **{'tensor': 'IMAGE', 'shape': SHAPE, **options})
    assert not own_files()


def test_a_frame_bigger_than_the_memory_is_refused_and_a_smaller_one_runs(stage):
    results, _ = activate(stage)
    with producing(stage.client) as producer:
        with pytest.raises(ProducerError, match='was made for shape'):
            with producer.frame(shape=(25, 32, 3)):
                pass
        with producer.frame(shape=(4, 5, 3)) as (array, _):
            array[...] = 3
        assert checksum(results.wait_for(1)[0]) == zlib.crc32(bytes([3]) * 60)


@pytest.mark.parametrize('stream, words', [
    (reference_text(extra='    transport: copy\n'), ['streams.front.transport', 'remove']),
    (stream_text('front', TOPIC, 'detector', message_type='vig/msg/TensorReference'),
     ['encoder image', 'vig/msg/TensorReference']),
    (reference_text().replace('vig/msg/TensorReference', 'sensor_msgs/msg/Image'),
     ['encoder reference reads vig/msg/TensorReference'])])
def test_configure_refuses_what_can_never_work(stage, stream, words):
    stage.governor(stage.write(config_text(
        stage.endpoint, models=[model_text('detector', 'echo')], streams=[stream])))
    assert not stage.change('configure')[0]
    for word in words:
        assert word in stage.node.last_failure


def test_the_example_of_the_documentation_runs_as_it_stands(stage, tmp_path):
    page = (ROOT / 'docs' / 'producer.md').read_text()
    program, = re.findall(r'```python\n(.*?)```', page, re.DOTALL)
    streams, = re.findall(r'```yaml\nstreams:\n(.*?)```', page, re.DOTALL)
    stage.governor(stage.write(config_text(
        stage.endpoint, models=[model_text('detector', 'echo')], streams=[streams])))
    results = Reader(stage.client, InferenceResult, '/camera/front/tensor/vig/result')
    stage.activate()
    (tmp_path / 'camera.py').write_text(program)
    camera = subprocess.Popen([sys.executable, str(tmp_path / 'camera.py')],
                              stderr=subprocess.PIPE, text=True)
    try:
        results.wait_for(40, 20)
        assert checksum(results.messages[-1]) == zlib.crc32(bytes([128]) * 480 * 640 * 3)
        assert results.messages[-1].header.frame_id == 'front_camera'
        regions = [name for name in os.listdir('/dev/shm')
                   if name.startswith(f'vig_producer_{camera.pid}_')]
        assert 1 <= len(regions) <= 4
    finally:
        camera.send_signal(signal.SIGINT)
        _, said = camera.communicate(timeout=20)
    assert camera.returncode == 0 and 'Traceback' not in said, said
    assert not [name for name in os.listdir('/dev/shm')
                if name.startswith(f'vig_producer_{camera.pid}_')]


def test_the_node_maps_no_memory_of_a_producer(stage):
    _, statuses = activate(stage)

    def maps():
        return sum('/dev/shm/vig_producer_' in line for line in open('/proc/self/maps'))

    with producing(stage.client, shape=(1080, 1920, 3), slots=1) as producer:
        before = maps()
        for count in range(1, 4):
            publish_big(producer, count)
            statuses.wait_for(count)
            wait_until(lambda: not producer.lent)
        assert maps() == before == 1, 'the producer, which lives in this process too, maps its own'


def publish_big(producer, value):
    with producer.frame() as (array, _):
        array[0] = value
