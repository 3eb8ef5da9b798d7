"""
Stage C, second half: whether a candidate may start or would endanger an expected frame.

Rules:

- Expected arrivals are reserved cumulatively, in arrival order, on the slot that is free first.
- Veto only if the candidate is the cause: some arrival is feasible without it and infeasible
  with it. An arrival that is lost anyway vetoes nothing.
- An arrival is given up by the medians only: one that is late by plan and probably is not is not
  lost, and who makes it later still waits (``likely``, adr/0032).
- A frame of a guarded stream may make an expected one miss its deadline, but not its pace: the
  successor of that one, if it begins when it ends, must still meet its own deadline and find its
  result not too old (adr/0012). Any other candidate may not make it miss its deadline.
- A veto names the instant at which the answer can change without another event.

The two schedules, with and without the candidate, are compared arrival by arrival and only until
they coincide again: what comes later cannot tell them apart.

Where models must not run together, or slow each other, ``corun`` judges by the same rules.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from vig_core.clockwork import Clockwork, Instant
from vig_core.likely import Likely, likely_on, LikelyFree
from vig_core.reservation import Reservation, Stay
from vig_core.why_waiting import Vetoed


@dataclass(slots=True)
class Veto:
    """
    The candidate must wait.

    :ivar victim: the first reservation that it would make late.
    :ivar late_ns: by how much later that one would be, of the time past its deadline.
    :ivar until_ns: the first instant at which time alone can change the answer.
    """

    victim: Reservation
    late_ns: int
    until_ns: int

    def because(self, now_ns: int, planned_ns: int, under_way_ns: int, fits_ns: int | None,
                fits_beside: bool) -> Vetoed:
        """
        Gather why a job that needs ``planned_ns`` is held.

        :param under_way_ns: time of each execution that does not keep the slot.
        :param fits_ns: what it might need at most, see ``longest_that_fits_ns``.
        :param fits_beside: whether one more slot would do.
        """
        victim = self.victim
        is_there = victim.beside is not None and victim.beside.budget_ns is None
        has_from_ns = now_ns if is_there else victim.arrival_ns
        return Vetoed(
            victim.stream, None if is_there else victim.arrival_ns - now_ns, victim.is_moving,
            victim.stay.alone_ns + under_way_ns, victim.deadline_ns + under_way_ns - has_from_ns,
            self.late_ns, planned_ns, fits_ns, fits_beside)


def veto(reservations: Iterable[Reservation], free_at: Sequence[Instant], stay: Stay,
         clock: Clockwork, likely_free: LikelyFree) -> Veto | None:
    """
    Judge a candidate that would start on the first slot.

    :param reservations: of strictly higher classes, in arrival order; read only as far as
        needed.
    :param free_at: predicted end of what runs on each slot, never before now; the first slot
        is the one that the candidate would take.
    """
    alone = (clock.now_ns + stay.alone_ns, True)
    end_ns, squares = stay.behind(free_at[0][0], 0)
    end = (end_ns, free_at[0][1])
    if not clock.is_later(end, alone):
        end, squares = alone, 0
    judged: list[Reservation] = []
    if len(free_at) == 1:
        if _first_victim_on_one_slot(
                reservations, judged, free_at[0][0], end[0], squares,
                likely_on(likely_free, Clockwork(clock.now_ns))) is None:
            return None
        reservations, judged = judged, []
    without, beside = _Schedule.of(free_at), _Schedule.of([end, *free_at[1:]])
    beside.squares[0] = squares
    late_ns = _first_victim(reservations, judged, without, beside, clock,
                            likely_on(likely_free, clock))
    if late_ns is None:
        return None
    for reservation in judged:
        clock.note(reservation.changes_at_ns)
    return Veto(judged[-1], late_ns, clock.until_ns)


def longest_that_fits_ns(reservations: Callable[[], Iterable[Reservation]],
                         free_at: Sequence[Instant], planned_ns: int, late_ns: int,
                         now_ns: int, likely_free: LikelyFree) -> int | None:
    """
    Say which shorter run of a vetoed candidate would not be vetoed.

    On one slot it is the longest: each try takes away by how much a frame would be late.

    :param planned_ns: how long it keeps its slot after that is free.
    :param late_ns: by how much that run makes the first frame late.
    :returns: ``None`` where not even the shortest tries are short enough.
    """
    for _ in range(MOST_TRIES):
        planned_ns -= late_ns
        if planned_ns <= 0:
            return None
        end_ns, clock = free_at[0][0] + planned_ns, Clockwork(now_ns)
        likely = likely_on(likely_free, clock)
        if len(free_at) == 1:
            found = _first_victim_on_one_slot(
                reservations(), [], free_at[0][0], end_ns, 0, likely)
        else:
            found = _first_victim(
                reservations(), [], _Schedule.of(free_at),
                _Schedule.of([(end_ns, True), *free_at[1:]]), clock, likely)
        if found is None:
            return planned_ns
        late_ns = found
    return None


def fits_with_one_more_slot(reservations: Iterable[Reservation], free_at: Sequence[Instant],
                            planned_ns: int, now_ns: int, likely_free: LikelyFree) -> bool:
    """Whether a vetoed candidate could have started on another slot, free now."""
    clock = Clockwork(now_ns)
    return _first_victim(
        reservations, [], _Schedule.of([(now_ns, True), *free_at]),
        _Schedule.of([(now_ns + planned_ns, True), *free_at]), clock,
        likely_on(lambda clock: [(now_ns, True), *likely_free(clock)], clock)) is None


class _Schedule:
    """When each slot is free, with all slack; and the squares of the slack in that."""

    __slots__ = ('free_at', 'squares')

    def __init__(self, free_at: list[Instant], squares: list[int]) -> None:
        self.free_at = free_at
        self.squares = squares

    @classmethod
    def of(cls, free_at: Sequence[Instant]) -> '_Schedule':
        """Make one without slack that was learned."""
        return cls(list(free_at), [0] * len(free_at))

    @property
    def sorted(self) -> list[tuple[Instant, int]]:
        """The slots, whichever is which."""
        return sorted(zip(self.free_at, self.squares))

    def serve(self, reservation: Reservation, clock: Clockwork) -> Instant:
        """Put a reservation on the slot that is free first and say when it finishes."""
        slot = clock.first(self.free_at)
        end_ns, is_moving = self.free_at[slot]
        finish_ns, squares = reservation.stay.behind(end_ns, self.squares[slot])
        finish = (finish_ns, is_moving)
        least = (reservation.arrival_ns + reservation.stay.alone_ns, reservation.is_moving)
        if not clock.is_later(finish, least):
            finish, squares = least, 0
        self.free_at[slot], self.squares[slot] = finish, squares
        return finish


def _first_victim(expected: Iterable[Reservation], judged: list[Reservation],
                  without: _Schedule, beside: _Schedule, clock: Clockwork, likely: Likely
                  ) -> int | None:
    """
    Say how much later the candidate makes the first reservation that it makes late, if any.

    :param judged: takes in what was read.
    :param likely: asked about what is late without the candidate too.
    """
    for reservation in expected:
        if (max(beside.free_at)[0] <= reservation.arrival_ns
                or without.sorted == beside.sorted):
            return None
        judged.append(reservation)
        alone = without.serve(reservation, clock)
        finish = beside.serve(reservation, clock)
        deadline = (reservation.deadline_ns, reservation.is_moving)
        if finish[0] <= max(alone[0], deadline[0]):
            continue
        if alone[0] <= deadline[0]:
            clock.is_later(alone, deadline)
        elif likely.is_in_time(judged, deadline):
            clock.is_later(finish, alone)
        else:
            continue
        clock.is_later(finish, deadline)
        return finish[0] - max(alone[0], deadline[0])
    return None


def _first_victim_on_one_slot(expected: Iterable[Reservation], judged: list[Reservation],
                              alone_ns: int, beside_ns: int, squares: int, likely: Likely
                              ) -> int | None:
    """Do the same where there is nothing to choose: one slot is the usual case, and hot."""
    alone_squares = 0
    for reservation in expected:
        arrival_ns, stay = reservation.arrival_ns, reservation.stay
        if beside_ns <= arrival_ns or (alone_ns == beside_ns and alone_squares == squares):
            return None
        judged.append(reservation)
        least_ns = arrival_ns + stay.alone_ns
        if stay.slack_ns:
            alone_ns, alone_squares = stay.behind(alone_ns, alone_squares)
            beside_ns, squares = stay.behind(beside_ns, squares)
        else:
            alone_ns += stay.planned_ns
            beside_ns += stay.planned_ns
        if alone_ns <= least_ns:
            alone_ns, alone_squares = least_ns, 0
        if beside_ns <= least_ns:
            beside_ns, squares = least_ns, 0
        limit_ns = max(alone_ns, reservation.deadline_ns)
        if beside_ns > limit_ns and (alone_ns <= reservation.deadline_ns or likely.is_in_time(
                judged, (reservation.deadline_ns, reservation.is_moving))):
            return beside_ns - limit_ns
    return None


MOST_TRIES = 4
"""How often a shorter run is looked for: what is said of a veto must cost less than the veto."""
