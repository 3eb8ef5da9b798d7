"""
The encoder ``image``: ``Image`` and ``CompressedImage`` to one tensor of pixels.

The order of work: view or decode, unpack mosaics, resize, reorder channels, normalise. The last
step writes into the memory that the server reads. With ``dtype: UINT8``, an ``H W C`` layout and
no normalisation the last OpenCV call does so itself: a frame that needs neither resizing nor
reordering is copied exactly once.
"""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from vig_governor.backend.base import InputSlot, TensorSpec
from vig_governor.encoders.base import EncodeError, InputOptions
from vig_governor.encoders.compressed import decode
from vig_governor.encoders.geometry import Geometry, place
from vig_governor.encoders.in_place import ImageInPlace, read_image
from vig_governor.encoders.normalise import normalisation_of
from vig_governor.encoders.pixels import (
    Encoding,
    for_opencv,
    MAX_PIXELS,
    Pixels,
    unpacked,
    view_image,
)

IMAGE_TYPE = 'sensor_msgs/msg/Image'
COMPRESSED_TYPE = 'sensor_msgs/msg/CompressedImage'
LAYOUTS = ('NHWC', 'NCHW', 'HWC', 'CHW')
COLORS = ('RGB', 'BGR', 'GRAY')

_REORDER: dict[tuple[int, tuple[int, ...]], int] = {
    (1, (0, 0, 0)): cv2.COLOR_GRAY2RGB,
    (3, (2, 1, 0)): cv2.COLOR_RGB2BGR,
    (4, (2, 1, 0)): cv2.COLOR_RGBA2BGR,
    (4, (0, 1, 2)): cv2.COLOR_RGBA2RGB,
}
_TO_GRAY = {
    ('RGB', 3): cv2.COLOR_RGB2GRAY,
    ('BGR', 3): cv2.COLOR_BGR2GRAY,
    ('RGB', 4): cv2.COLOR_RGBA2GRAY,
    ('BGR', 4): cv2.COLOR_BGRA2GRAY,
}


class ImageEncoder:
    """Turns frames into a tensor of ``options.layout``; keeps no frame."""

    def __init__(self, options: InputOptions) -> None:
        """
        Read the block ``input`` of a stream.

        :raises EncodeError: options that no frame could be encoded with; names the key.
        """
        if options.layout not in LAYOUTS:
            raise EncodeError(f'input.layout {options.layout!r} is unknown; '
                              f'use one of {", ".join(LAYOUTS)}')
        if options.color not in COLORS:
            raise EncodeError(f'input.color {options.color!r} is unknown; '
                              f'use one of {", ".join(COLORS)}')
        if options.size is None and options.letterbox:
            raise EncodeError('input.letterbox pads to a size, but there is no input.size; '
                              'set input.size: [width, height]')
        if options.size is not None and (
                min(options.size) < 1 or options.size[0] * options.size[1] > MAX_PIXELS):
            raise EncodeError(f'input.size {list(options.size)} must be positive and have '
                              f'at most {MAX_PIXELS} pixels')
        self._options = options
        self._channels = 1 if options.color == 'GRAY' else 3
        self._normalisation = normalisation_of(options, self._channels)
        self._is_planar = options.layout.endswith('CHW')
        self._has_batch_axis = options.layout.startswith('N')
        self._fixed: tuple[int, int] = (-1, -1)
        self._verbatim: tuple[Any, ...] | None = None

    def check(self, spec: TensorSpec, message_type: str) -> None:
        """
        Refuse at configure time what can never work.

        :param spec: shape ``options.layout``, ``-1`` for any size.
        :raises EncodeError: wrong message type, dtype, rank, channels or fixed size.
        """
        options = self._options
        if message_type not in (IMAGE_TYPE, COMPRESSED_TYPE):
            raise EncodeError(f'encoder image reads {IMAGE_TYPE} and {COMPRESSED_TYPE}, '
                              f'not {message_type}; change input.encoder or the type')
        if spec.datatype != options.dtype:
            raise EncodeError(f'tensor {spec.name!r} of the model is {spec.datatype}, but '
                              f'input.dtype is {options.dtype}; set input.dtype: {spec.datatype}')
        shape = f'tensor {spec.name!r} of the model has shape {list(spec.shape)}'
        if len(spec.shape) != len(options.layout):
            fitting = [layout for layout in LAYOUTS
                       if len(layout) == len(spec.shape)
                       and spec.shape[layout.index('C')] in (-1, self._channels)]
            remedy = (f'set input.layout: {" or ".join(fitting)}' if fitting
                      else 'an image cannot fill it')
            raise EncodeError(f'{shape}, but input.layout {options.layout} has '
                              f'{len(options.layout)} axes; {remedy}')
        axes = dict(zip(options.layout, spec.shape))
        if axes.get('N', 1) not in (-1, 1):
            raise EncodeError(f'{shape}: it wants {axes["N"]} frames at once, '
                              'but each request carries one')
        if axes['C'] not in (-1, self._channels):
            raise EncodeError(f'{shape}: input.layout {options.layout} with input.color '
                              f'{options.color} gives C = {self._channels} where it wants '
                              f'{axes["C"]}; {self._channel_remedy(spec)}')
        fixed = (axes['W'], axes['H'])
        if options.size is not None and any(
                want not in (-1, have) for want, have in zip(fixed, options.size)):
            wanted = [want if want != -1 else have for want, have in zip(fixed, options.size)]
            raise EncodeError(f'{shape}, but input.size (width, height) is {list(options.size)}; '
                              f'set input.size: {wanted}')
        self._fixed = fixed

    def reader(self, message_type: str) -> Callable[[bytes], ImageInPlace] | None:
        """Images need no message object; compressed ones are decoded, which costs far more."""
        return read_image if message_type == IMAGE_TYPE else None

    def geometry(self, width: int, height: int) -> Geometry:
        """Say where the pixels of a frame of that size land in the tensor."""
        return place((width, height), self._options.size, self._options.letterbox)

    def encode(self, message: Any, slot: InputSlot) -> None:
        """
        Write one frame into ``slot`` as the tensor ``options.tensor``.

        :param message: an ``Image``, also one read in place, or a ``CompressedImage`` (it has a
            ``format``).
        :raises EncodeError: this frame cannot be encoded; the slot's content is undefined.
        """
        if fault := getattr(message, 'fault', ''):
            raise EncodeError(fault)
        layout = None
        if hasattr(message, 'format'):
            pixels, encoding = decode(message, self._channels == 1)
            name = message.format
        else:
            layout = _layout(message)
            if layout == self._verbatim and len(message.data) == message.height * message.step:
                self._copy(message, slot)
                return
            pixels, encoding = view_image(message)
            name = message.encoding
        self._normalisation.check_source(encoding.dtype, name)
        geometry = self.geometry(pixels.shape[1], pixels.shape[0])
        for want, have in zip(self._fixed, geometry.target):
            if want not in (-1, have):
                raise EncodeError(
                    f'the frame is {pixels.shape[1]} x {pixels.shape[0]} pixels, but tensor '
                    f'{self._options.tensor!r} wants {self._wanted()}; set input.size')
        tensor = self._allocate(slot, geometry)
        try:
            self._fill(tensor, unpacked(pixels, encoding), encoding, geometry)
        except cv2.error as error:
            raise EncodeError(f'OpenCV cannot convert {name} of {pixels.shape[1]} x '
                              f'{pixels.shape[0]} pixels: {error.err or error}') from None
        if layout is not None and self._is_verbatim(tensor, pixels, encoding, geometry):
            self._verbatim = layout

    def _is_verbatim(self, tensor: Pixels, pixels: Pixels, encoding: Encoding,
                     geometry: Geometry) -> bool:
        """Whether the tensor's bytes are the frame's: then all frames like it are one copy."""
        return (self._normalisation.is_identity and not self._is_planar
                and encoding.unpack is None and tensor.dtype == pixels.dtype
                and geometry.content == geometry.source == geometry.target
                and self._channel_map(encoding, pixels.shape[2]) == tuple(range(self._channels))
                and pixels.shape == tensor.shape and pixels.flags.c_contiguous
                and not pixels.flags.owndata)

    def _copy(self, message: Any, slot: InputSlot) -> None:
        """Copy a frame that is like one before it and needs nothing else."""
        shape = (message.height, message.width, self._channels)
        array = slot.allocate(self._options.tensor,
                              (1, *shape) if self._has_batch_axis else shape,
                              self._options.dtype)
        np.copyto(array.reshape(-1).view(np.uint8), np.frombuffer(message.data, np.uint8))

    def _allocate(self, slot: InputSlot, geometry: Geometry) -> Pixels:
        """Give the tensor's memory as ``(height, width, channels)``, whatever its layout."""
        width, height = geometry.target
        shape = ((self._channels, height, width) if self._is_planar
                 else (height, width, self._channels))
        array = slot.allocate(self._options.tensor,
                              (1, *shape) if self._has_batch_axis else shape,
                              self._options.dtype)
        frame = array[0] if self._has_batch_axis else array
        pixels: Pixels = frame.transpose(1, 2, 0) if self._is_planar else frame
        return pixels

    def _fill(self, tensor: Pixels, pixels: Pixels, encoding: Encoding,
              geometry: Geometry) -> None:
        left, top = geometry.pad
        width, height = geometry.content
        content = tensor[top:top + height, left:left + width]
        if geometry.content != geometry.target:
            for border in (tensor[:top], tensor[top + height:],
                           tensor[top:top + height, :left],
                           tensor[top:top + height, left + width:]):
                self._normalisation.pad(border)
        is_direct = (self._normalisation.is_identity and not self._is_planar
                     and tensor.dtype == pixels.dtype)
        resized = geometry.content != geometry.source
        channels = self._channel_map(encoding, pixels.shape[2])
        is_in_order = channels == tuple(range(pixels.shape[2]))
        if resized:
            interpolation = cv2.INTER_NEAREST if encoding.is_depth else cv2.INTER_LINEAR
            pixels = _converted(
                lambda into: cv2.resize(for_opencv(pixels), geometry.content, dst=into,
                                        interpolation=interpolation),
                content if is_direct and is_in_order else None)
        if channels is None:
            code = _TO_GRAY[encoding.order, pixels.shape[2]]
            source = pixels
            pixels = _converted(lambda into: cv2.cvtColor(source, code, dst=into),
                                content if is_direct else None)
            channels = (0,)
        elif not self._is_planar and not is_in_order:
            code = _REORDER[pixels.shape[2], channels]
            source = pixels
            pixels = _converted(lambda into: cv2.cvtColor(for_opencv(source), code, dst=into),
                                content if is_direct else None)
            channels = (0, 1, 2)
        if pixels is not content:
            self._normalisation.write(content, pixels, channels)

    def _channel_map(self, encoding: Encoding, channels: int) -> tuple[int, ...] | None:
        """For each tensor channel the frame's channel; ``None``: brightness of the colours."""
        if channels == 1:
            return (0,) * self._channels
        if self._channels == 1:
            if encoding.order == 'AS_IS':
                raise EncodeError(f'{channels} channels without colour names have no brightness; '
                                  'let the camera say rgb8 or bgr8, or set input.color')
            return None
        if encoding.order in ('AS_IS', self._options.color):
            return (0, 1, 2)
        return (2, 1, 0)

    def _channel_remedy(self, spec: TensorSpec) -> str:
        """Say what to change when the number of channels does not fit."""
        for layout in LAYOUTS:
            if len(layout) == len(spec.shape) and layout != self._options.layout \
                    and spec.shape[layout.index('C')] == self._channels:
                return f'set input.layout: {layout}'
        axis = spec.shape[self._options.layout.index('C')]
        return {1: 'set input.color: GRAY', 3: 'set input.color: RGB or BGR'}.get(
            axis, 'an image gives 1 channel (GRAY) or 3')

    def _wanted(self) -> str:
        return ' x '.join('any' if side == -1 else str(side) for side in self._fixed)


def _layout(message: Any) -> tuple[Any, ...]:
    """Give all of an ``Image`` that decides how its data are read."""
    return (message.encoding, message.height, message.width, message.step, message.is_bigendian)


def _converted(convert: Callable[[Pixels | None], Pixels], into: Pixels | None) -> Pixels:
    """
    Run an OpenCV conversion, straight into ``into`` where there is one.

    OpenCV writes in place when size and type fit; where it does not, its result is copied.
    """
    if into is None:
        result = convert(None)
        return result[..., np.newaxis] if result.ndim == 2 else result
    target = for_opencv(into)
    result = convert(target)
    if result is not target:
        np.copyto(target, result)
    return into
