"""
What the quanta of a generative model cost on the real server.

A text is begun with a prompt that the server has not seen, with one token, and goes on behind it:
the second request is what a quantum of a job that was cut is. Prompts are counted as the governor
counts them, so that its plans and these figures speak of the same tokens. Each is two short words
again and again: a token each in any tokenizer, and a text that models go on with and do not end.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, cycle, islice
import sys

import numpy as np

from vig_governor.backend.base import ModelSignature
from vig_governor.config.options import GenerativeOptions
from vig_governor.datatypes import numpy_dtype
from vig_governor.generation import Generation, UnusableAnswer
from vig_governor.measure.exchange import Caller, MeasurementFailed
from vig_governor.measure.inputs import Feed
from vig_governor.measure.lines import measure_quantum_cost, QuantumCost, Sample
from vig_governor.measure.profiling import MeasuredBackend
from vig_governor.measure.state import (
    changes_between, MachineState, read_state, server_changes, settled_counts,
)

PROMPTS = 'prompts'
CONTEXTS = (32, 96, 192)
TOKENS = (1, 4, 8, 16)
REPEATS = 5
PROMPTS_OF_A_PROFILE = 64
PROFILED_CONTEXT = 32
ATTEMPTS = 5
_FEWEST_WORDS = 2
_THREE = ('sun', 'sea', 'box', 'map', 'cup', 'key', 'pen', 'hat', 'bed', 'car', 'dog')
_FOUR = ('door', 'road', 'hand', 'book', 'tree', 'ship', 'fish', 'milk', 'wall', 'wind', 'rain',
         'snow', 'fire', 'lamp', 'desk', 'ring', 'bell', 'boat', 'hill', 'lake', 'farm', 'town')


@dataclass(slots=True)
class QuantumMeter:
    """Begins texts and goes on with them; a ``Generate``."""

    caller: Caller
    backend_model: str
    signature: ModelSignature
    options: GenerativeOptions
    sent: int = 0
    _numbers: Iterator[int] = field(default_factory=count)

    def __call__(self, context: int, tokens: int) -> Sample:
        """
        Measure one text.

        :raises MeasurementFailed: the model fails, or its texts end too soon to be measured.
        """
        for _ in range(ATTEMPTS):
            generation = Generation(self.options, prompt_of(context, self.options,
                                                            next(self._numbers)))
            first = self._quantum(generation, 1)
            second = None if first is None else self._quantum(generation, tokens)
            if first is not None and second is not None:
                return Sample(generation.prompt_tokens, first, second)
        raise MeasurementFailed(
            f'{self.backend_model}: {ATTEMPTS} texts ended before {tokens + 1} tokens were '
            'written; its quanta cannot be measured with our prompts')

    def _quantum(self, generation: Generation, tokens: int) -> int | None:
        """Give the time of one quantum, or nothing where it wrote less than asked."""
        exchange = self.caller.send(self.backend_model, lambda slot: generation.fill(
            slot, tokens, self.signature))
        self.sent += 1
        if exchange.failure:
            raise MeasurementFailed(f'{self.backend_model} failed: {exchange.failure}')
        try:
            written = generation.read(exchange.outputs, tokens)
        except UnusableAnswer as error:
            raise MeasurementFailed(f'{self.backend_model}: {error}') from None
        generation.append(written)
        return exchange.duration_ns if written.tokens == tokens else None


def prompt_of(tokens: int, options: GenerativeOptions, number: int) -> str:
    """
    Make a prompt of so many tokens, template included, that begins like no other.

    It is of two words at least, and cut where it is longer than allowed.
    """
    again, first = divmod(number, len(_THREE))
    pair = cycle((_THREE[first], _FOUR[(first + again) % len(_FOUR)]))
    words = islice(pair, max(tokens - options.tokens_around, _FEWEST_WORDS))
    return ' '.join(words)[:options.max_prompt_bytes]


def contexts_of(options: GenerativeOptions) -> tuple[int, ...]:
    """
    Give the lengths of prompts to measure, in tokens: shorter ones where only those are allowed.

    :raises MeasurementFailed: the longest prompt leaves no room for two lengths.
    """
    longest = Generation(options, prompt_of(CONTEXTS[-1], options, 0)).prompt_tokens
    shortest = options.tokens_around + _FEWEST_WORDS
    if longest >= CONTEXTS[-1]:
        return CONTEXTS
    if longest < 2 * shortest:
        needed = prompt_of(2 * shortest, replace(options, max_prompt_bytes=sys.maxsize), 0)
        raise MeasurementFailed(
            f'max_prompt_bytes {options.max_prompt_bytes} leaves no room for prompts of two '
            'lengths, and it takes two to tell the fixed cost from that of reading; measure with '
            f'at least {len(needed)}')
    return shortest, longest


def prompt_feed(signature: ModelSignature, options: GenerativeOptions, tokens: int) -> Feed:
    """Make the inputs for the profile of a generative model: short prompts, so many tokens."""
    specs = {spec.name: spec for spec in signature.inputs}
    prompt, limit = specs[options.prompt_tensor], specs[options.max_tokens_tensor]
    return Feed(tuple(
        {prompt.name: np.full([1] * len(prompt.shape), options.template.replace(
            '{prompt}', prompt_of(PROFILED_CONTEXT, options, number)).encode(), np.object_),
         limit.name: np.full([1] * len(limit.shape), tokens, numpy_dtype(limit.datatype))}
        for number in range(PROMPTS_OF_A_PROFILE)), PROMPTS)


def steps_of(max_total_tokens: int) -> int:
    """Count the texts that ``measure_quanta`` measures at most."""
    return REPEATS * (len(_tokens(max_total_tokens)) + len(CONTEXTS) - 1)


def measure_quanta(backend: MeasuredBackend, meter: QuantumMeter, max_total_tokens: int, *,
                   on_sample: Callable[[], None] = lambda: None,
                   read: Callable[[], MachineState] = read_state) -> QuantumCost:
    """
    Measure base cost, rate and prefill of one model.

    :raises MeasurementFailed: says why there is no figure, also where the machine or the server
        changed meanwhile.
    :raises BackendUnavailable: the server is gone.
    """
    state, before = read(), settled_counts(backend, meter.backend_model)
    cost = measure_quantum_cost(meter, tokens=_tokens(max_total_tokens),
                                contexts=contexts_of(meter.options), repeats=REPEATS,
                                on_sample=on_sample)
    changes = (*changes_between(state, read()), *server_changes(
        meter.backend_model, before, backend.statistics(meter.backend_model), meter.sent))
    if changes:
        raise MeasurementFailed(f'{meter.backend_model}: {"; ".join(changes)}')
    return cost


def _tokens(max_total_tokens: int) -> tuple[int, ...]:
    """At least two numbers, none of them longer than an answer with the token that begins it."""
    fitting = tuple(one for one in TOKENS if one < max_total_tokens)
    return fitting if len(fitting) > 1 else (1, 2)


def report(costs: Mapping[str, QuantumCost | str]) -> Iterator[str]:
    """
    Tell the costs, one line for each logical model.

    :param costs: figures, or why there are none.
    """
    for name, cost in costs.items():
        if isinstance(cost, str):
            yield f'models.{name}.cooperative: not measured: {cost}'
            continue
        yield (f'models.{name}.cooperative: base cost {cost.base_cost_us / 1000:.1f} ms, '
               f'{cost.tokens_per_second:.1f} tokens a second, {cost.prefill_per_token_us:.0f} us '
               f'for each token of context, {cost.new_prompt_per_token_us:.0f} us of a new prompt '
               f'({"a" if cost.has_prefix_cache else "no"} prefix cache)')
