"""
How long a model takes alone on the server, as the governor will see it.

A sample is what lies between a decision to dispatch and the answer: a slot of input memory is
taken, the frame is written into it, the request goes out, the answer comes back. Samples follow
each other without a pause, those of several models by turns; the first ones are thrown away. They
are taken in several independent runs, and a quantile is the median of the runs' quantiles: one
disturbance of the machine then spoils one run, not the profile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median_low

import numpy as np
from numpy.typing import NDArray

from vig_governor.backend.base import Backend
from vig_governor.measure.exchange import Caller, MeasurementFailed

_STREAM = 'measurement'


@dataclass(frozen=True, slots=True)
class RuntimeSamples:
    """
    What was measured of one model.

    :ivar runs_ns: durations in nanoseconds of the samples that count, one tuple for each run.
    """

    backend_model: str
    runs_ns: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> int:
        """Samples of all runs together."""
        return sum(len(run) for run in self.runs_ns)

    def quantile_ns(self, percent: float) -> int:
        """
        Give the median over the runs of the nearest-rank quantile, the lower of two middles.

        :param percent: in 0..100, for example 99.
        """
        return median_low(quantile(run, percent) for run in self.runs_ns)


def quantile(values: Sequence[int], percent: float) -> int:
    """
    Give the nearest-rank quantile: the smallest value that ``percent`` of all do not exceed.

    :raises ValueError: there are no values.
    """
    if not values:
        raise ValueError('no values, hence no quantile')
    return sorted(values)[max(ceil(len(values) * percent / 100) - 1, 0)]


def measure_in_turn(backend: Backend, tensor: str,
                    models: Mapping[str, Sequence[NDArray[np.uint8]]], *, runs: int = 3,
                    samples: int = 15, warmup: int = 5,
                    timeout_s: float = 10.0) -> dict[str, RuntimeSamples]:
    """
    Run models one at a time and by turns, as they run in operation.

    A model that follows itself finds its code and data in the caches. In operation another one
    ran before it. Seen with one of the demo's models on a two-core machine: p50 and p95 of 48 and
    53 ms back to back, of 52 and 69 ms by turns.

    :param backend: connected; nothing else may use the server meanwhile.
    :param tensor: the input, called the same in all of them.
    :param models: backend model to real inputs of one shape, used in turn.
    :param runs: independent runs.
    :param samples: samples of each run and model that count.
    :param warmup: rounds before the first run that do not.
    :param timeout_s: for each sample.
    :raises MeasurementFailed: a sample failed or took longer than ``timeout_s``; the slot of one
        without an end stays taken.
    """
    caller = Caller(backend, _STREAM, timeout_s=timeout_s)
    durations: dict[str, list[int]] = {name: [] for name in models}
    for turn in range(warmup + runs * samples):
        for name, frames in models.items():
            exchange = caller.call(name, {tensor: frames[turn % len(frames)]})
            if exchange.failure:
                raise MeasurementFailed(f'{name} failed: {exchange.failure}')
            durations[name].append(exchange.duration_ns)
    return {name: RuntimeSamples(name, tuple(
        tuple(taken[warmup + run * samples:warmup + (run + 1) * samples]) for run in range(runs)))
        for name, taken in durations.items()}
