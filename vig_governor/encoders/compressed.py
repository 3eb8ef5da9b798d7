"""
Decoding of ``sensor_msgs/msg/CompressedImage``: JPEG and PNG, by OpenCV.

The size is read from the file's header first, so that a few kilobytes that claim to be a
gigantic picture are refused before anything is allocated for them.
"""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vig_governor.encoders.base import EncodeError
from vig_governor.encoders.pixels import (
    buffer_of,
    check_pixel_count,
    Encoding,
    ENCODINGS,
    Pixels,
)

PNG_MAGIC = b'\x89PNG\r\n\x1a\n'
JPEG_MAGIC = b'\xff\xd8\xff'

_PNG_DEPTH_AT, _PNG_COLOR_AT, _PNG_HEADER_BYTES, _PNG_GRAY = 24, 25, 33, 0
_STANDALONE = {0x01, *range(0xD0, 0xD9)}
_FRAME_HEADERS = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
_MAX_MARKERS = 4096


def decode(message: Any, wants_gray: bool) -> tuple[Pixels, Encoding]:
    """
    Decode the picture of a ``CompressedImage``.

    An orientation in the picture's metadata is ignored: results refer to the sensor's pixels.

    :param wants_gray: decode colours to their brightness at once.
    :returns: shape ``(height, width, channels)`` and what the channels mean: BGR, or gray with
        8 bits, or with 16 bits from a 16 bit gray PNG.
    :raises EncodeError: neither JPEG nor PNG, damaged, or more than ``MAX_PIXELS`` pixels.
    """
    data = buffer_of(message.data, 'data')
    head = data[:_PNG_HEADER_BYTES].tobytes()
    is_deep_gray = False
    if head.startswith(PNG_MAGIC):
        if len(head) < _PNG_HEADER_BYTES:
            raise EncodeError(f'the PNG ends after {len(head)} bytes, inside its header')
        width, height = (int.from_bytes(head[at:at + 4], 'big') for at in (16, 20))
        is_deep_gray = head[_PNG_DEPTH_AT] == 16 and head[_PNG_COLOR_AT] == _PNG_GRAY
    elif head.startswith(JPEG_MAGIC):
        width, height = jpeg_size(data)
    else:
        raise EncodeError(
            f'format {str(message.format)[:64]!r}: the data start with {head[:4].hex(" ")}, which '
            'is neither JPEG nor PNG; supported are "jpeg" and "png" of image_transport '
            '(not "compressedDepth", not video)')
    check_pixel_count(width, height)
    if is_deep_gray:
        name, flags = 'mono16', cv2.IMREAD_ANYDEPTH | cv2.IMREAD_GRAYSCALE
    elif wants_gray:
        name, flags = 'mono8', cv2.IMREAD_GRAYSCALE
    else:
        name, flags = 'bgr8', cv2.IMREAD_COLOR
    try:
        pixels = cv2.imdecode(data, flags | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error as error:
        raise EncodeError(f'OpenCV cannot decode the picture: {error.err or error}') from None
    encoding = ENCODINGS[name]
    if (pixels is None or pixels.dtype != encoding.dtype
            or pixels.shape[:2] != (height, width)):
        raise EncodeError(f'the picture of {width} x {height} pixels in {data.size} bytes is '
                          'damaged: OpenCV cannot decode it')
    return pixels.reshape(height, width, encoding.channels), encoding


def jpeg_size(data: NDArray[np.uint8]) -> tuple[int, int]:
    """
    Read ``(width, height)`` from a JPEG's frame header.

    :param data: shape ``(bytes,)``, starts with the start-of-image marker.
    :raises EncodeError: the header is not there.
    """
    at, end = 2, data.size
    for _ in range(_MAX_MARKERS):
        if at + 9 > end or data[at] != 0xFF:
            break
        marker = int(data[at + 1])
        if marker == 0xFF:
            at += 1
        elif marker in _STANDALONE:
            at += 2
        elif marker in (_START_OF_SCAN, _END_OF_IMAGE):
            break
        elif marker in _FRAME_HEADERS:
            return (int(data[at + 7]) << 8 | int(data[at + 8]),
                    int(data[at + 5]) << 8 | int(data[at + 6]))
        else:
            at += 2 + (int(data[at + 2]) << 8 | int(data[at + 3]))
    raise EncodeError(f'the JPEG of {end} bytes has no frame header: it is damaged or cut off')
