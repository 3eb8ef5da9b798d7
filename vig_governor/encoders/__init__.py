"""
ROS messages to tensors: a registry of encoders that a user extends without touching it.

An encoder is a factory ``(InputOptions) -> Encoder``. Another package offers one in its
``setup.cfg``::

    [options.entry_points]
    vig.encoders =
        radar = my_package.radar:RadarEncoder

and ``input.encoder: radar`` finds it. Entry points are looked at when a name is first asked for;
the encoders of this package are there even when it was never installed by pip.
"""

from collections.abc import Callable
import difflib
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points, EntryPoint
from typing import Any

from vig_governor.encoders.base import EncodeError, Encoder, InputOptions

EncoderFactory = Callable[[InputOptions], Encoder]

GROUP = 'vig.encoders'

BUILT_IN = {
    'array': ('vig_governor.encoders.array', 'ArrayEncoder'),
    'image': ('vig_governor.encoders.image', 'ImageEncoder'),
    'pointcloud': ('vig_governor.encoders.pointcloud', 'PointCloudEncoder'),
    'raw': ('vig_governor.encoders.raw', 'RawEncoder'),
    'reference': ('vig_governor.encoders.reference', 'ReferenceEncoder'),
    'scan': ('vig_governor.encoders.array', 'ScanEncoder'),
    'text': ('vig_governor.encoders.raw', 'TextEncoder'),
}
"""Encoders of this package: name -> module and factory, imported when they are first used."""


@cache
def _offered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def encoder_names() -> tuple[str, ...]:
    """Every name that ``input.encoder`` may say, sorted."""
    return tuple(sorted({*BUILT_IN, *_offered()}))


def get_encoder(name: str) -> EncoderFactory:
    """
    Find an encoder's factory; an entry point goes before a built-in of the same name.

    :raises EncodeError: unknown, or its package is broken; names the available ones.
    """
    if name in _offered():
        return _load(name, _offered()[name])
    if name in BUILT_IN:
        module, attribute = BUILT_IN[name]
        factory: EncoderFactory = getattr(import_module(module), attribute)
        return factory
    nearest = difflib.get_close_matches(name, encoder_names(), n=1)
    hint = f'did you mean {nearest[0]!r}? ' if nearest else ''
    raise EncodeError(f'input.encoder {name!r} is not available; {hint}'
                      f'available are {", ".join(encoder_names())}')


def make_encoder(options: InputOptions) -> Encoder:
    """
    Make the encoder that ``options.encoder`` names.

    :raises EncodeError: no such encoder, or options that it refuses.
    """
    return get_encoder(options.encoder)(options)


def reader_of(encoder: Encoder, message_type: str) -> Callable[[bytes], Any] | None:
    """
    Give what reads serialised messages for this encoder, if it takes more than message objects.

    An encoder says so with a method ``reader(message_type)``; most, and those of other packages,
    have none.
    """
    reader: Callable[[str], Callable[[bytes], Any] | None] | None = getattr(
        encoder, 'reader', None)
    return None if reader is None else reader(message_type)


def _load(name: str, point: EntryPoint) -> EncoderFactory:
    try:
        factory: Any = point.load()
    except Exception as error:  # a foreign package may fail in any way when it is imported
        origin = f' of package {point.dist.name}' if point.dist else ''
        raise EncodeError(f'input.encoder {name!r}: {point.value}{origin} cannot be loaded: '
                          f'{type(error).__name__}: {error}') from error
    if not callable(factory):
        raise EncodeError(f'input.encoder {name!r}: {point.value} is no factory')
    return factory  # type: ignore[no-any-return]
