"""Read a GGUF file: the sizes of a Llama-like network, its matrices, its vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import GGUFReader
from gguf.quants import dequantize
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
SPECIAL = 3
"""Token type of control tokens in GGUF."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """
    What the graph needs to know.

    :ivar heads: query heads; ``key_heads`` of keys and values are shared among them.
    :ivar width: of the hidden state; a head has ``width / heads``.
    """

    layers: int
    heads: int
    key_heads: int
    width: int
    epsilon: float
    rotary_base: float

    @property
    def head_width(self) -> int:
        """Numbers for each head."""
        return self.width // self.heads


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """
    The tokens of a byte-level BPE tokenizer.

    :ivar texts: by token id, bytes written as printable characters.
    :ivar merges: pairs in the order of their rank.
    :ivar special: ids of control tokens.
    :ivar end: id of the token that ends an answer.
    """

    texts: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    special: tuple[int, ...]
    end: int


@dataclass(frozen=True, slots=True)
class Weights:
    """Everything of the file; matrices are ``float32[output, input]`` by their GGUF names."""

    sizes: Sizes
    vocabulary: Vocabulary
    matrices: Mapping[str, Floats]


def read(path: Path) -> Weights:
    """Read and dequantise the whole file; about half a gigabyte for 135 million parameters."""
    reader = GGUFReader(path)

    def field(name: str) -> Any:
        return reader.fields[name].contents()

    matrices = {
        tensor.name: np.asarray(tensor.data if tensor.tensor_type.name == 'F32'
                                else dequantize(tensor.data, tensor.tensor_type), np.float32)
        for tensor in reader.tensors}
    kinds = field('tokenizer.ggml.token_type')
    return Weights(
        Sizes(layers=field('llama.block_count'), heads=field('llama.attention.head_count'),
              key_heads=field('llama.attention.head_count_kv'),
              width=field('llama.embedding_length'),
              epsilon=float(field('llama.attention.layer_norm_rms_epsilon')),
              rotary_base=float(field('llama.rope.freq_base'))),
        Vocabulary(
            texts=tuple(field('tokenizer.ggml.tokens')),
            merges=tuple((first, second) for first, _, second in (
                merge.partition(' ') for merge in field('tokenizer.ggml.merges'))),
            special=tuple(index for index, kind in enumerate(kinds) if kind == SPECIAL),
            end=field('tokenizer.ggml.eos_token_id')),
        matrices)
