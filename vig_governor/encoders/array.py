"""
The encoders ``array`` and ``scan``: numbers in a message to a tensor of numbers.

``array`` reads the ``std_msgs`` arrays with a layout. Element ``(i, j, k)`` lies at
``data_offset + dim[1].stride * i + dim[2].stride * j + k``; strides of 0 mean packed rows. A
message without dimensions takes the shape of the model. ``scan`` reads the ranges of a
``LaserScan`` as they are: what the sensor marks with infinity or NaN stays so.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vig_governor.backend.base import InputSlot, TensorSpec
from vig_governor.datatypes import DTYPES
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.shapes import (
    check_open_axes,
    match_shape,
    refuse_image_options,
    shape_for,
)

ARRAY_TYPES = {
    f'std_msgs/msg/{name}MultiArray': np.dtype(name.lower())
    for name in ('Float32', 'Float64', 'Int8', 'Int16', 'Int32', 'Int64',
                 'UInt8', 'UInt16', 'UInt32', 'UInt64')
}
"""Message types that ``array`` reads and the numpy type of their elements."""

SCAN_TYPE = 'sensor_msgs/msg/LaserScan'


class ArrayEncoder:
    """Turns ``std_msgs`` arrays into one tensor of ``options.dtype``."""

    def __init__(self, options: InputOptions) -> None:
        """
        Read the block ``input`` of a stream.

        :raises EncodeError: options of images; names the key.
        """
        refuse_image_options(options)
        if options.dtype not in DTYPES:
            raise EncodeError(f'input.dtype {options.dtype!r} is no type of an array; '
                              f'use one of {", ".join(DTYPES)}')
        self._options = options
        self._spec: TensorSpec | None = None

    def check(self, spec: TensorSpec, message_type: str) -> None:
        """
        Refuse at configure time what can never work; the first call sets the shape to fill.

        :raises EncodeError: wrong message type or dtype, or elements that the dtype cannot hold.
        """
        if message_type not in ARRAY_TYPES:
            raise EncodeError(f'encoder array reads {", ".join(ARRAY_TYPES)}, '
                              f'not {message_type}; change input.encoder or the type')
        self._check_tensor(spec, ARRAY_TYPES[message_type])

    def encode(self, message: Any, slot: InputSlot) -> None:
        """
        Write one array into ``slot`` as the tensor ``options.tensor``.

        :raises EncodeError: layout, data and tensor do not fit; the slot is undefined.
        """
        values = _elements(message.data, 'data')
        layout = message.layout
        offset = int(layout.data_offset)
        sizes = [int(dim.size) for dim in layout.dim]
        if not 0 <= offset < values.size:
            raise EncodeError(f'data_offset is {offset}, but there are {values.size} elements')
        if not sizes:
            self._write(values[offset:], None, slot)
            return
        if min(sizes) < 1:
            raise EncodeError(f'the message has shape {sizes}: it holds nothing')
        packed = [math.prod(sizes[axis + 1:]) for axis in range(len(sizes))]
        declared = [*(int(dim.stride) for dim in layout.dim[1:]), 1]
        strides = packed if 0 in declared else declared
        if any(stride < least for stride, least in zip(strides, packed)):
            raise EncodeError(f'the strides {declared} of shape {sizes} overlap')
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides))
        if last >= values.size:
            raise EncodeError(f'shape {sizes} with strides {strides} needs {last + 1} elements, '
                              f'but there are {values.size}')
        size = values.dtype.itemsize
        view: NDArray[Any] = np.ndarray(sizes, values.dtype, values, offset * size,
                                        [stride * size for stride in strides])
        self._write(view, sizes, slot)

    def _check_tensor(self, spec: TensorSpec, source: np.dtype[Any]) -> None:
        dtype = self._options.dtype
        if spec.datatype != dtype:
            raise EncodeError(f'tensor {spec.name!r} of the model is {spec.datatype}, but '
                              f'input.dtype is {dtype}; set input.dtype: {spec.datatype}')
        _check_cast(source, dtype)
        if self._spec is None:
            self._spec = spec

    def _write(self, values: NDArray[Any], sizes: list[int] | None, slot: InputSlot) -> None:
        """Copy ``values`` into the tensor; ``sizes`` is the message's own shape, if it has one."""
        if self._spec is None:
            raise EncodeError('the shape of the tensor is not known: check comes before encode')
        _check_cast(values.dtype, self._options.dtype)
        if sizes is None:
            check_open_axes(self._spec)
            shape = shape_for(self._spec, values.size)
            values = values.reshape(shape)
        else:
            shape = match_shape(self._spec, sizes)
        tensor = slot.allocate(self._options.tensor, shape, self._options.dtype)
        with np.errstate(all='ignore'):
            np.copyto(tensor, values, casting='unsafe')


class ScanEncoder(ArrayEncoder):
    """Turns the ranges of a ``LaserScan`` into one tensor, in metres."""

    def check(self, spec: TensorSpec, message_type: str) -> None:
        """
        Refuse at configure time what can never work.

        :raises EncodeError: wrong message type or dtype, or more than one open axis.
        """
        if message_type != SCAN_TYPE:
            raise EncodeError(f'encoder scan reads {SCAN_TYPE}, not {message_type}; '
                              'change input.encoder or the type')
        check_open_axes(spec)
        self._check_tensor(spec, np.dtype(np.float32))

    def encode(self, message: Any, slot: InputSlot) -> None:
        """
        Write the ranges of one scan into ``slot``.

        :raises EncodeError: the number of beams is not that of the tensor.
        """
        self._write(_elements(message.ranges, 'ranges'), None, slot)


def _elements(data: Any, what: str) -> NDArray[Any]:
    """View a message's number field, shape ``(elements,)``, without copying it."""
    try:
        values = np.asarray(memoryview(data))
    except (TypeError, ValueError, BufferError):
        raise EncodeError(
            f'{what} is a {type(data).__name__}, not an array of numbers') from None
    if values.size == 0:
        raise EncodeError(f'{what} is empty')
    if values.ndim != 1 or values.dtype.kind not in 'iuf':
        raise EncodeError(f'{what} is no flat array of numbers, but {values.dtype.name} of '
                          f'{values.ndim} axes')
    return values


def _check_cast(source: np.dtype[Any], dtype: str) -> None:
    """Refuse conversions to integers that would wrap or cut; floats take every number."""
    target = DTYPES[dtype]
    if target.kind != 'f' and not np.can_cast(source, target, 'safe'):
        raise EncodeError(f'{source.name} elements do not fit into {dtype}; '
                          'publish the type that the model reads')
