"""
The guarded streams: those of class ``protected`` or ``high`` whose contract names a period.

Rule: one forecast for each model and supersession key, made by the first arrival.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from vig_core.forecast import ArrivalForecast, NEVER_ALIVE_NS
from vig_core.model import Model
from vig_core.request import Request

MAX_GUARDS = 1024

_INSTANT_AND_INDEX = itemgetter(0, 1)


@dataclass(slots=True, eq=False)
class Guard:
    """A guarded stream and its forecast; ``stream`` is the one that arrived last."""

    stream: str
    model: Model
    forecast: ArrivalForecast


class Guards:
    """The guarded streams by model and supersession key."""

    def __init__(self) -> None:
        """Guard nothing until something arrives."""
        self._guards: dict[tuple[str, str], Guard] = {}
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
            guard = Guard(request.stream, request.model, ArrivalForecast(request.model.contract))
            self._guards[request.model.name, key] = guard
        guard.stream = request.stream
        guard.forecast.note(arrived_at_ns=request.arrived_at_ns,
                            captured_at_ns=request.generation_ns)
        self._alive_until_ns = max(self._alive_until_ns, guard.forecast.alive_until_ns)
        return guard.forecast

    def is_any_alive(self, now_ns: int) -> bool:
        """Whether any frame of a guarded stream is still expected."""
        return now_ns <= self._alive_until_ns

    def in_arrival_order(self, now_ns: int) -> list[tuple[int, int, Guard]]:
        """List expected arrivals: the instant, a tie-breaker, and the guard."""
        arrivals = []
        for index, guard in enumerate(self._guards.values()):
            arrival_ns = guard.forecast.arrival_ns(now_ns)
            if arrival_ns is not None:
                arrivals.append((arrival_ns, index, guard))
        arrivals.sort(key=_INSTANT_AND_INDEX)
        return arrivals

    def forget(self) -> None:
        """Expect nothing until the next arrivals."""
        for guard in self:
            guard.forecast.forget()
        self._alive_until_ns = NEVER_ALIVE_NS

    def _forget_stopped(self, now_ns: int) -> None:
        self._guards = {key: guard for key, guard in self._guards.items()
                        if now_ns <= guard.forecast.alive_until_ns}
