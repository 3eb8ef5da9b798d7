"""
What happened in a recorded run, as spans and marks: what pictures and reports are drawn from.

Derived by playing the trace through the core again, so it holds for any trace that replays.
Instants are nanoseconds since the scheduler's origin. Knows nothing of ROS.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vig_core.actions import Action, Defer, Dispatch, ReleaseInput, ReportOverload, Terminate
from vig_core.coverage import CycleMonitor
from vig_core.errors import RefusedEvent
from vig_core.events import CyclesInherited, Event, QuantumCompleted, RequestArrived
from vig_core.model import Model
from vig_core.request import Reason
from vig_core.snapshot import StreamSnapshot

from vig_governor.config.resolve_generative import JOB_STREAM
from vig_governor.recorded import Recorded


@dataclass(slots=True)
class Run:
    """
    One execution of a request.

    :ivar lane: the execution slot that it took, counted from 0.
    :ivar end_ns: when the slot was free again; ``None`` while it was not.
    :ivar tokens: of a quantum of a generative job: written by it, or asked for while it ran.
    """

    lane: int
    begin_ns: int
    end_ns: int | None = None
    tokens: int = 0


@dataclass(slots=True)
class Frame:
    """
    One request.

    :ivar runs: its executions in order: none, one, or one for each quantum of a generative job.
    :ivar ended_ns: ``None`` while it was still open when the trace ended; so for ``reason``.
    :ivar planned_ns: of the last execution; so for ``variant``.
    """

    request_id: int
    stream: str
    captured_ns: int
    arrived_ns: int
    runs: list[Run] = field(default_factory=list)
    variant: str = ''
    planned_ns: int = 0
    ended_ns: int | None = None
    reason: Reason | None = None
    detail: str = ''
    age_ns: int = 0
    is_deadline_met: bool = False

    @property
    def dispatched_ns(self) -> int | None:
        """When it ran first; ``None`` for one that never did."""
        return self.runs[0].begin_ns if self.runs else None

    @property
    def freed_ns(self) -> int | None:
        """When its last slot was free again; later than ``ended_ns`` for a lost answer."""
        return self.runs[-1].end_ns if self.runs else None


@dataclass(slots=True)
class Hold:
    """A request held back while a slot was free, for an expected arrival of a stream."""

    request_id: int
    beneficiary: str
    begin_ns: int
    end_ns: int
    detail: str
    lanes: tuple[int, ...] = ()


@dataclass(slots=True)
class Cycle:
    """
    One instant at which a consumer looked.

    :ivar misses: in the window of the miss budget that ends here; 0 without a budget.
    :ivar consecutive: misses in a row up to here.
    """

    at_ns: int
    is_covered: bool
    misses: int = 0
    consecutive: int = 0
    is_violated: bool = False


@dataclass(slots=True)
class Totals:
    """
    What the scheduler counted of a stream while the trace was recorded.

    :ivar starved: windows of waiting work of class best effort without a start.
    :ivar required_percent: share of best-effort requests that contracts ask for; 0 for none.
    :ivar prefill_ns: time that went into reading prompts, beside writing and the fixed costs.
    """

    starved: int = 0
    required_percent: int = 0
    tokens: int = 0
    quanta: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0
    fixed_ns: int = 0

    @classmethod
    def between(cls, first: StreamSnapshot | None, last: StreamSnapshot) -> 'Totals':
        """Count from one snapshot of a stream to another."""
        counted = ('starved', 'tokens', 'quanta', 'prefill_ns', 'decode_ns', 'fixed_ns')
        return cls(required_percent=last.background_required_percent, **{
            name: getattr(last, name) - (getattr(first, name) if first is not None else 0)
            for name in counted})

    def plus(self, other: 'Totals') -> 'Totals':
        """Add what was counted in the next file of the same run."""
        return Totals(self.starved + other.starved, other.required_percent,
                      self.tokens + other.tokens, self.quanta + other.quanta,
                      self.prefill_ns + other.prefill_ns, self.decode_ns + other.decode_ns,
                      self.fixed_ns + other.fixed_ns)


@dataclass
class History:
    """
    One run.

    :ivar streams: model of each stream; the most important class first. Those of ``~/generate``
        are left out where nobody called it.
    :ivar lanes: how many executions were in flight at most, at least the slots.
    :ivar cycles: of each stream with a consumer period, in order.
    :ivar deliberate_idle_ns: slot time that the core left idle on purpose.
    :ivar totals: of each stream.
    :ivar overload: instants and names of the states; the first is that of the begin.
    """

    begin_ns: int
    end_ns: int
    slots: int
    streams: dict[str, Model]
    frames: list[Frame] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    cycles: dict[str, list[Cycle]] = field(default_factory=dict)
    overload: list[tuple[int, str]] = field(default_factory=list)
    lanes: int = 0
    deliberate_idle_ns: int = 0
    totals: dict[str, Totals] = field(default_factory=dict)


def history_of(recorded: Recorded) -> History:
    """
    Play a trace and note what happens.

    :raises TraceError: its state at the begin cannot be read by this version.
    """
    return _Watch(recorded).run()


class _Watch:
    def __init__(self, recorded: Recorded) -> None:
        system = recorded.system
        self._recorded = recorded
        self._origin_ns = recorded.origin_ns
        last_ns = recorded.events[-1][0] if recorded.events else recorded.begin_ns
        self._history = History(
            self._at(recorded.begin_ns), self._at(last_ns), system.slots,
            {stream: system.models[model] for stream, model in sorted(
                system.streams.items(), key=lambda one: system.models[one[1]].criticality)},
            overload=[(self._at(recorded.begin_ns), 'normal')], lanes=system.slots)
        self._open: dict[int, Frame] = {}
        self._busy: dict[int, Frame] = {}
        self._holds: dict[int, Hold] = {}
        self._monitors: dict[str, CycleMonitor] = {}
        for stream, model in self._history.streams.items():
            begin_ns = self._history.begin_ns
            if recorded.state is not None:
                # What was delivered before is unknown, and covers no cycle from here on.
                begin_ns += model.contract.max_age_ns or 0
            self._watch(stream, model, origin_ns=0, begin_ns=begin_ns)

    def run(self) -> History:
        """Feed every event and close what is open at the end."""
        scheduler = self._recorded.scheduler()
        history = self._history
        before = scheduler.snapshot(now_ns=self._recorded.begin_ns)
        for at_ns, event, _ in self._recorded.events:
            try:
                actions: Sequence[Action] = scheduler.handle(event, now_ns=at_ns)
            except RefusedEvent:
                continue
            now_ns = self._at(at_ns)
            self._take_event(event, now_ns)
            for action in actions:
                self._take_action(action, now_ns)
        for hold in self._holds.values():
            hold.end_ns = history.end_ns
        after = scheduler.snapshot(now_ns=history.end_ns + self._origin_ns)
        history.deliberate_idle_ns = after.deliberate_idle_ns - before.deliberate_idle_ns
        first = {stream.stream: stream for stream in before.streams}
        history.totals = {stream.stream: Totals.between(first.get(stream.stream), stream)
                          for stream in after.streams}
        used = {frame.stream for frame in history.frames}
        history.streams = {stream: model for stream, model in history.streams.items()
                           if stream in used or not stream.startswith(JOB_STREAM)}
        self._judge(history.end_ns + 1)
        history.holds = [hold for hold in history.holds if hold.end_ns > hold.begin_ns]
        return history

    def _at(self, instant_ns: int) -> int:
        return instant_ns - self._origin_ns

    def _take_event(self, event: Event, now_ns: int) -> None:
        self._judge(now_ns)
        if isinstance(event, CyclesInherited):
            self._monitors[event.stream].inherit(replace(
                event, next_cycle_ns=self._at(event.next_cycle_ns),
                newest_capture_ns=None if event.newest_capture_ns is None
                else self._at(event.newest_capture_ns)), now_ns)
        if isinstance(event, QuantumCompleted):
            self._end_quantum(event, now_ns)
        if not isinstance(event, RequestArrived):
            return
        history = self._history
        model = self._recorded.system.models[event.model]
        history.streams.setdefault(event.stream, model)
        frame = Frame(event.request_id, event.stream, self._at(event.generation_ns), now_ns)
        history.frames.append(frame)
        self._open[event.request_id] = frame
        if event.stream not in self._monitors:
            self._watch(event.stream, model, origin_ns=now_ns, begin_ns=now_ns)

    def _watch(self, stream: str, model: Model, *, origin_ns: int, begin_ns: int) -> None:
        if model.contract.cycle_ns is not None:
            monitor = self._monitors[stream] = CycleMonitor(model.contract, origin_ns)
            monitor.judge_before(begin_ns)
            self._history.cycles[stream] = []

    def _take_action(self, action: Action, now_ns: int) -> None:
        if isinstance(action, ReportOverload):
            self._history.overload.append((now_ns, action.after.value))
            return
        frame = self._open.get(action.request_id)
        if isinstance(action, ReleaseInput):
            self._free(action.request_id, now_ns)
        elif frame is None:
            return
        elif isinstance(action, Dispatch):
            self._end_hold(action.request_id, now_ns)
            frame.variant, frame.planned_ns = action.variant_id, action.planned_ns
            lane = next(lane for lane in range(len(self._busy) + 1) if lane not in self._busy)
            frame.runs.append(Run(lane, now_ns, tokens=action.tokens))
            self._busy[lane] = frame
            self._history.lanes = max(self._history.lanes, lane + 1)
        elif isinstance(action, Defer):
            self._end_hold(action.request_id, now_ns)
            idle = tuple(lane for lane in range(self._history.slots) if lane not in self._busy)
            hold = Hold(action.request_id, action.beneficiary, now_ns, now_ns, action.detail, idle)
            self._holds[action.request_id] = hold
            self._history.holds.append(hold)
        elif isinstance(action, Terminate):
            self._terminate(frame, action, now_ns)

    def _terminate(self, frame: Frame, action: Terminate, now_ns: int) -> None:
        self._end_hold(action.request_id, now_ns)
        frame.ended_ns, frame.reason, frame.detail = now_ns, action.reason, action.detail
        frame.age_ns, frame.is_deadline_met = action.age_ns, action.is_deadline_met
        monitor = self._monitors.get(frame.stream)
        if monitor is not None and action.reason is Reason.COMPLETED:
            monitor.deliver(frame.captured_ns, now_ns)
        elif monitor is not None:
            monitor.lose()
        if not action.holds_input:
            del self._open[action.request_id]
            self._free(action.request_id, now_ns)

    def _end_quantum(self, event: QuantumCompleted, now_ns: int) -> None:
        """Free the slot of a job that goes on, or ends in a moment."""
        frame = self._open.get(event.request_id)
        if frame is not None and frame.runs and frame.runs[-1].end_ns is None:
            frame.runs[-1].tokens = event.tokens
            self._end_run(frame, now_ns)

    def _free(self, request_id: int, now_ns: int) -> None:
        self._open.pop(request_id, None)
        for frame in self._busy.values():
            if frame.request_id == request_id:
                self._end_run(frame, now_ns)
                return

    def _end_run(self, frame: Frame, now_ns: int) -> None:
        frame.runs[-1].end_ns = now_ns
        del self._busy[frame.runs[-1].lane]

    def _end_hold(self, request_id: int, now_ns: int) -> None:
        hold = self._holds.pop(request_id, None)
        if hold is not None:
            hold.end_ns = now_ns

    def _judge(self, now_ns: int) -> None:
        for stream, monitor in self._monitors.items():
            while monitor.next_cycle_ns < now_ns:
                at_ns = monitor.next_cycle_ns
                covered, _ = monitor.judge_before(at_ns + 1)
                self._history.cycles[stream].append(Cycle(
                    at_ns, bool(covered), monitor.window.misses,
                    monitor.window.consecutive, monitor.window.is_violated))
