"""
Stage A, ingress supersession: what waits, and what a newer capture replaces.

Rules:

- ``latest`` keeps one waiting request for the model, ``latest_per_key`` one for each key.
  Generation time decides, not arrival; of two equal captures the later arrival stays.
- A capture that is not newer than one already dispatched for its key never runs again.
- Under ``latest_per_key`` the keys take turns: the candidate is the one served longest ago. By
  deadline alone, cameras of one rate fall into step and one of them gets half of what others do.
- A job between two quanta keeps its place: in front of those that came later, without counting to
  the capacity. Under ``latest`` a newer capture ends it like any other that waits, but needs room
  of its own, as it would while a quantum of that job runs.
- ``fifo`` and ``never_drop`` keep their order and are never superseded.
- A full queue ends one request with ``capacity``: the new one, or, where the contract says
  ``reject_oldest_non_protected`` and the class allows it, the one that waits longest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vig_core.contract import Criticality, Overflow, QueuePolicy
from vig_core.model import Model
from vig_core.request import Reason, Request
from vig_core.why import Overtaken, QueueFull, Replaced

MAX_REMEMBERED_KEYS = 1024


@dataclass(slots=True)
class Ended:
    """A request that this stage ends, and why."""

    request: Request
    reason: Reason
    because: object


class WaitingQueue:
    """
    The waiting requests of one model.

    :ivar head: the request that may start next: of the key whose turn it is, or the front of
        the line; ``None`` while nothing waits.
    """

    def __init__(self, model: Model) -> None:
        """Start empty."""
        self.model = model
        self._waiting: dict[object, Request] = {}
        self._newest_dispatched: dict[str, tuple[int, int]] = {}
        self._turns: dict[str, int] = {}
        self._turn = 0
        self._is_latest = model.policy.is_latest
        self.head: Request | None = None

    def __len__(self) -> int:
        """Count the waiting requests."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        """Go through all waiting requests, oldest place first."""
        return iter(self._waiting.values())

    def supersession_key(self, key: str) -> str:
        """Name what 'the same stream' means under this model's policy."""
        return '' if self.model.policy is QueuePolicy.LATEST else key

    def replaced_bytes(self, key: str) -> int:
        """Payload bytes that a newer capture of this key would free by superseding."""
        if not self._is_latest:
            return 0
        waiting = self._waiting.get(self.supersession_key(key))
        return 0 if waiting is None else waiting.payload_bytes

    def offer(self, request: Request) -> tuple[Ended, ...]:
        """Let a request wait; name the requests that end for it, one of which may be itself."""
        ended = self._offer_latest(request) if self._is_latest else self._append(request)
        self._find_head()
        return ended

    def readmit(self, request: Request) -> tuple[Ended, ...]:
        """Let a job wait for its next quantum; name it if a newer capture has come meanwhile."""
        if not self._is_latest:
            self._waiting[request.request_id] = request
            self._waiting = dict(sorted(self._waiting.items(),
                                        key=lambda item: item[1].sequence))
            self._find_head()
            return ()
        key = self.supersession_key(request.key)
        newest = self._newest_dispatched.get(key)
        waiting = self._waiting.get(key)
        if waiting is not None:
            newest = waiting.generation_ns, waiting.request_id
        if newest is not None and newest[1] > request.request_id and (
                newest[0] >= request.generation_ns):
            return (Ended(request, Reason.SUPERSEDED,
                          Replaced(newest[1], newest[0] - request.generation_ns)),)
        self._waiting[key] = request
        self._find_head()
        return ()

    def remove(self, request: Request) -> None:
        """Take a request out: it starts or ends."""
        del self._waiting[self._place(request)]
        self._find_head()

    def note_dispatched(self, request: Request) -> None:
        """Remember the newest capture that was started for a key."""
        if not self._is_latest:
            return
        key = self.supersession_key(request.key)
        newest = self._newest_dispatched
        this = request.generation_ns, request.request_id
        newest[key] = max(this, newest.get(key, this))
        self._turn += 1
        self._turns[key] = self._turn
        if len(newest) > MAX_REMEMBERED_KEYS:
            oldest = min(newest, key=newest.__getitem__)
            del newest[oldest], self._turns[oldest]
        if len(self._waiting) > 1:
            self._find_head()

    def forget_dispatched(self) -> None:
        """Let captures from before now no longer compare with those to come."""
        self._newest_dispatched.clear()
        self._turns.clear()
        self._find_head()

    def _append(self, request: Request) -> tuple[Ended, ...]:
        """Let a request wait if there is room, or room can be made."""
        ended = self._make_room(request)
        if ended is None or ended.request is not request:
            self._waiting[self._place(request)] = request
        return () if ended is None else (ended,)

    def _find_head(self) -> None:
        waiting = self._waiting.values()
        if self._is_latest and len(waiting) > 1:
            self.head = min(waiting, key=self._place_in_turn)
        else:
            self.head = next(iter(waiting), None)

    def _place_in_turn(self, request: Request) -> tuple[bool, int, int, int]:
        turn = self._turns.get(self.supersession_key(request.key), 0)
        return not request.has_begun, turn, request.generation_ns, request.sequence

    def _place(self, request: Request) -> object:
        return self.supersession_key(request.key) if self._is_latest else request.request_id

    def _offer_latest(self, request: Request) -> tuple[Ended, ...]:
        key = self.supersession_key(request.key)
        dispatched = self._newest_dispatched.get(key)
        if dispatched is not None and request.generation_ns <= dispatched[0]:
            return (Ended(request, Reason.SUPERSEDED, Overtaken(
                dispatched[1], dispatched[0] - request.generation_ns, has_started=True)),)
        waiting = self._waiting.get(key)
        if waiting is None:
            return self._append(request)
        if request.generation_ns < waiting.generation_ns:
            return (Ended(request, Reason.SUPERSEDED, Overtaken(
                waiting.request_id, waiting.generation_ns - request.generation_ns,
                has_started=False)),)
        replaced = Ended(waiting, Reason.SUPERSEDED, Replaced(
            request.request_id, request.generation_ns - waiting.generation_ns))
        if not waiting.has_begun:
            self._waiting[key] = request
            return (replaced,)
        ended = self._append(request)
        return ended if self._waiting[key] is waiting else (*ended, replaced)

    def _make_room(self, request: Request) -> Ended | None:
        if len(self._waiting) < self.model.capacity:
            return None
        waiting = [each for each in self._waiting.values() if not each.has_begun]
        if len(waiting) < self.model.capacity:
            return None
        what = 'key' if self._is_latest else 'request'
        what += '' if self.model.capacity == 1 else 's'
        oldest = min(waiting, key=lambda each: each.sequence)
        because = QueueFull(self.model.name, self.model.capacity, what, oldest.request_id,
                            request.arrived_at_ns - oldest.arrived_at_ns)
        may_drop_oldest = (self.model.overflow is Overflow.REJECT_OLDEST_NON_PROTECTED
                           and self.model.policy is not QueuePolicy.NEVER_DROP
                           and self.model.criticality is not Criticality.PROTECTED)
        if not may_drop_oldest:
            return Ended(request, Reason.CAPACITY, because)
        self.remove(oldest)
        return Ended(oldest, Reason.CAPACITY, replace(because, gives_way_to=request.request_id))
