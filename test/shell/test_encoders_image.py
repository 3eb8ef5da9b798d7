"""The encoder ``image``: what a frame becomes, with values worked out by hand."""

import array
from types import SimpleNamespace

import numpy as np
import pytest

from vig_governor.backend.base import TensorSpec
from vig_governor.encoders import make_encoder
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.pixels import ENCODINGS

IMAGE = 'sensor_msgs/msg/Image'


def options(**changes):
    """Give an input that passes pixels through: UINT8, HWC, RGB."""
    return InputOptions(**{'tensor': 'image', 'encoder': 'image', 'layout': 'HWC',
                           'dtype': 'UINT8', **changes})


def image(encoding, width, height, values, *, step=None, is_bigendian=0):
    """Give a message like ``sensor_msgs/msg/Image`` with the data as rclpy delivers them."""
    data = bytes(values)
    return SimpleNamespace(encoding=encoding, width=width, height=height,
                           step=len(data) // height if step is None else step,
                           is_bigendian=is_bigendian, data=array.array('B', data))


@pytest.fixture
def encode(make_slot):
    """Encode a message with options and give the tensor ``image``."""
    def run(message, **changes):
        slot = make_slot()
        make_encoder(options(**changes)).encode(message, slot)
        assert list(slot.tensors) == ['image']
        return slot.tensors['image']
    return run


RGB_2X2 = [1, 2, 3, 4, 5, 6,
           7, 8, 9, 10, 11, 12]


def test_an_rgb_frame_passes_through_unchanged(encode):
    tensor = encode(image('rgb8', 2, 2, RGB_2X2))
    assert tensor.tolist() == [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]]


def test_a_bgr_frame_is_reordered_for_an_rgb_model(encode):
    tensor = encode(image('bgr8', 2, 2, RGB_2X2))
    assert tensor.tolist() == [[[3, 2, 1], [6, 5, 4]], [[9, 8, 7], [12, 11, 10]]]


def test_an_rgb_frame_is_reordered_for_a_bgr_model(encode):
    tensor = encode(image('rgb8', 2, 2, RGB_2X2), color='BGR')
    assert tensor.tolist() == [[[3, 2, 1], [6, 5, 4]], [[9, 8, 7], [12, 11, 10]]]


@pytest.mark.parametrize('encoding, expected', [
    ('rgba8', [[[1, 2, 3], [5, 6, 7]]]), ('bgra8', [[[3, 2, 1], [7, 6, 5]]]),
    ('8UC4', [[[1, 2, 3], [5, 6, 7]]])])
def test_a_fourth_channel_is_dropped(encode, encoding, expected):
    assert encode(image(encoding, 2, 1, [1, 2, 3, 99, 5, 6, 7, 99])).tolist() == expected


@pytest.mark.parametrize('color', ['RGB', 'BGR'])
def test_channels_without_names_keep_the_order_of_the_message(encode, color):
    tensor = encode(image('8UC3', 2, 1, [1, 2, 3, 4, 5, 6]), color=color)
    assert tensor.tolist() == [[[1, 2, 3], [4, 5, 6]]]


@pytest.mark.parametrize('encoding', ['mono8', '8UC1'])
def test_a_gray_frame_fills_all_three_channels(encode, encoding):
    assert encode(image(encoding, 2, 1, [7, 200])).tolist() == [[[7, 7, 7], [200, 200, 200]]]


def test_a_gray_model_gets_the_brightness_of_colours(encode):
    # 0.299 R + 0.587 G + 0.114 B, rounded
    tensor = encode(image('rgb8', 3, 1, [255, 0, 0, 0, 255, 0, 0, 0, 255]), color='GRAY')
    assert tensor.tolist() == [[[76], [150], [29]]]
    tensor = encode(image('bgra8', 2, 1, [255, 0, 0, 9, 0, 0, 255, 9]), color='GRAY')
    assert tensor.tolist() == [[[29], [76]]]


def test_the_padding_of_rows_never_reaches_the_tensor(encode):
    padded = [1, 2, 3, 4, 5, 6, 255, 255,
              7, 8, 9, 10, 11, 12, 255, 255]
    expected = [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]]
    assert encode(image('rgb8', 2, 2, padded)).tolist() == expected
    assert encode(image('bgr8', 2, 2, padded), color='BGR').tolist() == expected
    assert encode(image('rgb8', 2, 2, padded), layout='NCHW').tolist() == [
        [[[1, 4], [7, 10]], [[2, 5], [8, 11]], [[3, 6], [9, 12]]]]


def test_the_last_row_may_come_without_its_padding(encode):
    message = image('rgb8', 2, 2, [1, 2, 3, 4, 5, 6, 255, 255, 7, 8, 9, 10, 11, 12], step=8)
    assert encode(message)[1].tolist() == [[7, 8, 9], [10, 11, 12]]


@pytest.mark.parametrize('layout, expected', [
    ('HWC', [[[1, 2, 3], [4, 5, 6]]]), ('NHWC', [[[[1, 2, 3], [4, 5, 6]]]]),
    ('CHW', [[[1, 4]], [[2, 5]], [[3, 6]]]), ('NCHW', [[[[1, 4]], [[2, 5]], [[3, 6]]]])])
def test_every_layout_has_its_axes_in_order(encode, layout, expected):
    assert encode(image('rgb8', 2, 1, [1, 2, 3, 4, 5, 6]), layout=layout).tolist() == expected


def test_planes_of_a_reordered_frame_are_swapped(encode):
    tensor = encode(image('bgr8', 2, 1, [1, 2, 3, 4, 5, 6]), layout='CHW')
    assert tensor.tolist() == [[[3, 6]], [[2, 5]], [[1, 4]]]


def test_normalisation_is_value_times_scale_minus_mean_over_std(encode):
    message = image('rgb8', 2, 1, [0, 51, 102, 153, 204, 255])
    for layout in ('HWC', 'CHW'):
        tensor = encode(message, dtype='FP32', layout=layout, scale=1 / 255,
                        mean=(0.5, 0.2, 0.0), std=(0.5, 1.0, 2.0))
        if layout == 'CHW':
            tensor = tensor.transpose(1, 2, 0)
        assert tensor.dtype == np.float32
        np.testing.assert_allclose(tensor, [[[-1.0, 0.0, 0.2], [0.2, 0.6, 0.5]]], atol=1e-6)


def test_one_scale_for_all_channels_reaches_every_float_type(encode):
    message = image('rgb8', 1, 1, [0, 128, 255])
    for dtype, numpy_type in (('FP16', np.float16), ('FP32', np.float32), ('FP64', np.float64)):
        tensor = encode(message, dtype=dtype, scale=0.5, mean=(1.0,), std=(2.0,))
        assert tensor.dtype == numpy_type
        assert tensor.tolist() == [[[-0.5, 31.5, 63.25]]]


def test_integer_tensors_are_rounded_and_saturated(encode):
    message = image('mono8', 4, 1, [0, 100, 128, 255])
    tensor = encode(message, dtype='INT8', color='GRAY', mean=(128.0,))
    assert tensor.tolist() == [[[-128], [-28], [0], [127]]]
    tensor = encode(message, dtype='UINT8', color='GRAY', scale=1.5)
    assert tensor.tolist() == [[[0], [150], [192], [255]]]
    # 0.75 * 101 - 64 = 11.75; 0.75 * 3 - 64 = -61.75; 0.5 and 1.5 go to the even neighbour
    tensor = encode(image('mono8', 2, 1, [101, 3]), dtype='INT8', color='GRAY', scale=0.75,
                    mean=(64.0,))
    assert tensor.tolist() == [[[12], [-62]]]
    tensor = encode(image('mono8', 2, 1, [1, 3]), dtype='UINT8', color='GRAY', scale=0.5)
    assert tensor.tolist() == [[[0], [2]]]


def test_an_integer_model_without_normalisation_gets_the_same_numbers(encode):
    tensor = encode(image('rgb8', 1, 1, [0, 128, 255]), dtype='INT32')
    assert tensor.dtype == np.int32
    assert tensor.tolist() == [[[0, 128, 255]]]


def test_a_frame_is_stretched_to_the_size_of_the_model(encode):
    # every pixel of a 2 x 2 frame doubled: linear interpolation at 1/4 and 3/4
    tensor = encode(image('mono8', 2, 2, [0, 100, 100, 200]), color='GRAY', size=(4, 4))
    assert tensor[..., 0].tolist() == [[0, 25, 75, 100], [25, 50, 100, 125],
                                       [75, 100, 150, 175], [100, 125, 175, 200]]


def test_size_is_width_before_height(encode):
    message = image('rgb8', 2, 2, RGB_2X2)
    assert encode(message, size=(6, 4)).shape == (4, 6, 3)
    assert encode(message, size=(6, 4), layout='NCHW').shape == (1, 3, 4, 6)


@pytest.mark.parametrize('encoding', ['rgb8', 'bgr8', 'rgba8', 'bgra8', 'mono8'])
@pytest.mark.parametrize('layout', ['HWC', 'NCHW'])
@pytest.mark.parametrize('dtype', ['UINT8', 'FP32'])
@pytest.mark.parametrize('letterbox', [False, True])
def test_a_uniform_frame_stays_uniform_on_every_path(encode, encoding, layout, dtype, letterbox):
    color = {'rgb8': (10, 20, 30), 'bgr8': (30, 20, 10), 'rgba8': (10, 20, 30, 255),
             'bgra8': (30, 20, 10, 255), 'mono8': (20,)}[encoding]
    tensor = encode(image(encoding, 8, 4, color * 32), size=(6, 6), layout=layout, dtype=dtype,
                    letterbox=letterbox)
    if layout == 'NCHW':
        tensor = tensor[0].transpose(1, 2, 0)
    # 8 x 4 into 6 x 6: the letterbox leaves 3 rows of content, 1 above and 2 below are padding
    content = tensor[1:4] if letterbox else tensor
    assert (content == ([20] * 3 if encoding == 'mono8' else [10, 20, 30])).all()
    if letterbox:
        assert (tensor[:1] == 0).all() and (tensor[4:] == 0).all()


def test_the_padding_is_zero_before_normalisation(encode):
    message = image('rgb8', 2, 4, [255] * 24)
    tensor = encode(message, dtype='FP32', size=(4, 4), letterbox=True, scale=1 / 255,
                    mean=(0.5, 0.25, 0.0), std=(0.5, 0.5, 1.0))
    np.testing.assert_allclose(tensor[:, [0, 3]], np.tile([-1.0, -0.5, 0.0], (4, 2, 1)),
                               atol=1e-6)
    np.testing.assert_allclose(tensor[:, 1:3], np.tile([1.0, 1.5, 1.0], (4, 2, 1)), atol=1e-6)


@pytest.mark.parametrize('is_bigendian, data', [(0, [0x02, 0x01, 0xFF, 0x00]),
                                                (1, [0x01, 0x02, 0x00, 0xFF])])
def test_sixteen_bit_frames_are_read_in_their_byte_order(encode, is_bigendian, data):
    for encoding in ('mono16', '16UC1'):
        message = image(encoding, 2, 1, data, is_bigendian=is_bigendian)
        assert encode(message, dtype='UINT16', color='GRAY').tolist() == [[[0x102], [0xFF]]]
        tensor = encode(message, dtype='FP32', color='GRAY', scale=0.001)
        np.testing.assert_allclose(tensor, [[[0.258], [0.255]]], rtol=1e-6)


def test_an_odd_step_of_sixteen_bit_rows_is_read_right(encode):
    message = image('mono16', 1, 2, [0x02, 0x01, 0x99, 0x04, 0x03], step=3)
    assert encode(message, dtype='UINT16', color='GRAY').tolist() == [[[0x102]], [[0x304]]]


def test_depth_in_metres_keeps_its_holes(encode):
    data = np.array([1.5, np.nan, np.inf, 0.0], '<f4').tobytes()
    tensor = encode(image('32FC1', 2, 2, data), dtype='FP32', color='GRAY')
    np.testing.assert_array_equal(tensor[..., 0], np.array([[1.5, np.nan], [np.inf, 0.0]]))
    tensor = encode(image('32FC1', 2, 2, data), dtype='UINT16', color='GRAY', scale=1000.0)
    assert tensor[..., 0].tolist() == [[1500, 0], [65535, 0]]
    tensor = encode(image('32FC1', 2, 2, data), dtype='INT32', color='GRAY', scale=1000.0)
    assert tensor[..., 0].tolist() == [[1500, 0], [2**31 - 1, 0]]


def test_depth_is_resized_to_the_nearest_pixel(encode):
    data = np.array([1.0, 9.0], '<f4').tobytes()
    tensor = encode(image('32FC1', 2, 1, data), dtype='FP32', color='GRAY', size=(4, 1))
    assert tensor[..., 0].tolist() == [[1.0, 1.0, 9.0, 9.0]]


@pytest.mark.parametrize('pattern, first_rows', [
    ('bayer_rggb8', ['rg', 'gb']), ('bayer_bggr8', ['bg', 'gr']),
    ('bayer_gbrg8', ['gb', 'rg']), ('bayer_grbg8', ['gr', 'bg'])])
def test_a_mosaic_of_one_colour_becomes_that_colour(encode, pattern, first_rows):
    value = {'r': 200, 'g': 100, 'b': 50}
    mosaic = [value[first_rows[row % 2][column % 2]] for row in range(6) for column in range(6)]
    assert (encode(image(pattern, 6, 6, mosaic)) == [200, 100, 50]).all()
    wide = np.array(mosaic, '<u2').tobytes()
    message = image(pattern.replace('8', '16'), 6, 6, wide)
    assert (encode(message, dtype='UINT16') == [200, 100, 50]).all()


@pytest.mark.parametrize('encoding, pair', [
    ('yuv422', [128, 235, 128, 16]), ('uyvy', [128, 235, 128, 16]),
    ('yuv422_yuy2', [235, 128, 16, 128]), ('yuyv', [235, 128, 16, 128])])
def test_shared_colours_are_unpacked_in_the_order_that_ros_defines(encode, encoding, pair):
    # BT.601 video range: luma 235 is white, 16 is black
    tensor = encode(image(encoding, 2, 1, pair))
    assert tensor.tolist() == [[[255, 255, 255], [0, 0, 0]]]


@pytest.mark.parametrize('message, words', [
    (image('rgb9', 2, 2, RGB_2X2), ["'rgb9'", *ENCODINGS]),
    (image('rgb8', 0, 2, [1, 2]), ['0 x 2', 'nothing in it']),
    (image('rgb8', 2, 2, RGB_2X2, step=5), ['step is 5', 'take 6']),
    (image('rgb8', 2, 3, RGB_2X2, step=6), ['12 bytes', 'need 18']),
    (image('rgb8', 2, 1, [], step=6), ['data is empty']),
    (image('rgb8', 1 << 20, 1 << 20, RGB_2X2, step=1 << 22), ['67108864 pixels']),
    (image('yuv422', 3, 1, [1, 2, 3, 4, 5, 6]), ['3 pixels wide', 'pairs']),
    (image('bayer_rggb8', 2, 2, [1, 2, 3, 4]), ['2 x 2', 'too small']),
    (image('mono16', 1, 1, [1, 2]), ['mono16', 'uint8 cannot hold', 'input.dtype']),
])
def test_a_frame_that_cannot_be_a_tensor_is_refused_in_one_sentence(encode, message, words):
    with pytest.raises(EncodeError) as caught:
        encode(message)
    for word in words:
        assert word in str(caught.value)


def test_a_frame_of_another_size_than_the_model_is_refused(make_slot):
    encoder = make_encoder(options())
    encoder.check(TensorSpec('image', 'UINT8', (300, 300, 3)), IMAGE)
    with pytest.raises(EncodeError, match=r'2 x 2 pixels.*wants 300 x 300; set input\.size'):
        encoder.encode(image('rgb8', 2, 2, RGB_2X2), make_slot())


@pytest.mark.parametrize('later, expected', [
    (image('rgb8', 2, 2, reversed(RGB_2X2)), [[[12, 11, 10], [9, 8, 7]], [[6, 5, 4], [3, 2, 1]]]),
    (image('bgr8', 2, 2, RGB_2X2), [[[3, 2, 1], [6, 5, 4]], [[9, 8, 7], [12, 11, 10]]]),
    (image('rgb8', 2, 1, RGB_2X2[:6]), [[[1, 2, 3], [4, 5, 6]]]),
    (image('rgb8', 2, 2, [*RGB_2X2[:6], 0, 0, *RGB_2X2[6:], 0, 0]),
     [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]]),
    (image('rgb8', 2, 2, [*RGB_2X2, 99], step=6),
     [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]]),
])
def test_a_frame_after_one_that_needed_nothing_is_judged_by_itself(make_slot, later, expected):
    encoder = make_encoder(options())
    encoder.encode(image('rgb8', 2, 2, RGB_2X2), make_slot())
    for _ in range(2):
        slot = make_slot()
        encoder.encode(later, slot)
        assert slot.tensors['image'].tolist() == expected


def test_a_frame_like_the_last_one_with_too_little_data_is_refused(make_slot):
    encoder = make_encoder(options())
    encoder.encode(image('rgb8', 2, 2, RGB_2X2), make_slot())
    with pytest.raises(EncodeError, match='data holds 11 bytes'):
        encoder.encode(image('rgb8', 2, 2, RGB_2X2[:-1], step=6), make_slot())
