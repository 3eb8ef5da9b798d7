"""
Stage C, second half: whether a candidate may start or would endanger an expected frame.

Rules:

- Expected arrivals are reserved cumulatively, in arrival order, on the slot that is free first.
- Veto only if the candidate is the cause: some arrival is feasible without it and infeasible
  with it. An arrival that is lost anyway vetoes nothing.
- A veto names the instant at which the answer can change without another event.

The two schedules, with and without the candidate, are compared arrival by arrival and only until
they coincide again: what comes later cannot tell them apart.

Where models must not run together, or slow each other, ``corun`` judges by the same rules.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vig_core.units import text_ms


@dataclass(slots=True)
class Reservation:
    """
    An expected frame that holds a place.

    :ivar is_moving: overdue; its arrival and deadline move with the clock.
    :ivar changes_at_ns: when its forecast says something else.
    :ivar beside: what it may not run beside and what slows it, where anything does.
    """

    stream: str
    arrival_ns: int
    planned_ns: int
    deadline_ns: int
    is_moving: bool
    changes_at_ns: int
    beside: 'Beside | None' = None


@dataclass(frozen=True, slots=True)
class Beside:
    """
    What a reservation has to do with what runs at the same time; read by ``corun``.

    :ivar runs: backend model and conservative runtime alone of each usable variant.
    :ivar budget_ns: from arrival to deadline; ``None`` for a frame that is there and waits.
    """

    model: str
    banned: frozenset[str]
    runs: tuple[tuple[str, int], ...]
    budget_ns: int | None


@dataclass(frozen=True, slots=True)
class Veto:
    """
    The candidate must wait.

    :ivar victim: the first reservation that it would make late.
    :ivar until_ns: the first instant at which time alone can change the answer.
    """

    victim: Reservation
    late_ns: int
    until_ns: int

    def sentence(self, now_ns: int, planned_ns: int) -> str:
        """Say why a job that needs ``planned_ns`` is held, with the numbers that decided."""
        victim = self.victim
        is_there = victim.beside is not None and victim.beside.budget_ns is None
        when = 'waits' if is_there else f'is expected in {text_ms(victim.arrival_ns - now_ns)}'
        return (f'{victim.stream} {when}, needs {text_ms(victim.planned_ns)} and would be '
                f'{text_ms(self.late_ns)} late; this job needs {text_ms(planned_ns)}')


def veto(reservations: Iterable[Reservation], free_at_ns: Sequence[int], planned_ns: int,
         now_ns: int, overruns_at_ns: Sequence[int] = ()) -> Veto | None:
    """
    Judge a candidate that would start on the first slot and take ``planned_ns``.

    :param reservations: of strictly higher classes, in arrival order; read only as far as
        needed.
    :param free_at_ns: predicted end of what runs on each slot, never before now; the first slot
        is the one that the candidate would take.
    :param overruns_at_ns: instants from which on some of these predictions move with the clock.
    """
    without = list(free_at_ns)
    beside = [free_at_ns[0] + planned_ns, *free_at_ns[1:]]
    until_ns = min((at_ns for at_ns in (*free_at_ns, *overruns_at_ns) if at_ns > now_ns),
                   default=_FOREVER)
    is_any_moving = any(at_ns <= now_ns for at_ns in overruns_at_ns)
    is_end_moving = [is_any_moving or free_at_ns[0] <= now_ns,
                     *(is_any_moving for _ in free_at_ns[1:])]
    expected = iter(reservations)
    for reservation in expected:
        if max(beside) <= reservation.arrival_ns or sorted(without) == sorted(beside):
            return None
        alone_ns = _serve(reservation, without)
        answer_ns = _in_time_from_ns(reservation, beside, is_end_moving, now_ns)
        beside_ns = _serve(reservation, beside)
        deadline_ns = reservation.deadline_ns
        is_any_moving = is_any_moving or reservation.is_moving
        until_ns = min(until_ns, reservation.changes_at_ns)
        is_pushed = alone_ns - reservation.planned_ns > reservation.arrival_ns
        if is_any_moving and is_pushed and not reservation.is_moving and alone_ns <= deadline_ns:
            until_ns = min(until_ns, now_ns + deadline_ns - alone_ns + 1)
        if alone_ns <= deadline_ns < beside_ns:
            return Veto(reservation, beside_ns - deadline_ns,
                        min(until_ns, answer_ns, _overtaken_from_ns(expected)))
    return None


def _overtaken_from_ns(expected: Iterator[Reservation]) -> int:
    """Say when the next one becomes overdue: from then on it may be served before the victim."""
    for reservation in expected:
        if not reservation.is_moving:
            return reservation.changes_at_ns
    return _FOREVER


def _in_time_from_ns(reservation: Reservation, free_at_ns: list[int], is_end_moving: list[bool],
                     now_ns: int) -> int:
    """
    Say when an overdue frame that is late behind what runs first may be in time.

    Its deadline moves with the clock. The end that it follows may stand still, or move until
    another end comes first. Notes for the slot whether its next end will move.
    """
    slot = free_at_ns.index(min(free_at_ns))
    end_ns, is_moving = free_at_ns[slot], is_end_moving[slot]
    if end_ns <= reservation.arrival_ns:
        is_end_moving[slot] = reservation.is_moving or (
            is_moving and end_ns == reservation.arrival_ns)
        return _FOREVER
    if not reservation.is_moving:
        return _FOREVER
    if not is_moving:
        return now_ns + end_ns + reservation.planned_ns - reservation.deadline_ns
    return now_ns + 1 - end_ns + min(
        (other_ns for other_ns, is_other_moving in zip(free_at_ns, is_end_moving)
         if not is_other_moving), default=_FOREVER)


def _serve(reservation: Reservation, free_at_ns: list[int]) -> int:
    """Put a reservation on the slot that is free first and say when it finishes."""
    slot = free_at_ns.index(min(free_at_ns)) if len(free_at_ns) > 1 else 0
    free_at_ns[slot] = max(free_at_ns[slot], reservation.arrival_ns) + reservation.planned_ns
    return free_at_ns[slot]


_FOREVER = 1 << 62
