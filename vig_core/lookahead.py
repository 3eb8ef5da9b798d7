"""
Stage C, second half: may this candidate start, or would it endanger an expected frame?

Rules:

- Expected arrivals are reserved cumulatively, in arrival order, on the slot that is free first.
- Veto only if the candidate is the cause: some arrival is feasible without it and infeasible
  with it. An arrival that is lost anyway vetoes nothing.
- A veto names the instant at which the answer can change without another event.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reservation:
    """
    An expected frame that holds a place.

    :ivar is_moving: overdue; its arrival and deadline move with the clock.
    :ivar changes_at_ns: when its forecast says something else.
    """

    stream: str
    arrival_ns: int
    planned_ns: int
    deadline_ns: int
    is_moving: bool
    changes_at_ns: int


@dataclass(frozen=True, slots=True)
class Veto:
    """
    The candidate must wait.

    :ivar victim: the first reservation that it would make late.
    :ivar until_ns: the instant at which the answer can change.
    """

    victim: Reservation
    late_ns: int
    until_ns: int


class LookAhead:
    """The reservations that matter to candidates of one class, on the slots as they are."""

    def __init__(self, reservations: Sequence[Reservation], free_at_ns: Sequence[int],
                 now_ns: int) -> None:
        """
        Reserve without any candidate.

        :param reservations: in arrival order.
        :param free_at_ns: predicted end of what runs for each slot, never before now; the first
            slot is the one that a candidate would take.
        """
        self._reservations = reservations
        self._free_at_ns = list(free_at_ns)
        self._now_ns = now_ns
        self._finishes_ns = _finishes(reservations, self._free_at_ns)
        self._limit_ns = self._serial_limit_ns() if len(self._free_at_ns) == 1 else None

    def veto(self, planned_ns: int) -> Veto | None:
        """Judge a candidate that would start on the first slot and take ``planned_ns``."""
        end_ns = self._free_at_ns[0] + planned_ns
        if self._limit_ns is not None and end_ns <= self._limit_ns:
            return None
        with_candidate = _finishes(self._reservations, [end_ns, *self._free_at_ns[1:]])
        for reservation, alone_ns, beside_ns in zip(
                self._reservations, self._finishes_ns, with_candidate):
            if alone_ns <= reservation.deadline_ns < beside_ns:
                return Veto(reservation, beside_ns - reservation.deadline_ns,
                            self._changes_at_ns())
        return None

    def _serial_limit_ns(self) -> int:
        """
        Latest end of a candidate on a single slot that makes nobody late.

        Backwards: whoever is served before a frame must leave it ``min(its deadline, what its
        successors allow) - its runtime``. The schedule without a candidate keeps all of these
        limits, so none of them lies before the arrival that it belongs to.
        """
        limit_ns = _FOREVER
        for reservation, alone_ns in zip(reversed(self._reservations),
                                         reversed(self._finishes_ns)):
            if alone_ns <= reservation.deadline_ns:
                limit_ns = min(limit_ns, reservation.deadline_ns)
            limit_ns -= reservation.planned_ns
        return limit_ns

    def _changes_at_ns(self) -> int:
        """Find the first instant at which time alone can change an answer."""
        instants = [reservation.changes_at_ns for reservation in self._reservations]
        instants += [free_ns for free_ns in self._free_at_ns if free_ns > self._now_ns]
        if any(reservation.is_moving for reservation in self._reservations):
            for reservation, finish_ns in zip(self._reservations, self._finishes_ns):
                slack_ns = reservation.deadline_ns - finish_ns
                is_pushed = finish_ns - reservation.planned_ns > reservation.arrival_ns
                if is_pushed and slack_ns >= 0 and not reservation.is_moving:
                    instants.append(self._now_ns + slack_ns + 1)
        return min(instants)


def _finishes(reservations: Sequence[Reservation], free_at_ns: Sequence[int]) -> list[int]:
    """Finish of each reservation, served in arrival order on the slot that is free first."""
    free = list(free_at_ns)
    finishes = []
    for reservation in reservations:
        slot = free.index(min(free)) if len(free) > 1 else 0
        free[slot] = max(free[slot], reservation.arrival_ns) + reservation.planned_ns
        finishes.append(free[slot])
    return finishes


_FOREVER = 1 << 62
