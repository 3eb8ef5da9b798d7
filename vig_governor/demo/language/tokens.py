"""
Text to tokens and back, exact to the byte.

A piece of an answer may end within a character. Its bytes travel as they are, and come back with
the next prompt: bytes that are no whole character yet become one token each.
"""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer


def printable_bytes() -> dict[str, int]:
    """Give the characters that stand for bytes in a byte-level vocabulary (GPT-2's table)."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {
        chr(256 + index): byte for index, byte in enumerate(others)}


class ByteTokens:
    """The tokenizer of a converted model."""

    def __init__(self, path: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(path))
        self._byte_of = printable_bytes()
        self._token_of = {byte: self._tokenizer.token_to_id(character)
                          for character, byte in self._byte_of.items()}
        self._special = {index for index, token
                         in self._tokenizer.get_added_tokens_decoder().items() if token.special}

    def encode(self, text: bytes) -> list[int]:
        """Give token ids; control tokens are recognised by their text."""
        whole = _whole_characters(text)
        ids: list[int] = self._tokenizer.encode(
            text[:whole].decode(errors='replace'), add_special_tokens=False).ids
        return ids + [self._token_of[byte] for byte in text[whole:]]

    def decode(self, ids: Sequence[int]) -> bytes:
        """Give the bytes of ordinary tokens; control tokens have none."""
        return bytes(self._byte_of[character] for index in ids if index not in self._special
                     for character in self._tokenizer.id_to_token(index))


def _whole_characters(text: bytes) -> int:
    """Give the length without a character of UTF-8 that has only begun at the end."""
    for back in range(1, min(3, len(text)) + 1):
        byte = text[-back]
        if byte >= 0xc0:
            size = 2 if byte < 0xe0 else 3 if byte < 0xf0 else 4
            return len(text) - back if size > back else len(text)
        if byte < 0x80:
            break
    return len(text)
