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

_NEVER = -(1 << 62)


@dataclass(frozen=True, slots=True)
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

    __slots__ = ('_period_ns', '_deadline_ns', '_jitter_ns', '_arrived_at_ns', '_captured_at_ns',
                 '_transport_ns', '_window_ns')

    def __init__(self, contract: Contract) -> None:
        """Forecast nothing until the first arrival; the contract must have a period."""
        assert contract.period_ns is not None
        self._period_ns = contract.period_ns
        self._deadline_ns = contract.deadline_ns
        self._jitter_ns = contract.release_jitter_ns
        self.forget()

    def forget(self) -> None:
        """Start over: no arrival is known."""
        self._arrived_at_ns: int | None = None
        self._captured_at_ns = 0
        self._transport_ns = 0
        self._window_ns = 0

    def note(self, *, arrived_at_ns: int, captured_at_ns: int) -> None:
        """Learn of a frame; one that is not newer than the last says nothing about the next."""
        is_known = self._arrived_at_ns is not None
        if is_known and captured_at_ns <= self._captured_at_ns and self.is_alive(arrived_at_ns):
            return
        self._arrived_at_ns = arrived_at_ns
        self._captured_at_ns = captured_at_ns
        self._transport_ns = max(0, arrived_at_ns - captured_at_ns)
        self._window_ns = max(min(self._transport_ns, self._deadline_ns), 2 * self._jitter_ns)

    @property
    def alive_until_ns(self) -> int:
        """Last instant at which a frame is still expected; before any time if none is."""
        if self._arrived_at_ns is None:
            return _NEVER
        return self._arrived_at_ns + (1 + MAX_ROLLS) * self._period_ns + self._window_ns

    def is_alive(self, now_ns: int) -> bool:
        """Whether a frame is still expected."""
        return now_ns <= self.alive_until_ns

    def expected(self, now_ns: int) -> ExpectedArrival | None:
        """Say what is expected next, or ``None`` for a stream that is unknown or stopped."""
        if self._arrived_at_ns is None or not self.is_alive(now_ns):
            return None
        due_ns = self._arrived_at_ns + self._period_ns
        late_ns = now_ns - due_ns - self._window_ns
        if late_ns > 0:
            due_ns += -(-late_ns // self._period_ns) * self._period_ns
        is_overdue = now_ns > due_ns
        return ExpectedArrival(
            arrival_ns=now_ns if is_overdue else due_ns,
            budget_ns=max(0, self._deadline_ns - self._transport_ns),
            is_overdue=is_overdue,
            changes_at_ns=due_ns + 1 + (self._window_ns if is_overdue else 0))
