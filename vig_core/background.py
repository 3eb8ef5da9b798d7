"""
How best-effort work gets on beside everything that goes before it.

Rules:

- Progress is the share of the last ``observation_window`` requests of the stream that ended
  ``completed``, of those that ended at all. A request that waits or runs has not ended.
- It is short of what the contracts ask for only once so many requests have ended that a single
  completion would be enough for the share: before that none can be missing.
- The stream starves while some of its work waits and none of it starts. Time in which something
  waits is summed up until something starts; each time the sum reaches ``observation_window`` of
  its cycles (its deadlines, where it has no cycle) one starvation is counted.
"""

from collections import deque

from vig_core.contract import Contract


class Background:
    """Progress and starvation of one stream of class ``best_effort``. It reports only."""

    def __init__(self, contract: Contract, required_percent: int) -> None:
        """
        Begin with nothing ended and nothing waiting.

        :param required_percent: share that the contracts of the system ask for; 0 for none.
        """
        self.required_percent = required_percent
        self._window_ns = contract.observation_window * (contract.cycle_ns
                                                         or contract.deadline_ns)
        self._ends: deque[bool] = deque(maxlen=contract.observation_window)
        self.completed = 0
        self._starved = 0
        self._waited_ns = 0
        self._since_ns: int | None = None

    @property
    def ended(self) -> int:
        """Requests in the window."""
        return len(self._ends)

    @property
    def is_short(self) -> bool:
        """Whether less was completed than the contracts ask for."""
        return (100 * self.completed < self.required_percent * self.ended
                and self.required_percent * self.ended >= 100)

    def end(self, is_completed: bool) -> None:
        """Take note of a request that ended."""
        if self._ends.maxlen == self.ended:
            self.completed -= self._ends[0]
        self._ends.append(is_completed)
        self.completed += is_completed

    def wait(self, waiting: int, now_ns: int, *, has_started: bool = False) -> None:
        """
        Take note of how many requests wait now.

        :param has_started: one of them was just dispatched.
        """
        self._waited_ns = self._waited_until_ns(now_ns)
        if has_started:
            self._starved += self._waited_ns // self._window_ns
            self._waited_ns = 0
        self._since_ns = now_ns if waiting else None

    def starved(self, now_ns: int) -> int:
        """Count how often it starved for a whole window, up to an instant."""
        return self._starved + self._waited_until_ns(now_ns) // self._window_ns

    def _waited_until_ns(self, now_ns: int) -> int:
        return self._waited_ns + (0 if self._since_ns is None else now_ns - self._since_ns)
