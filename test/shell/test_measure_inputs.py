"""What is fed while measuring: zeros of the right shape, or frames from a file."""

from config_text import changed, load, SIMPLE
import numpy as np
import pytest

from vig_governor.backend.base import ModelSignature, TensorSpec
from vig_governor.measure.inputs import InputUnknown, make_feed, stream_shapes

FREE = ModelSignature('pose', (TensorSpec('IMAGE', 'UINT8', (-1, -1, 3)),), ())
FIXED = ModelSignature('net', (TensorSpec('X', 'FP32', (3, 4)),
                               TensorSpec('EXTRA', 'FP32', (1,), is_optional=True)), ())


def feed(signature, **options):
    return make_feed(signature, **{'shapes': {}, 'streamed': {}, 'data': None, **options})


def test_a_fixed_shape_needs_nothing_and_optional_inputs_stay_away():
    made = feed(FIXED)
    assert made.dataset == 'zeros' and made.shapes == {'X': [3, 4]}
    assert made[5]['X'].dtype == np.float32 and not made[5]['X'].any()


def test_a_free_size_must_be_said_and_the_sentence_shows_how():
    with pytest.raises(InputUnknown, match=r'--shape IMAGE=480,480,3, or give frames'):
        feed(FREE)
    assert feed(FREE, shapes={'IMAGE': (480, 640, 3)}).shapes == {'IMAGE': [480, 640, 3]}


def test_a_shape_that_does_not_fit_is_refused():
    with pytest.raises(InputUnknown, match='axis 2 must be 3, not 1'):
        feed(FREE, shapes={'IMAGE': (480, 640, 1)})


def test_a_stream_that_resizes_says_the_shape(tmp_path):
    text = changed('input: {tensor: image, encoder: image}',
                   'input: {tensor: image, encoder: image, size: [320, 240], layout: NCHW}')
    shapes = stream_shapes(load(tmp_path, text))
    assert shapes == {'detector': {'image': (1, 3, 240, 320)}}
    assert stream_shapes(load(tmp_path, SIMPLE)) == {}


def test_the_leading_one_of_a_stream_is_left_out_where_the_server_batches():
    batching = ModelSignature('b', (TensorSpec('image', 'FP32', (3, -1, -1)),), (), 8)
    assert feed(batching, streamed={'image': (1, 3, 8, 9)}).shapes == {'image': [3, 8, 9]}


def test_texts_are_fed_as_empty_ones():
    text = ModelSignature('t', (TensorSpec('PROMPT', 'BYTES', (1,)),), ())
    assert feed(text)[0]['PROMPT'].tolist() == [b'']


def test_frames_of_a_file_are_used_in_turn_and_the_file_is_named(tmp_path):
    path = tmp_path / 'frames.npz'
    np.savez(path, IMAGE=np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3))
    made = feed(FREE, data=path)
    assert [int(made[turn]['IMAGE'][0, 0, 0]) for turn in range(3)] == [0, 60, 0]
    assert made.dataset.startswith('frames.npz ') and len(made.dataset) == len('frames.npz ') + 16


@pytest.mark.parametrize('arrays, words', [
    ({'OTHER': np.zeros((2, 4))}, "also requires the inputs 'IMAGE'"),
    ({'IMAGE': np.zeros((2, 4, 5, 3))}, 'wants UINT8, not FP64'),
    ({'IMAGE': np.zeros((4, 5, 3), np.uint8)}, 'the first axis counts the samples'),
    ({'IMAGE': np.zeros((0, 4, 5, 3), np.uint8)}, 'holds no sample'),
])
def test_a_file_that_does_not_fit_is_refused(tmp_path, arrays, words):
    path = tmp_path / 'frames.npz'
    np.savez(path, **arrays)
    with pytest.raises(InputUnknown, match=words):
        feed(FREE, data=path)


def test_what_is_no_npz_is_refused_and_no_object_is_unpickled(tmp_path):
    path = tmp_path / 'frames.npz'
    path.write_text('hello')
    with pytest.raises(InputUnknown, match='not a readable .npz'):
        feed(FREE, data=path)
    np.savez(path, IMAGE=np.array([object()]))
    with pytest.raises(InputUnknown, match='not a readable .npz'):
        feed(FREE, data=path)
