"""
Counters, ages and idle time: what the governor can say about itself.

Rule: for every stream, accepted = sum of terminal counters + waiting + running. A request whose
client gave up has its terminal reason and no longer counts as running.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappush, heapreplace
from typing import Any

from vig_core.background import Background
from vig_core.contract import Criticality
from vig_core.coverage import CycleMonitor
from vig_core.estimate import RuntimeBook
from vig_core.events import CyclesInherited
from vig_core.forecast import ArrivalForecast, NEVER_ALIVE_NS
from vig_core.model import Model, System
from vig_core.overload import OverloadController
from vig_core.request import Reason, Request
from vig_core.slots import SlotTable
from vig_core.snapshot import StreamSnapshot, SystemSnapshot
from vig_core.units import quantile_ns
from vig_core.variants import VariantSelector

MOST_AGES = 1000
"""A snapshot sorts them, on the thread that decides."""


@dataclass(slots=True, eq=False)
class StreamLedger:
    """
    What is counted for one stream.

    :ivar forecast: that of its guard, which streams of one ``latest`` model share.
    :ivar alive_until_ns: as its own last arrival has it; cycles of a stopped stream are no
        evidence of overload.
    """

    stream: str
    model: Model
    monitor: CycleMonitor | None
    background: Background | None = None
    forecast: ArrivalForecast | None = None
    alive_until_ns: int = NEVER_ALIVE_NS
    is_guarded: bool = False
    received: int = 0
    waiting: int = 0
    running: int = 0
    deadline_misses: int = 0
    deferred: int = 0
    awaited: int = 0
    tokens: int = 0
    quanta: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0
    fixed_ns: int = 0
    counts: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))
    ages_ns: deque[int] = field(default_factory=deque)
    last_capture_ns: int | None = None

    def __post_init__(self) -> None:
        """Look back as far as the contract says."""
        self.ages_ns = deque(maxlen=min(self.model.contract.observation_window, MOST_AGES))

    def deliver(self, captured_at_ns: int, now_ns: int) -> None:
        """Book a result that reached its consumer in time."""
        self.ages_ns.append(now_ns - captured_at_ns)
        self.last_capture_ns = max(captured_at_ns, self.last_capture_ns or captured_at_ns)
        if self.monitor is not None:
            self.monitor.deliver(captured_at_ns, now_ns)

    def note_waiting(self, more: int, now_ns: int, *, has_started: bool = False) -> None:
        """Book that one more or one less waits."""
        self.waiting += more
        if self.background is not None:
            self.background.wait(self.waiting, now_ns, has_started=has_started)


class IdleMeter:
    """Slot time that was left idle on purpose."""

    def __init__(self) -> None:
        """Start at zero, not idle."""
        self.total_ns = 0
        self._slots = 0
        self._since_ns = 0

    def set(self, slots: int, now_ns: int) -> None:
        """From now on this many slots idle deliberately."""
        if not slots and not self._slots:
            return
        self.total_ns += self._slots * (now_ns - self._since_ns)
        self._slots = slots
        self._since_ns = now_ns

    def total_at_ns(self, now_ns: int) -> int:
        """Sum up to an instant."""
        return self.total_ns + self._slots * (now_ns - self._since_ns)


_BAD_FOR_A_GUARDED_STREAM = frozenset({Reason.STALE, Reason.OBSOLETE, Reason.INFEASIBLE})


class Ledger:
    """All counters of one scheduler; the evidence for the overload controller comes from here."""

    def __init__(self, system: System, overload: OverloadController, origin_ns: int) -> None:
        """Open an account for every stream that the system names."""
        self._system = system
        self._overload = overload
        self._streams: dict[str, StreamLedger] = {}
        self._cycles: list[tuple[int, int, StreamLedger]] = []
        self.idle = IdleMeter()
        self.stale_compute_ns = 0
        self.late_answers = 0
        for stream, model in system.streams.items():
            self.open(stream, system.models[model], origin_ns)

    def __iter__(self) -> Iterator[StreamLedger]:
        """Go through all streams in the order in which they became known."""
        return iter(self._streams.values())

    def open(self, stream: str, model: Model, now_ns: int) -> StreamLedger:
        """Find the account of a stream, or begin one now."""
        account = self._streams.get(stream)
        if account is None:
            monitor = (None if model.contract.cycle_ns is None
                       else CycleMonitor(model.contract, now_ns))
            background = (Background(model.contract, self._system.background_percent(model))
                          if model.criticality is Criticality.BEST_EFFORT else None)
            account = self._streams[stream] = StreamLedger(
                stream, model, monitor, background, is_guarded=model.is_guarded)
            if monitor is not None:
                heappush(self._cycles, (monitor.next_cycle_ns, len(self._streams), account))
        return account

    def expect_nothing(self) -> None:
        """Take every stream as stopped until its next arrival."""
        for account in self:
            account.alive_until_ns = NEVER_ALIVE_NS

    def find(self, stream: str) -> StreamLedger | None:
        """Find the account of a stream by its name; ``None`` for an unknown stream."""
        return self._streams.get(stream)

    def of(self, request: Request) -> StreamLedger:
        """Find the account of a request's stream."""
        return self._streams[request.stream]

    def is_next_miss_fatal(self, request: Request) -> bool:
        """Whether one more miss in a row would break the miss budget of this stream."""
        monitor = self.of(request).monitor
        return monitor is not None and monitor.window.is_next_miss_fatal

    def inherit(self, event: CyclesInherited, now_ns: int) -> None:
        """Let the window of a stream go on where that of an earlier scheduler ended."""
        monitor = self._streams[event.stream].monitor
        assert monitor is not None
        monitor.inherit(event, now_ns)
        self._cycles = [(monitor.next_cycle_ns if account.monitor is monitor else at_ns, number,
                         account) for at_ns, number, account in self._cycles]
        heapify(self._cycles)

    def bequeath(self, now_ns: int) -> tuple[CyclesInherited, ...]:
        """Give the windows of all miss budgets for a scheduler that goes on."""
        return tuple(
            account.monitor.seen_at(now_ns).bequeath(account.stream,
                                                     account.model.contract.contract_version)
            for account in self if account.monitor is not None
            and account.monitor.window.budget is not None)

    def settle(self, now_ns: int) -> None:
        """Judge every consumer cycle that lies before an instant; each counts from its own on."""
        cycles = self._cycles
        while cycles and cycles[0][0] < now_ns:
            cycle_ns, number, account = cycles[0]
            monitor = account.monitor
            assert monitor is not None
            if account.is_guarded and cycle_ns <= account.alive_until_ns:
                good, bad = monitor.judge_before(cycle_ns + 1)
                self._overload.note(cycle_ns, good=good, bad=bad, bad_cycles=bad)
            else:
                monitor.judge_before(now_ns)
            heapreplace(cycles, (monitor.next_cycle_ns, number, account))

    def book_end(self, request: Request, reason: Reason, now_ns: int) -> bool:
        """
        Book the terminal reason of a request.

        :returns: whether its deadline was met, which only a delivered result can.
        """
        account = self.of(request)
        account.counts[reason] += 1
        is_met = reason is Reason.COMPLETED and now_ns <= request.deadline_at_ns
        if reason is Reason.COMPLETED:
            account.deliver(request.generation_ns, now_ns)
            account.deadline_misses += 0 if is_met else 1
        elif account.monitor is not None:
            account.monitor.lose()
        if account.background is not None:
            account.background.end(reason is Reason.COMPLETED)
        if account.is_guarded:
            is_bad = reason in _BAD_FOR_A_GUARDED_STREAM or (
                reason is Reason.COMPLETED and not is_met)
            self._overload.note(now_ns, good=int(is_met), bad=int(is_bad))
        return is_met

    def snapshot(self, now_ns: int, slots: SlotTable, selectors: Mapping[str, VariantSelector],
                 runtimes: RuntimeBook) -> SystemSnapshot:
        """Describe everything at an instant; changes nothing."""
        return SystemSnapshot(
            slots_total=slots.total, slots_busy=slots.busy, slots_quarantined=slots.quarantined,
            is_ready=not slots.is_fully_quarantined, overload=self._overload.state,
            deliberate_idle_ns=self.idle.total_at_ns(now_ns),
            deferred_for_protected=sum(account.deferred for account in self),
            stale_compute_ns=self.stale_compute_ns, late_answers=self.late_answers,
            streams=tuple(_describe(account, now_ns, selectors[account.model.name], runtimes)
                          for account in self))


def _describe(account: StreamLedger, now_ns: int, selector: VariantSelector,
              runtimes: RuntimeBook) -> StreamSnapshot:
    variant = selector.current
    ages_ns = sorted(account.ages_ns)
    contract = account.model.contract
    return StreamSnapshot(
        stream=account.stream, model=account.model.name,
        criticality=account.model.criticality, received=account.received,
        waiting=account.waiting, running=account.running, counts=dict(account.counts),
        age_p50_ns=quantile_ns(ages_ns, 50), age_p95_ns=quantile_ns(ages_ns, 95),
        age_p99_ns=quantile_ns(ages_ns, 99),
        last_result_age_ns=(None if account.last_capture_ns is None
                            else now_ns - account.last_capture_ns),
        deadline_misses=account.deadline_misses, deferred=account.deferred,
        awaited=account.awaited,
        variant_id=variant.variant_id if variant else None,
        planned_ns=runtimes.plan_ns(variant) if variant else None,
        margin_percent=runtimes.margin_percent(variant) if variant else 0,
        profile_remark=runtimes.remark(variant) if variant else '',
        contract_version=contract.contract_version,
        tokens=account.tokens, quanta=account.quanta, prefill_ns=account.prefill_ns,
        decode_ns=account.decode_ns, fixed_ns=account.fixed_ns,
        **_of_cycles(account.monitor, now_ns), **_of_background(account.background, now_ns))


def _of_cycles(monitor: CycleMonitor | None, now_ns: int) -> dict[str, Any]:
    if monitor is None:
        return {}
    seen = monitor.seen_at(now_ns)
    window = seen.window
    return {'covered_cycles': seen.covered, 'judged_cycles': seen.judged,
            'longest_gap_ns': seen.longest_gap_ns(now_ns),
            'weakly_hard_window': window.budget.window_cycles if window.budget else 0,
            'weakly_hard_observed': window.is_observed, 'weakly_hard_misses': window.misses,
            'weakly_hard_consecutive': window.consecutive, 'weakly_hard_left': window.left,
            'weakly_hard_violated': window.is_violated}


def _of_background(background: Background | None, now_ns: int) -> dict[str, Any]:
    if background is None:
        return {}
    return {'background_ended': background.ended, 'background_completed': background.completed,
            'background_required_percent': background.required_percent,
            'is_background_short': background.is_short, 'starved': background.starved(now_ns)}
