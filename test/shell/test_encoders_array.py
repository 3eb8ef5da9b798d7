"""The encoders ``array``, ``scan``, ``raw`` and ``text``; values worked out by hand."""

import array
from types import SimpleNamespace

import numpy as np
import pytest

from vig_governor.backend.base import TensorSpec
from vig_governor.encoders import make_encoder
from vig_governor.encoders.base import EncodeError, InputOptions

FLOATS = 'std_msgs/msg/Float32MultiArray'
BYTES = 'std_msgs/msg/UInt8MultiArray'


def multi_array(data, *dims, offset=0):
    """Give a ``MultiArray`` message; each dim is ``(size, stride)``."""
    return SimpleNamespace(
        data=data, layout=SimpleNamespace(
            data_offset=offset,
            dim=[SimpleNamespace(label='', size=size, stride=stride) for size, stride in dims]))


@pytest.fixture
def encode(make_slot):
    """Check and encode; give the tensor, or the elements of a BYTES one."""
    def run(encoder, message, shape, message_type, *, datatype='FP32', dtype='FP32'):
        slot = make_slot()
        made = make_encoder(InputOptions(tensor='input', encoder=encoder, dtype=dtype))
        made.check(TensorSpec('input', datatype, shape), message_type)
        made.encode(message, slot)
        if datatype == 'BYTES':
            return slot.shapes['input'], slot.elements['input']
        return slot.tensors['input']
    return run


def floats(*values):
    """Give the field as rclpy delivers it."""
    return array.array('f', values)


@pytest.mark.parametrize('dims', [((2, 6), (3, 3)), ((2, 0), (3, 0)), ()])
def test_a_packed_array_takes_the_shape_of_the_tensor(encode, dims):
    tensor = encode('array', multi_array(floats(1, 2, 3, 4, 5, 6), *dims), (2, 3), FLOATS)
    assert tensor.dtype == np.float32
    assert tensor.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_padded_rows_and_an_offset_are_skipped(encode):
    message = multi_array(floats(99, 1, 2, 99, 99, 3, 4), (2, 8), (2, 4), offset=1)
    assert encode('array', message, (2, 2), FLOATS).tolist() == [[1, 2], [3, 4]]


def test_an_array_without_its_batch_axis_gets_one(encode):
    message = multi_array(floats(1, 2), (2, 2))
    assert encode('array', message, (-1, 2), FLOATS).tolist() == [[1, 2]]
    assert encode('array', multi_array(floats(1, 2)), (-1, -1), FLOATS).tolist() == [[1, 2]]


def test_the_open_axis_takes_what_is_there(encode):
    tensor = encode('array', multi_array(floats(1, 2, 3, 4, 5, 6)), (-1, 2), FLOATS)
    assert tensor.shape == (3, 2)


@pytest.mark.parametrize('source, code, dtype, expected', [
    ('Float64', 'd', 'FP32', [1.5, -2.0]), ('Int16', 'h', 'INT64', [1, -2]),
    ('Int64', 'q', 'FP32', [1.0, -2.0]), ('Int8', 'b', 'FP16', [1.0, -2.0])])
def test_elements_are_widened_to_the_type_of_the_model(encode, source, code, dtype, expected):
    message = multi_array(array.array(code, expected if source == 'Float64' else [1, -2]))
    tensor = encode('array', message, (2,), f'std_msgs/msg/{source}MultiArray',
                    datatype=dtype, dtype=dtype)
    assert tensor.tolist() == expected


def test_nan_and_infinity_pass(encode):
    tensor = encode('array', multi_array(floats(float('nan'), float('inf'))), (2,), FLOATS)
    np.testing.assert_array_equal(tensor, [np.nan, np.inf])


@pytest.mark.parametrize('message, words', [
    (multi_array(floats()), 'data is empty'),
    (multi_array(floats(1, 2, 3)), r'3 elements, but tensor .* takes 6'),
    (multi_array(floats(1, 2), (2, 2), (3, 3)), 'needs 6 elements, but there are 2'),
    (multi_array(floats(*range(6)), (3, 6), (2, 2)), r'shape \[3, 2\].*wants \[2, 3\]'),
    (multi_array(floats(*range(6)), (2, 6), (3, 2)), 'overlap'),
    (multi_array(floats(*range(6)), (2, 6), (0, 3)), 'holds nothing'),
    (multi_array(floats(*range(6)), (2**32 - 1, 0), (2**32 - 1, 0)), 'there are 6'),
    (multi_array(floats(*range(6)), offset=6), 'data_offset is 6'),
    (multi_array([1.0, 2.0]), 'data is a list'),
])
def test_an_array_that_does_not_fit_is_refused_in_one_sentence(encode, message, words):
    with pytest.raises(EncodeError, match=words):
        encode('array', message, (2, 3), FLOATS)


def test_a_scan_becomes_its_ranges_untouched(encode):
    message = SimpleNamespace(ranges=floats(0.5, float('inf'), float('nan')))
    for shape in ((3,), (1, 3), (-1, -1)):
        tensor = encode('scan', message, shape, 'sensor_msgs/msg/LaserScan')
        np.testing.assert_array_equal(tensor.reshape(-1), np.array([0.5, np.inf, np.nan]))


def test_a_scan_of_another_number_of_beams_is_refused(encode):
    message = SimpleNamespace(ranges=floats(0.5, 1.0))
    with pytest.raises(EncodeError, match='2 elements, but tensor .* takes 360'):
        encode('scan', message, (1, 360), 'sensor_msgs/msg/LaserScan')


def test_raw_bytes_become_the_elements_that_the_model_declares(encode):
    data = array.array('B', np.array([1.5, -2.0], '<f4').tobytes())
    tensor = encode('raw', multi_array(data), (1, 2), BYTES)
    assert tensor.tolist() == [[1.5, -2.0]]
    tensor = encode('raw', multi_array(data), (-1, -1), BYTES, datatype='UINT8')
    assert tensor.tolist() == [list(data)]


def test_raw_joins_the_single_bytes_of_a_byte_array(encode):
    message = multi_array([b'\x01', b'\xff', b'\x00'])
    tensor = encode('raw', message, (3,), 'std_msgs/msg/ByteMultiArray', datatype='UINT8')
    assert tensor.tolist() == [1, 255, 0]


def test_raw_gives_a_model_of_bytes_one_element(encode):
    message = SimpleNamespace(format='jpeg', data=array.array('B', b'\xff\xd8\xff'))
    assert encode('raw', message, (-1, 1), 'sensor_msgs/msg/CompressedImage',
                  datatype='BYTES') == ((1, 1), [b'\xff\xd8\xff'])


@pytest.mark.parametrize('message, words', [
    (multi_array(array.array('B', bytes(7))), '7 bytes, no multiple of the 4 bytes'),
    (multi_array(array.array('B', bytes(12))), '3 elements, but tensor .* takes 2'),
    (multi_array(array.array('B')), 'data is empty'),
    (multi_array([]), 'data is empty'),
    (multi_array('text'), 'data is a str'),
    (SimpleNamespace(ranges=floats(1.0)), 'no field data'),
])
def test_raw_bytes_that_do_not_fit_are_refused_in_one_sentence(encode, message, words):
    with pytest.raises(EncodeError, match=words):
        encode('raw', message, (2,), BYTES)


def test_a_text_becomes_one_element_in_utf_8(encode):
    message = SimpleNamespace(data='gr\u00fc\u00df dich')
    assert encode('text', message, (1, 1), 'std_msgs/msg/String', datatype='BYTES') == (
        (1, 1), ['gr\u00fc\u00df dich'.encode()])
    assert encode('text', SimpleNamespace(data=''), (-1,), 'std_msgs/msg/String',
                  datatype='BYTES') == ((1,), [b''])


def test_a_text_that_is_no_unicode_is_refused(encode):
    with pytest.raises(EncodeError, match='no UTF-8'):
        encode('text', SimpleNamespace(data='\ud800'), (1,), 'std_msgs/msg/String',
               datatype='BYTES')
