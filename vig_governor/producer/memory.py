"""
Memory that a producer shares with the server, by name.

Unlike the governor's own regions these keep their name, because the governor opens them by it.
The kernel holds a lock on each as long as its producer lives, whatever ends it and in whatever
container: that is how the next producer knows what a crashed one has left behind.
"""

import contextlib
import fcntl
import mmap
import os
from pathlib import Path
import re
import time
import weakref

from vig_core.errors import VigError

from vig_governor.backend.shared_memory import FOLDER, region_name, round_to_pages

PREFIX = '/vig_'
MIDDLE = 'producer_'
_YOUNG_S = 5.0
"""Younger names may belong to a producer that is about to lock them."""


class ProducerError(VigError):
    """Memory that cannot be had, or a frame that cannot be lent; says why."""


class ProducerMemory:
    """
    One committed, mapped, named and locked region.

    :ivar key: POSIX name; the process id in it is for people, the 96 random bits are not.
    :ivar memory: the mapping; it lives as long as an array looks into it.

    :param group: number of a group that may read and write it too; ``None``: nobody else.
    :raises ProducerError: no space or no permission; nothing is left behind.
    """

    def __init__(self, byte_size: int, *, key_prefix: str = PREFIX,
                 group: int | None = None) -> None:
        self.byte_size = round_to_pages(byte_size)
        self.key = '/' + region_name(key_prefix + MIDDLE)
        path = FOLDER + self.key
        try:
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ProducerError(f'no shared memory on this host: {error}') from None
        self._end = weakref.finalize(self, _end, path, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if group is not None:
                os.fchown(file, -1, group)
                os.fchmod(file, 0o660)
            os.posix_fallocate(file, 0, self.byte_size)
            self.memory = mmap.mmap(file, self.byte_size)
        except OSError as error:
            self._end()
            raise ProducerError(f'no shared memory of {self.byte_size} bytes: {error}') from None

    def close(self) -> None:
        """Take the name away; whoever maps the memory keeps it. Idempotent."""
        self._end()


def sweep(key_prefix: str = PREFIX) -> list[str]:
    """
    Remove what crashed producers of this user left behind.

    :returns: the keys that were removed.
    """
    start = (key_prefix + MIDDLE).lstrip('/')
    pattern = re.compile(re.escape(start) + r'\d+_[0-9a-f]{24}')
    removed = []
    for path in Path(FOLDER).glob(f'{start}*'):
        with contextlib.suppress(OSError):
            if pattern.fullmatch(path.name) and _is_left_behind(path):
                path.unlink()
                removed.append(f'/{path.name}')
    return removed


def _is_left_behind(path: Path) -> bool:
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(file)
        if facts.st_uid != os.geteuid() or time.time() - facts.st_ctime < _YOUNG_S:
            return False
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def _end(path: str, file: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.close(file)
