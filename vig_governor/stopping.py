"""
A wish to stop that a signal may utter at any moment, and steps that it must not break in two.

``threading.Event`` is no place for the wish: the handler runs on the main thread between any two
instructions, also while that thread holds the event's own lock, and then waits for itself for ever
(two signals in a row are enough, one from a terminal and one from a watcher).
"""

from collections.abc import Callable
import os
import select
import signal
import threading
from typing import Any, TypeVar

_Result = TypeVar('_Result')


class StopSignal:
    """Set by SIGTERM and SIGINT, once and for all; made on the main thread."""

    def __init__(self) -> None:
        """Take over both signals of this process."""
        self._is_set = False
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._set)

    def is_set(self) -> bool:
        """Whether a signal has come."""
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a signal; whether one has come."""
        if not self._is_set:
            select.select([self._read_end], [], [], timeout_s)
        return self._is_set

    def _set(self, number: int, frame: Any) -> None:
        if not self._is_set:
            self._is_set = True
            os.write(self._write_end, b'.')


def in_one_piece(step: Callable[[], _Result]) -> _Result:
    """
    Run ``step`` and give its result; a SIGTERM or SIGINT that comes meanwhile counts after it.

    For a child that is started and then noted: one that runs and is not noted yet would outlive
    us. Only the main thread is ever interrupted, so elsewhere this only calls ``step``.
    """
    if threading.current_thread() is not threading.main_thread():
        return step()
    came: list[int] = []
    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            # A child inherits what is ignored, and only that.
            if signal.getsignal(number) not in (None, signal.SIG_IGN):
                before[number] = signal.signal(number, lambda number, _: came.append(number))
        return step()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)
