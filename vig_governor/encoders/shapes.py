"""How many elements a tensor of a declared shape takes, and options that only images have."""

from collections.abc import Sequence
from dataclasses import fields
import math

from vig_governor.backend.base import TensorSpec
from vig_governor.encoders.base import EncodeError, InputOptions

_FOR_EVERY_ENCODER = ('tensor', 'encoder', 'dtype')
_NEUTRAL = {'mean': {0.0}, 'std': {1.0}}


def refuse_image_options(options: InputOptions) -> None:
    """
    Refuse options that only the encoder ``image`` acts on, rather than ignore them.

    :raises EncodeError: names the key.
    """
    for field in fields(InputOptions):
        if field.name in _FOR_EVERY_ENCODER:
            continue
        value = getattr(options, field.name)
        neutral = _NEUTRAL.get(field.name)
        if value != field.default if neutral is None else set(value) != neutral:
            raise EncodeError(f'input.{field.name} means nothing to encoder {options.encoder}; '
                              'remove it, or set input.encoder: image')


def check_open_axes(spec: TensorSpec) -> None:
    """
    Refuse shapes that a number of elements does not determine.

    :raises EncodeError: more than one axis is open besides a leading batch axis, or one is 0.
    """
    if 0 in spec.shape:
        raise EncodeError(f'tensor {spec.name!r} of the model has shape {list(spec.shape)}, '
                          'which holds nothing')
    if len([size for size in _without_batch(spec.shape) if size == -1]) > 1:
        raise EncodeError(f'tensor {spec.name!r} of the model has shape {list(spec.shape)}: more '
                          'than one open axis besides the batch, so the message cannot decide; '
                          'use a message with a layout and input.encoder: array')


def shape_for(spec: TensorSpec, elements: int) -> tuple[int, ...]:
    """
    Resolve the open axis of a declared shape; of two, the first is a batch of one.

    :param spec: one that ``check_open_axes`` lets pass.
    :param elements: that the message holds.
    :raises EncodeError: that many do not fit.
    """
    shape = _without_batch(spec.shape)
    known = math.prod(size for size in shape if size != -1)
    resolved = tuple(elements // known if size == -1 else size for size in shape)
    if elements < 1 or math.prod(resolved) != elements:
        raise EncodeError(f'the message holds {elements} elements, but tensor {spec.name!r} of '
                          f'shape {list(spec.shape)} takes '
                          f'{f"a multiple of {known}" if -1 in shape else known}')
    return resolved


def match_shape(spec: TensorSpec, shape: Sequence[int]) -> tuple[int, ...]:
    """
    Fit a message's own shape to the declared one, adding a batch axis of one if it lacks it.

    :raises EncodeError: another rank or another size.
    """
    fitted = tuple(shape)
    if len(fitted) == len(spec.shape) - 1 and spec.shape[0] in (-1, 1):
        fitted = (1, *fitted)
    if len(fitted) != len(spec.shape) or any(
            want not in (-1, have) for want, have in zip(spec.shape, fitted)):
        raise EncodeError(f'the message has shape {list(shape)}, but tensor {spec.name!r} '
                          f'wants {list(spec.shape)}')
    if 0 in fitted:
        raise EncodeError(f'the message has shape {list(shape)}: it holds nothing')
    return fitted


def _without_batch(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1, *shape[1:]) if shape.count(-1) > 1 and shape[0] == -1 else shape
