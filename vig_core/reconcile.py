"""
What a server's completion counters prove about executions that nobody has answered.

Rules:

- Only quiet is proven, never one request: everything that was sent to a model is over when its
  counter has grown by as much as was sent since a moment at which nothing was on its way.
- Servers count a moment after they answer, so that moment takes two readings that agree.
- What may not have been counted is taken as counted: in doubt nothing is proven.
- A counter that falls, or a server that is another process, begins an epoch, and is seen to do so
  a while after it did. So what is open then counts as of the new epoch: it may have been sent to
  the new server. Only a call whose connection had broken before a moment at which nobody listened
  at the server's address was sent to an earlier one.
- Such a call of an earlier epoch is over once the server is seen counting again: then the new one
  really executes. If the process is known to be the same it is not: an unloaded model finishes
  what it has begun.
- A counter that grows by more than was sent counts for somebody else too; from then on it proves
  nothing in this epoch.

Assumes, as the whole package does, that this governor is the only client of its models.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum


class Ending(Enum):
    """How a call ended, and what the server's counter makes of it."""

    COUNTED = 'counted'
    NOT_COUNTED = 'not counted'
    UNCLEAR = 'unclear'
    BROKEN = 'broken'


@dataclass(slots=True)
class _Call:
    """
    A call whose end is not proven.

    :ivar is_broken: no answer can come any more.
    :ivar is_of_before: since it broke, nobody has listened at the server's address for a moment.
    """

    epoch: int
    identity: str
    is_broken: bool = False
    is_of_before: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """
    What one look at a counter has shown.

    :ivar over: calls that are proven to be over, answered ones excepted.
    :ivar is_new_epoch: whether the server or the model was started anew since the last look.
    :ivar foreign: executions beyond ours since this was first seen; 0 if there are none.
    """

    over: tuple[int, ...] = ()
    is_new_epoch: bool = False
    foreign: int = 0


class ModelBook:
    """
    What was sent to one backend model, against what its server has counted.

    :ivar sends: how many calls were ever sent; remember it before a reading begins.
    """

    def __init__(self) -> None:
        """Begin with nothing sent and nothing known of the server."""
        self.sends = 0
        self._calls: dict[int, _Call] = {}
        self._epoch = 0
        self._identity = ''
        self._last: int | None = None
        self._first = 0
        self._baseline: int | None = None
        self._quiet_at: tuple[int, int] | None = None
        self._ended = 0
        self._is_foreign = False

    def __iter__(self) -> Iterator[int]:
        """Go through the calls whose end is not proven, running ones included."""
        return iter(self._calls)

    @property
    def is_counting(self) -> bool:
        """Whether a baseline is known, so that the counter can prove anything."""
        return self._baseline is not None

    @property
    def broken(self) -> tuple[int, ...]:
        """The calls that only the counter can prove to be over."""
        return tuple(call_id for call_id, call in self._calls.items() if call.is_broken)

    def note_sent(self, call_id: int) -> None:
        """Book a call before it leaves."""
        self.sends += 1
        self._calls[call_id] = _Call(self._epoch, self._identity)

    def note_ended(self, call_id: int, ending: Ending) -> None:
        """Book the end of a call; a broken one stays until the counter proves its end."""
        call = self._calls.get(call_id)
        if call is None:
            return
        if ending is Ending.BROKEN:
            call.is_broken = True
            return
        del self._calls[call_id]
        if ending is not Ending.NOT_COUNTED and call.epoch == self._epoch:
            self._ended += 1

    def note_nobody_listened(self, broken_before: Iterable[int]) -> None:
        """
        Book that the server's address refused a connection.

        :param broken_before: ``broken`` as it was before the connection was tried.
        """
        for call_id in broken_before:
            if call_id in self._calls:
                self._calls[call_id].is_of_before = True

    def read(self, finished: int, *, identity: str = '', sends_before: int) -> Reading:
        """
        Take one reading of the counter.

        :param finished: requests that have left the model, well or not, all callers together.
        :param identity: of the server process; empty where it cannot be told.
        :param sends_before: ``sends`` as it was before the server was asked.
        """
        is_new_epoch = self._is_new_epoch(finished, identity)
        if is_new_epoch:
            self._begin_epoch(identity)
        elif not self._identity:
            self._recognise(identity)
        if is_new_epoch or self._last is None:
            self._first = finished
        self._identity = identity or self._identity
        self._last = finished
        over = self._of_earlier_epochs(finished)
        foreign = 0
        if self._baseline is None:
            self._settle(finished, sends_before)
        else:
            current = [call_id for call_id, call in self._calls.items()
                       if call.epoch == self._epoch]
            foreign = max(0, finished - self._baseline - self._ended - len(current))
            self._is_foreign = self._is_foreign or foreign > 0
            if not self._is_foreign and finished - self._baseline == self._ended + len(current):
                over += current
        for call_id in over:
            self._close(call_id)
        return Reading(tuple(over), is_new_epoch, foreign)

    def _begin_epoch(self, identity: str) -> None:
        """Count what is open as of the new epoch, unless it is known to be of before."""
        self._epoch += 1
        self._baseline = self._quiet_at = None
        self._is_foreign = False
        for call in self._calls.values():
            if not call.is_of_before:
                call.epoch, call.identity = self._epoch, identity

    def _recognise(self, identity: str) -> None:
        """Take the first process whose identity is known as that of all calls so far."""
        for call in self._calls.values():
            call.identity = identity

    def _settle(self, finished: int, sends_before: int) -> None:
        """Count from here if nothing is on its way, and nothing was at the last reading."""
        seen = (self.sends, finished) if self._is_quiet and self.sends == sends_before else None
        if seen is not None and seen == self._quiet_at:
            self._baseline, self._ended = finished, 0
        self._quiet_at = seen

    def _is_new_epoch(self, finished: int, identity: str) -> bool:
        has_fallen = self._last is not None and finished < self._last
        is_another = bool(identity and self._identity and identity != self._identity)
        return has_fallen or is_another

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing is on its way that the counter of this epoch may still count."""
        return all(call.epoch != self._epoch for call in self._calls.values())

    def _of_earlier_epochs(self, finished: int) -> list[int]:
        """
        Give what ran in earlier epochs and is over, now that the server counts again.

        A process that is known to be the same one may still compute for a model it has reloaded.
        """
        if finished <= self._first:
            return []
        return [call_id for call_id, call in self._calls.items()
                if call.epoch != self._epoch
                and (not call.identity or call.identity != self._identity)]

    def _close(self, call_id: int) -> None:
        """Forget a broken call that is over; an open one is still answered, and booked then."""
        call = self._calls[call_id]
        if call.is_broken:
            del self._calls[call_id]
            self._ended += call.epoch == self._epoch
