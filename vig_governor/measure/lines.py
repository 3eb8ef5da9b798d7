"""
The cost of one quantum of a generative model, from two straight lines.

``duration = base + context * prefill + tokens / rate``: one line over the number of tokens at a
fixed prompt gives the rate, one over the length of the prompt at a fixed number of tokens gives
the prefill cost, and what remains is the base cost. Each point is the median of its samples, and
a slope is the median of the slopes between all pairs of points (P. K. Sen, "Estimates of the
regression coefficient based on Kendall's tau", JASA 63, 1968): one disturbed point bends neither
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

Generate = Callable[[int, int], int]
"""Runs one quantum: tokens of context, tokens to make -> duration in ns."""


@dataclass(frozen=True, slots=True)
class Line:
    """``duration = at_zero_ns + slope_ns * x``."""

    at_zero_ns: Fraction
    slope_ns: Fraction


@dataclass(frozen=True, slots=True)
class QuantumCost:
    """What ``models.<name>.cooperative`` of the file says."""

    base_cost_us: int
    tokens_per_second: float
    prefill_per_token_us: float


def fit_line(points: Points) -> Line:
    """
    Put a line through the medians of the points.

    :raises MeasurementFailed: fewer than two points, or one without samples.
    """
    medians = sorted((x, median_low(samples)) for x, samples in points.items() if samples)
    if len(medians) < 2:
        raise MeasurementFailed(f'{len(medians)} points make no line; at least 2 are needed')
    slope = median(Fraction(y2 - y1, x2 - x1) for (x1, y1), (x2, y2) in combinations(medians, 2))
    return Line(median(y - slope * x for x, y in medians), slope)


def quantum_cost(by_tokens: Points, *, context: int, by_context: Points) -> QuantumCost:
    """
    Work out the cost of a quantum; what is planned is rounded up.

    :param by_tokens: durations by tokens made, all after a context of ``context`` tokens.
    :param by_context: durations by tokens of context, all with the same number of tokens made.
    :raises MeasurementFailed: more tokens take no longer, so that there is no rate.
    """
    tokens, contexts = fit_line(by_tokens), fit_line(by_context)
    if tokens.slope_ns <= 0:
        raise MeasurementFailed('more tokens take no more time; the figures say nothing about a '
                                'rate (does the model honour the number of tokens?)')
    prefill = max(Fraction(0), contexts.slope_ns)
    base = max(Fraction(0), tokens.at_zero_ns - prefill * context)
    return QuantumCost(
        base_cost_us=-(-base // NS_PER_US),
        tokens_per_second=float(Fraction(NS_PER_S) / tokens.slope_ns),
        prefill_per_token_us=float(prefill / NS_PER_US))


def measure_quantum_cost(generate: Generate, *, tokens: Sequence[int] = (1, 4, 8, 16),
                         contexts: Sequence[int] = (16, 64, 128), repeats: int = 5
                         ) -> QuantumCost:
    """
    Measure both lines, by turns, after one run that does not count.

    :raises MeasurementFailed: see ``quantum_cost``.
    """
    generate(contexts[0], tokens[0])
    by_tokens: dict[int, list[int]] = {count: [] for count in tokens}
    by_context: dict[int, list[int]] = {count: [] for count in contexts}
    for _ in range(repeats):
        for count in tokens:
            by_tokens[count].append(generate(contexts[0], count))
        for count in contexts:
            by_context[count].append(generate(count, tokens[0]))
    return quantum_cost(by_tokens, context=contexts[0], by_context=by_context)
