"""Wait for something that another thread or process will do."""

from collections.abc import Callable
import time
from typing import TypeVar

_T = TypeVar('_T')


def wait_until(condition: Callable[[], _T], timeout: float = 5.0, what: str = '') -> _T:
    """
    Poll ``condition`` every 5 ms and give its first truthy value.

    :param timeout: seconds.
    :raises AssertionError: with ``what`` when the time is over.
    """
    end = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f'not within {timeout:g} s: {what or condition}')
        time.sleep(0.005)
    return value
