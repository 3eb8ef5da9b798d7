"""What was sent to each model of one server, booked from many threads."""

from collections.abc import Callable, Mapping
import threading

from vig_core.reconcile import Ending, ModelBook, Reading


class Tally:
    """
    One ``ModelBook`` for each backend model, under a lock.

    :ivar on_broken: called, on the thread of the call, after a connection broke.
    """

    def __init__(self) -> None:
        self._books: dict[str, ModelBook] = {}
        self._lock = threading.Lock()
        self.on_broken: Callable[[], object] = _nothing

    def note_sent(self, backend_model: str, call_id: int) -> None:
        """Book a call before it leaves."""
        with self._lock:
            self._book(backend_model).note_sent(call_id)

    def note_ended(self, backend_model: str, call_id: int, ending: Ending) -> None:
        """Book how a call ended."""
        with self._lock:
            self._book(backend_model).note_ended(call_id, ending)
        if ending is Ending.BROKEN:
            self.on_broken()

    def sends(self, backend_model: str) -> int:
        """Count all calls so far; to be asked before the server is."""
        with self._lock:
            return self._book(backend_model).sends

    def read(self, backend_model: str, finished: int, *, identity: str,
             sends_before: int) -> Reading:
        """Take one reading of the server's counter; see ``ModelBook.read``."""
        with self._lock:
            return self._book(backend_model).read(finished, identity=identity,
                                                  sends_before=sends_before)

    def has_broken(self, backend_model: str) -> bool:
        """Whether an end is left that only the counter can prove."""
        with self._lock:
            return bool(self._book(backend_model).broken)

    def broken(self) -> dict[str, tuple[int, ...]]:
        """Give all calls of which that is so, by model; to be asked before anybody knocks."""
        with self._lock:
            return {model: calls for model, book in self._books.items() if (calls := book.broken)}

    def note_nobody_listened(self, broken_before: Mapping[str, tuple[int, ...]]) -> None:
        """Book a refused connection; see ``ModelBook.note_nobody_listened``."""
        with self._lock:
            for model, calls in broken_before.items():
                self._book(model).note_nobody_listened(calls)

    def has_open(self, backend_model: str) -> bool:
        """Whether any end is not proven yet, those of running calls included."""
        with self._lock:
            return any(True for _ in self._book(backend_model))

    @property
    def is_anything_open(self) -> bool:
        """Whether that holds for any model."""
        with self._lock:
            return any(True for book in self._books.values() for _ in book)

    def is_counting(self, backend_model: str) -> bool:
        """Whether the counter can prove anything yet."""
        with self._lock:
            return self._book(backend_model).is_counting

    def _book(self, backend_model: str) -> ModelBook:
        return self._books.setdefault(backend_model, ModelBook())


def _nothing() -> None:
    """Stand in for a listener."""
