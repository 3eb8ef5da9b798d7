"""
What is fed to a model while it is measured: zeros of the right shape, or frames from a file.

Zeros are the same everywhere. But a model whose work depends on the picture (a pose network that
only runs on a found person) is fast on them; ``--data`` feeds what the robot sees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import hashlib
from pathlib import Path
from typing import Any
import zipfile

import numpy as np
from numpy.typing import NDArray

from vig_core.errors import VigError

from vig_governor.backend.base import ModelSignature, TensorSpec
from vig_governor.backend.signature import check_complete, check_input, SignatureMismatch
from vig_governor.config import Config
from vig_governor.datatypes import DTYPES, numpy_dtype
from vig_governor.encoders.base import InputOptions
from vig_governor.measure.exchange import Inputs

ZEROS = 'zeros'
_CHANNELS = {'GRAY': 1}


class InputUnknown(VigError):
    """An input that cannot be made up; says which option gives it."""


@dataclass(frozen=True, slots=True)
class Feed:
    """
    The inputs of one backend model, used in turn.

    :ivar dataset: ``zeros``, or the file's name and the first digits of its SHA-256.
    """

    inputs: tuple[Inputs, ...]
    dataset: str

    def __getitem__(self, turn: int) -> Inputs:
        """Give the inputs of one request."""
        return self.inputs[turn % len(self.inputs)]

    @property
    def shapes(self) -> dict[str, list[int]]:
        """Shape of each input tensor of the first request."""
        return {name: list(array.shape) for name, array in self.inputs[0].items()}

    @property
    def kib(self) -> int:
        """Size of the largest request, rounded up."""
        largest = max(sum(array.nbytes for array in one.values()) for one in self.inputs)
        return -(-largest // 1024)


def stream_shapes(config: Config) -> dict[str, dict[str, tuple[int, ...]]]:
    """Give what the streams say of input shapes: logical model -> tensor -> shape."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for binding in config.streams:
        shape = _shape_of(binding.input)
        if shape is not None:
            found.setdefault(binding.model, {})[binding.input.tensor] = shape
    return found


def make_feed(signature: ModelSignature, *, shapes: Mapping[str, Sequence[int]],
              streamed: Mapping[str, Sequence[int]], data: Path | None) -> Feed:
    """
    Make the inputs of one backend model.

    :param shapes: tensor -> shape as the operator gave it; wins over ``streamed``.
    :param streamed: tensor -> shape as the streams of the file say it.
    :param data: an ``.npz`` with one array for each input, samples along the first axis.
    :raises InputUnknown: a size that nobody said, or a file that does not fit.
    """
    required = [spec for spec in signature.inputs if not spec.is_optional]
    if data is not None:
        return _from_file(signature, required, data)
    return Feed((
        {spec.name: _zeros(spec, _shape(signature, spec, shapes, streamed))
         for spec in required},), ZEROS)


def _shape(signature: ModelSignature, spec: TensorSpec, shapes: Mapping[str, Sequence[int]],
           streamed: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    given = tuple(shapes.get(spec.name, streamed.get(spec.name, spec.shape)))
    if spec.name not in shapes and len(given) == len(spec.shape) + 1:
        given = given[1:]
    if any(axis < 0 for axis in given):
        text = ','.join('N' if axis < 0 else str(axis) for axis in given)
        raise InputUnknown(
            f'model {signature.backend_model!r}, input {spec.name!r}: its shape [{text}] has a '
            f'free size; say what the robot sends, for example --shape '
            f'{spec.name}={text.replace("N", "480")}, or give frames with --data')
    try:
        check_input(signature, spec.name, spec.datatype, given)
    except SignatureMismatch as error:
        raise InputUnknown(str(error)) from None
    return given


def _zeros(spec: TensorSpec, shape: tuple[int, ...]) -> NDArray[Any]:
    if spec.datatype == 'BYTES':
        return np.full(shape, b'', np.object_)
    try:
        return np.zeros(shape, numpy_dtype(spec.datatype))
    except ValueError as error:
        raise InputUnknown(f'input {spec.name!r}: {error}') from None


def _from_file(signature: ModelSignature, required: Sequence[TensorSpec], path: Path) -> Feed:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.ascontiguousarray(file[name]) for name in file.files}
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise InputUnknown(f'{path}: not a readable .npz file: {error}') from None
    known = {spec.name: spec for spec in signature.inputs}
    names = {dtype: name for name, dtype in DTYPES.items()}
    try:
        check_complete(signature, list(arrays))
        for name, array in arrays.items():
            if name in known:
                check_input(signature, name, names.get(array.dtype, str(array.dtype)),
                            array.shape[1:])
    except SignatureMismatch as error:
        raise InputUnknown(f'{path}: {error} (the first axis counts the samples)') from None
    used = {name: array for name, array in arrays.items() if name in known}
    count = min((len(array) for array in used.values() if array.ndim), default=0)
    if not used or not count:
        raise InputUnknown(f'{path}: holds no sample for model {signature.backend_model!r}; its '
                           f'inputs are {", ".join(spec.name for spec in required)}')
    return Feed(tuple({name: array[index] for name, array in used.items()}
                      for index in range(count)), f'{path.name} {digest[:16]}')


def _shape_of(options: InputOptions) -> tuple[int, ...] | None:
    """Shape that the image encoder makes; ``None`` where it depends on the message."""
    if options.encoder != 'image' or options.size is None:
        return None
    width, height = options.size
    axes = {'N': 1, 'H': height, 'W': width, 'C': _CHANNELS.get(options.color, 3)}
    return tuple(axes[axis] for axis in options.layout)
