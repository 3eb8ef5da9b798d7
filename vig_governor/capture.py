"""
``vig capture``: what the robot sees, as the models get it, in files to measure with.

A model whose work depends on the picture is measured too fast on zeros. This listens to the topics
of the streams, lets the encoder of each make the tensors that it would send, and writes one
``.npz`` for each model: ``vig profile`` and ``vig calibrate`` take it with ``--data``.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vig_core.errors import VigError

from vig_governor import messages, qos
from vig_governor.assembly import assemble
from vig_governor.backend.opening import open_backend
from vig_governor.config import Config, load_config, StreamBinding
from vig_governor.datatypes import numpy_dtype
from vig_governor.encoders.base import EncodeError, Encoder
from vig_governor.encoders.reference import REFERENCE_TYPE
from vig_governor.joining import listening

MOST_FRAMES = 1000
LONGEST_S = 600.0


class NothingCaptured(VigError):
    """What was wanted did not come, or cannot be written; says what and why."""


class _Memory:
    """The inputs of one frame, in memory of our own; an ``InputSlot``."""

    def __init__(self) -> None:
        self.tensors: dict[str, NDArray[np.generic]] = {}

    def allocate(self, name: str, shape: Sequence[int], datatype: str) -> NDArray[np.generic]:
        """Give the array that the encoder fills."""
        self.tensors[name] = np.empty(tuple(shape), numpy_dtype(datatype))
        return self.tensors[name]

    def put_bytes(self, name: str, shape: Sequence[int], elements: Sequence[bytes]) -> None:
        """Refuse: a file for ``--data`` holds numbers."""
        raise EncodeError(f'tensor {name} holds text, and a file for --data holds numbers')

    def refer(self, name: str, shape: Sequence[int], datatype: str, region: str, offset: int,
              byte_size: int) -> None:
        """Refuse: nothing is copied out of a producer's memory."""
        raise EncodeError(f'tensor {name} lies in memory of its producer')


class _Ear:
    """
    Encodes what one topic brings until it has enough.

    :ivar frames: tensors of each frame by name.
    :ivar problem: why the last frame could not be used, or empty.
    """

    def __init__(self, encoder: Encoder, count: int) -> None:
        self._encoder = encoder
        self._count = count
        self.frames: list[dict[str, NDArray[np.generic]]] = []
        self.problem = ''

    def __call__(self, message: Any) -> None:
        """Take one message."""
        if self.has_enough:
            return
        memory = _Memory()
        try:
            self._encoder.encode(message, memory)
        except EncodeError as error:
            self.problem = str(error)
            return
        self.frames.append(memory.tensors)

    @property
    def has_enough(self) -> bool:
        """Whether it listens no longer."""
        return len(self.frames) == self._count


def add_parser(subparsers: Any) -> None:
    """Add ``vig capture``."""
    parser = subparsers.add_parser(
        'capture', help='write what the streams bring into files for vig calibrate --data')
    parser.add_argument('-c', '--config', required=True, metavar='FILE', help='the vig.yaml')
    parser.add_argument('-o', '--output', type=Path, required=True, metavar='FOLDER',
                        help='receives MODEL.npz for each model that has a stream')
    parser.add_argument('--count', type=int, default=50, metavar='N',
                        help='frames of each stream (default: %(default)s)')
    parser.add_argument('--timeout-s', type=float, default=30.0, metavar='S',
                        help='how long to wait for them (default: %(default)s)')


def run(options: argparse.Namespace) -> int:
    """Listen, write, and print the command that uses it."""
    if not 1 <= options.count <= MOST_FRAMES:
        raise NothingCaptured(f'--count {options.count}: between 1 and {MOST_FRAMES} are possible')
    if not 0 < options.timeout_s <= LONGEST_S:
        raise NothingCaptured(f'--timeout-s {options.timeout_s:g}: between 0 and {LONGEST_S:g} '
                              'are possible')
    if options.output.exists() and not options.output.is_dir():
        raise NothingCaptured(f'-o {options.output}: this is a file; name a folder')
    config = load_config(options.config)
    reasons = {each.name: _why_left_out(each) for each in config.streams}
    chosen = tuple(each for each in config.streams if not reasons[each.name])
    for name, reason in reasons.items():
        if reason:
            print(f'note: streams.{name} is left out: {reason}')
    if not chosen:
        raise NothingCaptured(f'{config.source}: there is no stream to listen to')
    ears = _listen(config, chosen, options.count, options.timeout_s)
    files = _write(config, chosen, ears, options.output)
    print('measure with them: vig calibrate -c ' + ' '.join(
        [options.config, '-o measured.yaml',
         *(f'--data {model}={path}' for model, path in files.items())]))
    return 0


def _why_left_out(binding: StreamBinding) -> str:
    """Say why a stream has nothing for a file of numbers, or nothing."""
    if binding.is_generative:
        return 'it brings prompts; vig calibrate makes its own'
    if binding.message_type == REFERENCE_TYPE:
        return 'its frames stay in memory of their producer'
    return ''


def _listen(config: Config, chosen: Sequence[StreamBinding], count: int,
            timeout_s: float) -> Mapping[str, _Ear]:
    encoders = _encoders(config)
    ears = {binding.name: _Ear(encoders[binding.name], count) for binding in chosen}
    with listening('vig_capture') as (node, executor):
        for binding in chosen:
            node.create_subscription(messages.message_class(binding), binding.topic,
                                     ears[binding.name], qos.input_qos())
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s and not all(ear.has_enough for ear in ears.values()):
            executor.spin_once(timeout_sec=0.05)
    for binding in chosen:
        ear = ears[binding.name]
        if not ear.frames:
            raise NothingCaptured(
                f'{binding.topic}: no frame of streams.{binding.name} could be used within '
                f'{timeout_s:g} s: {ear.problem or "nothing came; does somebody publish it?"}')
    return ears


def _encoders(config: Config) -> Mapping[str, Encoder]:
    """Make the encoders and let them see what the server's models take."""
    backend = open_backend(config.backend)
    try:
        return assemble(config, backend).encoders
    finally:
        backend.close()


def _write(config: Config, chosen: Sequence[StreamBinding], ears: Mapping[str, _Ear],
           folder: Path) -> Mapping[str, Path]:
    """Write the frames of all streams of a model into one file; samples on the first axis."""
    files: dict[str, Path] = {}
    for model in dict.fromkeys(binding.model for binding in chosen):
        names = [binding.name for binding in chosen if binding.model == model]
        frames = [frame for name in names for frame in ears[name].frames]
        shapes = {tuple(array.shape for array in frame.values()) for frame in frames}
        if len(shapes) > 1:
            raise NothingCaptured(
                f'models.{model}: its frames have different sizes ({len(shapes)} of them), and '
                'one measurement takes one size; give the streams an input.size, or capture '
                'with one of them in the file')
        path = files[model] = folder / f'{model}.npz'
        try:
            folder.mkdir(parents=True, exist_ok=True)
            np.savez(path, allow_pickle=False, **{
                tensor: np.stack([frame[tensor] for frame in frames]) for tensor in frames[0]})
        except OSError as error:
            raise NothingCaptured(f'{path}: cannot be written: {error.strerror}') from None
        print(f'{path}: {len(frames)} frames of {", ".join(names)}, '
              f'{path.stat().st_size / 1e6:.1f} MB')
    return files
