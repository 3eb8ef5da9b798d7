"""
The encodings of ``sensor_msgs/msg/Image`` and a look at their pixels without a copy.

``8UC1``, ``8UC3`` and ``8UC4`` say nothing about colours: their channels are taken to be in the
order that the model wants, and a fourth one is dropped. ``yuv422`` is UYVY, as ROS defines it.
``16UC1`` and ``32FC1`` are depth: they are resized to the nearest pixel, because an average of
two depths is a place where nothing is; everything else is resized linearly.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vig_governor.encoders.base import EncodeError

MAX_PIXELS = 1 << 26
"""Frames with more pixels (67 million, twice an 8K frame) are refused before any allocation."""

MIN_MOSAIC_SIDE = 4
"""Pixels that a colour mosaic needs in both directions to be interpolated at all."""

Pixels = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Encoding:
    """
    What one name in ``Image.encoding`` means.

    :ivar channels: interleaved samples for each pixel in the message.
    :ivar order: ``RGB``, ``BGR``, ``GRAY`` or ``AS_IS`` (the order that the model wants).
    :ivar unpack: OpenCV conversion to three RGB channels that must come first, or ``None``.
    :ivar even_width: two pixels share their colour, so a row holds pairs.
    :ivar is_depth: values must not be averaged.
    """

    dtype: np.dtype[Any]
    channels: int
    order: str
    unpack: int | None = None
    even_width: bool = False
    is_depth: bool = False

    @property
    def is_mosaic(self) -> bool:
        """Whether each pixel carries only one of its three colours."""
        return self.unpack is not None and self.channels == 1


_U8 = np.dtype(np.uint8)
_U16 = np.dtype(np.uint16)
_F32 = np.dtype(np.float32)

ENCODINGS: MappingProxyType[str, Encoding] = MappingProxyType({
    'rgb8': Encoding(_U8, 3, 'RGB'),
    'bgr8': Encoding(_U8, 3, 'BGR'),
    'rgba8': Encoding(_U8, 4, 'RGB'),
    'bgra8': Encoding(_U8, 4, 'BGR'),
    'mono8': Encoding(_U8, 1, 'GRAY'),
    'mono16': Encoding(_U16, 1, 'GRAY'),
    'rgb16': Encoding(_U16, 3, 'RGB'),
    'bgr16': Encoding(_U16, 3, 'BGR'),
    '8UC1': Encoding(_U8, 1, 'GRAY'),
    '8UC3': Encoding(_U8, 3, 'AS_IS'),
    '8UC4': Encoding(_U8, 4, 'AS_IS'),
    '16UC1': Encoding(_U16, 1, 'GRAY', is_depth=True),
    '32FC1': Encoding(_F32, 1, 'GRAY', is_depth=True),
    'yuv422': Encoding(_U8, 2, 'RGB', cv2.COLOR_YUV2RGB_UYVY, even_width=True),
    'uyvy': Encoding(_U8, 2, 'RGB', cv2.COLOR_YUV2RGB_UYVY, even_width=True),
    'yuv422_yuy2': Encoding(_U8, 2, 'RGB', cv2.COLOR_YUV2RGB_YUY2, even_width=True),
    'yuyv': Encoding(_U8, 2, 'RGB', cv2.COLOR_YUV2RGB_YUY2, even_width=True),
    # OpenCV names a mosaic after its second row; ROS after its first one.
    'bayer_rggb8': Encoding(_U8, 1, 'RGB', cv2.COLOR_BayerBG2RGB),
    'bayer_bggr8': Encoding(_U8, 1, 'RGB', cv2.COLOR_BayerRG2RGB),
    'bayer_gbrg8': Encoding(_U8, 1, 'RGB', cv2.COLOR_BayerGR2RGB),
    'bayer_grbg8': Encoding(_U8, 1, 'RGB', cv2.COLOR_BayerGB2RGB),
    'bayer_rggb16': Encoding(_U16, 1, 'RGB', cv2.COLOR_BayerBG2RGB),
    'bayer_bggr16': Encoding(_U16, 1, 'RGB', cv2.COLOR_BayerRG2RGB),
    'bayer_gbrg16': Encoding(_U16, 1, 'RGB', cv2.COLOR_BayerGR2RGB),
    'bayer_grbg16': Encoding(_U16, 1, 'RGB', cv2.COLOR_BayerGB2RGB),
})
"""Every encoding that can become a tensor, by its ROS name."""


def buffer_of(data: Any, what: str) -> NDArray[np.uint8]:
    """
    View a message's byte field without copying it.

    :param data: ``array.array``, ``bytes`` or anything else with the buffer protocol.
    :param what: the field's name for the sentence.
    :returns: shape ``(bytes,)``, dtype uint8.
    :raises EncodeError: it is empty, or no buffer at all.
    """
    try:
        view = memoryview(data)
        if view.nbytes == 0:
            raise EncodeError(f'{what} is empty')
        return np.frombuffer(view.cast('B'), np.uint8)
    except (TypeError, ValueError, BufferError):
        raise EncodeError(
            f'{what} is a {type(data).__name__}, not a contiguous array of bytes') from None


def encoding_of(name: str) -> Encoding:
    """
    Look an encoding up by its ROS name.

    :raises EncodeError: unknown; names the supported ones.
    """
    found = ENCODINGS.get(name)
    if found is None:
        raise EncodeError(f'encoding {str(name)[:64]!r} is not supported; '
                          f'supported are {", ".join(ENCODINGS)}')
    return found


def check_pixel_count(width: int, height: int) -> None:
    """
    Refuse frames without pixels and frames beyond ``MAX_PIXELS``.

    :raises EncodeError: says the size.
    """
    if width < 1 or height < 1:
        raise EncodeError(f'the frame is {width} x {height} pixels: there is nothing in it')
    if width * height > MAX_PIXELS:
        raise EncodeError(f'the frame is {width} x {height} pixels; '
                          f'at most {MAX_PIXELS} pixels are decoded')


def view_image(message: Any) -> tuple[Pixels, Encoding]:
    """
    View the pixels of a ``sensor_msgs/msg/Image``, row padding skipped.

    :returns: shape ``(height, width, channels)`` as in the message, in native byte order; a copy
        only where the byte order or the alignment asks for one. And what the channels mean.
    :raises EncodeError: encoding, size, step and data do not fit each other.
    """
    encoding = encoding_of(message.encoding)
    width, height, step = int(message.width), int(message.height), int(message.step)
    check_pixel_count(width, height)
    if encoding.even_width and width % 2:
        raise EncodeError(f'{message.encoding} stores pixels in pairs, but the frame is '
                          f'{width} pixels wide')
    if encoding.is_mosaic and min(width, height) < MIN_MOSAIC_SIDE:
        raise EncodeError(f'a {message.encoding} mosaic of {width} x {height} pixels is too '
                          f'small; at least {MIN_MOSAIC_SIDE} x {MIN_MOSAIC_SIDE} are needed')
    row_bytes = width * encoding.channels * encoding.dtype.itemsize
    if step < row_bytes:
        raise EncodeError(f'step is {step} bytes, but {width} pixels of {message.encoding} '
                          f'take {row_bytes}')
    data = buffer_of(message.data, 'data')
    needed = step * (height - 1) + row_bytes
    if data.size < needed:
        raise EncodeError(f'data holds {data.size} bytes, but {width} x {height} pixels of '
                          f'{message.encoding} with step {step} need {needed}')
    dtype = encoding.dtype
    if dtype.itemsize > 1:
        dtype = dtype.newbyteorder('>' if message.is_bigendian else '<')
    pixel_bytes = encoding.channels * dtype.itemsize
    pixels: Pixels = np.ndarray((height, width, encoding.channels), dtype, data,
                                strides=(step, pixel_bytes, dtype.itemsize))
    if not dtype.isnative or not pixels.flags.aligned:
        pixels = pixels.astype(encoding.dtype, order='C')
    return pixels, encoding


def for_opencv(pixels: Pixels) -> Pixels:
    """Drop a channel axis of one, which OpenCV does not have."""
    return pixels[..., 0] if pixels.shape[-1] == 1 else pixels


def unpacked(pixels: Pixels, encoding: Encoding) -> Pixels:
    """Turn mosaics and shared colours into RGB ``(height, width, 3)``; others pass through."""
    if encoding.unpack is None:
        return pixels
    return cv2.cvtColor(for_opencv(pixels), encoding.unpack)
