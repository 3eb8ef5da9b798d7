"""
Messages as the middleware delivers them, read in place: no message object, no copy of the data.

rclpy would copy a frame three times on its way into an ``Image`` and build the object field by
field; of the bytes of a raw subscription there is one copy, and an encoder reads the pixels where
they lie (adr/0023). What is read here has the fields of the message, so that encoders see no
difference; a field that is not there, or not as long as it says, is a ``fault`` in words.

The format is OMG CDR of the first version, as all ROS middleware sends it: four bytes that say the
byte order, then the fields, aligned to their size, strings with length and a zero at their end.
"""

from dataclasses import dataclass
from struct import error as StructError, Struct

ENCAPSULATION = 4
"""Offsets and alignment count from behind it; it keeps an alignment of four as it is."""
_EMPTY = memoryview(b'')


@dataclass(slots=True)
class Stamp:
    """A ``builtin_interfaces/Time``."""

    sec: int = 0
    nanosec: int = 0


@dataclass(slots=True)
class Header:
    """A ``std_msgs/Header``."""

    stamp: Stamp
    frame_id: str = ''


@dataclass(slots=True)
class ImageInPlace:
    """
    A ``sensor_msgs/Image`` in the buffer that it came in.

    :ivar data: ``uint8[bytes]``, a view of the buffer.
    :ivar fault: why the rest of the fields cannot be read; else empty.
    """

    header: Header
    height: int = 0
    width: int = 0
    encoding: str = ''
    is_bigendian: int = 0
    step: int = 0
    data: memoryview = _EMPTY
    fault: str = ''


@dataclass(slots=True)
class ReferenceInPlace:
    """
    A ``vig/TensorReference``.

    :ivar fault: why the rest of the fields cannot be read; else empty.
    """

    header: Header
    region: str = ''
    offset: int = 0
    byte_size: int = 0
    name: str = ''
    datatype: str = ''
    shape: tuple[int, ...] = ()
    fault: str = ''


class _Order:
    """How numbers are read in one byte order."""

    def __init__(self, sign: str) -> None:
        self.sign = sign
        self.stamp_and_length = Struct(f'{sign}iII')
        self.length = Struct(f'{sign}I')
        self.two = Struct(f'{sign}II')
        self.three = Struct(f'{sign}III')
        self.two_long = Struct(f'{sign}QQ')


_ORDERS = {b'\0\0': _Order('>'), b'\0\1': _Order('<')}


class _Unreadable(Exception):
    """Says what is wrong with the buffer."""


def read_image(buffer: bytes) -> ImageInPlace:
    """Read a serialised ``sensor_msgs/Image``; what is wrong with it is its ``fault``."""
    image = ImageInPlace(Header(Stamp()))
    try:
        order, at = _read_header(buffer, image.header)
        image.height, image.width, length = order.three.unpack_from(buffer, at)
        image.encoding, at = _text(buffer, at + order.three.size, length)
        image.is_bigendian = buffer[at]
        at = _aligned(at + 1)
        image.step, size = order.two.unpack_from(buffer, at)
        at += order.two.size
        if size > len(buffer) - at:
            raise _Unreadable(f'data should have {size} bytes, of which {len(buffer) - at} came')
        image.data = memoryview(buffer)[at:at + size]
    except (_Unreadable, StructError, IndexError) as error:
        image.fault = _fault(buffer, error)
    return image


def read_reference(buffer: bytes) -> ReferenceInPlace:
    """Read a serialised ``vig/TensorReference``; what is wrong with it is its ``fault``."""
    reference = ReferenceInPlace(Header(Stamp()))
    try:
        order, at = _read_header(buffer, reference.header)
        reference.region, at = _string(buffer, order, at)
        at = _aligned_long(at)
        reference.offset, reference.byte_size = order.two_long.unpack_from(buffer, at)
        reference.name, at = _string(buffer, order, at + order.two_long.size)
        reference.datatype, at = _string(buffer, order, _aligned(at))
        at = _aligned(at)
        count, = order.length.unpack_from(buffer, at)
        if 8 * count > len(buffer) - at:
            raise _Unreadable(f'shape should have {count} axes')
        reference.shape = Struct(f'{order.sign}{count}q').unpack_from(
            buffer, _aligned_long(at + order.length.size) if count else at)
    except (_Unreadable, StructError, IndexError) as error:
        reference.fault = _fault(buffer, error)
    return reference


def _read_header(buffer: bytes, header: Header) -> tuple[_Order, int]:
    """Fill the header; give the byte order and where the next field of 32 bits begins."""
    order = _ORDERS.get(buffer[:2])
    if order is None:
        raise _Unreadable(f'representation {buffer[:2].hex() or "none"} is not CDR version 1')
    sec, nanosec, length = order.stamp_and_length.unpack_from(buffer, ENCAPSULATION)
    header.stamp = Stamp(sec, nanosec)
    header.frame_id, at = _text(buffer, ENCAPSULATION + order.stamp_and_length.size, length)
    return order, _aligned(at)


def _string(buffer: bytes, order: _Order, at: int) -> tuple[str, int]:
    length, = order.length.unpack_from(buffer, at)
    return _text(buffer, at + order.length.size, length)


def _text(buffer: bytes, at: int, length: int) -> tuple[str, int]:
    """Give the text of ``length`` bytes, cut at its first zero as rclpy does, and its end."""
    end = at + length
    if end > len(buffer):
        raise _Unreadable(f'a text should have {length} bytes, of which {len(buffer) - at} came')
    return buffer[at:end].partition(b'\0')[0].decode(errors='replace'), end


def _aligned(at: int) -> int:
    return (at + 3) & ~3


def _aligned_long(at: int) -> int:
    return ((at - ENCAPSULATION + 7) & ~7) + ENCAPSULATION


def _fault(buffer: bytes, error: Exception) -> str:
    detail = str(error) if isinstance(error, _Unreadable) else 'it ends within a field'
    return f'the message of {len(buffer)} bytes cannot be read: {detail}'
