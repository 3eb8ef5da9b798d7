"""
What the server adds to an execution, measured before the cells.

Two things: how long the accelerator stands still between two executions although requests wait
(that is lost to everybody), and what a client with one request in flight sees (that is what the
governor plans with). A client with several in flight hides part of the difference.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
import threading
import time
from typing import Any

from benchmark.live.accelerator import Accelerator
from benchmark.live.workloads import DrawnFrames, HEIGHT, Measured, shortened, WIDTH

import numpy as np

from vig_core.model import Model, RuntimeProfile, Variant
from vig_core.sim.workload import RuntimeLaw
from vig_core.units import NS_PER_MS

from vig_governor.backend.base import Answered, Outcome
from vig_governor.backend.triton import TritonBackend
from vig_governor.measure.runtime import (
    measure_in_turn, MeasurementFailed, RuntimeSamples,
)

RUNS = 3
WARMUP = 4
BACKLOG, BACKLOG_RUNS, BACKLOG_RUN_NS = 8, 100, 8 * NS_PER_MS


@dataclass(frozen=True, slots=True)
class Calibration:
    """
    All in ns.

    :ivar turnaround_ns: median time between two executions while requests wait.
    :ivar measured: what a client of the idle server sees, by backend model.
    """

    turnaround_ns: int
    measured: Measured

    def as_json(self) -> dict[str, Any]:
        """Give all of it in milliseconds."""
        return {'turnaround_ms': round(self.turnaround_ns / NS_PER_MS, 3),
                'profiles': {name: {'p50_ms': round(profile.p50_ns / NS_PER_MS, 3),
                                    'p99_ms': round(profile.p99_ns / NS_PER_MS, 3)}
                             for name, profile in self.measured.items()}}


def calibrate(accelerator: Accelerator, models: Sequence[Model], say: Callable[[str], None], *,
              samples: int) -> Calibration:
    """
    Measure the turn-around, and then every model with frames that ask for that much less.

    :param samples: of each of three runs.
    :raises BackendUnavailable: the server does not answer.
    :raises MeasurementFailed: a model failed.
    """
    variants = {model.variants[0].backend_model: model.variants[0] for model in models}
    backend = TritonBackend(accelerator.server.grpc_endpoint,
                            http_endpoint=accelerator.server.http_endpoint)
    try:
        backend.connect(timeout_s=10)
        turnaround_ns = _turnaround_ns(backend, accelerator, sorted(variants))
        found = Calibration(turnaround_ns, {
            name: RuntimeProfile(seen.quantile_ns(50), seen.quantile_ns(99))
            for name, seen in _measure(backend, variants, {
                name: shortened(RuntimeLaw.of(variant.profile), turnaround_ns)
                for name, variant in variants.items()}, samples).items()})
    finally:
        backend.close()
    say(f'  between two executions the accelerator stands still for '
        f'{turnaround_ns / NS_PER_MS:.2f} ms')
    for name, row in found.as_json()['profiles'].items():
        say(f'  {name:22} p50 {row["p50_ms"]:6.2f}  p99 {row["p99_ms"]:6.2f} ms with one request '
            'in flight')
    return found


def _turnaround_ns(backend: TritonBackend, accelerator: Accelerator,
                   names: Sequence[str]) -> int:
    """Keep the server busy with requests of all models for a moment."""
    frame = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    frame.reshape(-1)[:8].view(np.int64)[0] = BACKLOG_RUN_NS
    backend.open_stream('backlog', slots=BACKLOG, transport='shm')
    free, ended = threading.Semaphore(BACKLOG), []
    began_ns = time.monotonic_ns()
    for number in range(BACKLOG_RUNS):
        free.acquire()
        slot = backend.acquire('backlog', number)
        slot.allocate('IMAGE', frame.shape, 'UINT8')[...] = frame

        def on_end(outcome: Outcome, number: int = number) -> None:
            backend.release(number)
            ended.append(outcome)
            free.release()

        backend.infer(number, names[number % len(names)], slot, on_end)
    for _ in range(BACKLOG):
        free.acquire()
    failed = [outcome for outcome in ended if not isinstance(outcome, Answered)]
    if failed:
        raise MeasurementFailed(f'a request failed: {failed[0]}')
    ran = sorted(accelerator.executions(began_ns, time.monotonic_ns()))[BACKLOG:]
    return round(median(after[0] - before[1] for before, after in zip(ran, ran[1:])))


def _measure(backend: TritonBackend, variants: Mapping[str, Variant],
             laws: Mapping[str, RuntimeLaw], samples: int) -> dict[str, RuntimeSamples]:
    return measure_in_turn(
        backend, 'IMAGE',
        {name: DrawnFrames(laws[name], variant, WARMUP + RUNS * samples)
         for name, variant in variants.items()},
        runs=RUNS, samples=samples, warmup=WARMUP)
