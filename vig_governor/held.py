"""Which requests have been sent, and which ended for their client before anybody saw them end."""

from collections.abc import Callable
import threading

from vig_core.actions import Terminate
from vig_core.events import (BackendCompleted, BackendFailed, DispatchRefused, Event,
                             ExecutionsProvenOver, QuantumCompleted)
from vig_core.request import Reason

from vig_governor.ports import Sending

Sent = tuple[str, str]
"""The model of a request and the backend model that it was sent to."""
UNKNOWN: Sent = ('', '')


def ended_by_hand(request_id: int, stream: str, reason: Reason, detail: str,
                  holds_input: bool) -> Terminate:
    """Say how a request ended that the scheduler does not know, or no more."""
    return Terminate(request_id=request_id, stream=stream, model='', variant_id=None,
                     reason=reason, because=detail, age_ns=0, queue_wait_ns=0,
                     holds_input=holds_input)


class HeldInputs:
    """
    The input memory of one actor's requests; used on its thread, and by whoever reports late.

    :param sending: gives the memory of a request back.
    :param on_unproven: called when a request ended whose execution nobody saw end.
    """

    def __init__(self, sending: Sending, on_unproven: Callable[[], object]) -> None:
        self._sending = sending
        self._on_unproven = on_unproven
        self._sent: dict[int, Sent] = {}
        self._unproven: dict[int, Sent] = {}
        self._lock = threading.Lock()
        self._heir: Callable[[Event], object] | None = None

    def __len__(self) -> int:
        """Count the ended requests that the server may still be computing."""
        return len(self._unproven)

    def note_sent(self, request_id: int, sent: Sent) -> None:
        """Book a dispatch."""
        self._sent[request_id] = sent

    def adopt(self, request_id: int, sent: Sent) -> None:
        """Keep what an actor before this one has left."""
        self._sent[request_id] = sent
        self.hold(request_id)

    def leave(self, heir: Callable[[Event], object]) -> list[tuple[int, Sent]]:
        """Give up all that is held, in order; ``heir`` gets what is heard of it later."""
        with self._lock:
            self._heir = heir
            left, self._unproven = sorted(self._unproven.items()), {}
        return left

    def heard_late(self, event: Event) -> None:
        """Take what was heard after the actor ended."""
        with self._lock:
            heir = self._heir
            if heir is None:
                self.release_if_over(event)
        if heir is not None:
            heir(event)

    def hold(self, request_id: int) -> None:
        """Keep the memory of a request whose client was told: its execution may go on."""
        self._unproven[request_id] = self._sent.get(request_id, UNKNOWN)
        self._on_unproven()

    def hold_if_sent(self, request_id: int) -> bool:
        """Do that for a request that was dispatched; whether it was."""
        if request_id not in self._sent:
            return False
        self.hold(request_id)
        return True

    def unproven(self, request_ids: tuple[int, ...]) -> tuple[int, ...]:
        """Give those of these that are held."""
        return tuple(each for each in request_ids if each in self._unproven)

    def release(self, request_id: int) -> None:
        """Give the memory back: nobody reads it any more."""
        self._sent.pop(request_id, None)
        self._unproven.pop(request_id, None)
        self._sending.release(request_id)

    def release_if_over(self, event: Event) -> None:
        """Give back what an event proves to be over that the scheduler had no use for."""
        if isinstance(event, ExecutionsProvenOver):
            for request_id in self.unproven(event.request_ids):
                self.release(request_id)
        elif (isinstance(event, BackendCompleted | QuantumCompleted | DispatchRefused)
                or isinstance(event, BackendFailed) and event.is_over):
            self.release(event.request_id)
