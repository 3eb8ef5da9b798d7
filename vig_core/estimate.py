"""
What a run will take: the profile, unless reality is slower.

Rules:

- Plan = max(profile p99, observed p95) x margin; observation never makes it more optimistic.
- A sliding window of runs for each variant, of the last seconds only: a variant that is planned
  too slow to start would never run again to prove that it is fast. Failures and timeouts never
  enter it.
- A run beside a model whose interference is measured does not train: that time is planned
  separately and would count twice.
"""

from bisect import bisect_left, insort
from collections import deque

from vig_core.model import System, Variant
from vig_core.units import NS_PER_S

WINDOW_RUNS = 64
HORIZON_NS = 5 * NS_PER_S
MIN_RUNS = 20
"""Fewer runs name no 95 % quantile: it would be the longest run."""


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

    def _forget_oldest(self) -> None:
        del self._sorted[bisect_left(self._sorted, self._runs.popleft()[1])]

    def quantile_ns(self, percent: int) -> int | None:
        """Nearest-rank quantile, or ``None`` before there are enough runs to name one."""
        count = len(self._sorted)
        if count < MIN_RUNS:
            return None
        return self._sorted[-(-count * percent // 100) - 1]


class RuntimeBook:
    """
    Planned runtimes of every variant of a system.

    :ivar version: another number whenever any plan is another one.
    """

    def __init__(self, system: System) -> None:
        """Plan with the profiles alone."""
        self._margin_percent = system.margin_percent
        self._interference_ns = system.interference_ns
        self._windows: dict[str, RuntimeWindow] = {}
        self._plans_ns: dict[str, int] = {}
        for model in system.models.values():
            for variant in model.variants:
                self._windows.setdefault(variant.backend_model, RuntimeWindow())
                self._plans_ns[variant.backend_model] = max(
                    self._with_margin(variant.profile.p99_ns),
                    self._plans_ns.get(variant.backend_model, 0))
        self._floors_ns = dict(self._plans_ns)
        self.version = 0

    @property
    def margin_percent(self) -> int:
        """The share of the high quantile that is planned."""
        return self._margin_percent

    def plan_ns(self, variant: Variant) -> int:
        """Conservative runtime of a variant that runs alone."""
        return self._plans_ns[variant.backend_model]

    def observe(self, variant: Variant, runtime_ns: int, neighbours: frozenset[str],
                now_ns: int) -> None:
        """Learn from a run that was answered now."""
        name = variant.backend_model
        if any((name, other) in self._interference_ns for other in neighbours):
            return
        self._windows[name].add(runtime_ns, now_ns)
        self._plan(name)

    def forget_before(self, instant_ns: int) -> None:
        """Plan without the runs that ended before an instant."""
        for name, window in self._windows.items():
            if window.forget_before(instant_ns):
                self._plan(name)

    def _plan(self, name: str) -> None:
        observed_ns = self._windows[name].quantile_ns(95) or 0
        plan_ns = max(self._floors_ns[name], self._with_margin(observed_ns))
        if plan_ns != self._plans_ns[name]:
            self._plans_ns[name] = plan_ns
            self.version += 1

    def _with_margin(self, runtime_ns: int) -> int:
        return runtime_ns * self._margin_percent // 100
