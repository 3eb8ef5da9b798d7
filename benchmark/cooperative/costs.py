"""What the governor plans with, measured on the server that the arms use, before they begin."""

from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
import statistics
from typing import Any

from benchmark.common import quantile
from benchmark.cooperative.stage import CAMERA, WRITER

import numpy as np
from numpy.typing import NDArray

from vig_core.units import NS_PER_US

from vig_governor.backend.triton import TritonBackend
from vig_governor.demo.writer_costs import (CONTEXTS, measure_writer, quantum_meter,
                                            QUANTUM_TOKENS, WriterCosts)
from vig_governor.measure.exchange import Caller, MeasurementFailed
from vig_governor.measure.inputs import Feed
from vig_governor.measure.interference import Neighbour
from vig_governor.measure.quanta import prompt_feed

RUNS = 3


@dataclass(frozen=True, slots=True)
class Costs(WriterCosts):
    """
    The costs of the writer and, beside them, the camera's and what two models at once add.

    :ivar interference_us: victim -> what the other one adds to it; empty with one slot.
    """

    camera_p50_us: int
    camera_p99_us: int
    interference_us: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Give all figures."""
        return asdict(self)

    def figures(self) -> dict[str, Any]:
        """Give those that the file takes as they are."""
        return {name: value for name, value in self.as_json().items()
                if name != 'interference_us'}

    def whole_us(self, tokens: int) -> float:
        """Time of so many tokens in one request behind a text that the server knows."""
        return self.base_cost_us + 1e6 * tokens / self.tokens_per_second

    def interference(self) -> str:
        """Write ``backend.interference`` of the file."""
        other = {CAMERA: WRITER, WRITER: CAMERA}
        return '[{}]'.format(', '.join(
            f'{{victim: {victim}, co_tenant: {other[victim]}, added_us: {added}}}'
            for victim, added in self.interference_us.items()))


def measure(endpoint: str, frame: NDArray[np.uint8], slots: int, repeats: int) -> Costs:
    """
    Measure everything; nothing else may use the server meanwhile.

    :param repeats: of each text; samples of everything else are in proportion.
    :raises MeasurementFailed: says which model gave no figure and why.
    """
    backend = TritonBackend(endpoint)
    try:
        backend.connect(timeout_s=10)
        meter = quantum_meter(backend, WRITER)
        feeds = {CAMERA: Feed(({'IMAGE': frame},), 'noise'),
                 WRITER: prompt_feed(meter.signature, meter.options, QUANTUM_TOKENS)}

        def camera() -> int:
            return _duration(meter.caller, CAMERA, feeds[CAMERA])

        def quantum() -> int:
            return meter(CONTEXTS[0], QUANTUM_TOKENS).next_ns

        writer = measure_writer(meter, repeats)
        _durations(camera, 10)
        frames, added = _durations(camera, 40 * repeats), {}
        if slots > 1:
            for victim, other, once, count in ((CAMERA, WRITER, camera, 20 * repeats),
                                               (WRITER, CAMERA, quantum, 2 * repeats)):
                added[victim] = _added_us(backend, other, feeds[other], once, count)
        return Costs(*astuple(writer), *_microseconds(frames), added)
    finally:
        backend.close()


def _added_us(backend: TritonBackend, other: str, feed: Feed, once: Callable[[], int],
              count: int) -> int:
    """Give what a neighbour adds to the 95 % quantile: median of interleaved runs."""
    added = []
    for _ in range(RUNS):
        alone = quantile(_durations(once, count), 95)
        with Neighbour(backend, other, feed, timeout_s=10) as neighbour:
            beside = quantile(_durations(once, count), 95)
        if neighbour.failure:
            raise MeasurementFailed(f'{other} failed beside the other model: {neighbour.failure}')
        added.append(max(0.0, beside - alone))
    return round(statistics.median(added) / NS_PER_US)


def _durations(once: Callable[[], int], count: int) -> list[int]:
    return [once() for _ in range(count)]


def _duration(caller: Caller, model: str, feed: Feed) -> int:
    exchange = caller.call(model, feed[0])
    if exchange.failure:
        raise MeasurementFailed(f'{model} failed: {exchange.failure}')
    return exchange.duration_ns


def _microseconds(durations: list[int]) -> tuple[int, int]:
    return (round(quantile(durations, 50) / NS_PER_US), round(quantile(durations, 99) / NS_PER_US))
