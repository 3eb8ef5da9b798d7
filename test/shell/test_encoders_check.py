"""What can never work is refused at configure, with the tensor, both sides and the key."""

import pytest

from vig_governor.backend.base import TensorSpec
from vig_governor.encoders import make_encoder
from vig_governor.encoders.base import EncodeError, InputOptions

IMAGE = 'sensor_msgs/msg/Image'


def check(shape, *, datatype='FP32', message_type=IMAGE, **changes):
    """Check an image input against a model's tensor named ``pixels``."""
    options = InputOptions(**{'tensor': 'pixels', 'encoder': 'image', **changes})
    make_encoder(options).check(TensorSpec('pixels', datatype, shape), message_type)


@pytest.mark.parametrize('shape, changes', [
    ((1, 300, 300, 3), {'size': (300, 300)}),
    ((-1, 300, 400, 3), {'size': (400, 300)}),
    ((-1, -1, -1, 3), {}),
    ((-1, -1, -1, -1), {'color': 'GRAY'}),
    ((1, 3, 300, 300), {'layout': 'NCHW'}),
    ((300, 300, 3), {'layout': 'HWC'}),
    ((1, 64, 64), {'layout': 'CHW', 'color': 'GRAY'}),
    ((1, 300, 300, 3), {'message_type': 'sensor_msgs/msg/CompressedImage'}),
])
def test_what_fits_passes(shape, changes):
    check(shape, **changes)


@pytest.mark.parametrize('shape, changes, words', [
    ((1, 300, 300, 3), {'size': (320, 320)},
     ["'pixels'", '[1, 300, 300, 3]', '[320, 320]', 'set input.size: [300, 300]']),
    ((1, 300, -1, 3), {'size': (320, 240)}, ['set input.size: [320, 300]']),
    ((1, 300, 300, 3), {'datatype': 'UINT8'}, ['UINT8', 'FP32', 'set input.dtype: UINT8']),
    ((300, 300, 3), {}, ['NHWC has 4 axes', 'set input.layout: HWC']),
    ((1, 3, 300, 300), {}, ['wants 300', 'set input.layout: NCHW']),
    ((1, 300, 300, 1), {}, ['C = 3 where it wants 1', 'set input.color: GRAY']),
    ((1, 300, 300, 3), {'color': 'GRAY'},
     ['C = 1 where it wants 3', 'set input.color: RGB or BGR']),
    ((8, 300, 300, 3), {}, ['8 frames at once']),
    ((10,), {}, ['an image cannot fill it']),
    ((1, 300, 300, 3), {'message_type': 'std_msgs/msg/String'},
     ['sensor_msgs/msg/Image', 'not std_msgs/msg/String', 'input.encoder']),
])
def test_an_image_that_can_never_fit_is_refused_with_the_remedy(shape, changes, words):
    with pytest.raises(EncodeError) as caught:
        check(shape, **changes)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize('changes, words', [
    ({'layout': 'NHCW'}, ['input.layout', 'NHWC, NCHW, HWC, CHW']),
    ({'color': 'YUV'}, ['input.color', 'RGB, BGR, GRAY']),
    ({'dtype': 'BYTES'}, ['input.dtype', 'FP32']),
    ({'dtype': 'INT8'}, ['input.dtype INT8', 'input.mean: [128, 128, 128]']),
    ({'letterbox': True}, ['input.letterbox', 'input.size']),
    ({'size': (0, 5)}, ['input.size', 'positive']),
    ({'size': (1 << 20, 1 << 20)}, ['input.size', '67108864']),
    ({'std': (1.0, 0.0, 1.0)}, ['input.std', 'divides by zero']),
    ({'mean': (1.0, 2.0)}, ['input.mean has 2 values', '3 channels']),
    ({'mean': (1.0, 2.0, 3.0), 'color': 'GRAY'}, ['input.mean has 3 values', '1 channel']),
    ({'scale': float('nan')}, ['input.scale', 'finite']),
])
def test_options_that_no_frame_could_use_name_their_key(changes, words):
    with pytest.raises(EncodeError) as caught:
        make_encoder(InputOptions(**{'tensor': 'pixels', 'encoder': 'image', **changes}))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize('encoder', ['array', 'raw', 'text', 'scan', 'pointcloud'])
@pytest.mark.parametrize('changes', [{'size': (3, 3)}, {'letterbox': True}, {'scale': 2.0}])
def test_options_of_images_are_not_ignored_by_other_encoders(encoder, changes):
    with pytest.raises(EncodeError, match=f'input.{next(iter(changes))} means nothing'):
        make_encoder(InputOptions(**{'tensor': 'input', 'encoder': encoder, **changes}))


def test_a_normalisation_that_changes_nothing_is_no_option_of_images():
    assert make_encoder(InputOptions('input', 'raw', mean=(0.0,), std=(1.0,)))


@pytest.mark.parametrize('encoder, datatype, shape, message_type, words', [
    ('array', 'FP32', (3,), IMAGE, ['std_msgs/msg/Float32MultiArray', f'not {IMAGE}']),
    ('array', 'FP64', (3,), 'std_msgs/msg/Float32MultiArray', ['set input.dtype: FP64']),
    ('scan', 'FP32', (-1, -1, -1), 'sensor_msgs/msg/LaserScan', ['more than one open axis']),
    ('scan', 'FP32', (360,), IMAGE, [f'not {IMAGE}']),
    ('raw', 'UINT8', (-1, -1, -1), IMAGE, ['more than one open axis']),
    ('raw', 'BF16', (4,), IMAGE, ['BF16']),
    ('raw', 'BYTES', (2,), IMAGE, ['one BYTES element']),
    ('raw', 'BYTES', (1,), 'std_msgs/msg/String', ['input.encoder: text']),
    ('text', 'FP32', (1,), 'std_msgs/msg/String', ['becomes BYTES']),
    ('text', 'BYTES', (1, 2), 'std_msgs/msg/String', ['one BYTES element']),
    ('text', 'BYTES', (1,), IMAGE, [f'not {IMAGE}']),
    ('pointcloud', 'FP32', (-1, 5), 'sensor_msgs/msg/PointCloud2', ['[-1, 5]', '[N, 3]']),
    ('pointcloud', 'FP32', (-1, 3), IMAGE, [f'not {IMAGE}']),
    ('pointcloud', 'FP64', (-1, 3), 'sensor_msgs/msg/PointCloud2', ['input.dtype: FP64']),
])
def test_every_encoder_refuses_what_it_can_never_fill(encoder, datatype, shape, message_type,
                                                      words):
    with pytest.raises(EncodeError) as caught:
        make_encoder(InputOptions(tensor='input', encoder=encoder)).check(
            TensorSpec('input', datatype, shape), message_type)
    for word in words:
        assert word in str(caught.value)


def test_an_array_of_floats_is_not_cut_to_integers():
    encoder = make_encoder(InputOptions(tensor='input', encoder='array', dtype='INT32'))
    with pytest.raises(EncodeError, match='float32 elements do not fit into INT32'):
        encoder.check(TensorSpec('input', 'INT32', (3,)), 'std_msgs/msg/Float32MultiArray')
