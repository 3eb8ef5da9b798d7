"""Messages that are read in place say what rclpy's message objects say, whatever came."""

from array import array
import struct

from builtin_interfaces.msg import Time

from hypothesis import given, settings, strategies as st

import pytest

from rclpy.serialization import deserialize_message, serialize_message

from sensor_msgs.msg import Image

from stage import config_text, image, model_text, stream_text

from std_msgs.msg import Header

from vig.msg import RequestStatus, TensorReference

from vig_governor.backend.base import TensorSpec
from vig_governor.backend.segments import private_segment
from vig_governor.backend.slots import Slot
from vig_governor.encoders import make_encoder, reader_of
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.in_place import read_image, read_reference

TEXTS = st.text(st.characters(blacklist_categories=('Cs',), blacklist_characters='\0'),
                max_size=40)
UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
HEADERS = st.builds(
    lambda sec, nanosec, frame: Header(stamp=Time(sec=sec, nanosec=nanosec), frame_id=frame),
    st.integers(-2**31, 2**31 - 1), UINT32, TEXTS)
IMAGES = st.builds(
    lambda data, **fields: Image(data=array('B', data), **fields), st.binary(max_size=60),
    header=HEADERS, height=UINT32, width=UINT32, encoding=TEXTS,
    is_bigendian=st.integers(0, 255), step=UINT32)
REFERENCES = st.builds(
    TensorReference, header=HEADERS, region=TEXTS, offset=UINT64, byte_size=UINT64, name=TEXTS,
    datatype=TEXTS, shape=st.lists(st.integers(-2**63, 2**63 - 1), max_size=5))


def header(message):
    return message.header.stamp.sec, message.header.stamp.nanosec, message.header.frame_id


@settings(max_examples=100, deadline=None)
@given(IMAGES)
def test_an_image_has_the_fields_of_its_message(message):
    found = read_image(serialize_message(message))
    assert header(found) == header(message) and found.fault == ''
    for field in ('height', 'width', 'encoding', 'is_bigendian', 'step'):
        assert getattr(found, field) == getattr(message, field)
    assert bytes(found.data) == message.data.tobytes()


@settings(max_examples=100, deadline=None)
@given(REFERENCES)
def test_a_reference_has_the_fields_of_its_message(message):
    found = read_reference(serialize_message(message))
    assert header(found) == header(message) and found.fault == ''
    for field in ('region', 'offset', 'byte_size', 'name', 'datatype'):
        assert getattr(found, field) == getattr(message, field)
    assert list(found.shape) == list(message.shape)


@settings(max_examples=100, deadline=None)
@given(st.one_of(IMAGES, REFERENCES), st.data())
def test_a_message_that_is_cut_off_has_a_fault_and_the_fields_before_it(message, data):
    buffer = serialize_message(message)
    is_image = isinstance(message, Image)
    needed = len(buffer) - 3  # rmw may fill up to a multiple of four
    end = data.draw(st.integers(0, max(0, needed - 1)))
    found = (read_image if is_image else read_reference)(buffer[:end])
    if is_image and message.data or not is_image and message.shape:
        assert found.fault
    if end >= 16 + len(message.header.frame_id.encode()) + 1:
        assert header(found) == header(message)


@settings(max_examples=100, deadline=None)
@given(st.one_of(IMAGES, REFERENCES), st.data())
def test_whatever_bytes_come_only_a_sentence_comes_of_it(message, data):
    buffer = bytearray(serialize_message(message))
    for at, value in data.draw(st.lists(st.tuples(
            st.integers(0, len(buffer) - 1), st.integers(0, 255)), max_size=6)):
        buffer[at] = value
    buffer = bytes(buffer[:data.draw(st.integers(0, len(buffer)))])
    for read, name, message_type in (
            (read_image, 'image', 'sensor_msgs/msg/Image'),
            (read_reference, 'reference', 'vig/msg/TensorReference')):
        options = {'layout': 'HWC', 'dtype': 'UINT8'} if name == 'image' else {}
        encoder = make_encoder(InputOptions(tensor='IMAGE', encoder=name, **options))
        encoder.check(TensorSpec('IMAGE', 'UINT8', (-1, -1, 3)), message_type)
        found = read(buffer)
        try:
            encoder.encode(found, Slot(private_segment, lambda segment: None))
        except EncodeError as error:
            assert str(error)


def big_endian(message):
    """Write an image as a computer of the other byte order would."""
    stamp, fields = message.header.stamp, b'\0\0\0\0'

    def add(code, *values):
        nonlocal fields
        fields += b'\0' * (-len(fields) % struct.calcsize(code[-1])) + struct.pack(
            f'>{code}', *values)

    add('iI', stamp.sec, stamp.nanosec)
    for text, after in ((message.header.frame_id, (message.height, message.width)),
                        (message.encoding, ())):
        content = text.encode() + b'\0'
        add('I', len(content))
        fields += content
        if after:
            add('II', *after)
    add('B', message.is_bigendian)
    add('II', message.step, len(message.data))
    return fields + message.data.tobytes()


def test_a_message_of_a_big_endian_computer_is_read():
    message = Image(header=Header(stamp=Time(sec=-7, nanosec=9), frame_id='front'), height=2,
                    width=1, encoding='bgr8', step=3, data=array('B', range(6)))
    buffer = big_endian(message)
    assert deserialize_message(buffer, Image) == message
    found = read_image(buffer)
    assert (header(found), found.height, found.width, found.step, bytes(found.data)) == (
        (-7, 9, 'front'), 2, 1, 3, bytes(range(6)))


def test_another_representation_is_named():
    buffer = b'\0\7\0\0' + serialize_message(Image())[4:]
    assert 'representation 0007' in read_image(buffer).fault
    assert 'representation 0007' in read_reference(buffer).fault


@pytest.mark.parametrize('encoder, message_type, is_read', [
    ('image', 'sensor_msgs/msg/Image', True),
    ('image', 'sensor_msgs/msg/CompressedImage', False),
    ('reference', 'vig/msg/TensorReference', True),
    ('raw', 'sensor_msgs/msg/Image', False)])
def test_only_what_can_be_read_in_place_is_taken_without_a_message_object(
        encoder, message_type, is_read):
    made = make_encoder(InputOptions(tensor='IMAGE', encoder=encoder))
    assert (reader_of(made, message_type) is not None) == is_read


@pytest.fixture
def camera(stage):
    """Give the node's outputs and what publishes bytes on its input as they are."""
    stage.governor(stage.write(config_text(
        stage.endpoint, models=[model_text('detector', 'echo')],
        streams=[stream_text('front', '/cam', 'detector')])))
    results, statuses = stage.outputs('/cam')
    stage.activate()
    return stage.camera(), results, statuses


def test_a_truncated_frame_ends_with_its_reason_and_the_next_one_runs(stage, camera):
    publisher, results, statuses = camera
    message = image()
    buffer = serialize_message(message)
    publisher.publish(buffer[:len(buffer) // 2])
    statuses.wait_for(1)
    publisher.publish(image())
    statuses.wait_for(2)
    broken, good = statuses.messages
    assert broken.reason == RequestStatus.BACKEND_FAILED
    assert 'data should have' in broken.detail and broken.header == message.header
    assert good.reason == RequestStatus.COMPLETED
    assert results.messages[-1].header == good.header


def test_a_frame_without_even_a_header_ends_with_its_reason(stage, camera):
    publisher, _, statuses = camera
    publisher.publish(serialize_message(image())[:12])
    statuses.wait_for(1)
    status, = statuses.messages
    assert status.reason == RequestStatus.INVALID_STAMP
    assert 'cannot be read' in status.detail
