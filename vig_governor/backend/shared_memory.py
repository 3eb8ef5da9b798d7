"""
Memory that this process and the server both map.

A region is a file in ``/dev/shm``, mapped here. ``multiprocessing.shared_memory`` does not fit:
it starts a tracker process that unlinks what it believes forgotten, it leaves the memory
uncommitted, so that a full ``/dev/shm`` (64 MB in a container by default) kills the writer with
SIGBUS in the middle of a frame, and it refuses to close while an array still looks into it.
Here the memory is committed at creation, and the mapping ends with the last array.

The *name* lives only until the server has opened it: a mapping needs no name, so a governor that
is killed leaves nothing behind in ``/dev/shm``, but for the moment between the two. What dies
in that moment is swept up by the next governor.
"""

from collections.abc import Callable
import contextlib
import mmap
import os
from pathlib import Path
import re
import secrets
import time
import weakref

FOLDER = '/dev/shm'
KEY_PREFIX = '/vig_'
PAGE = mmap.PAGESIZE


def round_to_pages(byte_size: int) -> int:
    """Give the smallest number of bytes, in whole pages, that holds ``byte_size``."""
    return max(1, -(-byte_size // PAGE)) * PAGE


def region_name(key_prefix: str = KEY_PREFIX) -> str:
    """
    Make a name that can be neither guessed nor met by accident.

    :returns: the prefix without its slash, the process id and 96 random bits.
    """
    return f'{key_prefix.lstrip("/")}{os.getpid()}_{secrets.token_hex(12)}'


def server_name(name: str) -> str:
    """Say how the server is to call a region: with the space that our process number counts in."""
    return f'{name}_{_process_space()}'


class SharedRegion:
    """
    One committed, mapped and named piece of shared memory.

    :ivar key: POSIX name.
    :ivar name: what the server calls the region.
    :ivar memory: the mapping; arrays may look into it for as long as they like.
    :raises OSError: no space or no permission; nothing is left behind.
    """

    def __init__(self, byte_size: int, key_prefix: str = KEY_PREFIX) -> None:
        self.byte_size = round_to_pages(byte_size)
        self.key = f'/{region_name(key_prefix)}'
        self.name = server_name(self.key[1:])
        path = FOLDER + self.key
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._unlink: Callable[[], object] = weakref.finalize(self, _remove, path)
        try:
            os.posix_fallocate(file, 0, self.byte_size)
            self.memory = mmap.mmap(file, self.byte_size)
        except BaseException:
            self._unlink()
            raise
        finally:
            os.close(file)

    def unlink(self) -> None:
        """Take the name away; the memory lives on while somebody maps it. Idempotent."""
        self._unlink()


def sweep(key_prefix: str = KEY_PREFIX, *, older_than_s: float = 60.0) -> list[str]:
    """
    Remove names that processes of ours left when they were killed.

    A name is left over if it is ours to remove, no process has its number, and it is older than
    any registration takes: a process in another container may share ``/dev/shm`` but not our
    process numbers.

    :returns: the keys that were removed.
    """
    pattern = re.compile(re.escape(key_prefix.lstrip('/')) + r'(\d+)_[0-9a-f]{24}')
    removed = []
    for path in Path(FOLDER).glob(f'{key_prefix.lstrip("/")}*'):
        with contextlib.suppress(OSError):
            facts = path.stat()
            is_left_over = ((match := pattern.fullmatch(path.name)) is not None
                            and facts.st_uid == os.getuid()
                            and time.time() - facts.st_ctime > older_than_s
                            and not os.path.exists(f'/proc/{match[1]}'))
            if is_left_over:
                path.unlink()
                removed.append(f'/{path.name}')
    return removed


def is_left_at_the_server(name: str, key_prefix: str = KEY_PREFIX) -> bool:
    """Whether a registered region is one of ours whose process is gone."""
    match = re.fullmatch(
        re.escape(key_prefix.lstrip('/')) + r'(\d+)_[0-9a-f]{24}_' + _process_space(), name)
    return match is not None and not os.path.exists(f'/proc/{match[1]}')


def _process_space() -> str:
    """Name the space that process numbers count in: a container has one of its own."""
    try:
        return str(os.stat('/proc/self/ns/pid').st_ino)
    except OSError:
        return '0'


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
