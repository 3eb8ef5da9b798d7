"""
Continue a text, at most so many tokens at a time, the most expected token each time.

The prompt of every request is the whole text so far: whoever asks may stop between two requests,
ask for something else, and go on later. With the prefix cache only what is new in the prompt is
read; without it everything is. The cache holds the one text that was written last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Network(Protocol):
    """What the writer needs of a network."""

    capacity: int
    end_tokens: frozenset[int]

    def read(self, ids: Sequence[int], position: int) -> NDArray[np.float32]:
        """Read tokens behind the first ``position`` ones; say what is expected next."""


class Tokens(Protocol):
    """What the writer needs of a tokenizer."""

    def encode(self, text: bytes) -> list[int]:
        """Give the token ids of a text."""

    def decode(self, ids: Sequence[int]) -> bytes:
        """Give the bytes of tokens."""


class PromptTooLong(ValueError):
    """A prompt that leaves no room for an answer; says both lengths."""


@dataclass(frozen=True, slots=True)
class Piece:
    """
    One token as text, or the end.

    :ivar is_end: the model ended its answer, or the context is full; carries no text.
    """

    text: bytes
    is_end: bool = False


class Writer:
    """
    Writes with one network, one request at a time.

    :param start_token: read where a prompt is empty.
    :ivar tokens_read: how many tokens of its prompt the last request had to read.
    """

    def __init__(self, network: Network, tokens: Tokens, *, has_prefix_cache: bool,
                 start_token: int = 0) -> None:
        self._network = network
        self._tokens = tokens
        self._has_prefix_cache = has_prefix_cache
        self._start_token = start_token
        self._text = b''
        self._ids: list[int] = []
        self._known = 0
        self.tokens_read = 0

    def write(self, prompt: bytes, max_tokens: int) -> Iterator[Piece]:
        """
        Give one piece for each token, as it is there.

        :param max_tokens: 0 only reads the prompt.
        :raises PromptTooLong: nothing was read.
        """
        ids = self._tokenised(prompt)
        if len(ids) >= self._network.capacity:
            raise PromptTooLong(f'the prompt has {len(ids)} tokens; the model takes at most '
                                f'{self._network.capacity} together with its answer')
        known = self._known_prefix(ids) if self._has_prefix_cache else 0
        self.tokens_read = len(ids) - known
        # Until the network has read it, nothing is known behind the common prefix.
        self._text, self._ids, self._known = prompt, ids, known
        expected = self._network.read(ids[known:], known)
        self._known = len(ids)
        for number in range(max_tokens):
            if number:
                expected = self._network.read(self._ids[-1:], self._known)
                self._known = len(self._ids)
            token = int(expected.argmax())
            if token in self._network.end_tokens or len(self._ids) + 1 >= self._network.capacity:
                yield Piece(b'', is_end=True)
                return
            text = self._tokens.decode([token])
            self._ids.append(token)
            self._text += text
            yield Piece(text)

    def _tokenised(self, prompt: bytes) -> list[int]:
        """Keep the tokens that were written: cut anew, the same text may have others."""
        if self._has_prefix_cache and self._text and prompt.startswith(self._text):
            return self._ids + self._tokens.encode(prompt[len(self._text):])
        return self._tokens.encode(prompt) or [self._start_token]

    def _known_prefix(self, ids: Sequence[int]) -> int:
        """Count the first tokens that the network has read; the last is read for its answer."""
        known = 0
        for mine, theirs in zip(self._ids[:self._known], ids[:-1]):
            if mine != theirs:
                break
            known += 1
        return known
