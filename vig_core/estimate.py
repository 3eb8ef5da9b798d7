"""
What a run will take: the profile, unless reality is slower.

Rules:

- Plan = max(profile p99, observed p95) x margin; observation never makes it more optimistic.
- A sliding window of runs for each variant, of the last seconds only: a variant that is planned
  too slow to start would never run again to prove that it is fast. Failures and timeouts never
  enter it.
- A run beside a model whose interference is measured does not train: that time is planned
  separately and would count twice. A measured 0 is no such time.
- The first run of all (lazy initialisation) and the first after a long pause (cold clocks and
  caches) enter no window and move no margin. What runs after pauses took is planned when the
  next run comes after one, the median of the last few, and forgotten after a minute.
- The margin learns only while the window names a quantile: before, overruns tell of the profile.
- Of a generative model the whole run of the cost model is planned; what a quantum took counts in
  proportion, so that windows, margins and verdicts do not mind how long the quanta are.
- A profile whose median reality exceeds twofold is wrong. That is said, and no margin covers it.
- How long a run keeps its slot from the next is another quantity (adr/0022). Where a request was
  at the server before the one ahead of it was answered, the distance of the two answers is that
  of the second. Planned is p95 of these, without a margin, while there are enough to name one.
"""

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass

from vig_core.margin import MarginController, target_permille
from vig_core.model import Model, System, Variant
from vig_core.units import NS_PER_S, text_ms

WINDOW_RUNS = 64
HORIZON_NS = 5 * NS_PER_S
MIN_RUNS = 20
"""Fewer runs name no 95 % quantile: it would be the longest run."""

LONG_PAUSE_NS = 2 * NS_PER_S
COLD_RUNS = 4
COLD_HORIZON_NS = 60 * NS_PER_S
WRONG_FACTOR = 2
OCCUPANCY_HORIZON_NS = 30 * NS_PER_S
"""Longer than that of runtimes: what is forgotten here is planned longer, not shorter."""

_NEVER = 1 << 62


class RuntimeWindow:
    """The last runtimes of one variant, in nanoseconds, and when each of them ended."""

    __slots__ = ('_runs', '_sorted')

    def __init__(self) -> None:
        """Start empty."""
        self._runs: deque[tuple[int, int]] = deque()
        self._sorted: list[int] = []

    def __len__(self) -> int:
        """Count the runs in the window."""
        return len(self._runs)

    def add(self, runtime_ns: int, ended_at_ns: int) -> None:
        """Take in one run and forget the oldest beyond the window."""
        if len(self._runs) == WINDOW_RUNS:
            self._forget_oldest()
        self._runs.append((ended_at_ns, runtime_ns))
        insort(self._sorted, runtime_ns)

    def forget_before(self, instant_ns: int) -> bool:
        """Forget runs that ended earlier; says whether there were any."""
        is_any = False
        while self._runs and self._runs[0][0] < instant_ns:
            self._forget_oldest()
            is_any = True
        return is_any

    def scarce_from_ns(self, now_ns: int) -> int:
        """Say from when on there are too few runs to learn from, if no more come."""
        if len(self._runs) < MIN_RUNS:
            return now_ns
        return max(now_ns, self._runs[-MIN_RUNS][0] + HORIZON_NS)

    def _forget_oldest(self) -> None:
        del self._sorted[bisect_left(self._sorted, self._runs.popleft()[1])]

    def quantile_ns(self, percent: int) -> int | None:
        """Nearest-rank quantile, or ``None`` before there are enough runs to name one."""
        count = len(self._sorted)
        if count < MIN_RUNS:
            return None
        return self._sorted[-(-count * percent // 100) - 1]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """
    How long a run keeps its slot when it begins as soon as the slot is free.

    :ivar planned_ns: conservatively.
    :ivar median_ns: as often as not.
    """

    planned_ns: int
    median_ns: int


class _Known:
    """
    What is known of one backend model.

    :ivar base_ns: p99 of the profile; the larger where two logical models share the variant.
    :ivar apart: distances of answers on a slot that did not run dry.
    :ivar cold: the last runs after a long pause: when each ended, and what it took.
    :ivar ended_at_ns: end of the last run; ``None`` before the first.
    """

    __slots__ = ('window', 'base_ns', 'median_ns', 'margin', 'cold', 'ended_at_ns', 'plan_ns',
                 'apart', 'occupancy')

    def __init__(self) -> None:
        self.window = RuntimeWindow()
        self.base_ns = 0
        self.median_ns = 0
        self.margin = MarginController(100, 0)
        self.cold: deque[tuple[int, int]] = deque(maxlen=COLD_RUNS)
        self.ended_at_ns: int | None = None
        self.plan_ns = 0
        self.apart = RuntimeWindow()
        self.occupancy: Occupancy | None = None

    def occupied(self) -> Occupancy | None:
        """Plan how long a run keeps its slot, or ``None`` while too little was observed."""
        high_ns, median_ns = self.apart.quantile_ns(95), self.apart.quantile_ns(50)
        if high_ns is None or median_ns is None:
            return None
        return Occupancy(high_ns, median_ns)

    def planned_ns(self, now_ns: int) -> int:
        """Plan: the worst of profile, observation and, after a pause, what pauses cost before."""
        base_ns = max(self.base_ns, self.window.quantile_ns(95) or 0)
        if self.cold and self.ended_at_ns is not None \
                and now_ns - self.ended_at_ns >= LONG_PAUSE_NS:
            known = sorted(runtime_ns for ended_ns, runtime_ns in self.cold
                           if now_ns - ended_ns <= COLD_HORIZON_NS)
            if known:
                base_ns = max(base_ns, known[(len(known) - 1) // 2])
        return base_ns * self.margin.percent(now_ns) // 100

    def changes_at_ns(self, now_ns: int) -> int:
        """Say when the plan may be another one if nothing happens before."""
        soonest_ns = self.margin.changes_at_ns(now_ns)
        if self.cold and self.ended_at_ns is not None:
            for instant_ns in (self.ended_at_ns + LONG_PAUSE_NS,
                               *(ended_ns + COLD_HORIZON_NS + 1 for ended_ns, _ in self.cold)):
                if now_ns < instant_ns < soonest_ns:
                    soonest_ns = instant_ns
        return soonest_ns

    @property
    def wrong_median_ns(self) -> int | None:
        """Median of the window where it says that the profile is wrong, else ``None``."""
        median_ns = self.window.quantile_ns(50)
        if median_ns is None or median_ns < WRONG_FACTOR * self.median_ns:
            return None
        return median_ns


class RuntimeBook:
    """
    Planned runtimes of every variant of a system.

    :ivar version: another number whenever any plan is another one.
    """

    def __init__(self, system: System) -> None:
        """Plan with the profiles alone."""
        self._interference_ns = system.interference_ns
        self._learns_occupancy = system.learns_occupancy
        self._known: dict[str, _Known] = {}
        self._next_look_ns = _NEVER
        self._now_ns = 0
        self.version = 0
        targets: dict[str, int] = {}
        for model in system.models.values():
            target = target_permille(model.contract)
            for variant in model.variants:
                name = variant.backend_model
                median_ns, high_ns = _profiled_ns(model, variant)
                known = self._known.setdefault(name, _Known())
                known.base_ns = max(known.base_ns, high_ns)
                known.median_ns = max(known.median_ns, median_ns)
                targets[name] = min(target, targets.get(name, target))
        for name, known in self._known.items():
            known.margin = MarginController(system.margin_percent, targets[name])
            known.plan_ns = known.planned_ns(0)

    @property
    def changes_at_ns(self) -> int:
        """When time alone may change a plan; too early only costs a look."""
        return self._next_look_ns

    def knows(self, backend_model: str) -> bool:
        """Whether a backend model belongs to any variant."""
        return backend_model in self._known

    def margin_percent(self, variant: Variant) -> int:
        """Give the share of the high quantile that is planned for a variant."""
        return self._known[variant.backend_model].margin.percent(self._now_ns)

    def plan_ns(self, variant: Variant) -> int:
        """Conservative runtime of a variant that runs alone."""
        return self._known[variant.backend_model].plan_ns

    def occupancy(self, variant: Variant) -> Occupancy | None:
        """Tell how long a variant keeps its slot, or ``None`` while nobody knows."""
        return self._known[variant.backend_model].occupancy

    def remark(self, variant: Variant) -> str:
        """Say that reality is so much slower that the profile is wrong, or nothing."""
        known = self._known[variant.backend_model]
        observed_ns = known.wrong_median_ns
        if observed_ns is None:
            return ''
        return (f'the profile of {variant.backend_model} is wrong: its median is '
                f'{text_ms(known.median_ns)}, that of the last runs {text_ms(observed_ns)}')

    def observe(self, variant: Variant, runtime_ns: int, neighbours: frozenset[str],
                now_ns: int, planned_ns: int, began_at_ns: int | None = None,
                apart_ns: int | None = None) -> None:
        """
        Learn from a run that was answered now.

        :param planned_ns: what it was dispatched with.
        :param began_at_ns: where the runtime is not the time that passed.
        :param apart_ns: time since the answer that it followed, if it was sent before that.
        """
        name = variant.backend_model
        known = self._known[name]
        before_ns, known.ended_at_ns = known.ended_at_ns, now_ns
        known.margin.settle(now_ns)
        if before_ns is None:
            pass  # lazy initialisation, which no later run repeats
        elif (now_ns - runtime_ns if began_at_ns is None else began_at_ns
              ) - before_ns >= LONG_PAUSE_NS:
            known.cold.append((now_ns, runtime_ns))
        elif not any(self._interference_ns.get((name, other)) for other in neighbours):
            if len(known.window) >= MIN_RUNS:
                known.margin.learn(is_overrun=runtime_ns > planned_ns
                                   and known.wrong_median_ns is None)
            known.window.add(runtime_ns, now_ns)
        if apart_ns is not None and self._learns_occupancy:
            known.apart.add(apart_ns, now_ns)
        known.margin.narrow_from(known.window.scarce_from_ns(now_ns))
        self._plan(known, now_ns)

    def median_ns(self, variant: Variant) -> int:
        """Median runtime alone of the profile; of a generative model that of a whole run."""
        return self._known[variant.backend_model].median_ns

    def plan_quantum_ns(self, model: Model, variant: Variant, cost_ns: int) -> int:
        """
        Conservative runtime of a quantum that runs alone.

        :param cost_ns: of the cost model.
        """
        known = self._known[variant.backend_model]
        return known.plan_ns * model.in_proportion_ns(variant, cost_ns) // known.median_ns

    def observe_quantum(self, model: Model, variant: Variant, runtime_ns: int,
                        neighbours: frozenset[str], now_ns: int, planned_ns: int, *,
                        asked_ns: int, cost_ns: int) -> None:
        """
        Learn from a quantum that was answered now; a long one counts no more than a short one.

        :param planned_ns: what it was dispatched with.
        :param asked_ns: of the cost model, for what it was asked for.
        :param cost_ns: of the cost model, for what it wrote.
        """
        median_ns = self._known[variant.backend_model].median_ns
        self.observe(
            variant, runtime_ns * median_ns // max(1, model.in_proportion_ns(variant, cost_ns)),
            neighbours, now_ns,
            planned_ns * median_ns // max(1, model.in_proportion_ns(variant, asked_ns)),
            began_at_ns=now_ns - runtime_ns)

    def doubt(self, backend_model: str, now_ns: int) -> None:
        """Plan more carefully: the profile was measured on something else."""
        known = self._known[backend_model]
        known.margin.doubt(now_ns)
        self._plan(known, now_ns)

    def forget_before(self, instant_ns: int) -> None:
        """Plan without the runs that ended before an instant."""
        long_ago_ns = instant_ns + HORIZON_NS - OCCUPANCY_HORIZON_NS
        for known in self._known.values():
            is_other = known.apart.forget_before(long_ago_ns)
            if known.window.forget_before(instant_ns) or is_other:
                self._plan(known, max(self._now_ns, instant_ns))

    def look(self, now_ns: int) -> None:
        """Notice what time alone changes; cheap while it changes nothing."""
        self._now_ns = now_ns
        if now_ns >= self._next_look_ns:
            self._next_look_ns = _NEVER
            for known in self._known.values():
                self._plan(known, now_ns)

    def _plan(self, known: _Known, now_ns: int) -> None:
        plan_ns, occupancy = known.planned_ns(now_ns), known.occupied()
        if plan_ns != known.plan_ns or occupancy != known.occupancy:
            known.plan_ns, known.occupancy = plan_ns, occupancy
            self.version += 1
        self._next_look_ns = min(self._next_look_ns, known.changes_at_ns(now_ns))


def _profiled_ns(model: Model, variant: Variant) -> tuple[int, int]:
    """
    Median and high quantile of a run alone.

    For a generative model those of a whole run of its cost model, with the spread of the profile.
    """
    profile = variant.profile
    if model.cooperative is None:
        return profile.p50_ns, profile.p99_ns
    median_ns = max(1, model.in_proportion_ns(variant, model.cooperative.whole_ns))
    return median_ns, median_ns * profile.p99_ns // profile.p50_ns
