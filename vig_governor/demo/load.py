"""
How much the demo's cameras ask of the slot: more than it can do, on slow and fast machines alike.

What a camera asks for is its rate times the median of the model that runs without the governor.
The most important camera is as fast as leaves most of the slot to the others, and room between two
of its frames for what is guarded too; they follow it. The lowest class takes what is missing.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
import json
from pathlib import Path

from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.demo.plan import DemoPlan, DemoStream, GUARDED
from vig_governor.demo.writer_costs import PLANNED_PERCENT
from vig_governor.measure.runtime import RuntimeSamples

LOAD = 1.4
"""Of what the slot can do; how much the cameras ask for unless somebody says otherwise."""

FIRST_RATES_HZ = (75.0, 60.0, 45.0, 30.0, 15.0)
MOST_OF_FIRST = 0.4
"""Of the slot, for the most important camera."""

LAST_RATES_HZ = (1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0)
_LAST = 'best_effort'
_FILE = 'rates.json'


def share(stream: DemoStream, profiles: Mapping[str, RuntimeSamples]) -> float:
    """Give how much of the slot a camera asks for."""
    return stream.rate_hz * profiles[stream.direct_model].quantile_ns(50) / NS_PER_S


def room_ms(plan: DemoPlan, profiles: Mapping[str, RuntimeSamples]) -> float:
    """
    Give how long a run may be planned to fit between two frames of the most important camera.

    That is about its period plus its deadline, less its own two runs and the transport.
    """
    first = plan.streams[0]
    own_ms = max(_planned_ms(profiles[variant.backend_model]) for variant in first.variants)
    return first.period_ms + first.deadline_ms - first.transport_ms - 2 * own_ms


def fastest_ms(stream: DemoStream, profiles: Mapping[str, RuntimeSamples]) -> float:
    """Give what a run of a camera's fastest variant is planned with."""
    return min(_planned_ms(profiles[variant.backend_model]) for variant in stream.variants)


def _planned_ms(samples: RuntimeSamples) -> float:
    return samples.quantile_ns(99) / NS_PER_MS * PLANNED_PERCENT / 100


def demand(plan: DemoPlan, profiles: Mapping[str, RuntimeSamples]) -> float:
    """Give how much of the slot all cameras ask for: 1.0 is all that it can do."""
    return sum(share(stream, profiles) for stream in plan.streams)


def loaded(plan: DemoPlan, profiles: Mapping[str, RuntimeSamples],
           load: float = LOAD) -> DemoPlan:
    """
    Choose the rates so that the cameras ask for about ``load`` of the slot.

    The rates are those of real cameras, hence the sum may lie half a step beside ``load``; where
    the cameras above the lowest class ask for more by themselves, it is more.

    :param profiles: runs by backend model; every model of the plan is there.
    """
    chosen = next((each for each in map(partial(_at_first_rate, plan), FIRST_RATES_HZ)
                   if _fits(each, profiles)), _at_first_rate(plan, FIRST_RATES_HZ[-1]))
    while True:
        faster = _faster(chosen, profiles)
        if faster is None or (abs(demand(faster, profiles) - load)
                              >= abs(demand(chosen, profiles) - load)):
            return chosen
        chosen = faster


def _at_first_rate(plan: DemoPlan, rate_hz: float) -> DemoPlan:
    """Let the first camera run at a rate, the others as fast beside it, the lowest class idly."""
    return at_rates(plan, {
        stream.name: LAST_RATES_HZ[0] if stream.criticality == _LAST
        else stream.rate_hz * rate_hz / plan.streams[0].rate_hz for stream in plan.streams})


def _fits(plan: DemoPlan, profiles: Mapping[str, RuntimeSamples]) -> bool:
    """Tell whether the first camera leaves enough to the others that are guarded."""
    room = room_ms(plan, profiles)
    return share(plan.streams[0], profiles) <= MOST_OF_FIRST and all(
        fastest_ms(stream, profiles) <= room for stream in plan.streams[1:]
        if stream.criticality in GUARDED)


def _faster(plan: DemoPlan, profiles: Mapping[str, RuntimeSamples]) -> DemoPlan | None:
    """Make that camera of the lowest class a step faster which asks for the least, if one can."""
    slow = [stream for stream in plan.streams
            if stream.criticality == _LAST and stream.rate_hz < LAST_RATES_HZ[-1]]
    if not slow:
        return None
    least = min(slow, key=lambda stream: share(stream, profiles))
    rate_hz = next(rate_hz for rate_hz in LAST_RATES_HZ if rate_hz > least.rate_hz)
    return replace(plan, streams=tuple(
        replace(stream, rate_hz=rate_hz) if stream is least else stream
        for stream in plan.streams))


def at_rates(plan: DemoPlan, rates_hz: Mapping[str, float]) -> DemoPlan:
    """
    Let the cameras run at these rates.

    Deadlines and ages follow the rate of the most important camera, as those of whoever wanted it
    so fast would; the lowest class has wishes rather than needs, and keeps them.

    :param rates_hz: by stream.
    """
    haste = rates_hz[plan.streams[0].name] / plan.streams[0].rate_hz

    def at_rate(stream: DemoStream) -> DemoStream:
        pace = 1.0 if stream.criticality == _LAST else haste
        return replace(stream, rate_hz=rates_hz[stream.name],
                       deadline_ms=round(stream.deadline_ms / pace),
                       max_age_ms=round(stream.max_age_ms / pace))

    return replace(plan, streams=tuple(at_rate(stream) for stream in plan.streams))


def write_rates(folder: Path, plan: DemoPlan) -> None:
    """Leave the chosen rates for cameras that somebody else starts."""
    (folder / _FILE).write_text(json.dumps(_rates_hz(plan)), encoding='utf-8')


def at_written_rates(folder: Path, plan: DemoPlan) -> DemoPlan:
    """Give the plan at the rates that were left in a folder, or as it is where none were."""
    path = folder / _FILE
    written = json.loads(path.read_text(encoding='utf-8')) if path.is_file() else {}
    return at_rates(plan, {**_rates_hz(plan), **written})


def _rates_hz(plan: DemoPlan) -> dict[str, float]:
    return {stream.name: stream.rate_hz for stream in plan.streams}


def describe(plan: DemoPlan, profiles: Mapping[str, RuntimeSamples]) -> str:
    """Say in one line which rates were chosen and what they ask for."""
    rates = ', '.join(f'{stream.name} {stream.rate_hz:g}' for stream in plan.streams)
    first = plan.streams[0]
    return (f'chosen by these medians: {rates} Hz; all ask for {demand(plan, profiles):.1f} of '
            f'what the slot can do, {first.name} for {share(first, profiles):.2f}')
