"""
The floor: what somebody who knows every runtime in advance could reach, one stream on one slot.

A dynamic program over the frames in the order of their captures. A schedule picks frames, runs
them one after the other and never runs an older capture after a newer one, as every ``latest``
queue must. A run whose result would be too old is never worth its time, so it is left out.

State after a run: when it ended, what it covers, and what was uncovered until then. Of two states
after the same frame, one that ended no later with no more uncovered is never worse, so only the
others are kept; that is exact, not a heuristic.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownFrame:
    """One frame and what it costs, all in ns."""

    captured_at_ns: int
    arrives_at_ns: int
    runtime_ns: int


@dataclass(frozen=True, slots=True)
class Floor:
    """
    Least possible uncovered cycles and windows out of ``cycles``.

    :ivar windows: by a schedule that may also hold a run back until a later window begins.
    :ivar eager_windows: by one that starts each run as early as it can, as published.
    """

    cycles: int
    instants: int
    windows: int
    eager_windows: int

    @property
    def instant_permille(self) -> float:
        """Share of uncovered cycles."""
        return 1000 * self.instants / self.cycles if self.cycles else 0.0

    @property
    def window_permille(self) -> float:
        """Share of uncovered windows of an eager schedule."""
        return 1000 * self.eager_windows / self.cycles if self.cycles else 0.0


def floor_of(frames: Sequence[KnownFrame], *, period_ns: int, max_age_ns: int,
             duration_ns: int) -> Floor:
    """
    Compute both floors.

    :param frames: in the order of their captures.
    """
    cycles = duration_ns // period_ns
    horizon_ns = cycles * period_ns

    def missed(before_ns: int, covered_until_ns: int) -> int:
        """Count the cycles after what is covered and before an instant."""
        first = max(1, covered_until_ns // period_ns + 1)
        last = min(cycles, (before_ns - 1) // period_ns)
        return max(0, last - first + 1)

    def instant_cost(state: _State, _: KnownFrame, end_ns: int) -> int:
        return missed(end_ns, state.covered_until_ns)

    def window_gain(state: _State, _: KnownFrame, end_ns: int) -> int:
        window = end_ns // period_ns
        return -1 if window < cycles and window > state.end_ns // period_ns else 0

    def at_once(frame: KnownFrame, end_ns: int) -> tuple[int, ...]:
        return (end_ns,)

    def or_at_an_edge(frame: KnownFrame, end_ns: int) -> tuple[int, ...]:
        """End as early as possible, or exactly where a later window begins."""
        last_ns = frame.captured_at_ns + max_age_ns
        edges = range((end_ns // period_ns + 1) * period_ns, last_ns + 1, period_ns)
        return (end_ns, *edges)

    instants = min(state.cost + missed(horizon_ns + 1, state.covered_until_ns)
                   for state in _schedules(frames, max_age_ns, instant_cost, at_once))
    windows, eager = (
        cycles + min(state.cost for state in _schedules(
            frames, max_age_ns, window_gain, ends, first_end_ns=-1))
        for ends in (or_at_an_edge, at_once))
    return Floor(cycles, instants, windows, eager)


@dataclass(frozen=True, slots=True)
class _State:
    """After a run: when the slot is free, until when its result is fresh, the cost so far."""

    end_ns: int
    covered_until_ns: int
    cost: int


_Cost = Callable[[_State, KnownFrame, int], int]
_Ends = Callable[[KnownFrame, int], tuple[int, ...]]


def _schedules(frames: Sequence[KnownFrame], max_age_ns: int, cost: _Cost, ends: _Ends,
               first_end_ns: int = 0) -> list[_State]:
    """Give the best states after every last frame, and the one in which nothing ran."""
    fronts: list[list[_State]] = [[] for _ in frames]
    start = _State(first_end_ns, 0, 0)
    _extend(start, 0, frames, fronts, max_age_ns, cost, ends)
    for index in range(len(frames)):
        fronts[index] = _undominated(fronts[index])
        for state in fronts[index]:
            _extend(state, index + 1, frames, fronts, max_age_ns, cost, ends)
    return [start, *(state for front in fronts for state in front)]


def _extend(state: _State, first: int, frames: Sequence[KnownFrame], fronts: list[list[_State]],
            max_age_ns: int, cost: _Cost, ends: _Ends) -> None:
    """Add every state that follows by running one frame more."""
    enough_ns: int | None = None
    for index in range(first, len(frames)):
        frame = frames[index]
        if enough_ns is not None and frame.arrives_at_ns >= enough_ns:
            return
        end_ns = max(state.end_ns, frame.arrives_at_ns) + frame.runtime_ns
        if end_ns - frame.captured_at_ns > max_age_ns:
            continue
        # Whatever arrives after this one is done could run behind it: nothing is gained by idling.
        enough_ns = end_ns if enough_ns is None else min(enough_ns, end_ns)
        for ended_ns in ends(frame, end_ns):
            fronts[index].append(_State(ended_ns, frame.captured_at_ns + max_age_ns,
                                        state.cost + cost(state, frame, ended_ns)))


def _undominated(states: list[_State]) -> list[_State]:
    kept: list[_State] = []
    for state in sorted(states, key=lambda one: (one.end_ns, one.cost)):
        if not kept or state.cost < kept[-1].cost:
            kept.append(state)
    return kept
