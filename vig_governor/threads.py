"""Threads whose names the system knows too, so that ``top -H`` says which of them works."""

from collections.abc import Callable
import threading

_LONGEST_NAME = 15
"""Of a thread, in bytes, as Linux keeps it."""


class NamedThread(threading.Thread):
    """A daemon thread that tells its name to the system where that is possible."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        """Make it; ``start`` starts it."""
        super().__init__(target=target, name=name, daemon=True)

    def run(self) -> None:
        """Tell the name, then do the work."""
        try:
            with open(f'/proc/self/task/{self.native_id}/comm', 'wb') as comm:
                comm.write(self.name.encode()[:_LONGEST_NAME])
        except OSError:
            pass
        super().run()
