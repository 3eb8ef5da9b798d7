"""Where frames land in a model's input and how boxes find back; values worked out by hand."""

from hypothesis import given, strategies as st
import pytest

from vig_governor.encoders import make_encoder
from vig_governor.encoders.base import InputOptions
from vig_governor.encoders.geometry import Geometry, place

SIDES = st.tuples(st.integers(1, 8000), st.integers(1, 8000))


@pytest.mark.parametrize('source, size, content, pad', [
    ((640, 480), (320, 320), (320, 240), (0, 40)),
    ((480, 640), (320, 320), (240, 320), (40, 0)),
    ((1920, 1080), (300, 300), (300, 169), (0, 65)),
    ((100, 100), (300, 200), (200, 200), (50, 0)),
    ((8, 4), (6, 6), (6, 3), (0, 1)),
    ((1, 1000), (64, 64), (1, 64), (31, 0)),
    ((5000, 1), (10, 10), (10, 1), (0, 4)),
])
def test_a_letterbox_keeps_the_aspect_ratio_and_centres(source, size, content, pad):
    assert place(source, size, True) == Geometry(source, size, content, pad)


def test_without_a_letterbox_the_frame_is_stretched():
    geometry = place((640, 480), (320, 120), False)
    assert geometry == Geometry((640, 480), (320, 120), (320, 120), (0, 0))
    assert geometry.scale == (0.5, 0.25)


@pytest.mark.parametrize('size', [None, (640, 480)])
def test_without_a_size_or_with_its_own_the_frame_stays(size):
    assert place((640, 480), size, size is not None) == Geometry(
        (640, 480), (640, 480), (640, 480), (0, 0))


def test_a_box_in_the_letterbox_maps_back_into_the_frame():
    geometry = place((640, 480), (320, 320), True)
    assert geometry.to_source(0, 40) == (0, 0)
    assert geometry.to_source(160, 160) == (320, 240)
    assert geometry.to_source(320, 280) == (640, 480)
    assert geometry.to_target(320, 240) == (160, 160)


def test_the_encoder_tells_the_geometry_that_it_uses():
    encoder = make_encoder(InputOptions('image', 'image', size=(320, 320), letterbox=True))
    assert encoder.geometry(640, 480) == place((640, 480), (320, 320), True)


@given(SIDES, SIDES, st.booleans())
def test_the_content_always_lies_inside_the_input_and_points_find_back(source, size, letterbox):
    geometry = place(source, size, letterbox)
    for side in (0, 1):
        margin = size[side] - geometry.content[side]
        assert geometry.content[side] >= 1
        assert 0 <= geometry.pad[side] <= margin <= 2 * geometry.pad[side] + 1
    assert size[0] == geometry.content[0] or size[1] == geometry.content[1]
    point = (source[0] / 3, source[1] / 7)
    assert geometry.to_source(*geometry.to_target(*point)) == pytest.approx(point, rel=1e-9)
