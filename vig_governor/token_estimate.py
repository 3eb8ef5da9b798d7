"""
About how many tokens a text has, without the tokenizer of its model.

Tokenizers cut a text into words, digits and signs before they look for tokens, and short texts are
mostly such pieces. So each of these counts as one: a control token as templates have them, up to
eight letters, a digit, a sign, a line break, two bytes of another alphabet. Spaces belong to
the word that they precede.
"""

import re

BYTES_PER_TOKEN = 4
"""Of English prose, about: what a number of tokens is in bytes."""

_COUNTED_BYTES = 16_384
_PIECE = re.compile(
    rb'<[|/]?[A-Za-z]\w*\|?>|[A-Za-z]{1,8}|[\x80-\xff]{1,2}|[^ \tA-Za-z\x80-\xff]')


def estimate_tokens(text: bytes) -> int:
    """Estimate the length of a text in UTF-8, that of a long one from its beginning."""
    pieces = sum(1 for _ in _PIECE.finditer(text[:_COUNTED_BYTES]))
    return -(-pieces * max(len(text), _COUNTED_BYTES) // _COUNTED_BYTES)
