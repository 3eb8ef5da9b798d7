"""No message, however wrong, costs more than it holds or raises anything but ``EncodeError``."""

import array
import contextlib
import tracemalloc
from types import SimpleNamespace

import cv2
from hypothesis import given, settings, strategies as st
import numpy as np
import pytest

from vig_governor.backend.base import TensorSpec
from vig_governor.encoders import make_encoder
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.pixels import ENCODINGS

UINT32 = st.one_of(st.integers(0, 40), st.integers(0, 2**32 - 1))
BYTES = st.binary(max_size=600).map(lambda data: array.array('B', data))
FLOATS = st.lists(st.floats(width=32), max_size=40).map(lambda data: array.array('f', data))
TINY_JPEG = cv2.imencode('.jpg', np.zeros((9, 11, 3), np.uint8))[1].tobytes()
TINY_PNG = cv2.imencode('.png', np.zeros((9, 11, 3), np.uint8))[1].tobytes()

OPTIONS = st.builds(
    InputOptions, tensor=st.just('input'), encoder=st.just('image'),
    size=st.sampled_from([None, (5, 7)]), layout=st.sampled_from(['NHWC', 'NCHW', 'HWC', 'CHW']),
    dtype=st.sampled_from(['UINT8', 'UINT16', 'INT32', 'FP16', 'FP32', 'FP64']),
    color=st.sampled_from(['RGB', 'BGR', 'GRAY']), scale=st.sampled_from([1.0, 1e-3, 1e30]),
    mean=st.sampled_from([(0.0,), (1.0,), (-1e30,)]), letterbox=st.just(False))


@st.composite
def images(draw):
    """Give images of any fields, half of them with data that just fit or just do not."""
    encoding = draw(st.one_of(st.sampled_from(list(ENCODINGS)), st.text(max_size=12)))
    width, height = draw(UINT32), draw(UINT32)
    known = ENCODINGS.get(encoding)
    row = width * known.channels * known.dtype.itemsize if known else width
    step = draw(st.one_of(st.just(row), st.just(row + 3), UINT32))
    data = draw(BYTES)
    if draw(st.booleans()) and step * height < 20_000:
        size = max(0, step * height + draw(st.integers(-3, 3)))
        data = array.array('B', (bytes(data) or b'\x7f') * size)[:size]
    return SimpleNamespace(encoding=encoding, width=width, height=height, step=step,
                           is_bigendian=draw(st.integers(0, 1)), data=data)


@st.composite
def damaged_pictures(draw):
    """Give real pictures with bytes replaced, cut off or in front."""
    data = bytearray(draw(st.sampled_from([TINY_JPEG, TINY_PNG])))
    for at, value in draw(st.lists(st.tuples(st.integers(0, len(data) - 1),
                                             st.integers(0, 255)), max_size=6)):
        data[at] = value
    data = data[:draw(st.integers(0, len(data)))] if draw(st.booleans()) else data
    return SimpleNamespace(format=draw(st.text(max_size=30)), data=array.array('B', bytes(data)))


def encode_or_refuse(slot, message, options, spec=None, message_type=''):
    """Encode; only ``EncodeError`` with a sentence may come out. Whether a tensor was made."""
    encoder = make_encoder(options)
    if spec is not None:
        encoder.check(spec, message_type)
    try:
        encoder.encode(message, slot)
    except EncodeError as error:
        assert str(error)
        return False
    return True


@settings(max_examples=200, deadline=None)
@given(message=images(), options=OPTIONS)
def test_any_image_becomes_a_tensor_or_a_sentence(make_slot, message, options):
    slot = make_slot()
    if encode_or_refuse(slot, message, options):
        tensor = slot.tensors['input']
        axes = dict(zip(options.layout, tensor.shape))
        width, height = options.size or (message.width, message.height)
        assert (axes['W'], axes['H']) == (width, height)
        assert axes['C'] == (1 if options.color == 'GRAY' else 3)


@settings(max_examples=100, deadline=None)
@given(message=damaged_pictures(), options=OPTIONS)
def test_any_compressed_picture_becomes_a_tensor_or_a_sentence(make_slot, message, options):
    encode_or_refuse(make_slot(), message, options)


@settings(max_examples=100, deadline=None)
@given(data=st.one_of(BYTES, FLOATS, st.none(), st.text(), st.lists(st.integers())),
       dims=st.lists(st.tuples(UINT32, UINT32), max_size=4), offset=UINT32,
       shape=st.lists(st.sampled_from([-1, 1, 2, 3]), min_size=1, max_size=3))
def test_any_array_becomes_a_tensor_or_a_sentence(make_slot, data, dims, offset, shape):
    message = SimpleNamespace(data=data, layout=SimpleNamespace(
        data_offset=offset,
        dim=[SimpleNamespace(size=size, stride=stride) for size, stride in dims]))
    encode_or_refuse(make_slot(), message, InputOptions('input', 'array'),
                     TensorSpec('input', 'FP32', tuple(shape)), 'std_msgs/msg/Float32MultiArray')
    with contextlib.suppress(EncodeError):
        encode_or_refuse(make_slot(), message, InputOptions('input', 'raw'),
                         TensorSpec('input', 'INT16', tuple(shape)),
                         'std_msgs/msg/UInt8MultiArray')


@settings(max_examples=100, deadline=None)
@given(width=UINT32, height=UINT32, point_step=UINT32, row_step=UINT32, data=BYTES,
       fields=st.lists(st.tuples(st.sampled_from(['x', 'y', 'z', 'intensity']), UINT32,
                                 st.integers(0, 9)), max_size=5),
       shape=st.sampled_from([(-1, 3), (-1, 4), (1, 2, 3)]), is_bigendian=st.booleans())
def test_any_cloud_becomes_a_tensor_or_a_sentence(make_slot, width, height, point_step, row_step,
                                                  data, fields, shape, is_bigendian):
    message = SimpleNamespace(
        width=width, height=height, point_step=point_step, row_step=row_step, data=data,
        is_bigendian=is_bigendian,
        fields=[SimpleNamespace(name=name, offset=offset, datatype=datatype)
                for name, offset, datatype in fields])
    encode_or_refuse(make_slot(), message, InputOptions('input', 'pointcloud'),
                     TensorSpec('input', 'FP32', shape), 'sensor_msgs/msg/PointCloud2')


class ReadySlot:
    """Memory that exists already, as shared memory does, so that only the encoder allocates."""

    def __init__(self, array_):
        self.array = array_

    def allocate(self, name, shape, datatype):
        assert self.array.shape == tuple(shape)
        return self.array


def bytes_allocated_by(action):
    """Peak of the bytes that Python, numpy and OpenCV's results take during an action."""
    action()
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def frame(encoding, width, height, channels):
    """Give a frame of random pixels with the data as rclpy delivers them."""
    pixels = np.random.default_rng(1).integers(0, 256, width * height * channels, np.uint8)
    return SimpleNamespace(encoding=encoding, width=width, height=height, step=width * channels,
                           is_bigendian=0, data=array.array('B', pixels.tobytes()))


@pytest.mark.parametrize('encoding, changes, limit', [
    ('rgb8', {}, 20_000), ('bgr8', {}, 20_000),
    ('rgb8', {'color': 'GRAY'}, 20_000),
    ('rgb8', {'size': (320, 320), 'letterbox': True}, 20_000),
    ('bgr8', {'layout': 'CHW'}, 20_000),
    # numpy converts through a buffer of 8192 elements
    ('rgb8', {'dtype': 'FP32', 'scale': 1 / 255}, 200_000),
    ('rgb8', {'dtype': 'FP32', 'scale': 1 / 255, 'mean': (0.4, 0.5, 0.6)}, 200_000),
    ('rgb8', {'dtype': 'FP32', 'scale': 1 / 255, 'mean': (0.4, 0.5, 0.6), 'layout': 'CHW'},
     200_000),
    # one more frame of bytes, whose channels are in order
    ('bgr8', {'dtype': 'FP32', 'scale': 1 / 255}, 2_073_600 + 200_000),
])
def test_q03_a_frame_of_two_megabytes_goes_straight_into_the_tensor(encoding, changes, limit):
    message = frame(encoding, 960, 720, 3)
    options = InputOptions(**{'tensor': 'input', 'encoder': 'image', 'layout': 'HWC',
                              'dtype': 'UINT8', **changes})
    encoder = make_encoder(options)
    channels = 1 if options.color == 'GRAY' else 3
    width, height = options.size or (960, 720)
    shape = ((channels, height, width) if options.layout == 'CHW' else (height, width, channels))
    slot = ReadySlot(np.empty(shape, np.float32 if options.dtype == 'FP32' else np.uint8))
    assert bytes_allocated_by(lambda: encoder.encode(message, slot)) < limit


def test_q03_two_megabytes_of_raw_bytes_are_copied_once():
    message = SimpleNamespace(data=array.array('B', bytes(2_000_000)))
    encoder = make_encoder(InputOptions('input', 'raw'))
    encoder.check(TensorSpec('input', 'FP32', (500_000,)), 'std_msgs/msg/UInt8MultiArray')
    slot = ReadySlot(np.empty(500_000, np.float32))
    assert bytes_allocated_by(lambda: encoder.encode(message, slot)) < 20_000


def test_a_huge_claim_in_a_small_message_allocates_nothing():
    message = SimpleNamespace(encoding='rgb8', width=8000, height=8000, step=24_000,
                              is_bigendian=0, data=array.array('B', bytes(100)))
    encoder = make_encoder(InputOptions('input', 'image'))

    def refuse():
        with pytest.raises(EncodeError):
            encoder.encode(message, None)

    assert bytes_allocated_by(refuse) < 100_000
