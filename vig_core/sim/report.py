"""
What a simulated run was worth, for every stream.

Two ways to count a stream with a period T and a maximum age A, both in permille:

- ``instant``: at each cycle k, k = 1 .. floor(duration / T), what a consumer sees, judged by the
  monitor that judges a live run (``vig_core.coverage``).
- ``window``: was at least one result that was at most A old delivered in [k * T, (k + 1) * T)? It
  punishes a result that lands just after a window's edge. For comparison with published figures.

Of a stream that is on in bursts only what lies in them counts, from one period after their begin.
The longest gap is the monitor's too; a stream that is off by itself has none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vig_core.contract import Contract, Criticality
from vig_core.coverage import supply_of
from vig_core.model import System
from vig_core.request import Reason
from vig_core.sim.engine import Delivery, Run, SimStream
from vig_core.sim.workload import Periodic
from vig_core.units import quantile_ns

Bursts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class StreamReport:
    """
    One stream.

    :ivar instant_permille: uncovered cycles; ``None`` where the contract defines none.
    :ivar window_permille: uncovered windows.
    :ivar missed_permille: releases without a result by their deadline, those that a client gave
        up included.
    :ivar releases: captures, those that a client gave up included.
    :ivar results: delivered and at most ``max_age`` old.
    :ivar drops: other ends by reason; ``given_up`` for what a client never asked for.
    """

    stream: str
    model: str
    criticality: Criticality
    is_guarded: bool
    instant_permille: float | None
    window_permille: float | None
    longest_gap_ns: int | None
    missed_permille: float
    age_p50_ns: int | None
    age_p95_ns: int | None
    age_p99_ns: int | None
    releases: int
    results: int
    drops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Report:
    """
    One run.

    :ivar background_permille: share of the releases of streams that are not guarded which
        became results; ``None`` where there are no such streams.
    :ivar stale_compute_permille: share of the compute whose result was obsolete.
    :ivar deliberate_idle_permille: share of the slot time that was left idle on purpose.
    """

    streams: tuple[StreamReport, ...]
    results: int
    background_permille: float | None
    stale_compute_permille: float
    deliberate_idle_permille: float
    digest: str

    @property
    def worst_instant_permille(self) -> float | None:
        """Uncovered cycles of the guarded stream that is worst off."""
        return _worst(one.instant_permille for one in self.streams if one.is_guarded)

    @property
    def worst_window_permille(self) -> float | None:
        """Uncovered windows of the guarded stream that is worst off."""
        return _worst(one.window_permille for one in self.streams if one.is_guarded)

    @property
    def guarded_missed_permille(self) -> float:
        """Releases of all guarded streams together that missed their deadline."""
        guarded = [one for one in self.streams if one.criticality.is_guardable]
        return _permille(sum(one.missed_permille * one.releases / 1000 for one in guarded),
                         sum(one.releases for one in guarded))


def judge(run: Run, system: System, streams: Iterable[SimStream], *,
          deliberate_idle_ns: int = 0) -> Report:
    """
    Judge a run.

    :param deliberate_idle_ns: slot time that the policy says it left idle on purpose.
    """
    ends: dict[str, list[Delivery]] = {stream.name: [] for stream in streams}
    for end in run.ends:
        ends[end.stream].append(end)
    reports = tuple(_judge_stream(stream, ends[stream.name], run, system) for stream in streams)
    compute_ns = sum(end.backend_ns for end in run.ends)
    stale_ns = sum(end.backend_ns for end in run.ends if end.reason is Reason.OBSOLETE)
    background = [one for one in reports if not one.is_guarded]
    return Report(
        streams=reports, results=sum(one.results for one in reports),
        background_permille=(_permille(sum(one.results for one in background),
                                       sum(one.releases for one in background))
                             if background else None),
        stale_compute_permille=_permille(stale_ns, compute_ns),
        deliberate_idle_permille=_permille(deliberate_idle_ns, system.slots * run.duration_ns),
        digest=run.digest)


def cycles_of(period_ns: int, duration_ns: int, bursts: Bursts = ()) -> list[int]:
    """List the k that count, from 1 on; window k - 1 ends where cycle k is judged."""
    return [k for k in range(1, duration_ns // period_ns + 1)
            if not bursts or any(begin + period_ns <= (k - 1) * period_ns and k * period_ns <= end
                                 for begin, end in bursts)]


def uncovered_instants(results: Iterable[tuple[int, int]], *, period_ns: int, max_age_ns: int,
                       duration_ns: int) -> int:
    """
    Count the cycles at which the newest delivered result is too old, or there is none.

    :param results: ``(delivery, capture)`` in ns.
    """
    supply = supply_of(_plain(period_ns, max_age_ns), sorted(results), origin_ns=0,
                       until_ns=duration_ns)
    return supply.cycles - supply.covered


def uncovered_windows(results: Iterable[tuple[int, int]], *, period_ns: int, max_age_ns: int,
                      duration_ns: int, bursts: Bursts = ()) -> int:
    """Count the windows in which no result of at most ``max_age`` was delivered."""
    hit = {delivered_ns // period_ns for delivered_ns, captured_ns in results
           if delivered_ns - captured_ns <= max_age_ns}
    return sum(cycle - 1 not in hit for cycle in cycles_of(period_ns, duration_ns, bursts))


def longest_gap_ns(results: Iterable[tuple[int, int]], *, period_ns: int, max_age_ns: int,
                   duration_ns: int) -> int:
    """Measure the longest stretch without a fresh result, from the first cycle to the end."""
    return supply_of(_plain(period_ns, max_age_ns), sorted(results), origin_ns=0,
                     until_ns=duration_ns).longest_gap_ns


def _plain(period_ns: int, max_age_ns: int) -> Contract:
    return Contract(deadline_ns=max_age_ns, max_age_ns=max_age_ns, period_ns=period_ns)


def _judge_stream(stream: SimStream, ends: list[Delivery], run: Run,
                  system: System) -> StreamReport:
    model = system.models[stream.model]
    contract = model.contract
    done = [end for end in ends if end.reason is Reason.COMPLETED]
    ages_ns = sorted(end.ended_at_ns - end.captured_at_ns for end in done)
    drops = {reason.value: sum(end.reason is reason for end in ends)
             for reason in Reason if reason is not Reason.COMPLETED}
    drops['given_up'] = run.given_up.get(stream.name, 0)
    releases = len(ends) + drops['given_up']
    met = sum(age_ns <= contract.deadline_ns for age_ns in ages_ns)
    instant, window, gap_ns = _supply(ends, stream, contract, run.duration_ns)
    return StreamReport(
        stream=stream.name, model=model.name, criticality=model.criticality,
        is_guarded=model.is_guarded, instant_permille=instant, window_permille=window,
        longest_gap_ns=gap_ns, missed_permille=_permille(releases - met, releases),
        age_p50_ns=quantile_ns(ages_ns, 50), age_p95_ns=quantile_ns(ages_ns, 95),
        age_p99_ns=quantile_ns(ages_ns, 99), releases=releases, results=len(done),
        drops={reason: count for reason, count in drops.items() if count})


def _supply(ends: list[Delivery], stream: SimStream, contract: Contract,
            duration_ns: int) -> tuple[float | None, float | None, int | None]:
    """Count both ways and measure the gap, where the contract says what fresh means."""
    period_ns, max_age_ns = contract.cycle_ns, contract.max_age_ns
    if period_ns is None or max_age_ns is None:
        return None, None, None
    bursts = stream.arrivals.windows if isinstance(stream.arrivals, Periodic) else ()
    numbers = cycles_of(period_ns, duration_ns, bursts)
    instants = frozenset(contract.phase_ns + number * period_ns for number in numbers)
    supply = supply_of(
        contract, ((end.ended_at_ns, end.captured_at_ns if end.reason is Reason.COMPLETED
                    else None) for end in ends), origin_ns=0, until_ns=duration_ns,
        counts=instants.__contains__ if bursts else None)
    windows = uncovered_windows(
        [(end.ended_at_ns, end.captured_at_ns) for end in ends if end.reason is Reason.COMPLETED],
        period_ns=period_ns, max_age_ns=max_age_ns, duration_ns=duration_ns, bursts=bursts)
    return (_permille(supply.cycles - supply.covered, supply.cycles),
            _permille(windows, len(numbers)), None if bursts else supply.longest_gap_ns)


def _permille(part: float, whole: float) -> float:
    return 1000 * part / whole if whole else 0.0


def _worst(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
