"""The encoders on the message classes of a ROS installation, fields as rclpy has them."""

import numpy as np
import pytest

from vig_governor.backend.base import TensorSpec
from vig_governor.clock import stamp_to_ns
from vig_governor.encoders import make_encoder
from vig_governor.encoders.base import InputOptions

HOW = 'needs the ROS message packages; make test installs them'
builtin_interfaces = pytest.importorskip('builtin_interfaces.msg', reason=HOW)
sensor_msgs = pytest.importorskip('sensor_msgs.msg', reason=HOW)
std_msgs = pytest.importorskip('std_msgs.msg', reason=HOW)


@pytest.fixture
def encode(make_slot):
    """Check and encode a real message; give the slot."""
    def run(message, encoder, shape, *, datatype='FP32', **changes):
        slot = make_slot()
        made = make_encoder(InputOptions(tensor='input', encoder=encoder, dtype=datatype,
                                         **changes))
        package = type(message).__module__.partition('.')[0]
        made.check(TensorSpec('input', datatype, shape),
                   f'{package}/msg/{type(message).__name__}')
        made.encode(message, slot)
        return slot
    return run


def test_an_image_message_is_encoded(encode):
    message = sensor_msgs.Image(width=2, height=1, encoding='bgr8', step=8,
                                data=[1, 2, 3, 4, 5, 6, 0, 0])
    slot = encode(message, 'image', (1, 1, 2, 3), datatype='UINT8')
    assert slot.tensors['input'].tolist() == [[[[3, 2, 1], [6, 5, 4]]]]


def test_a_multi_array_message_is_encoded(encode):
    dims = [std_msgs.MultiArrayDimension(label='rows', size=2, stride=4),
            std_msgs.MultiArrayDimension(label='columns', size=2, stride=2)]
    message = std_msgs.Float32MultiArray(data=[1.0, 2.0, 3.0, 4.0])
    message.layout.dim = dims
    assert encode(message, 'array', (2, 2)).tensors['input'].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize('name, values', [
    ('UInt8MultiArray', [1, 2, 255]), ('ByteMultiArray', [b'\x01', b'\x02', b'\xff'])])
def test_messages_of_bytes_pass_through_raw(encode, name, values):
    message = getattr(std_msgs, name)(data=values)
    slot = encode(message, 'raw', (3,), datatype='UINT8')
    assert slot.tensors['input'].tolist() == [1, 2, 255]


def test_a_string_message_is_encoded(encode):
    slot = encode(std_msgs.String(data='go'), 'text', (1,), datatype='BYTES')
    assert slot.elements['input'] == [b'go']


def test_a_scan_message_is_encoded(encode):
    slot = encode(sensor_msgs.LaserScan(ranges=[0.5, float('inf')]), 'scan', (1, 2))
    assert slot.tensors['input'].tolist() == [[0.5, float('inf')]]


def test_a_cloud_message_is_encoded(encode):
    points = np.array([[1, 2, 3], [np.nan, 0, 0]], np.float32)
    message = sensor_msgs.PointCloud2(
        width=2, height=1, point_step=12, row_step=24, data=points.tobytes(),
        fields=[sensor_msgs.PointField(name=name, offset=4 * index, count=1,
                                       datatype=sensor_msgs.PointField.FLOAT32)
                for index, name in enumerate('xyz')])
    assert encode(message, 'pointcloud', (-1, 3)).tensors['input'].tolist() == [[1, 2, 3]]


def test_c08_the_stamp_of_a_message_becomes_an_integer():
    assert stamp_to_ns(builtin_interfaces.Time(sec=-1, nanosec=999_999_999)) == -1
