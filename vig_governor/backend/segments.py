"""
Pieces of input memory and whether the server knows them.

The registrar owns the one thread that talks to the server about shared memory, so that neither
an encoder nor ``infer`` ever waits for it: until the server knows a segment, tensors in it travel
inline. An *epoch* ends when the server may have been restarted; what was registered before counts
for nothing afterwards, and is registered again.

    PRIVATE                                   never shared
    NEW --enqueued--> ASKED --yes--> SHARED   the name is unlinked, the mapping stays
     ^                  |---no----> REFUSED   until the next epoch
     '---unreachable----'                     tried again after a pause
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
import logging
import mmap
from queue import Empty, SimpleQueue
import threading
import time

from vig_governor.backend.budget import RegionBudget
from vig_governor.backend.shared_memory import KEY_PREFIX, SharedRegion
from vig_governor.threads import NamedThread

_log = logging.getLogger('vig.backend')

RETRY_AFTER_S = 0.25


class Refused(Exception):
    """The server answered that it will not use a region."""


class Unreachable(Exception):
    """The server did not answer; whether it knows the region is open."""


class Knowledge(Enum):
    """What the server knows of a segment."""

    PRIVATE = 'private'
    NEW = 'new'
    ASKED = 'asked'
    SHARED = 'shared'
    REFUSED = 'refused'


@dataclass(slots=True, eq=False)
class Segment:
    """Input memory; its fields below ``memory`` belong to the registrar."""

    byte_size: int
    memory: bytearray | mmap.mmap
    region: SharedRegion | None = None
    knowledge: Knowledge = Knowledge.PRIVATE
    epoch: int = 0
    retry_at_s: float = 0.0
    _owner: 'Registrar | None' = field(default=None, repr=False)

    @property
    def is_outdated(self) -> bool:
        """Whether new memory would serve better: forgotten by the server, or short of room."""
        if self._owner is None:
            return False
        if self.knowledge is Knowledge.PRIVATE:
            return self._owner.budget.has_room
        return (self.epoch != self._owner.epoch
                and self.knowledge in (Knowledge.SHARED, Knowledge.REFUSED))


def private_segment(byte_size: int) -> Segment:
    """Give memory that only this process sees."""
    return Segment(byte_size, bytearray(byte_size))


class Registrar:
    """
    Registers segments at the server, off everybody's way.

    :param register: ``(name, key, byte_size)``; bounded in time; raises Refused or Unreachable.
    :param unregister: ``(name)``; the same.
    :param endpoint: named in warnings.
    :param budget: how many regions there may be; beyond it, memory is private.
    """

    def __init__(self, register: Callable[[str, str, int], None],
                 unregister: Callable[[str], None], *, endpoint: str,
                 key_prefix: str = KEY_PREFIX, budget: RegionBudget | None = None) -> None:
        self.budget = budget or RegionBudget()
        self._register = register
        self._unregister = unregister
        self._endpoint = endpoint
        self._key_prefix = key_prefix
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._refused_in: int | None = None
        self._accepted_in: int | None = None
        self._has_warned_of_budget = False
        self.epoch = 0

    def probe(self) -> None:
        """
        Find out now whether the server takes shared memory at all; waits for the answer.

        Asks once in an epoch: the streams of a node are opened one after the other.

        :raises Refused: it does not, or there is no shared memory on this host.
        :raises Unreachable: it did not answer.
        """
        if self._accepted_in == self.epoch:
            return
        try:
            region = SharedRegion(1, self._key_prefix)
        except OSError as error:
            self._refused_in = self.epoch
            raise Refused(f'no shared memory on this host: {error}') from None
        try:
            self._register(region.name, region.key, region.byte_size)
            self._unregister(region.name)
        except Refused:
            self._refused_in = self.epoch
            raise
        finally:
            region.unlink()
        self._refused_in = None
        self._accepted_in = self.epoch

    def segment(self, byte_size: int) -> Segment:
        """Give memory to share, or private memory where sharing cannot work at present."""
        if self._is_closed or self._refused_in == self.epoch:
            return private_segment(byte_size)
        if not self.budget.take():
            self._warn_of_budget()
            return Segment(byte_size, bytearray(byte_size), _owner=self)
        try:
            region = SharedRegion(byte_size, self._key_prefix)
        except OSError as error:
            self.budget.give()
            self._warn(f'no shared memory of {byte_size} bytes on this host ({error})')
            return private_segment(byte_size)
        segment = Segment(region.byte_size, region.memory, region, Knowledge.NEW, self.epoch,
                          _owner=self)
        self._ask(segment)
        return segment

    def may_refer_to(self, segment: Segment) -> bool:
        """Whether the server can read the segment itself; asks it for the next time if not."""
        if segment.knowledge is Knowledge.SHARED:
            return segment.epoch == self.epoch
        if segment.knowledge is Knowledge.NEW and time.monotonic() >= segment.retry_at_s:
            self._ask(segment)
        return False

    def discard(self, segment: Segment) -> None:
        """Forget a segment that no execution uses any more."""
        if segment.region is None:
            return
        if not self._submit(lambda: self._forget(segment)):
            segment.region.unlink()
            self.budget.give()

    def start_epoch(self) -> None:
        """Take the server to have forgotten everything: a connection broke, a region is gone."""
        with self._lock:
            self.epoch += 1

    def close(self, *, timeout_s: float) -> None:
        """Finish what is queued within the time, then end; idempotent."""
        with self._lock:
            self._is_closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join(timeout_s)
        while True:
            try:
                self._jobs.get_nowait()
            except Empty:
                return

    def _ask(self, segment: Segment) -> None:
        with self._lock:
            if segment.knowledge is not Knowledge.NEW:
                return
            segment.knowledge = Knowledge.ASKED
        self._submit(lambda: self._introduce(segment))

    def _submit(self, job: Callable[[], None]) -> bool:
        with self._lock:
            if self._is_closed:
                return False
            if self._thread is None:
                self._thread = NamedThread(self._run, 'vig-shared-memory')
                self._thread.start()
            self._jobs.put(job)
            return True

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                _log.exception('shared memory at %s: unexpected failure', self._endpoint)
            del job  # or its segment stays mapped until the next job comes

    def _introduce(self, segment: Segment) -> None:
        region = segment.region
        assert region is not None
        epoch = self.epoch
        try:
            self._register(region.name, region.key, region.byte_size)
        except Refused as error:
            region.unlink()
            self._settle(segment, Knowledge.REFUSED, epoch)
            self._warn(f'the server refuses shared memory ({error})')
        except Unreachable:
            segment.retry_at_s = time.monotonic() + RETRY_AFTER_S
            self._settle(segment, Knowledge.NEW, epoch)
        else:
            region.unlink()
            self._settle(segment, Knowledge.SHARED, epoch)

    def _settle(self, segment: Segment, knowledge: Knowledge, epoch: int) -> None:
        with self._lock:
            segment.knowledge, segment.epoch = knowledge, epoch

    def _forget(self, segment: Segment) -> None:
        assert segment.region is not None
        if segment.knowledge is Knowledge.SHARED:
            try:
                self._unregister(segment.region.name)
            except (Refused, Unreachable) as error:
                _log.debug('region %s stays registered at %s: %s', segment.region.name,
                           self._endpoint, error)
        segment.region.unlink()
        self.budget.give()

    def _warn_of_budget(self) -> None:
        with self._lock:
            is_news, self._has_warned_of_budget = not self._has_warned_of_budget, True
        if is_news:
            _log.warning('%s: %d shared-memory regions are registered, as many as backend.security'
                         '.max_shm_regions allows; frames beyond them are copied through the '
                         'connection, which costs more with every megabyte', self._endpoint,
                         self.budget.most)

    def _warn(self, cause: str) -> None:
        with self._lock:
            is_news = self._refused_in != self.epoch
            self._refused_in = self.epoch
        if is_news:
            _log.warning('%s: %s; frames are copied through the connection instead, which costs '
                         'more with every megabyte', self._endpoint, cause)
