"""Wait for something that another thread or process will do."""

from collections.abc import Callable
import time
from typing import TypeVar

_T = TypeVar('_T')


def wait_until(condition: Callable[[], _T], timeout: float = 5.0,
               what: str | Callable[[], str] = '') -> _T:
    """
    Poll ``condition`` every 5 ms and give its first truthy value.

    :param timeout: seconds.
    :param what: what was waited for, or a function that says it with the newest numbers.
    :raises AssertionError: with ``what`` when the time is over.
    """
    end = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > end:
            said = what() if callable(what) else what
            raise AssertionError(f'not within {timeout:g} s: {said or condition}')
        time.sleep(0.005)
    return value
