"""
Scenario files of the simulator: what is simulated, as YAML, with file, line, key and reason.

The file is read and checked like a vig.yaml; the result is a value of ``vig_core.sim``.
"""

from collections.abc import Mapping
import os
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from vig_core import units
from vig_core.contract import Contract, Criticality, Overflow, QueuePolicy
from vig_core.errors import ContractError
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.sim.engine import SimStream
from vig_core.sim.scenarios import (
    Counting, PolicyName, Reference, Scaled, Scenario, ScenarioFile, UNSCALED,
)
from vig_core.sim.workload import ArrivalProcess, Continuous, Periodic, Poisson, Trace

from vig_governor.config.document import read_document
from vig_governor.config.problems import ConfigError, Findings, Path
from vig_governor.config.schema_base import Block, Ms, MsOrZero, Name
from vig_governor.config.translate import nearest, validate

Permille = Annotated[float, Field(ge=0, le=100_000)]
LoadPoint = Annotated[str, Field(pattern=r'^[1-9][0-9]{0,4}$')]


class VariantRow(Block):
    """One variant and its runtimes."""

    id: Name
    p50_ms: Ms = Field(description='median runtime in milliseconds')
    p99_ms: Ms = Field(description='99 % quantile of the runtime in milliseconds')
    quality: Annotated[float, Field(ge=0, le=1)] = 1.0
    instances: Annotated[int, Field(ge=1, le=1024)] | None = None


class ModelRow(Block):
    """One logical model."""

    class_name: Literal['protected', 'high', 'normal', 'best_effort'] = Field(alias='class')
    policy: Literal['latest', 'latest_per_key', 'fifo', 'never_drop'] = 'latest'
    capacity: Annotated[int, Field(ge=1, le=1024)] = 1
    period_ms: Ms | None = None
    deadline_ms: Ms = Field(description='capture to deadline in milliseconds')
    max_age_ms: Ms | None = None
    jitter_ms: MsOrZero = 0.0
    variants: Annotated[list[VariantRow], Field(min_length=1)]


class StreamRow(Block):
    """One source of frames; exactly one of the four ways to release them."""

    model: Name
    period_ms: Ms | None = None
    jitter_ms: MsOrZero = 0.0
    rate_hz: Annotated[float, Field(gt=0, le=100_000)] | None = None
    trace_ms: list[Annotated[list[MsOrZero], Field(min_length=2, max_length=2)]] | None = None
    continuous: bool = False
    transport_ms: MsOrZero = 0.0
    phase_ms: MsOrZero = 0.0
    bursts_ms: list[Annotated[list[MsOrZero], Field(min_length=2, max_length=2)]] = []
    synchronous: bool = Field(False, description='one request in flight, newest release next')


class ReferenceRow(Block):
    """Figures to print beside ours."""

    counting: Literal['instant', 'window', 'missed', 'stale', 'results']
    values: dict[LoadPoint, Permille] = {}
    value: Permille | None = None
    policy: Literal['governor', 'tuned_server', 'newest_only', 'edf'] = 'governor'
    must_match: bool = False
    stream: Name | None = None


class ScenarioRow(Block):
    """One scenario."""

    title: str = ''
    slots: Annotated[int, Field(ge=1, le=64)] = 1
    pipelining_depth: Annotated[int, Field(ge=0, le=16)] = 0
    pipelining_lead_ms: Annotated[float, Field(ge=0, le=10_000)] | None = None
    margin_percent: Annotated[int, Field(ge=100, le=1000)] = 110
    duration_s: Annotated[float, Field(gt=0, le=3600)]
    seeds: Annotated[list[int], Field(min_length=1, max_length=100)]
    scaled: Literal['nothing', 'runtime', 'period'] = 'nothing'
    loads_permille: list[Annotated[int, Field(ge=1, le=99_999)]] = []
    runtime: Literal['lognormal', 'constant'] = 'lognormal'
    queue_depths: Annotated[list[Annotated[int, Field(ge=1, le=1024)]], Field(min_length=1)] = [
        1, 4, 16]
    models: Annotated[dict[Name, ModelRow], Field(min_length=1)]
    streams: Annotated[dict[Name, StreamRow], Field(min_length=1)]
    references: dict[Name, ReferenceRow] = {}


class FileRow(Block):
    """A whole file."""

    version: Literal[1]
    source: str = Field(description='where the figures come from')
    scenarios: Annotated[dict[Name, ScenarioRow], Field(min_length=1)]


def load_scenarios(path: str | os.PathLike[str]) -> ScenarioFile:
    """
    Read and check one file.

    :raises ConfigError: with every problem of the file.
    """
    _, data, findings = read_document(path)
    file = validate(FileRow, data, (), findings)
    if file is None:
        raise ConfigError(findings.problems)
    scenarios = [_scenario(name, row, findings) for name, row in file.scenarios.items()]
    if findings.problems:
        raise ConfigError(findings.problems)
    return ScenarioFile(file.source, tuple(one for one in scenarios if one is not None))


def _scenario(name: str, row: ScenarioRow, findings: Findings) -> Scenario | None:
    at: Path = ('scenarios', name)
    before = len(findings.problems)
    models = {key: model for key, one in row.models.items()
              if (model := _model(key, one, (*at, 'models', key), findings)) is not None}
    streams = [_stream(key, one, row.models, (*at, 'streams', key), findings)
               for key, one in row.streams.items()]
    if (row.scaled == 'nothing') is bool(row.loads_permille):
        findings.refuse((*at, 'loads_permille'), 'belongs together with scaled: runtime or '
                        'period; without it there is only one load')
    references = tuple(_reference(key, one, (*at, 'references', key), row, findings)
                       for key, one in row.references.items())
    if len(findings.problems) > before:
        return None
    kept = tuple(stream for stream in streams if stream is not None)
    system = System(
        models=MappingProxyType(models),
        streams=MappingProxyType({stream.name: stream.model for stream in kept}),
        slots=row.slots, pipelining_depth=row.pipelining_depth,
        pipelining_lead_ns=(None if row.pipelining_lead_ms is None
                            else units.ms(row.pipelining_lead_ms)),
        margin_percent=row.margin_percent)
    return Scenario(
        name=name, title=row.title, system=system, streams=kept,
        duration_ns=units.seconds(row.duration_s), seeds=tuple(row.seeds),
        scaled=Scaled(row.scaled), loads_permille=tuple(row.loads_permille) or (UNSCALED,),
        constant_runtime=row.runtime == 'constant', queue_depths=tuple(row.queue_depths),
        references=references)


def _model(name: str, row: ModelRow, at: Path, findings: Findings) -> Model | None:
    try:
        return Model(
            name=name, criticality=Criticality[row.class_name.upper()],
            contract=Contract(
                deadline_ns=units.ms(row.deadline_ms), max_age_ns=_ms(row.max_age_ms),
                period_ns=_ms(row.period_ms), release_jitter_ns=units.ms(row.jitter_ms)),
            variants=tuple(_variant(one, name, (*at, 'variants', index), findings)
                           for index, one in enumerate(row.variants)),
            policy=QueuePolicy(row.policy), capacity=row.capacity,
            overflow=Overflow.REJECT_NEW)
    except ContractError as error:
        findings.refuse((*at, *error.path[1:]), error.reason)
        return None


def _variant(row: VariantRow, model: str, at: Path, findings: Findings) -> Variant:
    p99_ms = row.p99_ms
    if p99_ms < row.p50_ms:
        findings.refuse((*at, 'p99_ms'), f'is below p50_ms, {row.p50_ms:g}')
        p99_ms = row.p50_ms
    return Variant(row.id, f'{model}_{row.id}',
                   RuntimeProfile(units.ms(row.p50_ms), units.ms(p99_ms)), row.quality,
                   instances=row.instances)


def _stream(name: str, row: StreamRow, models: Mapping[str, ModelRow], at: Path,
            findings: Findings) -> SimStream | None:
    if row.model not in models:
        findings.refuse((*at, 'model'), f'is no model; {nearest(row.model, list(models))}')
    arrivals = _arrivals(row, at, findings)
    for index, (begin_ms, end_ms) in enumerate(row.bursts_ms):
        if end_ms <= begin_ms:
            findings.refuse((*at, 'bursts_ms', index), 'must end after it begins')
    if arrivals is None:
        return None
    return SimStream(name, row.model, arrivals, row.synchronous or row.continuous)


def _arrivals(row: StreamRow, at: Path, findings: Findings) -> ArrivalProcess | None:
    ways = {'period_ms': row.period_ms is not None, 'rate_hz': row.rate_hz is not None,
            'trace_ms': row.trace_ms is not None, 'continuous': row.continuous}
    if sum(ways.values()) != 1:
        findings.refuse(at, f'needs exactly one of {", ".join(ways)}')
        return None
    phase_ns, transport_ns = units.ms(row.phase_ms), units.ms(row.transport_ms)
    for key, is_wrong in (('jitter_ms', row.jitter_ms and row.period_ms is None),
                          ('bursts_ms', row.bursts_ms and row.period_ms is None)):
        if is_wrong:
            findings.refuse((*at, key), 'only a stream with period_ms has it')
    if row.period_ms is not None:
        return Periodic(
            units.ms(row.period_ms), phase_ns, units.ms(row.jitter_ms), transport_ns,
            tuple((units.ms(begin), units.ms(end)) for begin, end in row.bursts_ms))
    if row.rate_hz is not None:
        return Poisson(row.rate_hz, phase_ns, transport_ns)
    if row.trace_ms is not None:
        return _trace(row.trace_ms, at, findings)
    return Continuous(phase_ns)


def _trace(rows: list[list[float]], at: Path, findings: Findings) -> Trace:
    last_ms = 0.0
    for index, (captured_ms, arrives_ms) in enumerate(rows):
        if arrives_ms < max(captured_ms, last_ms):
            findings.refuse((*at, 'trace_ms', index), 'must be [capture, arrival] with the '
                            'arrival neither before the capture nor before the line above')
        last_ms = arrives_ms
    return Trace(tuple((units.ms(captured), units.ms(arrives)) for captured, arrives in rows))


def _reference(name: str, row: ReferenceRow, at: Path, scenario: ScenarioRow,
               findings: Findings) -> Reference:
    values: dict[int, float] = {int(load): value for load, value in row.values.items()}
    if (row.value is None) is not bool(values):
        findings.refuse(at, 'needs exactly one of value (for the only load) and values')
    if row.value is not None:
        values = {UNSCALED: row.value}
    if row.stream is not None and row.stream not in scenario.streams:
        findings.refuse((*at, 'stream'),
                        f'is no stream; {nearest(row.stream, list(scenario.streams))}')
    known = set(scenario.loads_permille) or {UNSCALED}
    for load in sorted(values.keys() - known):
        findings.refuse((*at, 'values', str(load)), 'is none of loads_permille')
    return Reference(name, Counting(row.counting), MappingProxyType(values),
                     PolicyName(row.policy), row.must_match, row.stream or '')


def _ms(value: float | None) -> int | None:
    return None if value is None else units.ms(value)
