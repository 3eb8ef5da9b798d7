"""
Convert a GGUF file into what the served model reads; once, then kept.

``python -m language.convert GGUF FOLDER``, from the folder that holds this package, with the
Python of Triton's environment. Writes ``q8.onnx``, ``q4.onnx``, ``embeddings.npy``,
``tokenizer.json`` and ``facts.json``; about 20 s on one core.
"""

import json
from pathlib import Path
import sys

import numpy as np
import onnx
from tokenizers import AddedToken, decoders, models, pre_tokenizers, Tokenizer

from .graph import build, facts
from .weights import read, Vocabulary

BITS = (8, 4)


def convert(source: Path, folder: Path) -> None:
    """Convert into ``folder``, which exists."""
    weights = read(source)
    vocabulary = weights.vocabulary
    np.save(folder / 'embeddings.npy',
            weights.matrices['token_embd.weight'].astype(np.float16))
    _tokenizer(vocabulary).save(str(folder / 'tokenizer.json'))
    # A chat ends with the first, a plain text with the second.
    ends = [vocabulary.end, *(index for index in vocabulary.special
                              if vocabulary.texts[index] == '<|endoftext|>')]
    (folder / 'facts.json').write_text(json.dumps(facts(weights.sizes, ends)), encoding='utf-8')
    for bits in BITS:
        onnx.save(build(weights, bits), folder / f'q{bits}.onnx')


def _tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    ids = {text: index for index, text in enumerate(vocabulary.texts)}
    tokenizer = Tokenizer(models.BPE(ids, list(vocabulary.merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(vocabulary.texts[index], special=True)
                                  for index in vocabulary.special])
    return tokenizer


if __name__ == '__main__':
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
