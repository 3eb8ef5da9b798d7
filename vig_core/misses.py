"""
The weakly-hard window: the last K cycles of a consumer, and what its miss budget still bears.

Rules (Bernat, Burns and Llamosi, Weakly Hard Real-Time Systems, IEEE Trans. Computers 2001: at
most M misses in any K; we observe such a condition, their schedulability tests are not ours):

- At most M misses in the window, and never more than L in a row.
- The window slides and is never emptied; it is ``observed`` once it holds K cycles.
- ``left`` asks about the very next cycles: how many of them may be missed in a row with neither
  bound broken. A miss that slides out of the window meanwhile makes room for another.
"""

from collections import deque

from vig_core.contract import MissBudget


class MissWindow:
    """
    A ring of cycles, oldest first; without a budget it only counts misses in a row.

    :ivar misses: in the window.
    :ivar consecutive: up to the newest cycle.
    """

    def __init__(self, budget: MissBudget | None) -> None:
        """Begin with no cycle."""
        self.budget = budget
        self._ring: deque[bool] = deque(maxlen=budget.window_cycles if budget else 0)
        self.misses = 0
        self.consecutive = 0

    def add(self, is_covered: bool, cycles: int) -> None:
        """Let so many cycles of one kind follow."""
        if not cycles:
            return
        self.consecutive = 0 if is_covered else self.consecutive + cycles
        if self.budget is None:
            return
        for _ in range(min(cycles, self.budget.window_cycles)):
            if self.is_observed and not self._ring[0]:
                self.misses -= 1
            self._ring.append(is_covered)
            self.misses += 0 if is_covered else 1

    def copy(self) -> 'MissWindow':
        """Make another one that goes its own way from here."""
        other = MissWindow.__new__(MissWindow)
        vars(other).update(vars(self), _ring=self._ring.copy())
        return other

    @property
    def cycles(self) -> tuple[bool, ...]:
        """Whether each cycle of the window was covered, oldest first."""
        return tuple(self._ring)

    def restore(self, cycles: tuple[bool, ...], consecutive: int) -> None:
        """Take over what another window of the same budget has seen."""
        self._ring = deque(cycles, self._ring.maxlen)
        self.misses = self._ring.count(False)
        self.consecutive = consecutive

    @property
    def is_observed(self) -> bool:
        """Whether the window has been full once."""
        return self.budget is not None and len(self._ring) == self.budget.window_cycles

    @property
    def is_violated(self) -> bool:
        """Whether the present window breaks its budget."""
        return self.budget is not None and (
            self.misses > self.budget.max_misses
            or self.consecutive > self.budget.max_consecutive)

    @property
    def left(self) -> int | None:
        """Coming cycles that may be missed in a row before it is too late; ``None`` unbudgeted."""
        if self.budget is None:
            return None
        missed = self.misses
        leaving = iter(self._ring)
        if not self.is_observed:
            leaving = iter((True,) * (self.budget.window_cycles - len(self._ring))
                           + tuple(self._ring))
        for count in range(self.budget.max_consecutive - self.consecutive):
            missed += 1 if next(leaving) else 0
            if missed > self.budget.max_misses:
                return count
        return max(0, self.budget.max_consecutive - self.consecutive)

    @property
    def is_next_miss_fatal(self) -> bool:
        """Whether one more miss would break the budget, or leave it broken."""
        if self.budget is None:
            return False
        leaving = int(self.is_observed and not self._ring[0])
        return (self.misses - leaving + 1 > self.budget.max_misses
                or self.consecutive + 1 > self.budget.max_consecutive)
