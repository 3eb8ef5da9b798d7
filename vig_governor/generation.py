"""
One generative job: its prompt, the text so far, and what travels to the server and back.

The prompt travels with every quantum: what was asked, and what has been written since. Bytes are
kept as the server gave them, because a quantum may end within a character. Knows nothing of ROS.
"""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
import math

import numpy as np

from vig_governor.backend.base import InputSlot, ModelSignature, OutputTensor
from vig_governor.config.options import GenerativeOptions
from vig_governor.datatypes import numpy_dtype
from vig_governor.encoders.base import EncodeError
from vig_governor.token_estimate import estimate_tokens

_LENGTH_BYTES = 4


class UnusableAnswer(ValueError):
    """An answer without a text, or with tensors that do not say what they should."""


@dataclass(frozen=True, slots=True)
class Quantum:
    """
    What one backend request wrote.

    :ivar text: may begin and end within a character.
    :ivar is_end: the model has ended its text.
    """

    text: bytes
    tokens: int
    is_end: bool


class Generation:
    """
    A job from its prompt to its last quantum.

    :param prompt: as the client gave it; the template is put around it here.
    :param max_tokens: of the client; 0 leaves the bound to the configuration.
    :ivar prompt_tokens: estimated length of the prompt with its template; of one that is too long
        to be sent, of its beginning.
    :ivar variant_id: the variant of the last dispatch.
    """

    def __init__(self, options: GenerativeOptions, prompt: str, max_tokens: int = 0) -> None:
        self._options = options
        self._prompt = options.template.replace('{prompt}', prompt).encode(errors='replace')
        self._size = len(prompt.encode(errors='replace'))
        self.prompt_tokens = estimate_tokens(
            self._prompt[:options.max_prompt_bytes + options.bytes_around])
        self._text = bytearray()
        self._decoder = codecs.getincrementaldecoder('utf-8')(errors='replace')
        self._told = 0
        self.max_tokens = max_tokens
        self.variant_id = ''
        self.tokens = 0
        self.quanta = 0

    @property
    def prompt_bytes(self) -> int:
        """Size of the prompt with its template, in UTF-8."""
        return len(self._prompt)

    @property
    def problem(self) -> str:
        """Why the prompt cannot be sent, in one sentence, or empty."""
        limit = self._options.max_prompt_bytes
        return '' if self._size <= limit else (
            f'the prompt has {self._size} bytes, more than cooperative.max_prompt_bytes of the '
            f'model ({limit})')

    def fill(self, slot: InputSlot, tokens: int, signature: ModelSignature) -> None:
        """
        Write the inputs of the next quantum.

        :raises EncodeError: the prompt is too long.
        """
        if self.problem:
            raise EncodeError(self.problem)
        shapes = {spec.name: ([1] * len(spec.shape), spec.datatype) for spec in signature.inputs}
        name = self._options.prompt_tensor
        slot.put_bytes(name, shapes[name][0], [self._prompt + bytes(self._text)])
        name = self._options.max_tokens_tensor
        shape, datatype = shapes[name]
        slot.allocate(name, shape, datatype)[...] = tokens

    def read(self, outputs: Sequence[OutputTensor], asked: int) -> Quantum:
        """
        Read the answer of a quantum; those of a decoupled model come one after the other.

        Where the model does not count its tokens, a decoupled one writes one with each text, and
        any other as many as were asked for; where it does not tell its end, less is the end.

        :raises UnusableAnswer: says what is missing.
        """
        options = self._options
        texts = [element for output in outputs if output.name == options.text_tensor
                 for element in bytes_elements(output.data)]
        if not any(output.name == options.text_tensor for output in outputs):
            raise UnusableAnswer(f'the answer has no output {options.text_tensor!r}')
        text = b''.join(texts)
        written = len(texts) if len(texts) > 1 or not text else asked
        if options.tokens_tensor is None:
            tokens = min(written, asked) if text else 0
        else:
            tokens = sum(_integers(outputs, options.tokens_tensor))
        if options.end_tensor is None:
            return Quantum(text, tokens, tokens < asked)
        return Quantum(text, tokens, any(_integers(outputs, options.end_tensor)))

    def append(self, quantum: Quantum) -> None:
        """Take what a quantum wrote: the next one goes on behind it."""
        self._text += quantum.text
        self.tokens += quantum.tokens
        self.quanta += 1

    def take_text(self, *, is_last: bool) -> str:
        """Give the text since the last call; half a character waits for its other half."""
        fresh = bytes(self._text[self._told:])
        self._told = len(self._text)
        return self._decoder.decode(fresh, is_last)


def bytes_elements(data: bytes) -> list[bytes]:
    """
    Take a BYTES tensor apart.

    :raises UnusableAnswer: the lengths in it do not add up.
    """
    elements, at = [], 0
    while at < len(data):
        begin = at + _LENGTH_BYTES
        at = begin + int.from_bytes(data[at:begin], 'little')
        if at > len(data):
            raise UnusableAnswer('a BYTES tensor of the answer ends before its last element')
        elements.append(data[begin:at])
    return elements


def _integers(outputs: Sequence[OutputTensor], name: str) -> list[int]:
    found = [output for output in outputs if output.name == name]
    if not found:
        raise UnusableAnswer(f'the answer has no output {name!r}')
    numbers: list[int] = []
    for output in found:
        if math.prod(output.shape):
            array = np.frombuffer(output.data, numpy_dtype(output.datatype))
            numbers += [int(number) for number in array]
    return numbers
