"""
Notices that the wall clock was set back.

Where ROS was built for an old C library, as the Python packages of ``make setup`` are, a wait of
the middleware ends at an instant of the wall clock, also that of a timer on the steady clock. If
the clock is set back while it lasts, it lasts longer by as much, and ``/diagnostics`` and
``~/status`` are silent meanwhile. A timer that is reset waits anew.
"""

from collections.abc import Callable
import threading
import time

from vig_core.units import ms

from vig_governor.threads import NamedThread

PERIOD_S = 0.5
TOLERANCE_NS = ms(50)
"""A clock that is slewed moves much less in one period, and a shorter wait harms nobody."""


class WallClockWatch:
    """
    Compares the wall clock with the monotonic one, twice a second, on a thread of its own.

    :param on_set_back: called there with the nanoseconds by which the clock was set back.
    """

    def __init__(self, on_set_back: Callable[[int], object]) -> None:
        self._on_set_back = on_set_back
        self._closing = threading.Event()
        self._ahead_ns = _ahead_ns()
        self._thread = NamedThread(self._run, 'vig-wall-clock')
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._thread.join(PERIOD_S)

    def _run(self) -> None:
        while not self._closing.wait(PERIOD_S):
            before_ns, self._ahead_ns = self._ahead_ns, _ahead_ns()
            if self._ahead_ns < before_ns - TOLERANCE_NS:
                self._on_set_back(before_ns - self._ahead_ns)


def _ahead_ns() -> int:
    """How far the wall clock is ahead of the monotonic one; changes only when it is set."""
    return time.time_ns() - time.monotonic_ns()
