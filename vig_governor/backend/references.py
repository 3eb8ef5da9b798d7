"""
Regions that producers lend: memory of other processes that the server reads on our word.

The governor neither maps nor reads them. It looks at the inode behind the name, for every frame
anew: a name of the allowed form, a plain file, its owner, its size. It keeps the inode open
without access (``O_PATH``), so that its number names this region and no other as long as it is
registered. A region is registered once and unregistered when it has vanished from ``/dev/shm``,
when room for another is needed, or at the end; never while an execution may still read it,
because servers were seen to crash when memory was taken from under them.

The server is given a name of our own: a second link to the very inode that was looked at, which
lives only until the server has opened it. So nobody can put another region under the name between
the look and the opening, and a region that replaces one still in use, or one that a killed
governor left registered, can be registered at all: Triton 2.51 refuses a key that it knows.

What cannot be prevented from here: a producer that shortens a region *while* the server reads it
makes the server fault. That is why the owner is checked.
"""

from collections import deque
from collections.abc import Callable, Iterator
import contextlib
import itertools
import logging
import os
import re
import stat
import threading
import time

from vig_governor.backend.base import NoFreeSlot, ReferenceRefused
from vig_governor.backend.budget import RegionBudget
from vig_governor.backend.segments import Refused, Unreachable
from vig_governor.backend.shared_memory import FOLDER, KEY_PREFIX, region_name, server_name

_log = logging.getLogger('vig.backend')

MAX_KEY_LENGTH = 200
HOUSEKEEPING_S = 1.0
_REST = re.compile(r'[A-Za-z0-9_.\-]+')
_SHOWN = 80

Identity = tuple[int, int]
"""Device and inode: what a name stands for."""


class LentRegion:
    """
    One region of a producer; everything but its key belongs to ``References``.

    :ivar name: what the server calls it; empty until it is registered.
    :ivar inode: descriptor of the memory without access to it.
    :ivar users: executions that may read it.
    """

    def __init__(self, key: str, facts: os.stat_result) -> None:
        self.key = key
        self.identity: Identity = (facts.st_dev, facts.st_ino)
        self.byte_size = facts.st_size
        self.name = ''
        self.users = 0
        self.last_used = 0
        self.lock = threading.Lock()
        self.inode = os.open(FOLDER + key, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        seen = os.fstat(self.inode)
        if (seen.st_dev, seen.st_ino) != self.identity:
            self.close()
            raise FileNotFoundError

    def serves(self, facts: os.stat_result, end: int) -> bool:
        """Whether a tensor that ends at byte ``end`` of what the name now means lies in it."""
        return self.identity == (facts.st_dev, facts.st_ino) and end <= self.byte_size

    def close(self) -> None:
        """Let the inode go; idempotent."""
        inode, self.inode = self.inode, -1
        if inode >= 0:
            os.close(inode)


class References:
    """
    What is registered of others' memory; safe to use from several threads.

    :param register: ``(name, key, byte_size)``; bounded in time; raises Refused or Unreachable.
    :param unregister: ``(name)``; the same.
    :param owners: user ids whose regions are accepted; empty: that of this process.
    """

    def __init__(self, register: Callable[[str, str, int], None],
                 unregister: Callable[[str], None], *, endpoint: str, budget: RegionBudget,
                 key_prefix: str = KEY_PREFIX, owners: tuple[int, ...] = ()) -> None:
        self._register = register
        self._unregister = unregister
        self._endpoint = endpoint
        self._budget = budget
        self._key_prefix = key_prefix
        self._owners = owners or (os.geteuid(),)
        self._regions: dict[str, LentRegion] = {}
        self._retired: list[LentRegion] = []
        self._doubtful: deque[str] = deque(maxlen=64)
        self._turns = itertools.count(1)
        self._lock = threading.Lock()
        self._must_end = threading.Event()
        self._thread: threading.Thread | None = None

    def lend(self, key: str, offset: int, byte_size: int) -> LentRegion:
        """
        Give the registered region that holds these bytes; ``give_back`` when nobody reads them.

        Registers it if this is its first tensor, and then waits for the server's answer.

        :raises ReferenceRefused: no such region, not an allowed one, too small, or the server
            does not take it.
        :raises NoFreeSlot: the limit of regions is reached and an execution may read each.
        """
        facts = self._look(key)
        if byte_size < 1 or offset < 0 or offset + byte_size > facts.st_size:
            raise ReferenceRefused(f'{_shown(key)} holds {facts.st_size} bytes, but the tensor '
                                   f'takes {byte_size} from byte {offset} on')
        region = self._borrow(key, facts, offset + byte_size)
        try:
            with region.lock:
                if not region.name:
                    self._introduce(region)
        except BaseException:
            self._drop(region)
            raise
        return region

    def renew(self, region: LentRegion, forgotten: str) -> None:
        """
        Register a region again whose name ``forgotten`` the server no longer knows.

        :raises ReferenceRefused: as ``lend``; the region may also have vanished meanwhile.
        """
        with region.lock:
            if region.name == forgotten:
                region.name = ''
                self._introduce(region)

    def give_back(self, region: LentRegion) -> None:
        """End one use: the execution is over or never began."""
        with self._lock:
            region.users -= 1

    def close(self, *, timeout_s: float) -> None:
        """
        Unregister what no execution may read, within the time; idempotent.

        The rest stays registered until the server ends.
        """
        with self._lock:
            self._must_end.set()
            thread, self._thread = self._thread, None
            regions = [*self._regions.values(), *self._retired]
            self._regions.clear()
            self._retired.clear()
        end_s = time.monotonic() + timeout_s
        if thread is not None:
            thread.join(timeout_s)
        for region in regions:
            if region.users or time.monotonic() > end_s:
                region.close()
            else:
                self._end(region)

    def _look(self, key: str) -> os.stat_result:
        """Read what the name stands for now and refuse what must not be lent."""
        prefix = self._key_prefix
        if (len(key) > MAX_KEY_LENGTH or not key.startswith(prefix)
                or not _REST.fullmatch(key[len(prefix):])):
            raise ReferenceRefused(
                f'{_shown(key)} is no allowed name: it must begin with {prefix} (backend.security.'
                'shm_key_prefix) and go on with letters, digits or _ . -, up to '
                f'{MAX_KEY_LENGTH} characters')
        try:
            facts = os.stat(FOLDER + key, follow_symlinks=False)
        except FileNotFoundError:
            raise _vanished(key) from None
        except OSError as error:
            raise ReferenceRefused(f'{_shown(key)} cannot be looked at: {error.strerror}'
                                   ) from None
        if not stat.S_ISREG(facts.st_mode):
            raise ReferenceRefused(f'{_shown(key)} is no plain shared-memory object')
        if facts.st_uid not in self._owners:
            raise ReferenceRefused(
                f'{_shown(key)} belongs to user {facts.st_uid}; accepted are '
                f'{", ".join(str(owner) for owner in self._owners)} '
                '(backend.security.shm_owner_uids)')
        if facts.st_mode & stat.S_IWOTH:
            raise ReferenceRefused(f'{_shown(key)} may be written by everybody; create it with '
                                   'mode 0600, or 0660 and a group')
        return facts

    def _borrow(self, key: str, facts: os.stat_result, end: int) -> LentRegion:
        """Find or make the entry of a region and count one use."""
        while True:
            with self._lock:
                if self._must_end.is_set():
                    raise ReferenceRefused(f'the connection to {self._endpoint} is closed')
                region = self._regions.get(key)
                if region is not None and not region.serves(facts, end):
                    self._retired.append(self._regions.pop(key))
                    region = None
                if region is None and self._budget.take():
                    region = self._regions[key] = self._pin(key, facts)
                if region is not None:
                    region.users += 1
                    region.last_used = next(self._turns)
                    self._start_keeping_house()
                    return region
                unused = next(self._unused(), None)
                if unused is None:
                    raise NoFreeSlot(
                        f'{self._budget.most} shared-memory regions are registered '
                        '(backend.security.max_shm_regions) and each is in use: no room for '
                        f'{_shown(key)}')
                self._take_out(unused)
            self._end(unused)

    def _pin(self, key: str, facts: os.stat_result) -> LentRegion:
        try:
            return LentRegion(key, facts)
        except OSError:
            self._budget.give()
            raise _vanished(key) from None

    def _introduce(self, region: LentRegion) -> None:
        """Make the server open the region; the caller holds the region's lock."""
        name = server_name(region_name(self._key_prefix))
        try:
            with _second_link(region.inode, name):
                self._register(name, f'/{name}', region.byte_size)
        except FileNotFoundError:
            raise _vanished(region.key) from None
        except OSError as error:
            raise ReferenceRefused(f'{_shown(region.key)} cannot be given another name: '
                                   f'{error.strerror}') from None
        except Refused as error:
            raise ReferenceRefused(
                f'the server at {self._endpoint} does not take {_shown(region.key)}: {error}; '
                'it must see the same /dev/shm and may open the region for writing') from None
        except Unreachable as error:
            self._doubtful.append(name)
            raise ReferenceRefused(f'the server at {self._endpoint} did not answer about '
                                   f'{_shown(region.key)}: {error}') from None
        region.name = name

    def _drop(self, region: LentRegion) -> None:
        """Take back a use that came to nothing; an entry that serves nobody goes with it."""
        with self._lock:
            region.users -= 1
            is_useless = not region.users and not region.name
            if is_useless:
                self._take_out(region)
        if is_useless:
            self._end(region)

    def _unused(self) -> Iterator[LentRegion]:
        """Give regions that no execution may read, the most dispensable first."""
        yield from (region for region in self._retired if not region.users)
        yield from sorted((region for region in self._regions.values() if not region.users),
                          key=lambda region: region.last_used)

    def _take_out(self, region: LentRegion) -> None:
        if self._regions.get(region.key) is region:
            del self._regions[region.key]
        elif region in self._retired:
            self._retired.remove(region)

    def _end(self, region: LentRegion) -> None:
        if region.name:
            self._forget(region.name)
        region.close()
        self._budget.give()

    def _forget(self, name: str) -> None:
        try:
            self._unregister(name)
        except (Refused, Unreachable) as error:
            _log.debug('region %s stays registered at %s: %s', name, self._endpoint, error)

    def _start_keeping_house(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_house, daemon=True,
                                            name='vig-lent-memory')
            self._thread.start()

    def _keep_house(self) -> None:
        """Unregister what has vanished, once a second, whether or not frames come."""
        while not self._must_end.wait(HOUSEKEEPING_S):
            with self._lock:
                gone = [region for region in self._regions.values()
                        if self._identity(region.key) != region.identity]
                self._retired += [self._regions.pop(region.key) for region in gone]
                over = [region for region in self._retired if not region.users]
                self._retired = [region for region in self._retired if region.users]
            for region in over:
                self._end(region)
            for _ in range(len(self._doubtful)):
                self._forget(self._doubtful.popleft())

    @staticmethod
    def _identity(key: str) -> Identity | None:
        try:
            facts = os.stat(FOLDER + key, follow_symlinks=False)
        except OSError:
            return None
        return facts.st_dev, facts.st_ino


@contextlib.contextmanager
def _second_link(inode: int, name: str) -> Iterator[None]:
    """Give an open inode one more name for the time of the block."""
    folder = os.open(FOLDER, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Only with a folder's descriptor does Python follow the link below /proc.
        os.link(f'/proc/self/fd/{inode}', name, dst_dir_fd=folder)
        try:
            yield
        finally:
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)


def _vanished(key: str) -> ReferenceRefused:
    return ReferenceRefused(f'{_shown(key)} is not there or was replaced: a producer must keep '
                            'it until the status of its frame')


def _shown(key: str) -> str:
    return f'region {key[:_SHOWN]!r}'
