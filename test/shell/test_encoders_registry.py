"""Encoders are found by name, those of other packages too."""

from importlib.metadata import EntryPoint

import pytest

from vig_governor import encoders
from vig_governor.encoders import encoder_names, get_encoder, make_encoder
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.image import ImageEncoder


@pytest.fixture
def offer(monkeypatch):
    """Pretend that packages with these entry points are installed."""
    def run(**points):
        offered = {name: EntryPoint(name, value, encoders.GROUP)
                   for name, value in points.items()}
        monkeypatch.setattr(encoders, '_offered', lambda: offered)
    return run


def test_the_encoders_of_the_package_need_no_installation(offer):
    offer()
    assert encoder_names() == (
        'array', 'image', 'pointcloud', 'raw', 'reference', 'scan', 'text')
    for name in encoder_names():
        encoder = make_encoder(InputOptions(tensor='input', encoder=name))
        assert callable(encoder.check) and callable(encoder.encode)


def test_an_unknown_name_is_answered_with_the_nearest_and_the_available_ones(offer):
    offer()
    with pytest.raises(EncodeError) as caught:
        get_encoder('imgae')
    assert str(caught.value) == (
        "input.encoder 'imgae' is not available; did you mean 'image'? "
        'available are array, image, pointcloud, raw, reference, scan, text')


def test_a_name_like_no_other_gets_no_guess(offer):
    offer()
    with pytest.raises(EncodeError) as caught:
        get_encoder('qqq')
    assert 'did you mean' not in str(caught.value)


def test_another_package_adds_an_encoder(offer):
    offer(radar='vig_governor.encoders.image:ImageEncoder')
    assert get_encoder('radar') is ImageEncoder
    assert 'radar' in encoder_names()


@pytest.mark.parametrize('value', ['no_such_package_of_anybody:Encoder',
                                   'vig_governor.encoders.image:NoSuchEncoder'])
def test_a_broken_package_is_named(offer, value):
    offer(radar=value)
    with pytest.raises(EncodeError) as caught:
        get_encoder('radar')
    assert 'radar' in str(caught.value) and value in str(caught.value)


def test_an_entry_point_that_makes_nothing_is_refused(offer):
    offer(radar='vig_governor.encoders:GROUP')
    with pytest.raises(EncodeError, match='no factory'):
        get_encoder('radar')
