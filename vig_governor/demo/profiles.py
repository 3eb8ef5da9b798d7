"""The demo's profiles: every variant of a plan, measured alone on the server that will run it."""

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vig_core.units import NS_PER_MS

from vig_governor.backend.triton import TritonBackend
from vig_governor.demo.camera import frames
from vig_governor.demo.contract import INPUT
from vig_governor.demo.plan import DemoPlan, DemoStream
from vig_governor.measure.runtime import measure_in_turn, RuntimeSamples

FRAMES = 10
CONNECT_TIMEOUT_S = 10.0


def measure_plan(plan: DemoPlan, assets: Path, endpoint: str,
                 say: Callable[[str], None], *, samples: int = 15) -> dict[str, RuntimeSamples]:
    """
    Measure every backend model of a plan on frames of its own camera.

    :param assets: folder in which the plan's videos lie.
    :param endpoint: gRPC endpoint of the server, ``host:port``; nothing else may use it.
    :param say: takes one line before and one for each model.
    :param samples: of each of the independent runs.
    :returns: the samples by backend model.
    :raises BackendUnavailable: the server does not answer.
    :raises MeasurementFailed: a model failed.
    """
    images: dict[str, Sequence[NDArray[np.uint8]]] = {}
    for stream in plan.streams:
        frames_of_stream = _first_frames(stream, assets)
        for variant in stream.variants:
            images.setdefault(variant.backend_model, frames_of_stream)
    backend = TritonBackend(endpoint)
    try:
        backend.connect(timeout_s=CONNECT_TIMEOUT_S)
        say('measuring every model on the server, one at a time and by turns ...')
        profiles = measure_in_turn(backend, INPUT, images, samples=samples)
    finally:
        backend.close()
    for measured in profiles.values():
        say(describe(measured))
    return profiles


def describe(samples: RuntimeSamples) -> str:
    """Say what was measured of one model in one line."""
    p50, p95, p99 = (samples.quantile_ns(percent) / NS_PER_MS for percent in (50, 95, 99))
    return (f'  measured {samples.backend_model:18} p50 {p50:6.1f}  p95 {p95:6.1f}  '
            f'p99 {p99:6.1f} ms  ({samples.count} runs)')


def _first_frames(stream: DemoStream, assets: Path) -> Sequence[NDArray[np.uint8]]:
    return [image for _, image in islice(frames(assets / stream.video, stream.size), FRAMES)]
