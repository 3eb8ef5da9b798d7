"""The encoder ``pointcloud``; clouds of a few points, packed by ``struct``."""

import array
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from vig_governor.backend.base import TensorSpec
from vig_governor.encoders import make_encoder
from vig_governor.encoders.base import EncodeError, InputOptions

NAN = float('nan')
UINT8, FLOAT32 = 2, 7
POINTS = [(1.0, 2.0, 3.0, 7), (NAN, 5.0, 6.0, 8), (-1.0, -2.0, -3.0, 255)]


def field(name, offset, datatype=FLOAT32):
    """Give a ``PointField``."""
    return SimpleNamespace(name=name, offset=offset, datatype=datatype, count=1)


def cloud(points=POINTS, *, order='<', **changes):
    """Give a ``PointCloud2`` with z before x, a gap, and intensity in one byte."""
    data = b''.join(struct.pack(f'{order}fffBxxx', z, x, y, intensity)
                    for x, y, z, intensity in points)
    values = {'width': len(points), 'height': 1, 'point_step': 16, 'row_step': 16 * len(points),
              'is_bigendian': order == '>', 'is_dense': False, 'data': array.array('B', data),
              'fields': [field('z', 0), field('x', 4), field('y', 8),
                         field('intensity', 12, UINT8)]}
    return SimpleNamespace(**{**values, **changes})


@pytest.fixture
def encode(make_slot):
    """Check against a shape, encode, give the tensor."""
    def run(message, shape):
        slot = make_slot()
        made = make_encoder(InputOptions(tensor='points', encoder='pointcloud'))
        made.check(TensorSpec('points', 'FP32', shape), 'sensor_msgs/msg/PointCloud2')
        made.encode(message, slot)
        return slot.tensors['points']
    return run


@pytest.mark.parametrize('order', ['<', '>'])
def test_an_open_number_of_points_drops_the_invalid_ones(encode, order):
    message = cloud(order=order)
    assert encode(message, (-1, 4)).tolist() == [[1, 2, 3, 7], [-1, -2, -3, 255]]
    assert encode(message, (-1, -1, 3)).tolist() == [[[1, 2, 3], [-1, -2, -3]]]


@pytest.mark.parametrize('hole', [(NAN, 0.0, 0.0, 0), (0.0, float('inf'), 0.0, 0),
                                  (0.0, 0.0, -float('inf'), 0)])
def test_one_coordinate_that_is_not_finite_drops_the_point(encode, hole):
    assert encode(cloud([hole, (1.0, 2.0, 3.0, 0)]), (-1, 3)).tolist() == [[1, 2, 3]]


def test_a_fixed_number_of_points_keeps_them_all_in_order(encode):
    np.testing.assert_array_equal(
        encode(cloud(), (1, 3, 3)), [[[1, 2, 3], [NAN, 5, 6], [-1, -2, -3]]])


def test_the_rows_of_an_organised_cloud_may_be_padded(encode):
    first, last = cloud(POINTS[:1]).data, cloud(POINTS[2:]).data
    message = cloud(width=1, height=2, row_step=20,
                    data=array.array('B', bytes(first) + b'\xff' * 4 + bytes(last)))
    assert encode(message, (2, 3)).tolist() == [[1, 2, 3], [-1, -2, -3]]


@pytest.mark.parametrize('message, shape, words', [
    (cloud(), (2, 3), '3 points, but tensor .* wants exactly 2'),
    (cloud([(NAN, 0.0, 0.0, 0)]), (-1, 3), 'none of the 1 points has finite'),
    (cloud(width=0), (-1, 3), 'nothing in it'),
    (cloud(width=2**31, height=2**31), (-1, 3), 'at most 16777216'),
    (cloud(width=4), (-1, 3), '48 bytes, but 4 x 1 points need 64'),
    (cloud(height=2, row_step=8), (-1, 3), 'row_step is 8 bytes'),
    (cloud(data=array.array('B')), (-1, 3), 'data is empty'),
    (cloud(fields=[field('x', 0), field('y', 4)]), (-1, 3), "no field 'z'; it has x, y"),
    (cloud(fields=[]), (-1, 3), "no field 'x'; it has none"),
    (cloud(fields=[field(name, 13) for name in 'xyz']), (-1, 3), 'outside the point of 16'),
    (cloud(fields=[field(name, 0, 9) for name in 'xyz']), (-1, 3), 'unknown type 9'),
])
def test_a_cloud_that_does_not_fit_is_refused_in_one_sentence(encode, message, shape, words):
    with pytest.raises(EncodeError, match=words):
        encode(message, shape)
