"""The served forms of the language model: two precisions, one answer or many, cache or none."""

from dataclasses import dataclass
from itertools import product

from vig_governor.config.options import GenerativeOptions
from vig_governor.demo.language_files import FOLDER

TENSORS = {'prompt_tensor': 'PROMPT', 'max_tokens_tensor': 'MAX_TOKENS', 'text_tensor': 'TEXT',
           'tokens_tensor': 'TOKENS', 'end_tensor': 'END'}
"""Keys of ``cooperative`` in vig.yaml, the same for every form."""

OPTIONS = GenerativeOptions(**TENSORS)

_PROMPTED = (
    'input [ { name: "PROMPT" data_type: TYPE_STRING dims: [ 1 ] },'
    ' { name: "MAX_TOKENS" data_type: TYPE_INT32 dims: [ 1 ] optional: true } ]\n'
    'output [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] },'
    ' { name: "TOKENS" data_type: TYPE_INT32 dims: [ 1 ] },'
    ' { name: "END" data_type: TYPE_BOOL dims: [ 1 ] },'
    ' { name: "READ" data_type: TYPE_INT32 dims: [ 1 ] } ]\n')


@dataclass(frozen=True, slots=True)
class ServedLanguageModel:
    """
    One backend model.

    :ivar bits: of its matrices, 8 or 4: two variants of one model.
    :ivar is_decoupled: one answer for each token, on the streaming endpoint only.
    :ivar has_prefix_cache: reads of each prompt only what it has not just read or written.
    """

    bits: int
    is_decoupled: bool
    has_prefix_cache: bool

    @property
    def name(self) -> str:
        """Name on the server, for example ``smollm2_q8_stream``."""
        return (f'smollm2_q{self.bits}{"_stream" if self.is_decoupled else ""}'
                f'{"" if self.has_prefix_cache else "_uncached"}')

    @property
    def code(self) -> str:
        """The file that becomes its ``model.py``."""
        return 'triton_language.py'

    @property
    def needs(self) -> tuple[str, ...]:
        """Every file of the store without which the model cannot be served."""
        return tuple(f'{FOLDER}/{name}' for name in (
            f'q{self.bits}.onnx', 'embeddings.npy', 'tokenizer.json', 'facts.json'))

    def config(self, priority: int | None = None) -> str:
        """Text of the model's ``config.pbtxt``; see ``ServedModel.config``."""
        limited = '' if priority is None else (
            ' rate_limiter { resources [ { name: "core" global: true count: 1 } ]'
            f' priority: {priority} }}')
        parameters = '\n'.join(
            f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
            for key, value in (('file', f'q{self.bits}.onnx'),
                               ('prefix_cache', 'on' if self.has_prefix_cache else 'off')))
        decoupled = ('model_transaction_policy { decoupled: true }\n' if self.is_decoupled
                     else '')
        return (f'name: "{self.name}"\n'
                'backend: "python"\n'
                'max_batch_size: 0\n'
                f'{decoupled}{_PROMPTED}'
                f'instance_group [ {{ kind: KIND_CPU count: 1{limited} }} ]\n'
                f'{parameters}\n')


LANGUAGE_MODELS = tuple(
    ServedLanguageModel(*form) for form in product((8, 4), (False, True), (True, False)))
