"""Writing in pieces: what is read again, what is not, and where an answer ends."""

import numpy as np
import pytest

from vig_governor.demo.language.writer import Piece, PromptTooLong, Writer


class Alphabet:
    """Tokens are letters, but ``ab`` is one token where a text is cut anew."""

    def encode(self, text):
        return [300 if part == b'ab' else part[0]
                for part in _parts(text)]

    def decode(self, ids):
        return b''.join(b'ab' if index == 300 else bytes([index]) for index in ids)


def _parts(text):
    while text:
        size = 2 if text.startswith(b'ab') else 1
        yield text[:size]
        text = text[size:]


class Counting:
    """A network that continues ``c`` with ``d`` and so on, and ``g`` with the end."""

    end_tokens = frozenset({0})

    def __init__(self, capacity=100):
        self.capacity = capacity
        self.context = []
        self.reads = []

    def read(self, ids, position):
        assert ids, 'a network reads at least one token'
        assert position <= len(self.context), 'what was never read cannot be behind'
        self.context[position:] = ids
        self.reads.append(len(ids))
        logits = np.zeros(301, np.float32)
        logits[0 if ids[-1] == ord('g') else ids[-1] + 1] = 1
        return logits


def written(writer, prompt, tokens):
    return b''.join(piece.text for piece in writer.write(prompt, tokens))


@pytest.fixture
def network():
    return Counting()


@pytest.fixture
def cached(network):
    return Writer(network, Alphabet(), has_prefix_cache=True)


def test_with_the_cache_the_next_piece_reads_only_the_token_that_was_written_last(
        cached, network):
    assert written(cached, b'xyc', 2) == b'de'
    network.reads.clear()
    assert written(cached, b'xycde', 1) == b'f'
    assert network.reads == [1]
    assert cached.tokens_read == 1


def test_without_the_cache_every_piece_reads_the_whole_text(network):
    writer = Writer(network, Alphabet(), has_prefix_cache=False)
    assert written(writer, b'xyc', 2) == b'de'
    assert written(writer, b'xycde', 1) == b'f'
    assert writer.tokens_read == 5


def test_pieces_of_any_size_are_together_what_one_piece_would_be(network):
    whole = written(Writer(Counting(), Alphabet(), has_prefix_cache=True), b'xb', 50)
    for size in (1, 2, 3):
        for has_cache in (True, False):
            writer, text = Writer(Counting(), Alphabet(), has_prefix_cache=has_cache), b''
            while piece := written(writer, b'xb' + text, size):
                text += piece
            assert text == whole == b'cdefg'


def test_the_end_of_the_sequence_is_a_piece_without_text(cached):
    assert list(cached.write(b'f', 5)) == [Piece(b'g'), Piece(b'', is_end=True)]


def test_an_end_that_falls_on_the_limit_shows_in_the_next_piece(cached):
    assert list(cached.write(b'f', 1)) == [Piece(b'g')]
    assert list(cached.write(b'fg', 1)) == [Piece(b'', is_end=True)]


def test_another_prompt_with_a_common_beginning_reads_only_the_rest(cached):
    written(cached, b'xyzc', 1)
    written(cached, b'xyp', 1)
    assert cached.tokens_read == 1
    written(cached, b'qqq', 1)
    assert cached.tokens_read == 3


def test_what_was_written_keeps_its_tokens_although_the_text_would_be_cut_otherwise(network):
    writer = Writer(network, Alphabet(), has_prefix_cache=True)
    # The network writes `b` behind `a`; cut anew, `ab` would be one token.
    assert written(writer, b'xa', 1) == b'b'
    assert written(writer, b'xab', 1) == b'c'
    assert network.context[:3] == [ord('x'), ord('a'), ord('b')]


def test_the_same_prompt_again_is_answered_by_reading_its_last_token(cached, network):
    written(cached, b'xyc', 2)
    network.reads.clear()
    assert written(cached, b'xyc', 2) == b'de'
    assert network.reads[0] == 1


def test_a_limit_of_no_tokens_reads_the_prompt_and_writes_nothing(cached, network):
    assert list(cached.write(b'xyc', 0)) == []
    assert network.reads == [3]


def test_an_empty_prompt_starts_from_the_start_token(cached, network):
    list(cached.write(b'', 0))
    assert network.context == [0]


def test_a_prompt_that_leaves_no_room_is_refused_with_both_lengths():
    writer = Writer(Counting(capacity=4), Alphabet(), has_prefix_cache=True)
    with pytest.raises(PromptTooLong, match='has 4 tokens; the model takes at most 4 together'):
        list(writer.write(b'wxyz', 1))


def test_a_full_context_ends_the_answer():
    writer = Writer(Counting(capacity=4), Alphabet(), has_prefix_cache=True)
    assert list(writer.write(b'xb', 9)) == [Piece(b'c'), Piece(b'', is_end=True)]


def test_a_piece_that_nobody_finished_reading_is_no_knowledge(network, cached):
    pieces = cached.write(b'xyc', 5)
    next(pieces)
    pieces.close()
    assert written(cached, b'xycd', 2) == b'ef'
