"""What the server adds to an execution, and what a client sees then: measured before the cells."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmark.live.workloads import DrawnFrames, Measured, shortened

from vig_core.model import Model, RuntimeProfile, Variant
from vig_core.sim.workload import RuntimeLaw
from vig_core.units import NS_PER_MS

from vig_governor.backend.triton import TritonBackend
from vig_governor.measure.runtime import measure_in_turn, RuntimeSamples

RUNS = 3
WARMUP = 4


@dataclass(frozen=True, slots=True)
class Calibration:
    """
    Both by backend model, in ns.

    :ivar added_ns: median of what a client sees less what the accelerator took.
    :ivar measured: what a client of the idle server sees once frames ask for that much less.
    """

    added_ns: Mapping[str, int]
    measured: Measured

    def as_json(self) -> dict[str, dict[str, float]]:
        """Give all of it in milliseconds."""
        return {name: {'server_adds_ms': round(self.added_ns[name] / NS_PER_MS, 3),
                       'p50_ms': round(profile.p50_ns / NS_PER_MS, 3),
                       'p99_ms': round(profile.p99_ns / NS_PER_MS, 3)}
                for name, profile in self.measured.items()}


def calibrate(endpoint: str, models: Sequence[Model], say: Callable[[str], None], *,
              samples: int) -> Calibration:
    """
    Measure every model twice: as drawn, and with the server's addition taken off.

    :param samples: of each of three runs.
    :raises BackendUnavailable: the server does not answer.
    :raises MeasurementFailed: a model failed.
    """
    variants = {model.variants[0].backend_model: model.variants[0] for model in models}
    laws = {name: RuntimeLaw.of(variant.profile) for name, variant in variants.items()}
    backend = TritonBackend(endpoint)
    try:
        backend.connect(timeout_s=10)
        first = _measure(backend, variants, laws, max(5, samples // 2))
        added = {name: max(0, seen.quantile_ns(50) - laws[name].p50_ns)
                 for name, seen in first.items()}
        second = _measure(backend, variants, {
            name: shortened(law, added[name]) for name, law in laws.items()}, samples)
    finally:
        backend.close()
    found = Calibration(added, {
        name: RuntimeProfile(seen.quantile_ns(50), seen.quantile_ns(99))
        for name, seen in second.items()})
    for name, row in found.as_json().items():
        say(f'  {name:22} p50 {row["p50_ms"]:6.2f}  p99 {row["p99_ms"]:6.2f} ms, of which the '
            f'server adds {row["server_adds_ms"]:.2f}')
    return found


def _measure(backend: TritonBackend, variants: Mapping[str, Variant],
             laws: Mapping[str, RuntimeLaw], samples: int) -> dict[str, RuntimeSamples]:
    return measure_in_turn(
        backend, 'IMAGE',
        {name: DrawnFrames(laws[name], variant, WARMUP + RUNS * samples)
         for name, variant in variants.items()},
        runs=RUNS, samples=samples, warmup=WARMUP)
