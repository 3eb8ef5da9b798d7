"""Compressed frames: round trips, pictures that claim too much, and damaged ones."""

import array
import struct
from types import SimpleNamespace
import zlib

import cv2
import numpy as np
import pytest

from vig_governor.encoders import make_encoder
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.compressed import jpeg_size


def compressed(data, text='rgb8; jpeg compressed bgr8'):
    """Give a message like ``sensor_msgs/msg/CompressedImage``."""
    return SimpleNamespace(format=text, data=array.array('B', bytes(data)))


def gradient(width, height):
    """Give a smooth RGB picture that JPEG keeps nearly unchanged."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return np.stack([x, y, np.full_like(x, 60)], -1).astype(np.uint8)


def written(extension, rgb, *flags):
    """Encode an RGB or gray picture the way image_transport does: as BGR."""
    picture = rgb[..., ::-1] if rgb.ndim == 3 else rgb
    return cv2.imencode(extension, picture, list(flags))[1].tobytes()


def png_chunk(kind, body):
    """Give one chunk of a PNG file."""
    return (struct.pack('>I', len(body)) + kind + body
            + struct.pack('>I', zlib.crc32(kind + body)))


def png_claiming(width, height):
    """Give a valid PNG of a few hundred bytes that claims any size."""
    header = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    return (b'\x89PNG\r\n\x1a\n' + png_chunk(b'IHDR', header)
            + png_chunk(b'IDAT', zlib.compress(bytes(4096))) + png_chunk(b'IEND', b''))


@pytest.fixture
def encode(make_slot):
    """Encode a message as UINT8 HWC and give the tensor."""
    def run(message, **changes):
        slot = make_slot()
        make_encoder(InputOptions(**{'tensor': 'image', 'encoder': 'image', 'layout': 'HWC',
                                     'dtype': 'UINT8', **changes})).encode(message, slot)
        return slot.tensors['image']
    return run


def test_a_jpeg_comes_back_nearly_unchanged_and_in_the_right_colours(encode):
    picture = gradient(64, 48)
    tensor = encode(compressed(written('.jpg', picture, cv2.IMWRITE_JPEG_QUALITY, 95)))
    assert tensor.shape == (48, 64, 3)
    assert np.abs(tensor.astype(int) - picture).max() <= 8


def test_a_png_comes_back_exactly(encode):
    picture = gradient(64, 48)
    message = compressed(written('.png', picture), 'bgr8; png compressed bgr8')
    assert (encode(message) == picture).all()
    assert (encode(message, color='BGR') == picture[..., ::-1]).all()
    assert (encode(message, layout='NCHW')[0] == picture.transpose(2, 0, 1)).all()


def test_a_compressed_frame_is_resized_and_letterboxed_like_any_other(encode):
    picture = np.full((20, 40, 3), (10, 20, 30), np.uint8)
    tensor = encode(compressed(written('.png', picture)), size=(20, 20), letterbox=True)
    assert (tensor[5:15] == (10, 20, 30)).all()
    assert (tensor[:5] == 0).all() and (tensor[15:] == 0).all()


def test_a_gray_model_gets_brightness_from_a_compressed_frame(encode):
    picture = np.full((8, 8, 3), (255, 0, 0), np.uint8)
    tensor = encode(compressed(written('.png', picture)), color='GRAY')
    assert tensor.shape == (8, 8, 1)
    assert (np.abs(tensor.astype(int) - 76) <= 1).all()


def test_sixteen_bit_gray_keeps_its_bits(encode):
    depth = np.array([[1, 500], [40000, 65535]], np.uint16)
    message = compressed(written('.png', depth), '16UC1; png compressed ')
    assert (encode(message, dtype='UINT16', color='GRAY')[..., 0] == depth).all()


def test_an_orientation_in_the_metadata_does_not_turn_the_frame(encode):
    jpeg = written('.jpg', gradient(64, 48))
    exif = (b'Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01'
            b'\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00')
    turned = jpeg[:2] + b'\xff\xe1' + struct.pack('>H', len(exif) + 2) + exif + jpeg[2:]
    assert cv2.imdecode(np.frombuffer(turned, np.uint8), cv2.IMREAD_COLOR).shape == (64, 48, 3)
    assert encode(compressed(turned)).shape == (48, 64, 3)


@pytest.mark.parametrize('flags', [(), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)])
def test_the_size_of_a_jpeg_is_read_from_its_header(flags):
    data = written('.jpg', gradient(70, 30), *flags)
    assert jpeg_size(np.frombuffer(data, np.uint8)) == (70, 30)


@pytest.mark.parametrize('width, height', [(100_000, 100_000), (2**31, 2**31), (0, 5)])
def test_a_picture_that_claims_too_many_pixels_is_refused_before_decoding(
        encode, monkeypatch, width, height):
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: pytest.fail('it was decoded'))
    with pytest.raises(EncodeError, match=f'{width} x {height} pixels'):
        encode(compressed(png_claiming(width, height)))


def test_a_jpeg_that_claims_too_many_pixels_is_refused_before_decoding(encode, monkeypatch):
    data = bytearray(written('.jpg', gradient(64, 48)))
    at = data.index(b'\xff\xc0') + 5
    data[at:at + 4] = b'\xff\xff\xff\xff'
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: pytest.fail('it was decoded'))
    with pytest.raises(EncodeError, match='65535 x 65535 pixels'):
        encode(compressed(data))


@pytest.mark.parametrize('data, words', [
    (b'', 'data is empty'),
    (b'RIFF....WEBP', 'neither JPEG nor PNG'),
    (b'\x00' * 12 + png_claiming(4, 4), 'compressedDepth'),
    (b'\xff\xd8\xff', 'no frame header'),
    (b'\xff\xd8' + b'\xff' * 100_000, 'no frame header'),
    (b'\xff\xd8' + b'\xff\xe0\x00\x00' * 100, 'no frame header'),
    (b'\xff\xd8' + b'\xff\xe0\x00\x02' * 5000 + written('.jpg', gradient(8, 8))[2:],
     'no frame header'),
    (written('.jpg', gradient(64, 48))[:100], 'no frame header'),
    (b'\x89PNG\r\n\x1a\n\x00', 'inside its header'),
    (png_claiming(4, 4)[:40], 'damaged'),
])
def test_what_is_no_picture_is_refused_in_one_sentence(encode, data, words):
    with pytest.raises(EncodeError, match=words):
        encode(compressed(data))
