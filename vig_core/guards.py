"""
The guarded streams: those of class ``protected`` or ``high`` whose contract names a period.

Rule: one forecast for each model and supersession key, made by the first arrival.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass

from vig_core.forecast import ArrivalForecast, NEVER_ALIVE_NS
from vig_core.model import Model
from vig_core.request import Request
from vig_core.reservation import Reservation

MAX_GUARDS = 1024


@dataclass(slots=True, eq=False)
class Guard:
    """
    A guarded stream and its forecast.

    :ivar stream: the one that arrived last.
    :ivar due_ns: under which it is listed; ``None`` while it is not, because it has stopped.
    :ivar reservation: for its next frame, as long as nothing that it is made of changed.
    :ivar paced: the same as it binds frames of guarded streams, once it was asked for.
    :ivar book_version: of the planned runtimes that the reservation was made with.
    """

    number: int
    stream: str
    model: Model
    forecast: ArrivalForecast
    due_ns: int | None = None
    reservation: Reservation | None = None
    paced: Reservation | None = None
    book_version: int = -1


Expected = tuple[int, int, Guard]
"""From when on an arrival is expected, a tie-breaker, and whose it is."""


class Guards:
    """The guarded streams by model and supersession key, listed by their next expected arrival."""

    def __init__(self) -> None:
        """Guard nothing until something arrives."""
        self._guards: dict[tuple[str, str], Guard] = {}
        self._count = 0
        self._by_due: list[Expected] = []
        self._alive_until_ns = NEVER_ALIVE_NS

    def __iter__(self) -> Iterator[Guard]:
        """Go through all guards in the order in which they became known."""
        return iter(self._guards.values())

    def note(self, request: Request, key: str) -> ArrivalForecast:
        """Learn of an arrival of a guarded model; returns the forecast of its stream."""
        guard = self._guards.get((request.model.name, key))
        if guard is None:
            if len(self._guards) >= MAX_GUARDS:
                self._forget_stopped(request.arrived_at_ns)
            guard = Guard(self._count, request.stream, request.model,
                          ArrivalForecast(request.model.contract))
            self._count += 1
            self._guards[request.model.name, key] = guard
        guard.stream = request.stream
        guard.reservation = None
        guard.forecast.note(arrived_at_ns=request.arrived_at_ns,
                            captured_at_ns=request.generation_ns)
        self._list(guard, guard.forecast.due_ns)
        self._alive_until_ns = max(self._alive_until_ns, guard.forecast.alive_until_ns)
        return guard.forecast

    def is_any_alive(self, now_ns: int) -> bool:
        """Whether any frame of a guarded stream is still expected."""
        return now_ns <= self._alive_until_ns

    def in_arrival_order(self, now_ns: int) -> list[Expected]:
        """
        List expected arrivals; the list is to be read only, and before the next event.

        Those that are overdue may come at any moment: what is due for longer goes first.
        """
        for due_ns, _, guard in self._by_due[:bisect_left(self._by_due, (now_ns,))]:
            expected_ns = guard.forecast.expected_from_ns(now_ns)
            if expected_ns != due_ns:
                self._list(guard, expected_ns)
        return self._by_due

    def forget(self) -> None:
        """Expect nothing until the next arrivals."""
        for guard in self:
            guard.forecast.forget()
            guard.due_ns = guard.reservation = None
        self._by_due.clear()
        self._alive_until_ns = NEVER_ALIVE_NS

    def _list(self, guard: Guard, due_ns: int | None) -> None:
        """List a guard under another instant, or under none."""
        if guard.due_ns == due_ns:
            return
        if guard.due_ns is not None:
            del self._by_due[bisect_left(self._by_due, (guard.due_ns, guard.number))]
        guard.due_ns = due_ns
        if due_ns is not None:
            insort(self._by_due, (due_ns, guard.number, guard))

    def _forget_stopped(self, now_ns: int) -> None:
        stopped = [key for key, guard in self._guards.items()
                   if now_ns > guard.forecast.alive_until_ns]
        for key in stopped:
            self._list(self._guards.pop(key), None)
