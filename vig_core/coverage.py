"""
What the consumer sees: whether there was a fresh result at each of its cycles.

Rules:

- Cycle k is judged at ``phase + k * consumer period``, at that instant, by the contract's clock
  and never by accepted requests. What is delivered at that very instant counts.
- ``latest_state``: the newest delivered result covers the cycle while its age is at most
  ``max_age``. With ``require_new_sample_each_cycle`` it must be a new one.
- The weakly-hard ring holds the last K cycles and is never reset; the window is ``observed``
  only once it is full.
"""

from collections import deque

from vig_core.contract import Contract


class CycleMonitor:
    """Coverage of one stream. It reports; it enforces nothing."""

    def __init__(self, contract: Contract, origin_ns: int) -> None:
        """Judge the first cycle at ``origin_ns`` plus phase plus one period."""
        assert contract.cycle_ns is not None
        self._cycle_ns = contract.cycle_ns
        self._max_age_ns = contract.max_age_ns
        self._needs_new = contract.require_new_sample_each_cycle
        self._budget = contract.miss_budget
        self.next_cycle_ns = origin_ns + contract.phase_ns + contract.cycle_ns
        self._newest_capture_ns: int | None = None
        self._has_new = False
        self.judged = 0
        self.covered = 0
        self._ring: deque[bool] = deque(
            maxlen=self._budget.window_cycles if self._budget else 1)
        self.misses = 0
        self.consecutive = 0

    def deliver(self, captured_at_ns: int) -> None:
        """Take note of a result that reached the consumer."""
        if self._newest_capture_ns is None or captured_at_ns > self._newest_capture_ns:
            self._newest_capture_ns = captured_at_ns
            self._has_new = True

    def can_serve(self, *, captured_at_ns: int, delivered_at_ns: int) -> bool:
        """Whether such a result would cover a coming cycle that nothing delivered covers yet."""
        if self._max_age_ns is None:
            return True
        covered_until_ns = (self.next_cycle_ns - self._cycle_ns if self._newest_capture_ns is None
                            else self._newest_capture_ns + self._max_age_ns)
        periods = (captured_at_ns + self._max_age_ns - self.next_cycle_ns) // self._cycle_ns
        last_ns = self.next_cycle_ns + periods * self._cycle_ns
        return last_ns >= delivered_at_ns and last_ns > covered_until_ns

    def judge_before(self, now_ns: int) -> tuple[int, int]:
        """
        Judge every cycle whose instant lies before ``now_ns``.

        :returns: how many of them were covered and how many were not.
        """
        if self.next_cycle_ns >= now_ns:
            return 0, 0
        cycles = (now_ns - 1 - self.next_cycle_ns) // self._cycle_ns + 1
        covered = min(cycles, self._coverable())
        self._record(True, covered)
        self._record(False, cycles - covered)
        self._has_new = False
        self.next_cycle_ns += cycles * self._cycle_ns
        return covered, cycles - covered

    def seen_at(self, now_ns: int) -> 'CycleMonitor':
        """Copy it with every cycle before an instant judged; it stays as it is."""
        seen = CycleMonitor.__new__(CycleMonitor)
        vars(seen).update(vars(self), _ring=self._ring.copy())
        seen.judge_before(now_ns)
        return seen

    @property
    def is_observed(self) -> bool:
        """Whether the weakly-hard window has been full once."""
        return self._budget is not None and len(self._ring) == self._budget.window_cycles

    @property
    def misses_left(self) -> int | None:
        """Misses that the budget still allows in the present window; negative when violated."""
        return None if self._budget is None else self._budget.max_misses - self.misses

    @property
    def is_violated(self) -> bool:
        """Whether the present window breaks its budget."""
        return self._budget is not None and (
            self.misses > self._budget.max_misses
            or self.consecutive > self._budget.max_consecutive)

    @property
    def is_next_miss_fatal(self) -> bool:
        """Whether one more miss in a row would break the budget."""
        if self._budget is None:
            return False
        leaving = int(self.is_observed and not self._ring[0])
        return (self.misses - leaving + 1 > self._budget.max_misses
                or self.consecutive + 1 > self._budget.max_consecutive)

    def _coverable(self) -> int:
        """Count the next cycles that the newest result covers by itself."""
        if self._newest_capture_ns is None or (self._needs_new and not self._has_new):
            return 0
        if self._max_age_ns is None:
            return 1 if self._needs_new else 1 << 62
        left_ns = self._newest_capture_ns + self._max_age_ns - self.next_cycle_ns
        cycles = 0 if left_ns < 0 else left_ns // self._cycle_ns + 1
        return min(cycles, 1) if self._needs_new else cycles

    def _record(self, is_covered: bool, cycles: int) -> None:
        if not cycles:
            return
        self.judged += cycles
        self.covered += cycles if is_covered else 0
        self.consecutive = 0 if is_covered else self.consecutive + cycles
        if self._budget is None:
            return
        for _ in range(min(cycles, self._budget.window_cycles)):
            if len(self._ring) == self._ring.maxlen and not self._ring[0]:
                self.misses -= 1
            self._ring.append(is_covered)
            self.misses += 0 if is_covered else 1
