"""
What a run will take: the profile, unless reality is slower.

Rules:

- Plan = max(profile p99, observed p95) x margin; observation never makes it more optimistic.
- A sliding window of runs for each variant. Failures and timeouts never enter it.
- A run beside a model whose interference is measured does not train: that time is planned
  separately and would count twice.
"""

from bisect import insort
from collections import deque

from vig_core.model import System, Variant

WINDOW_RUNS = 64
MIN_RUNS = 8


class RuntimeWindow:
    """The last runtimes of one variant, in nanoseconds."""

    __slots__ = ('_runs', '_sorted')

    def __init__(self) -> None:
        """Start empty."""
        self._runs: deque[int] = deque()
        self._sorted: list[int] = []

    def __len__(self) -> int:
        """Count the runs in the window."""
        return len(self._runs)

    def add(self, runtime_ns: int) -> None:
        """Take in one run and forget the oldest beyond the window."""
        if len(self._runs) == WINDOW_RUNS:
            self._sorted.remove(self._runs.popleft())
        self._runs.append(runtime_ns)
        insort(self._sorted, runtime_ns)

    def quantile_ns(self, percent: int) -> int | None:
        """Nearest-rank quantile, or ``None`` before there are enough runs to name one."""
        count = len(self._sorted)
        if count < MIN_RUNS:
            return None
        return self._sorted[-(-count * percent // 100) - 1]


class RuntimeBook:
    """Planned runtimes of every variant of a system."""

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

    @property
    def margin_percent(self) -> int:
        """The share of the high quantile that is planned."""
        return self._margin_percent

    def plan_ns(self, variant: Variant) -> int:
        """Conservative runtime of a variant that runs alone."""
        return self._plans_ns[variant.backend_model]

    def observe(self, variant: Variant, runtime_ns: int, neighbours: frozenset[str]) -> None:
        """Learn from a run that was answered."""
        name = variant.backend_model
        if any((name, other) in self._interference_ns for other in neighbours):
            return
        window = self._windows[name]
        window.add(runtime_ns)
        observed_ns = window.quantile_ns(95)
        if observed_ns is not None:
            self._plans_ns[name] = max(self._floors_ns[name], self._with_margin(observed_ns))

    def _with_margin(self, runtime_ns: int) -> int:
        return runtime_ns * self._margin_percent // 100
