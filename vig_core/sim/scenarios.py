"""
What is simulated: a system, its workload, how load is varied, and what is known about it.

A load point scales either every runtime (the sensor stays, the model gets dearer) or every period
(the model stays, the sensor gets faster) by one factor, so that ``sum over streams of (median
runtime of the best variant / period) / slots`` is the load.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from vig_core.contract import Contract
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.sim.engine import SimStream
from vig_core.sim.workload import ArrivalProcess, Periodic, RuntimeLaw

UNSCALED = 0
"""The load point of a scenario that has only one."""


class Scaled(Enum):
    """What a load point changes."""

    NOTHING = 'nothing'
    RUNTIME = 'runtime'
    PERIOD = 'period'


class PolicyName(Enum):
    """Who decides: the governor, or one of the baselines."""

    GOVERNOR = 'governor'
    TUNED_SERVER = 'tuned_server'
    NEWEST_ONLY = 'newest_only'
    EDF = 'edf'


class Counting(Enum):
    """What a figure counts; all but ``RESULTS`` in permille."""

    INSTANT = 'instant'
    WINDOW = 'window'
    MISSED = 'missed'
    STALE = 'stale'
    RESULTS = 'results'


@dataclass(frozen=True, slots=True)
class Reference:
    """
    Figures that somebody else measured, or that we are out for, by load point.

    :ivar policy: whose figures they are.
    :ivar stream: the only stream that they speak of; empty for the worst guarded one.
    :ivar must_match: whether our simulator is wrong if it does not give the same.
    """

    name: str
    counting: Counting
    values: Mapping[int, float]
    policy: PolicyName = PolicyName.GOVERNOR
    must_match: bool = False
    stream: str = ''


@dataclass(frozen=True, slots=True)
class Scenario:
    """
    One scenario at one load.

    :ivar loads_permille: the load points that a benchmark visits.
    :ivar constant_runtime: every run takes exactly its median.
    :ivar queue_depths: of the tuned server; the best one counts.
    """

    name: str
    system: System
    streams: tuple[SimStream, ...]
    duration_ns: int
    seeds: tuple[int, ...]
    scaled: Scaled = Scaled.NOTHING
    loads_permille: tuple[int, ...] = (UNSCALED,)
    constant_runtime: bool = False
    queue_depths: tuple[int, ...] = (1, 4, 16)
    references: tuple[Reference, ...] = ()
    title: str = ''

    @property
    def load(self) -> float:
        """Offered load of all periodic streams; 1.0 keeps every slot busy at the median."""
        total = 0.0
        for stream in self.streams:
            if isinstance(stream.arrivals, Periodic):
                best = self.system.models[stream.model].variants[0]
                total += best.profile.p50_ns / stream.arrivals.period_ns
        return total / self.system.slots

    @property
    def laws(self) -> Mapping[str, RuntimeLaw]:
        """What reality costs by backend model."""
        return {variant.backend_model: replace(RuntimeLaw.of(variant.profile),
                                               is_constant=self.constant_runtime)
                for model in self.system.models.values() for variant in model.variants}

    def at(self, load_permille: int) -> 'Scenario':
        """
        Scale this scenario to a load.

        :raises ValueError: no load can be offered by streams without a period.
        """
        if self.scaled is Scaled.NOTHING or load_permille == UNSCALED:
            return self
        if not self.load:
            raise ValueError(f'{self.name} has no periodic stream, so no load to scale')
        factor = load_permille / 1000 / self.load
        if self.scaled is Scaled.RUNTIME:
            return self.with_models(lambda model: replace(model, variants=tuple(
                _slower(variant, factor) for variant in model.variants)))
        scaled = self.with_models(lambda model: replace(
            model, contract=_stretched(model.contract, 1 / factor)))
        return replace(scaled, streams=tuple(
            replace(stream, arrivals=_spread(stream.arrivals, 1 / factor))
            for stream in self.streams))

    def with_models(self, change: Callable[[Model], Model]) -> 'Scenario':
        """Change every model."""
        models = {name: change(model) for name, model in self.system.models.items()}
        return replace(self, system=replace(self.system, models=MappingProxyType(models)))


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """The scenarios of one file, in order."""

    source: str
    scenarios: tuple[Scenario, ...] = field(default=())


def _slower(variant: Variant, factor: float) -> Variant:
    profile = variant.profile
    return replace(variant, profile=RuntimeProfile(
        p50_ns=round(profile.p50_ns * factor), p99_ns=round(profile.p99_ns * factor)))


def _stretched(contract: Contract, factor: float) -> Contract:
    def stretch(value_ns: int | None) -> int | None:
        return None if value_ns is None else round(value_ns * factor)

    return replace(contract, deadline_ns=round(contract.deadline_ns * factor),
                   max_age_ns=stretch(contract.max_age_ns),
                   period_ns=stretch(contract.period_ns),
                   consumer_period_ns=stretch(contract.consumer_period_ns))


def _spread(arrivals: ArrivalProcess, factor: float) -> ArrivalProcess:
    if not isinstance(arrivals, Periodic):
        return arrivals
    return replace(arrivals, period_ns=round(arrivals.period_ns * factor),
                   phase_ns=round(arrivals.phase_ns * factor))
