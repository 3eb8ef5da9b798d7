"""Which requests have been sent, and which ended for their client before anybody saw them end."""

from collections.abc import Callable

from vig_core.events import (BackendCompleted, BackendFailed, DispatchRefused, Event,
                             ExecutionsProvenOver)

from vig_governor.ports import Sending


class HeldInputs:
    """
    The input memory of one actor's requests; used on its thread, and by whoever reports late.

    :param sending: gives the memory of a request back.
    :param on_unproven: called when a request ended whose execution nobody saw end.
    """

    def __init__(self, sending: Sending, on_unproven: Callable[[], object]) -> None:
        self._sending = sending
        self._on_unproven = on_unproven
        self._sent: set[int] = set()
        self._unproven: set[int] = set()

    def __len__(self) -> int:
        """Count the ended requests that the server may still be computing."""
        return len(self._unproven)

    def note_sent(self, request_id: int) -> None:
        """Book a dispatch."""
        self._sent.add(request_id)

    def hold(self, request_id: int) -> None:
        """Keep the memory of a request whose client was told: its execution may go on."""
        self._unproven.add(request_id)
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
        self._sent.discard(request_id)
        self._unproven.discard(request_id)
        self._sending.release(request_id)

    def release_if_over(self, event: Event) -> None:
        """Give back what an event proves to be over that the scheduler had no use for."""
        if isinstance(event, ExecutionsProvenOver):
            for request_id in self.unproven(event.request_ids):
                self.release(request_id)
        elif (isinstance(event, BackendCompleted | DispatchRefused)
                or isinstance(event, BackendFailed) and event.is_over):
            self.release(event.request_id)
