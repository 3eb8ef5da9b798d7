"""
The encoders ``raw`` and ``text``: bytes and strings that the model itself makes sense of.

``raw`` passes the field ``data`` of any message through untouched, as elements of the type and
shape that the model declares; a model that reads ``BYTES`` gets them as one element. ``text``
passes a ``std_msgs/msg/String`` as one UTF-8 element.
"""

from typing import Any

import numpy as np

from vig_governor.backend.base import InputSlot, TensorSpec
from vig_governor.datatypes import DTYPES
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.pixels import buffer_of
from vig_governor.encoders.reference import REFERENCE_TYPE
from vig_governor.encoders.shapes import check_open_axes, refuse_image_options, shape_for

TEXT_TYPE = 'std_msgs/msg/String'


class RawEncoder:
    """Passes the bytes of ``data`` through; their type and shape are the model's."""

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
        Refuse at configure time what can never work; the first call sets what to fill.

        :raises EncodeError: a shape that the number of bytes does not decide, or a text message.
        """
        if message_type == TEXT_TYPE:
            raise EncodeError(f'encoder raw passes bytes, but {message_type} holds text; '
                              'set input.encoder: text')
        if message_type == REFERENCE_TYPE:
            raise EncodeError(f'encoder raw passes bytes, but {message_type} only says where they '
                              'are; set input.encoder: reference')
        if spec.datatype == 'BYTES':
            _check_single_element(spec)
        elif spec.datatype in DTYPES:
            check_open_axes(spec)
        else:
            raise EncodeError(f'tensor {spec.name!r} of the model is {spec.datatype}; encoder raw '
                              f'fills BYTES, {", ".join(DTYPES)}')
        if self._spec is None:
            self._spec = spec

    def encode(self, message: Any, slot: InputSlot) -> None:
        """
        Copy ``message.data`` into ``slot`` as the tensor ``options.tensor``.

        :raises EncodeError: no such field, empty, or not as many bytes as the tensor takes.
        """
        if self._spec is None:
            raise EncodeError('the shape of the tensor is not known: check comes before encode')
        if not hasattr(message, 'data'):
            raise EncodeError(f'{type(message).__name__} has no field data; encoder raw passes '
                              'that field only')
        data = buffer_of(_joined(message.data), 'data')
        if self._spec.datatype == 'BYTES':
            slot.put_bytes(self._options.tensor, (1,) * len(self._spec.shape), [data.tobytes()])
            return
        size = DTYPES[self._spec.datatype].itemsize
        if data.size % size:
            raise EncodeError(f'data holds {data.size} bytes, no multiple of the {size} bytes of '
                              f'one {self._spec.datatype}')
        tensor = slot.allocate(self._options.tensor, shape_for(self._spec, data.size // size),
                               self._spec.datatype)
        np.copyto(tensor.reshape(-1).view(np.uint8), data)


class TextEncoder:
    """Turns a string into one ``BYTES`` element."""

    def __init__(self, options: InputOptions) -> None:
        """
        Read the block ``input`` of a stream; ``dtype`` is ignored.

        :raises EncodeError: options of images; names the key.
        """
        refuse_image_options(options)
        self._options = options
        self._rank = 1

    def check(self, spec: TensorSpec, message_type: str) -> None:
        """
        Refuse at configure time what can never work.

        :raises EncodeError: wrong message type, or a tensor that is not one ``BYTES`` element.
        """
        if message_type != TEXT_TYPE:
            raise EncodeError(f'encoder text reads {TEXT_TYPE}, not {message_type}; '
                              'change input.encoder or the type')
        if spec.datatype != 'BYTES':
            raise EncodeError(f'tensor {spec.name!r} of the model is {spec.datatype}, but a text '
                              'becomes BYTES; bind the stream to a model that reads strings')
        _check_single_element(spec)
        self._rank = len(spec.shape)

    def encode(self, message: Any, slot: InputSlot) -> None:
        """
        Put the text into ``slot`` as the tensor ``options.tensor``.

        :raises EncodeError: it cannot be written as UTF-8.
        """
        try:
            element = str(message.data).encode()
        except UnicodeEncodeError as error:
            raise EncodeError(f'the text is no UTF-8: {error.reason} at character '
                              f'{error.start}') from None
        slot.put_bytes(self._options.tensor, (1,) * self._rank, [element])


def _check_single_element(spec: TensorSpec) -> None:
    if any(size not in (-1, 1) for size in spec.shape):
        raise EncodeError(f'tensor {spec.name!r} of the model has shape {list(spec.shape)}, but '
                          'one message is one BYTES element')


def _joined(data: Any) -> Any:
    """Join the single bytes that rclpy makes of ``byte[]``; anything else passes through."""
    if isinstance(data, list) and all(isinstance(item, bytes) for item in data):
        return b''.join(data)
    return data
