"""
What is played: the scenarios of ``make bench-sim``, and what a frame costs on this machine.

Periods, classes, contracts and runtimes are read from the simulator's files, so that both can be
compared. The accelerator stands still for a moment after each run (the server's turn-around,
measured first), so a frame asks for its drawn runtime less that moment. A client with one request
in flight sees more than that, and its measured median is what the load is computed from: the
period is set so that the medians together ask for the load that the scenario has. A client with
several requests in flight hides a part, so it meets a little less than the load.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vig_core.model import Model, RuntimeProfile, Variant
from vig_core.sim.engine import SimStream
from vig_core.sim.scenarios import Scaled, Scenario
from vig_core.sim.workload import ArrivalProcess, Periodic, Poisson, RuntimeLaw
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.config.scenario import load_scenarios

SCENARIOS = Path(__file__).resolve().parents[1] / 'scenarios'
LOADS = (500, 750, 900, 1000, 1100, 1250, 1500)
QUICK_LOADS = (900, 1100, 1500)
CAMERAS_LOAD = 1500
WIDTH, HEIGHT = 640, 480
SHORTEST_NS = NS_PER_MS // 2

Measured = Mapping[str, RuntimeProfile]
"""What a client of the idle server sees, by backend model."""


@dataclass(frozen=True, slots=True)
class Point:
    """
    One workload at one load.

    :ivar load_permille: what the medians, as a client sees them, ask of the accelerator.
    :ivar scenario: with the profiles that were measured on this machine.
    :ivar laws: what a frame asks of the accelerator, by backend model.
    """

    name: str
    load_permille: int
    scenario: Scenario
    laws: Mapping[str, RuntimeLaw]

    @property
    def label(self) -> str:
        """Name of the point in file names and tables."""
        return f'{self.name}-{self.load_permille / 10:.0f}'

    @property
    def streams(self) -> tuple[SimStream, ...]:
        """All streams, in the file's order: the protected one first."""
        return self.scenario.streams

    def model(self, stream: SimStream) -> Model:
        """Give the model of a stream."""
        return self.scenario.system.models[stream.model]

    def frames(self, stream: SimStream, seed: int,
               duration_ns: int) -> Iterator[tuple[int, int, int]]:
        """Give capture and arrival after the start, and what it asks of the accelerator, in ns."""
        variant = self.model(stream).variants[0]
        for frame in stream.arrivals.frames(seed, stream.name, duration_ns):
            yield (frame.captured_at_ns, frame.arrives_at_ns,
                   self.laws[variant.backend_model].draw_ns(seed, stream.name, frame.index,
                                                            variant))


class DrawnFrames(Sequence[NDArray[np.uint8]]):
    """Frames that ask for as many drawn runtimes; one buffer, so use each before the next."""

    def __init__(self, law: RuntimeLaw, variant: Variant, count: int) -> None:
        self._buffer = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        self._costs = [law.draw_ns(0, 'calibration', index, variant) for index in range(count)]

    def __len__(self) -> int:
        return len(self._costs)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:  # type: ignore[override]
        self._buffer.reshape(-1)[:8].view(np.int64)[0] = self._costs[index]
        return self._buffer


def scenarios() -> dict[str, Scenario]:
    """Read the scenarios that are played live, by name."""
    found = {}
    for file in ('ramp.yaml', 'burst.yaml', 'cameras.yaml'):
        for scenario in load_scenarios(SCENARIOS / file).scenarios:
            found[scenario.name] = _with_backend_names(scenario)
    return found


def _with_backend_names(scenario: Scenario) -> Scenario:
    """Name backend models by scenario and model: equal names may have other runtimes."""
    return scenario.with_models(lambda model: replace(model, variants=tuple(
        replace(variant, backend_model=f'{scenario.name}_{model.name}')
        for variant in model.variants)))


def models_of(found: Mapping[str, Scenario]) -> list[Model]:
    """List every model of the scenarios."""
    return [model for scenario in found.values() for model in scenario.system.models.values()]


def shortened(law: RuntimeLaw, added_ns: int) -> RuntimeLaw:
    """Take from every quantile what the server adds by itself."""
    p50_ns = max(law.p50_ns - added_ns, SHORTEST_NS)
    return RuntimeLaw(p50_ns, max(law.p99_ns - added_ns, p50_ns))


def points(found: Mapping[str, Scenario], calibration: Measured, turnaround_ns: int, *,
           duration_ns: int, is_quick: bool) -> list[Point]:
    """
    List the points, the ramp first.

    :param calibration: profiles by backend model.
    :param turnaround_ns: for how long the accelerator stands still after each run.
    :param duration_ns: of a cell; bursts keep their place in it.
    """
    plan = [('ramp', load) for load in (QUICK_LOADS if is_quick else LOADS)]
    plan += [('block', 0), ('bursts', 0), ('four-cameras', CAMERAS_LOAD)]
    return [point_at(shortened_to(found[name], duration_ns), load, calibration, turnaround_ns)
            for name, load in plan]


def shortened_to(scenario: Scenario, duration_ns: int) -> Scenario:
    """Let a scenario take another time; its bursts keep their places in it."""
    whole_ns = scenario.duration_ns

    def shorter(arrivals: ArrivalProcess) -> ArrivalProcess:
        if not isinstance(arrivals, Periodic):
            return arrivals
        return replace(arrivals, windows=tuple(
            (begin * duration_ns // whole_ns, end * duration_ns // whole_ns)
            for begin, end in arrivals.windows))

    return replace(scenario, duration_ns=duration_ns, streams=tuple(
        replace(stream, arrivals=shorter(stream.arrivals)) for stream in scenario.streams))


def point_at(scenario: Scenario, load: int, measured: Measured, turnaround_ns: int) -> Point:
    """
    Set the load: by the period, or by the runtime where the scenario scales that.

    :param load: in permille; 0 for what the scenario's file asks for.
    """
    load = load or round(1000 * offered(scenario))
    if scenario.scaled is Scaled.RUNTIME:
        scaled = scenario.at(load)
        profiles = {name: RuntimeProfile(law.p50_ns, law.p99_ns)
                    for name, law in scaled.laws.items()}
        laws = {name: shortened(law, turnaround_ns + measured[name].p50_ns
                                - scenario.laws[name].p50_ns)
                for name, law in scaled.laws.items()}
    else:
        laws = {name: shortened(law, turnaround_ns) for name, law in scenario.laws.items()}
        profiles = {name: measured[name] for name in laws}
        # Streams without a period keep their rate; the periodic ones keep their share of the load.
        share = scenario.load / offered(scenario)
        scaled = replace(_profiled(scenario, profiles), scaled=Scaled.PERIOD).at(
            round(load * share))
    return Point(scenario.name, load, _profiled(scaled, profiles), laws)


def _profiled(scenario: Scenario, profiles: Measured) -> Scenario:
    return scenario.with_models(lambda model: replace(model, variants=tuple(
        replace(variant, profile=profiles[variant.backend_model])
        for variant in model.variants)))


def offered(scenario: Scenario) -> float:
    """Give the load of all streams while all are on, those without a period included."""
    total = scenario.load
    for stream in scenario.streams:
        if isinstance(stream.arrivals, Poisson):
            variant = scenario.system.models[stream.model].variants[0]
            total += stream.arrivals.rate_hz * variant.profile.p50_ns / NS_PER_S
    return total
