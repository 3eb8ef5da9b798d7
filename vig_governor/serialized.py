"""
The two messages of every frame, written as the middleware sends them.

``rclpy`` publishes serialised messages as they are. A message object would be built field by field
with its defaults, checked, converted to C and only then serialised: for a result and a status
together that was half of what the actor's thread does (adr/0011).

The format is OMG CDR, little-endian, with the alignment of its first version, after a header of
four bytes from which offsets count. The order of the fields is that of the ``.msg`` files;
``test/ros/test_serialized.py`` compares both with what ``rclpy`` writes.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

from vig_core.actions import Terminate
from vig_core.request import Reason
from vig_core.units import NS_PER_S

from vig_governor.backend.base import OutputTensor
from vig_governor.messages import header_of, REASONS

_ENCAPSULATION = b'\x00\x01\x00\x00'
_PADDING = tuple(b'\0' * count for count in range(8))
_TIME = Struct('<iI')
_LENGTH = Struct('<I')
_NUMBER_AND_REASON = Struct('<QB3x')
_THREE_DURATIONS_TWO_FLAGS = Struct('<iIiIiI??')
_QUALITY_NUMBER_AGE_FLAG = Struct('<dQiI?3xI')


def status(action: Terminate, binding: Any, message: Any) -> bytes:
    """Write the ``vig/msg/RequestStatus`` of one ended request."""
    head = _head(action, binding, message)
    return b''.join((
        _ENCAPSULATION, head, _PADDING[-len(head) % 8],
        _NUMBER_AND_REASON.pack(action.request_id, REASONS[action.reason]),
        _string(action.detail),
        _THREE_DURATIONS_TWO_FLAGS.pack(
            *divmod(action.age_ns, NS_PER_S), *divmod(action.queue_wait_ns, NS_PER_S),
            *divmod(action.backend_ns or 0, NS_PER_S), action.is_deadline_met,
            action.holds_input)))


def result(action: Terminate, binding: Any, message: Any, quality: float,
           outputs: Sequence[OutputTensor]) -> bytes:
    """Write the ``vig/msg/InferenceResult`` of one answered request."""
    head = _head(action, binding, message)
    pieces = [
        _ENCAPSULATION, head, _PADDING[-len(head) % 8],
        _QUALITY_NUMBER_AGE_FLAG.pack(quality, action.request_id,
                                      *divmod(action.age_ns, NS_PER_S),
                                      action.reason is Reason.OBSOLETE, len(outputs))]
    size = len(head) + len(pieces[2]) + _QUALITY_NUMBER_AGE_FLAG.size
    for output in outputs:
        shape = output.shape
        names = _names(output.name, output.datatype)
        size += len(names) + _LENGTH.size
        gap = _PADDING[-size % 8] if shape else b''
        pieces += (names, _LENGTH.pack(len(shape)), gap,
                   Struct(f'<{len(shape)}qI').pack(*shape, len(output.data)), output.data,
                   _PADDING[-len(output.data) % 4])
        size += len(gap) + 8 * len(shape) + _LENGTH.size + len(output.data) + len(pieces[-1])
    return b''.join(pieces)


def _head(action: Terminate, binding: Any, message: Any) -> bytes:
    """Write what both begin with: header, stream, model, variant."""
    header = header_of(message)
    stamp = header.stamp
    return (_TIME.pack(stamp.sec, stamp.nanosec) + _names(header.frame_id)
            + _names(binding.name, binding.model, action.variant_id or ''))


@lru_cache(maxsize=1024)
def _names(*texts: str) -> bytes:
    """Write strings that come again with every frame; a multiple of four bytes."""
    return b''.join(map(_string, texts))


def _string(text: str) -> bytes:
    """Write one string and what aligns a following 32-bit field; it ends at a zero character."""
    content = text.partition('\0')[0].encode(errors='replace') + b'\0'
    return _LENGTH.pack(len(content)) + content + _PADDING[-len(content) % 4]
