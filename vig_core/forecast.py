"""
Stage C, first half: when the next frame of a guarded stream is expected.

Rules, from the last arrival ``a`` with capture ``c``, period T, deadline D, jitter envelope J:

- expected capture ``c + T``, expected arrival ``e = a + T``, transport ``delta = a - c``
  (a capture later than its arrival counts as the arrival);
- overdue: up to ``W = max(min(delta, D), 2 J)`` past ``e`` the frame is expected any moment;
- after ``e + W`` it no longer holds anything back and the forecast rolls on by T, three times
  at most. Then the stream counts as stopped and protects nothing.
"""

from dataclasses import dataclass

from vig_core.contract import Contract

MAX_ROLLS = 3

NEVER_ALIVE_NS = -(1 << 62)


@dataclass(slots=True)
class ExpectedArrival:
    """
    One frame that is not there yet.

    :ivar arrival_ns: when it is expected; never in the past.
    :ivar budget_ns: from its arrival to its deadline.
    :ivar is_overdue: it was expected before now; the expectation moves with the clock.
    :ivar changes_at_ns: first later instant at which this forecast says something else.
    """

    arrival_ns: int
    budget_ns: int
    is_overdue: bool
    changes_at_ns: int


class ArrivalForecast:
    """The next expected arrival of one guarded stream."""

    __slots__ = ('_period_ns', '_deadline_ns', '_jitter_ns', '_captured_at_ns', 'due_ns',
                 '_budget_ns', '_window_ns', 'alive_until_ns')

    alive_until_ns: int
    """Last instant at which a frame is still expected; before all time if none is."""

    due_ns: int
    """One period after the last arrival; before all time if there was none."""

    def __init__(self, contract: Contract) -> None:
        """Forecast nothing until the first arrival; the contract must have a period."""
        assert contract.period_ns is not None
        self._period_ns = contract.period_ns
        self._deadline_ns = contract.deadline_ns
        self._jitter_ns = contract.release_jitter_ns
        self.forget()

    def forget(self) -> None:
        """Start over: no arrival is known."""
        self.alive_until_ns = NEVER_ALIVE_NS
        self._captured_at_ns = NEVER_ALIVE_NS
        self.due_ns = NEVER_ALIVE_NS
        self._budget_ns = 0
        self._window_ns = 0

    def note(self, *, arrived_at_ns: int, captured_at_ns: int) -> None:
        """Learn of a frame; one that is not newer than the last says nothing about the next."""
        if captured_at_ns <= self._captured_at_ns and arrived_at_ns <= self.alive_until_ns:
            return
        transport_ns = max(0, arrived_at_ns - captured_at_ns)
        self._captured_at_ns = captured_at_ns
        self.due_ns = arrived_at_ns + self._period_ns
        self._budget_ns = max(0, self._deadline_ns - transport_ns)
        self._window_ns = max(min(transport_ns, self._deadline_ns), 2 * self._jitter_ns)
        self.alive_until_ns = self.due_ns + MAX_ROLLS * self._period_ns + self._window_ns

    def expected_from_ns(self, now_ns: int) -> int | None:
        """Say since or from when it is expected; ``None`` for an unknown or stopped stream."""
        return None if now_ns > self.alive_until_ns else self._rolled_due_ns(now_ns)

    def expected(self, now_ns: int) -> ExpectedArrival | None:
        """Say all about what is expected next; ``None`` for an unknown or stopped stream."""
        if now_ns > self.alive_until_ns:
            return None
        due_ns = self._rolled_due_ns(now_ns)
        is_overdue = now_ns > due_ns
        return ExpectedArrival(
            arrival_ns=now_ns if is_overdue else due_ns, budget_ns=self._budget_ns,
            is_overdue=is_overdue,
            changes_at_ns=due_ns + 1 + (self._window_ns if is_overdue else 0))

    def successor(self, now_ns: int) -> tuple[int, int] | None:
        """
        Say when the very next frame is due, and from when on it counts as lost.

        ``None`` once it counts as lost.
        """
        lost_from_ns = self.due_ns + self._window_ns + 1
        return None if now_ns >= lost_from_ns else (self.due_ns, lost_from_ns)

    def _rolled_due_ns(self, now_ns: int) -> int:
        """First multiple of the period after the last arrival that can still be waited for."""
        late_ns = now_ns - self.due_ns - self._window_ns
        if late_ns <= 0:
            return self.due_ns
        return self.due_ns - (-late_ns // self._period_ns) * self._period_ns
