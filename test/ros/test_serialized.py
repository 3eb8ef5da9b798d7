"""Results and statuses are written exactly as rclpy would write their message objects."""

from array import array

from builtin_interfaces.msg import Duration, Time

from hypothesis import given, settings, strategies as st

import numpy as np

import pytest

from rclpy.serialization import deserialize_message

from sensor_msgs.msg import Image

from std_msgs.msg import Float32MultiArray, Header

from vig.msg import InferenceResult, RequestStatus, Tensor

from vig_core.actions import Terminate
from vig_core.request import Reason
from vig_governor import serialized
from vig_governor.backend.base import OutputTensor
from vig_governor.config.streams import StreamBinding
from vig_governor.encoders.base import InputOptions

TEXTS = st.text(st.characters(blacklist_categories=('Cs',), blacklist_characters='\0'),
                max_size=40)
DURATIONS_NS = st.integers(0, 3600 * 10**9)
HEADERS = st.builds(
    lambda sec, nanosec, frame: Header(stamp=Time(sec=sec, nanosec=nanosec), frame_id=frame),
    st.integers(-2**31, 2**31 - 1), st.integers(0, 2**32 - 1), TEXTS)
BINDINGS = st.builds(lambda name, model: StreamBinding(
    name=name, topic='/camera', message_type='sensor_msgs/msg/Image', model=model, key='key',
    input=InputOptions(tensor='IMAGE', encoder='image')), TEXTS, TEXTS)
ACTIONS = st.builds(
    Terminate, request_id=st.integers(0, 2**64 - 1), stream=TEXTS, model=TEXTS,
    variant_id=st.none() | TEXTS, reason=st.sampled_from(Reason), because=TEXTS,
    age_ns=DURATIONS_NS, queue_wait_ns=DURATIONS_NS, backend_ns=st.none() | DURATIONS_NS,
    is_deadline_met=st.booleans(), holds_input=st.booleans())
OUTPUTS = st.lists(st.builds(
    OutputTensor, TEXTS, TEXTS, st.lists(st.integers(-2**63, 2**63 - 1), max_size=4).map(tuple),
    st.binary(max_size=40)), max_size=4).map(tuple)


def duration(duration_ns):
    return Duration(sec=duration_ns // 10**9, nanosec=duration_ns % 10**9)


def fields(action, binding, header):
    return {'header': header, 'stream': binding.name, 'model': binding.model,
            'variant': action.variant_id or '', 'request_id': action.request_id,
            'age': duration(action.age_ns)}


@settings(max_examples=100, deadline=None)
@given(ACTIONS, BINDINGS, HEADERS)
def test_a_status_is_what_rclpy_writes(action, binding, header):
    written = serialized.status(action, binding, Image(header=header))
    expected = RequestStatus(
        **fields(action, binding, header), reason=getattr(RequestStatus, action.reason.name),
        detail=action.detail, queue_wait=duration(action.queue_wait_ns),
        backend_time=duration(action.backend_ns or 0), deadline_met=action.is_deadline_met,
        holds_input=action.holds_input)
    assert deserialize_message(written, RequestStatus) == expected


@settings(max_examples=100, deadline=None)
@given(ACTIONS, BINDINGS, HEADERS, st.floats(0, 1), OUTPUTS)
def test_a_result_is_what_rclpy_writes(action, binding, header, quality, outputs):
    written = serialized.result(action, binding, Image(header=header), quality, outputs)
    expected = InferenceResult(
        **fields(action, binding, header), quality=quality,
        obsolete=action.reason is Reason.OBSOLETE,
        outputs=[Tensor(name=each.name, datatype=each.datatype, shape=each.shape,
                        data=array('B', each.data)) for each in outputs])
    assert deserialize_message(written, InferenceResult) == expected


def make(detail=''):
    return Terminate(request_id=7, stream='front', model='detector', variant_id='large',
                     reason=Reason.COMPLETED, because=detail, age_ns=1, queue_wait_ns=2,
                     holds_input=False)


BINDING = StreamBinding(name='front', topic='/camera', message_type='std_msgs/msg/Header',
                        model='detector', key='front',
                        input=InputOptions(tensor='IMAGE', encoder='raw'))


def test_a_message_without_a_header_gets_an_empty_one():
    status = deserialize_message(serialized.status(make(), BINDING, Float32MultiArray()),
                                 RequestStatus)
    assert status.header == Header()


@pytest.mark.parametrize('detail, told', [
    ('the model said \ud800', 'the model said ?'), ('before\0after', 'before')])
def test_text_that_no_message_can_hold_does_not_lose_the_status(detail, told):
    status = deserialize_message(serialized.status(make(detail), BINDING, Image()), RequestStatus)
    assert status.detail == told
    assert (status.request_id, status.queue_wait.nanosec) == (7, 2)


def test_a_large_output_arrives_whole():
    data = np.random.default_rng(0).bytes(1_000_003)
    outputs = (OutputTensor('first', 'UINT8', (1_000_003,), data),
               OutputTensor('second', 'FP32', (), b'\x00\x00\x80\x3f'))
    result = deserialize_message(
        serialized.result(make(), BINDING, Image(), 0.5, outputs), InferenceResult)
    assert [bytes(output.data) for output in result.outputs] == [data, b'\x00\x00\x80\x3f']
    assert list(result.outputs[1].shape) == []
