"""
A page of shared memory by which a server process is known again.

Triton gives neither a process id nor a start time, and its counters do not show a restart that
happened before the first inference ended. But a region that it was told of is known to it as long
as it lives, and to no successor.
"""

from collections.abc import Callable, Iterable
import contextlib

from vig_governor.backend.base import BackendUnavailable
from vig_governor.backend.segments import Refused, Unreachable
from vig_governor.backend.shared_memory import (is_left_at_the_server, KEY_PREFIX,
                                                SharedRegion)


class Marker:
    """
    Not for several threads at once: the watch of the server is the only one that asks.

    :param register: see ``segments.Registrar``.
    :param unregister: see ``segments.Registrar``.
    :param knows: whether the server knows a region of that name; raises ``Unreachable``.
    """

    def __init__(self, register: Callable[[str, str, int], None],
                 unregister: Callable[[str], None], knows: Callable[[str], bool], *,
                 key_prefix: str = KEY_PREFIX) -> None:
        self._register = register
        self._unregister = unregister
        self._knows = knows
        self._key_prefix = key_prefix
        self._name = ''
        self._is_given_away = False

    def take_over(self, before: 'Marker') -> None:
        """Go on with the page of another marker, which tells nothing apart any more."""
        before._is_given_away = True
        self._name, before._name = before._name, ''

    def identity(self) -> str:
        """Give a name that stays the same while the server does; the last one in doubt."""
        if self._is_given_away:
            return ''
        try:
            if not self._name or not self._knows(self._name):
                self._name = self._place()
        except Unreachable:
            pass
        return self._name

    def close(self, *, attempts: int = 1) -> None:
        """
        Take the marker away; bounded by the calls it makes.

        :param attempts: how often a server that does not answer is asked.
        """
        name, self._name = self._name, ''
        for _ in range(attempts if name else 0):
            with contextlib.suppress(Unreachable):
                with contextlib.suppress(Refused):
                    self._unregister(name)
                return

    def _place(self) -> str:
        try:
            region = SharedRegion(1, self._key_prefix)
        except OSError:
            return ''
        try:
            self._register(region.name, region.key, region.byte_size)
        except Refused:
            return ''
        finally:
            region.unlink()
        return region.name


def forget_the_dead(region_names: Callable[[], Iterable[str]],
                    unregister: Callable[[str], None], key_prefix: str) -> int:
    """
    Unregister what killed processes of ours left; how many regions that were.

    The server itself refuses while an inference still reads a region; that one stays.

    :param region_names: of all regions at the server; raises ``BackendUnavailable``.
    :param unregister: see ``segments.Registrar``.
    """
    count = 0
    with contextlib.suppress(BackendUnavailable):
        for name in region_names():
            if is_left_at_the_server(name, key_prefix):
                with contextlib.suppress(Refused, Unreachable):
                    unregister(name)
                    count += 1
    return count
