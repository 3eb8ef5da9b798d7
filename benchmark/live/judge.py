"""What a cell was worth, from what its consumer, its cameras and the machine noted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmark.live.machine import CAMERA_LATE_MS, Share
from benchmark.live.workloads import Point

from vig_core.sim.engine import SimStream
from vig_core.sim.report import longest_gap_ns
from vig_core.sim.workload import Periodic
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.measure.runtime import quantile
from vig_governor.measure.supply import covered_cycles, fresh_ns

COMPLETE_SHARE = 0.98
PHASES = 8
_FAULTS = ('backend_failed', 'backend_timeout')


@dataclass(frozen=True, slots=True)
class Span:
    """
    The judged part of a cell, ns of the ROS clock.

    :ivar zero_ns: when the first frame of a stream without a phase is captured.
    """

    zero_ns: int
    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / NS_PER_S


@dataclass(frozen=True, slots=True)
class Need:
    """
    What a consumer needs of one stream, ns.

    :ivar windows: begin and end, after zero, of what counts; empty for everything.
    """

    criticality: str
    is_guarded: bool
    period_ns: int | None
    max_age_ns: int | None
    windows: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, point: Point, stream: SimStream) -> 'Need':
        """Take the contract of a stream's model."""
        model, arrivals = point.model(stream), stream.arrivals
        return cls(model.criticality.name.lower(), model.is_guarded, model.contract.cycle_ns,
                   model.contract.max_age_ns,
                   arrivals.windows if isinstance(arrivals, Periodic) else ())


def judge_stream(need: Need, notes: Mapping[str, Any], log: Sequence[Sequence[int]],
                 span: Span) -> dict[str, Any]:
    """
    Judge one stream of a cell.

    A consumer's clock is not the camera's: its cycles are judged at eight phases, equally far
    apart, and all of them count. (At one phase alone it is chance whether the cycles of a stream
    lie just before or just after its deliveries.) Phase 0 alone, as in the simulator, is given
    too. Of a camera that is on in bursts only the cycles in them count, from two periods after
    their begin.

    :param notes: ``results`` and ``statuses`` of the consumer.
    :param log: stamp of each frame, and more.
    """
    results = sorted(notes['results'], key=lambda result: result[1])
    ages = [received - captured for captured, received in results
            if span.start_ns <= captured < span.end_ns]
    frames = sum(span.start_ns <= stamp < span.end_ns for stamp, *_ in log)
    ends = Counter(status[1] for status in notes['statuses']
                   if span.start_ns <= status[0] < span.end_ns)
    # Not all of DDS is reliable: a frame that comes while one waits to be taken replaces it.
    ends['lost'] = max(0, frames - sum(ends.values()))
    judged: dict[str, Any] = {
        'class': need.criticality, 'is_guarded': need.is_guarded,
        'frames': frames, 'results': len(ages),
        'results_per_s': round(len(ages) / span.seconds, 2),
        'age_p50_ms': _ms_quantile(ages, 50), 'age_p95_ms': _ms_quantile(ages, 95),
        'age_p99_ms': _ms_quantile(ages, 99), 'ends': dict(+ends),
        'uncovered_permille': None, 'cycles': 0, 'longest_gap_ms': None,
        'uncovered_at_phase_0_permille': None, 'stale_time_permille': None}
    period_ns, max_age_ns, windows = need.period_ns, need.max_age_ns, need.windows
    if period_ns is None or max_age_ns is None:
        return judged
    first_ns = span.zero_ns + -(-(span.start_ns - span.zero_ns) // period_ns) * period_ns

    def counts(instant_ns: int) -> bool:
        since_ns = instant_ns - span.zero_ns
        return not windows or any(begin + 2 * period_ns <= since_ns <= end
                                  for begin, end in windows)

    phases = [covered_cycles(results, start_ns=first_ns + phase * period_ns // PHASES,
                             end_ns=span.end_ns, period_ns=period_ns, max_age_ns=max_age_ns,
                             counts=counts) for phase in range(PHASES)]
    judged.update(cycles=sum(cycles for _, cycles in phases),
                  uncovered_permille=_uncovered_permille(phases),
                  uncovered_at_phase_0_permille=_uncovered_permille(phases[:1]))
    if not windows:
        length_ns = span.end_ns - span.start_ns
        fresh = fresh_ns(results, start_ns=span.start_ns, end_ns=span.end_ns,
                         max_age_ns=max_age_ns)
        gap_ns = longest_gap_ns(
            [(received - span.start_ns, captured - span.start_ns)
             for captured, received in results],
            period_ns=period_ns, max_age_ns=max_age_ns, duration_ns=length_ns)
        judged.update(stale_time_permille=round(1000 * (1 - fresh / length_ns), 2),
                      longest_gap_ms=round(gap_ns / NS_PER_MS, 1))
    return judged


def status_of(streams: Mapping[str, Mapping[str, Any]], share: Share,
              logs: Sequence[Sequence[Sequence[int]]], planned: int) -> tuple[str, list[str]]:
    """
    Say whether a cell counts: ``valid``, ``disturbed``, ``incomplete`` or ``broken``, and why.

    Only what others did disturbs a cell. Where the arm itself left the cameras too little of the
    processor, so that they were late, that is said of the cell and is a property of the arm.

    :param logs: stamp and lateness of the frames of every stream.
    :param planned: frames that should have been published.
    """
    faults = sum(stream['ends'].get(fault, 0) for stream in streams.values()
                 for fault in _FAULTS)
    if faults:
        return 'broken', [f'{faults} requests failed at the server']
    if not any(stream['results'] for stream in streams.values()):
        return 'broken', ['no result at all']
    published = sum(map(len, logs))
    if published < COMPLETE_SHARE * planned:
        return 'incomplete', [f'{published} of {planned} frames were published']
    status = 'disturbed' if share.disturbances else 'valid'
    late = [late_ns for log in logs for _, late_ns in log]
    late_ms = quantile(late, 99) / NS_PER_MS
    remarks = ([f'the cameras were late by {late_ms:.1f} ms (p99)']
               if late_ms > CAMERA_LATE_MS else [])
    return status, [*share.disturbances, *remarks]


def background_permille(streams: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Give the share of the frames of unguarded streams that became results."""
    unguarded = [stream for stream in streams.values() if not stream['is_guarded']]
    frames = sum(stream['frames'] for stream in unguarded)
    return (round(1000 * sum(stream['results'] for stream in unguarded) / frames, 1)
            if frames else None)


def _uncovered_permille(phases: Sequence[tuple[int, int]]) -> float:
    cycles = sum(each for _, each in phases)
    covered = sum(each for each, _ in phases)
    return round(1000 * (cycles - covered) / cycles, 2) if cycles else 0.0


def _ms_quantile(ages_ns: Sequence[int], percent: int) -> float | None:
    return round(quantile(ages_ns, percent) / NS_PER_MS, 2) if ages_ns else None


def node_figures(diagnostics: Sequence[Mapping[str, Any]], span: Span) -> dict[str, Any]:
    """
    Take from the governor's diagnostics what it measured of itself.

    :returns: its times in µs since activation, and the share of the judged span in which it left
        the accelerator idle on purpose; empty without a governor.
    """
    inside = [entry for entry in diagnostics
              if span.start_ns <= entry['received'] <= span.end_ns]
    if len(inside) < 2:
        return {}
    first, last = inside[0], inside[-1]
    idle_ms = float(last['deliberate_idle_ms']) - float(first['deliberate_idle_ms'])
    return {**{key: float(value) for key, value in last.items() if key.endswith('_us')},
            'deliberate_idle_percent': round(
                100 * idle_ms * NS_PER_MS / (last['received'] - first['received']), 2)}
