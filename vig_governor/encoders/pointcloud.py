"""
The encoder ``pointcloud``: ``PointCloud2`` to ``N x 3`` (x, y, z) or ``N x 4`` (with intensity).

The model decides: a last axis of 4 asks for intensity. Where N is open (``-1``), points whose x,
y or z is not finite are dropped, and N is what remains. Where N is fixed, the cloud must have
exactly that many points, and all are kept in their order, invalid ones included.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vig_governor.backend.base import InputSlot, TensorSpec
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.pixels import buffer_of
from vig_governor.encoders.shapes import refuse_image_options

CLOUD_TYPE = 'sensor_msgs/msg/PointCloud2'
MAX_POINTS = 1 << 24
"""Clouds with more points (16 million) are refused before any allocation."""

_COLUMNS = ('x', 'y', 'z', 'intensity')
_FIELD_TYPES = {1: 'i1', 2: 'u1', 3: 'i2', 4: 'u2', 5: 'i4', 6: 'u4', 7: 'f4', 8: 'f8'}
"""The constants of ``sensor_msgs/msg/PointField``."""


class PointCloudEncoder:
    """Turns clouds into one float tensor; axes are points, then coordinates in metres."""

    def __init__(self, options: InputOptions) -> None:
        """
        Read the block ``input`` of a stream.

        :raises EncodeError: options of images, or a dtype that is no float; names the key.
        """
        refuse_image_options(options)
        if options.dtype not in ('FP16', 'FP32', 'FP64'):
            raise EncodeError(f'input.dtype {options.dtype!r} cannot hold coordinates; '
                              'use FP32, FP16 or FP64')
        self._options = options
        self._shape: tuple[int, ...] = ()

    def check(self, spec: TensorSpec, message_type: str) -> None:
        """
        Refuse at configure time what can never work; the first call sets the shape to fill.

        :raises EncodeError: wrong message type, dtype, rank or number of coordinates.
        """
        if message_type != CLOUD_TYPE:
            raise EncodeError(f'encoder pointcloud reads {CLOUD_TYPE}, not {message_type}; '
                              'change input.encoder or the type')
        if spec.datatype != self._options.dtype:
            raise EncodeError(f'tensor {spec.name!r} of the model is {spec.datatype}, but '
                              f'input.dtype is {self._options.dtype}; '
                              f'set input.dtype: {spec.datatype}')
        if (len(spec.shape) not in (2, 3) or spec.shape[-1] not in (3, 4)
                or len(spec.shape) == 3 and spec.shape[0] not in (-1, 1)):
            raise EncodeError(f'tensor {spec.name!r} of the model has shape {list(spec.shape)}; '
                              'a cloud becomes [N, 3], [N, 4], [1, N, 3] or [1, N, 4]')
        self._shape = self._shape or spec.shape

    def encode(self, message: Any, slot: InputSlot) -> None:
        """
        Write one cloud into ``slot`` as the tensor ``options.tensor``.

        :raises EncodeError: fields, sizes and data do not fit, or no point is left.
        """
        if not self._shape:
            raise EncodeError('the shape of the tensor is not known: check comes before encode')
        columns = self._columns(message)
        wanted = self._shape[-2]
        keep: NDArray[Any] | None = None
        count = columns[0].size
        if wanted == -1:
            keep = np.logical_and.reduce([np.isfinite(column) for column in columns[:3]])
            count = int(np.count_nonzero(keep))
            if count == 0:
                raise EncodeError(f'none of the {keep.size} points has finite coordinates')
        elif count != wanted:
            raise EncodeError(f'the cloud has {count} points, but tensor '
                              f'{self._options.tensor!r} wants exactly {wanted}')
        shape = (count, len(columns))
        tensor = slot.allocate(self._options.tensor,
                               (1, *shape) if len(self._shape) == 3 else shape,
                               self._options.dtype).reshape(shape)
        with np.errstate(all='ignore'):
            for index, column in enumerate(columns):
                tensor[:, index] = column.reshape(-1) if keep is None else column[keep]

    def _columns(self, message: Any) -> list[NDArray[Any]]:
        """View the wanted fields, each of shape ``(height, width)``, without copying them."""
        width, height = int(message.width), int(message.height)
        point_step, row_step = int(message.point_step), int(message.row_step)
        if width < 1 or height < 1:
            raise EncodeError(f'the cloud is {width} x {height} points: there is nothing in it')
        if width * height > MAX_POINTS:
            raise EncodeError(f'the cloud has {width * height} points; '
                              f'at most {MAX_POINTS} are taken')
        if height > 1 and row_step < width * point_step:
            raise EncodeError(f'row_step is {row_step} bytes, but {width} points of {point_step} '
                              f'bytes take {width * point_step}')
        data = buffer_of(message.data, 'data')
        needed = row_step * (height - 1) + width * point_step
        if data.size < needed:
            raise EncodeError(f'data holds {data.size} bytes, but {width} x {height} points need '
                              f'{needed}')
        fields = {str(field.name): field for field in message.fields}
        columns = []
        for name in _COLUMNS[:self._shape[-1]]:
            if name not in fields:
                raise EncodeError(f'the cloud has no field {name!r}; it has '
                                  f'{", ".join(fields) or "none"}')
            kind, offset = _FIELD_TYPES.get(int(fields[name].datatype)), int(fields[name].offset)
            if kind is None:
                raise EncodeError(f'field {name!r} has the unknown type {fields[name].datatype}')
            dtype = np.dtype(kind).newbyteorder('>' if message.is_bigendian else '<')
            if not 0 <= offset <= point_step - dtype.itemsize:
                raise EncodeError(f'field {name!r} at byte {offset} lies outside the point of '
                                  f'{point_step} bytes')
            columns.append(np.ndarray((height, width), dtype, data, offset,
                                      (row_step, point_step)))
        return columns
