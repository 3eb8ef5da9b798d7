"""
The encoder ``reference``: passes on where a tensor lies, and copies nothing.

It believes no field of a ``vig/msg/TensorReference``: name, type and shape must be those of the
model's input, and the byte size the one that they take. Whether the region may be referred to is
the backend's business.
"""

from collections.abc import Callable
import math
from typing import Any

from vig_governor.backend.base import InputSlot, ReferenceRefused, TensorSpec
from vig_governor.datatypes import element_size
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.in_place import read_reference, ReferenceInPlace
from vig_governor.encoders.shapes import match_shape, refuse_image_options

REFERENCE_TYPE = 'vig/msg/TensorReference'
MAX_AXES = 32
_SHOWN = 60


class ReferenceEncoder:
    """Checks a reference against the model's input and hands it over."""

    def __init__(self, options: InputOptions) -> None:
        """
        Read the block ``input`` of a stream; ``dtype`` is ignored.

        :raises EncodeError: options of images; names the key.
        """
        refuse_image_options(options)
        self._options = options
        self._spec: TensorSpec | None = None

    def check(self, spec: TensorSpec, message_type: str) -> None:
        """
        Refuse at configure time what can never work; the first call sets what must come.

        :raises EncodeError: another message type, or a tensor without a fixed element size.
        """
        if message_type != REFERENCE_TYPE:
            raise EncodeError(f'encoder reference reads {REFERENCE_TYPE}, not {message_type}; '
                              'change input.encoder or the type')
        if spec.datatype == 'BYTES':
            raise EncodeError(f'tensor {spec.name!r} of the model is BYTES, whose elements have '
                              'no fixed size; a reference cannot be checked against it')
        if self._spec is None:
            self._spec = spec

    def reader(self, message_type: str) -> Callable[[bytes], ReferenceInPlace] | None:
        """Read without a message object; see ``Encoder``."""
        return read_reference if message_type == REFERENCE_TYPE else None

    def encode(self, message: Any, slot: InputSlot) -> None:
        """
        Refer to the tensor ``options.tensor`` in ``slot``.

        :raises EncodeError: a field does not fit the model's input, or the region is refused.
        """
        spec = self._spec
        if spec is None:
            raise EncodeError('the shape of the tensor is not known: check comes before encode')
        if fault := getattr(message, 'fault', ''):
            raise EncodeError(fault)
        if message.name != spec.name:
            raise EncodeError(f'the reference is for tensor {message.name[:_SHOWN]!r}, but this '
                              f'stream feeds {spec.name!r}')
        if message.datatype != spec.datatype:
            raise EncodeError(f'the reference says {message.datatype[:_SHOWN]!r}, but tensor '
                              f'{spec.name!r} of the model is {spec.datatype}')
        if len(message.shape) > MAX_AXES:
            raise EncodeError(f'the reference has {len(message.shape)} axes, but tensor '
                              f'{spec.name!r} wants {len(spec.shape)}')
        shape = [int(size) for size in message.shape]
        if any(size < 1 for size in shape):
            raise EncodeError(f'the reference has shape {shape}: every axis must be 1 or more')
        fitted = match_shape(spec, shape)
        byte_size = math.prod(fitted) * element_size(spec.datatype)
        if message.byte_size != byte_size:
            raise EncodeError(f'the reference says {message.byte_size} bytes, but shape {shape} '
                              f'of {spec.datatype} takes {byte_size}')
        try:
            slot.refer(spec.name, fitted, spec.datatype, message.region, message.offset,
                       byte_size)
        except ReferenceRefused as error:
            raise EncodeError(str(error)) from None
