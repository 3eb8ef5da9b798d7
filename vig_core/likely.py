"""
What is given up: expected frames that would be late even by the medians (adr/0032).

What is promised is judged conservatively. Whether a frame is lost anyway is a verdict that cannot
be taken back: a frame that is late by plan and probably is not still holds back what would make it
later. Judged by the plan alone, a frame that once began late gives up the next one, whose delay
gives up the one after that.
"""

from collections.abc import Callable, Sequence

from vig_core.clockwork import Clockwork, Instant
from vig_core.reservation import Reservation


class Likely:
    """When expected frames would probably end without the candidate; made where it matters."""

    __slots__ = ('_clock', '_begin', '_serve', '_served')

    def __init__(self, begin: Callable[[Clockwork], Callable[[Reservation], Instant]],
                 clock: Clockwork) -> None:
        """
        Wait to be asked.

        :param begin: gives what puts a reservation behind those before it and says when it ends.
        """
        self._begin = begin
        self._clock = clock
        self._serve: Callable[[Reservation], Instant] | None = None
        self._served = 0

    def is_in_time(self, judged: Sequence[Reservation], deadline: Instant) -> bool:
        """Whether the last of the frames that were judged so far ends by its deadline."""
        if self._serve is None:
            self._serve = self._begin(self._clock)
        for reservation in judged[self._served:]:
            finish = self._serve(reservation)
        self._served = len(judged)
        return not self._clock.is_later(finish, deadline)


LikelyFree = Callable[[Clockwork], list[Instant]]
"""Predicts by the medians when each slot is free, in the order of ``free_at``."""


def likely_on(likely_free: LikelyFree, clock: Clockwork) -> Likely:
    """Serve frames by their medians on slots that are free by those of what runs."""
    def begin(clock: Clockwork) -> Callable[[Reservation], Instant]:
        free_at = likely_free(clock)

        def serve(reservation: Reservation) -> Instant:
            slot = clock.first(free_at)
            start_ns, is_moving = clock.later(
                free_at[slot], (reservation.arrival_ns, reservation.is_moving))
            free_at[slot] = start_ns + reservation.likely_ns, is_moving
            return free_at[slot]
        return serve
    return Likely(begin, clock)
