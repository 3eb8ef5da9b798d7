"""
The cost of one quantum of a generative model, from straight lines.

``duration = base + context * prefill + tokens / rate``: one line over the number of tokens at a
fixed prompt gives the rate, one over the length of the context at a fixed number of tokens gives
the prefill cost, and what remains is the base cost. Both are taken from quanta that go on with a
text: a server with a prefix cache has read most of it then. A third line, over the first quanta of
new prompts, says what reading costs where nothing was read before. Each point is the median of its
samples, and a slope is the median of the slopes between all pairs of points (P. K. Sen, "Estimates
of the regression coefficient based on Kendall's tau", JASA 63, 1968): one disturbed point bends no
line. Its confidence intervals are not used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from statistics import median, median_low

from vig_core.units import NS_PER_S, NS_PER_US

from vig_governor.measure.exchange import MeasurementFailed

Points = Mapping[int, Sequence[int]]
"""Tokens -> durations in ns."""

CACHE_FACTOR = 2
"""A new prompt that is read so many times as dearly as a known one speaks of a prefix cache."""


@dataclass(frozen=True, slots=True)
class Sample:
    """
    The first two quanta of one text.

    :ivar prompt: tokens of the prompt.
    :ivar first_ns: to read it and to write one token.
    :ivar next_ns: to go on behind that with as many tokens as were asked for.
    """

    prompt: int
    first_ns: int
    next_ns: int


Generate = Callable[[int, int], Sample]
"""Begins a text with a prompt of about so many tokens and goes on with so many."""


@dataclass(frozen=True, slots=True)
class Line:
    """``duration = at_zero_ns + slope_ns * x``."""

    at_zero_ns: Fraction
    slope_ns: Fraction


@dataclass(frozen=True, slots=True)
class QuantumCost:
    """
    What ``models.<name>.cooperative`` of the file says.

    :ivar new_prompt_per_token_us: to read a token of a prompt that the server has not seen.
    """

    base_cost_us: int
    tokens_per_second: float
    prefill_per_token_us: float
    new_prompt_per_token_us: float

    @property
    def has_prefix_cache(self) -> bool:
        """Whether the server seems to remember what it has read."""
        return self.new_prompt_per_token_us > CACHE_FACTOR * self.prefill_per_token_us


def fit_line(points: Points) -> Line:
    """
    Put a line through the medians of the points.

    :raises MeasurementFailed: fewer than two points, or one without samples.
    """
    medians = sorted((x, median_low(samples)) for x, samples in points.items() if samples)
    if len(medians) < 2:
        raise MeasurementFailed(
            f'only {len(medians)} different length was measured; a line needs at least 2'
            if medians else 'nothing was measured; a line needs at least 2 different lengths')
    slope = median(Fraction(y2 - y1, x2 - x1) for (x1, y1), (x2, y2) in combinations(medians, 2))
    return Line(median(y - slope * x for x, y in medians), slope)


def quantum_cost(by_tokens: Points, *, context: int, by_context: Points,
                 by_prompt: Points) -> QuantumCost:
    """
    Work out the cost of a quantum; what is planned is rounded up.

    :param by_tokens: durations by tokens made, all after a context of ``context`` tokens.
    :param by_context: durations by tokens of context, all with the same number of tokens made.
    :param by_prompt: durations of first quanta by tokens of a new prompt.
    :raises MeasurementFailed: more tokens take no longer, so that there is no rate.
    """
    tokens = fit_line(by_tokens)
    if tokens.slope_ns <= 0:
        raise MeasurementFailed('more tokens take no more time; the figures say nothing about a '
                                'rate (does the model honour the number of tokens?)')
    prefill, new = (max(Fraction(0), fit_line(points).slope_ns)
                    for points in (by_context, by_prompt))
    base = max(Fraction(0), tokens.at_zero_ns - prefill * context)
    return QuantumCost(
        base_cost_us=-(-base // NS_PER_US),
        tokens_per_second=float(Fraction(NS_PER_S) / tokens.slope_ns),
        prefill_per_token_us=float(prefill / NS_PER_US),
        new_prompt_per_token_us=float(new / NS_PER_US))


def measure_quantum_cost(generate: Generate, *, tokens: Sequence[int] = (1, 4, 8, 16),
                         contexts: Sequence[int] = (32, 96, 192), repeats: int = 5,
                         on_sample: Callable[[], None] = lambda: None) -> QuantumCost:
    """
    Measure all lines, by turns, after one text that does not count.

    :raises MeasurementFailed: see ``quantum_cost``.
    """
    generate(contexts[0], tokens[0])
    by_tokens: dict[int, list[int]] = {}
    by_context: dict[int, list[int]] = {}
    by_prompt: dict[int, list[int]] = {}
    context = contexts[0]
    for _ in range(repeats):
        for length, count in (*((contexts[0], count) for count in tokens),
                              *((length, tokens[0]) for length in contexts[1:])):
            sample = generate(length, count)
            on_sample()
            by_prompt.setdefault(sample.prompt, []).append(sample.first_ns)
            if length == contexts[0]:
                context = sample.prompt + 1
                by_tokens.setdefault(count, []).append(sample.next_ns)
            if count == tokens[0]:
                by_context.setdefault(sample.prompt + 1, []).append(sample.next_ns)
    return quantum_cost(by_tokens, context=context, by_context=by_context, by_prompt=by_prompt)
