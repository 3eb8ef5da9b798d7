"""
From pixel values to tensor elements: ``(value * scale - mean) / std`` for each channel.

Float tensors are computed in their own precision (FP16 in FP32). Integer tensors are rounded to
the nearest even and saturated; NaN becomes 0. Without any normalisation values pass unchanged,
and a tensor type that cannot hold them all is refused rather than saturated in silence.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vig_governor.datatypes import DTYPES
from vig_governor.encoders.base import EncodeError, InputOptions

IMAGE_DTYPES = ('UINT8', 'INT8', 'UINT16', 'INT16', 'INT32', 'FP16', 'FP32', 'FP64')
"""Element types that an image can become."""


@dataclass(frozen=True, slots=True)
class Normalisation:
    """
    ``value * factors[c] + offsets[c]`` for the tensor's channel ``c``.

    :ivar dtype: numpy type of the tensor's elements.
    """

    dtype: np.dtype[Any]
    factors: tuple[float, ...]
    offsets: tuple[float, ...]

    @property
    def is_identity(self) -> bool:
        """Whether values pass unchanged."""
        return set(self.factors) == {1.0} and set(self.offsets) == {0.0}

    @property
    def is_uniform(self) -> bool:
        """Whether all channels are treated alike."""
        return len(set(self.factors)) == 1 and len(set(self.offsets)) == 1

    def check_source(self, source: np.dtype[Any], encoding: str) -> None:
        """
        Refuse values that the tensor's type cannot hold.

        :raises EncodeError: says which type or scale would do.
        """
        if (self.is_identity and self.dtype.kind != 'f'
                and not np.can_cast(source, self.dtype, 'safe')):
            raise EncodeError(
                f'{encoding} has {source.name} values that {self.dtype.name} cannot hold; set '
                'input.dtype to FP32, or input.scale and input.mean so that they fit')

    def write(self, target: NDArray[Any], source: NDArray[Any],
              channels: tuple[int, ...]) -> None:
        """
        Fill ``target`` from ``source``.

        :param target: shape ``(height, width, len(channels))``, any strides.
        :param source: shape ``(height, width, source channels)``.
        :param channels: for each target channel the source channel it is made from.
        """
        in_order = channels == tuple(range(source.shape[2]))
        with np.errstate(all='ignore'):
            if in_order and self.is_uniform:
                self._write_values(target, source, self.factors[0], self.offsets[0])
            elif in_order and _is_interleaved(target) and _is_interleaved(source):
                # numpy is slow over an axis of three; a row with repeated factors is not
                height, width, _ = target.shape
                row = (height, width * len(channels))
                self._write_values(target.reshape(row), source.reshape(row),
                                   np.tile(self.factors, width), np.tile(self.offsets, width))
            else:
                for index, origin in enumerate(channels):
                    self._write_values(target[..., index], source[..., origin],
                                       self.factors[index], self.offsets[index])

    def pad(self, target: NDArray[Any]) -> None:
        """Fill with what a source value of 0 becomes; shape ``(..., channels)``."""
        zero = np.zeros(1, np.uint8)
        for index, (factor, offset) in enumerate(zip(self.factors, self.offsets)):
            element = np.empty(1, self.dtype)
            self._write_values(element, zero, factor, offset)
            target[..., index] = element[0]

    def _write_values(self, target: NDArray[Any], source: NDArray[Any],
                      factor: float | NDArray[Any], offset: float | NDArray[Any]) -> None:
        if self.is_identity:
            np.copyto(target, source, casting='unsafe')
            return
        if self.dtype.itemsize >= 4 and self.dtype.kind == 'f':
            work = target
        else:
            work = np.empty(target.shape, np.float64 if self.dtype.itemsize >= 4 else np.float32)
        np.multiply(source, np.asarray(factor, work.dtype), out=work, dtype=work.dtype,
                    casting='unsafe')
        if np.any(offset):
            np.add(work, np.asarray(offset, work.dtype), out=work)
        if work is target:
            return
        if self.dtype.kind != 'f':
            limits = np.iinfo(self.dtype)
            np.rint(work, out=work)
            np.clip(work, limits.min, limits.max, out=work)
            work[np.isnan(work)] = 0
        np.copyto(target, work, casting='unsafe')


def _is_interleaved(pixels: NDArray[Any]) -> bool:
    """Whether a row is one run of elements, so that it can be seen without its channel axis."""
    size = pixels.dtype.itemsize
    return pixels.strides[1:] == (pixels.shape[2] * size, size)


def normalisation_of(options: InputOptions, channels: int) -> Normalisation:
    """
    Read scale, mean, std and dtype of an image input.

    :param channels: of the tensor: 1 for ``GRAY``, else 3.
    :raises EncodeError: a value that no frame could be encoded with; names the key.
    """
    if options.dtype not in IMAGE_DTYPES:
        raise EncodeError(f'input.dtype {options.dtype!r} is no type of an image tensor; '
                          f'use one of {", ".join(IMAGE_DTYPES)}')
    means = _for_channels('mean', options.mean, channels)
    stds = _for_channels('std', options.std, channels)
    for key, values in (('scale', (options.scale,)), ('mean', means), ('std', stds)):
        if not all(np.isfinite(value) for value in values):
            raise EncodeError(f'input.{key} must be finite, not {list(values)}')
    if 0.0 in stds:
        raise EncodeError(f'input.std {list(stds)} divides by zero; use 1 for no change')
    result = Normalisation(DTYPES[options.dtype],
                           tuple(options.scale / std for std in stds),
                           tuple(-mean / std if mean else 0.0 for mean, std in zip(means, stds)))
    if result.is_identity and options.dtype == 'INT8':
        raise EncodeError('input.dtype INT8 cannot hold pixel values of 0 to 255; '
                          'set input.mean: [128, 128, 128] to shift them')
    return result


def _for_channels(key: str, values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """One value for each channel; a single one, or equal ones, serve any number of channels."""
    if len(values) == channels:
        return values
    if values and len(set(values)) == 1:
        return (values[0],) * channels
    raise EncodeError(f'input.{key} has {len(values)} values, but the tensor has {channels} '
                      f'{"channel" if channels == 1 else "channels"}; give one for each')
