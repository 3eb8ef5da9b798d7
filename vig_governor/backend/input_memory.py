"""The input memory of all streams: who gets a slot, and which transport fills it."""

from collections.abc import Callable
import logging
import threading

from vig_governor.backend.base import BackendUnavailable
from vig_governor.backend.budget import RegionBudget
from vig_governor.backend.references import References
from vig_governor.backend.segments import private_segment, Refused, Registrar, Unreachable
from vig_governor.backend.shared_memory import sweep
from vig_governor.backend.slots import Slot, SlotPool
from vig_governor.endpoints import is_loopback

_log = logging.getLogger('vig.backend')

TRANSPORTS = ('auto', 'shm', 'copy', 'refer')


class InputMemory:
    """
    One pool of slots for each open stream; safe to use from several threads.

    :param endpoint: of the server; ``auto`` shares memory with a server on this host only.
    :param register: see ``Registrar``.
    :param unregister: see ``Registrar``.
    :param max_regions: registered at once, our own and those that producers lend.
    :param owners: see ``References``.
    """

    def __init__(self, endpoint: str, register: Callable[[str, str, int], None],
                 unregister: Callable[[str], None], *, key_prefix: str, max_regions: int,
                 owners: tuple[int, ...]) -> None:
        self._endpoint = endpoint
        self._key_prefix = key_prefix
        budget = RegionBudget(max_regions)
        self.registrar = Registrar(register, unregister, endpoint=endpoint,
                                   key_prefix=key_prefix, budget=budget)
        self.references = References(register, unregister, endpoint=endpoint, budget=budget,
                                     key_prefix=key_prefix, owners=owners)
        self._pools: dict[str, SlotPool] = {}
        self._retired: list[SlotPool] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def open(self, stream: str, slots: int, transport: str) -> None:
        """
        Prepare a stream; one that is open is opened anew, and its requests keep their slots.

        :raises BackendUnavailable: ``shm`` or ``refer``, and the server refuses shared memory or
            does not answer.
        :raises ValueError: an unknown transport, or no slot.
        """
        if transport not in TRANSPORTS:
            raise ValueError(f'transport {transport!r} is none of {", ".join(TRANSPORTS)}')
        is_shared = transport == 'shm' or (transport == 'auto' and is_loopback(self._endpoint))
        if is_shared:
            sweep(self._key_prefix)
            self._probe(stream, 'set transport: copy' if transport == 'shm' else '')
        elif transport == 'refer':
            self._probe(stream, 'publish images instead of references')
        new_segment = self.registrar.segment if is_shared else private_segment
        pool = SlotPool(stream, slots, lambda: Slot(new_segment, self.registrar.discard,
                                                    self.references))
        with self._lock:
            self._refuse_if_closed()
            before = self._pools.get(stream)
            self._pools[stream] = pool
            if before is not None:
                self._retired = [old for old in self._retired if old.taken] + [before]
        if before is not None:
            before.retire()

    def acquire(self, stream: str, request_id: int) -> Slot:
        """
        Reserve a slot.

        :raises NoFreeSlot: all are taken.
        :raises KeyError: the stream was never opened.
        """
        with self._lock:
            self._refuse_if_closed()
            pool = self._pools[stream]
        return pool.acquire(request_id)

    def release(self, request_id: int) -> None:
        """Give the slot of a request back; unknown ids are ignored."""
        with self._lock:
            pools = [*self._pools.values(), *self._retired]
        for pool in pools:
            if pool.release(request_id):
                return

    def close(self, *, timeout_s: float) -> None:
        """
        Unregister and free what is not in use; idempotent.

        A region that an execution may still read stays registered until the server ends: servers
        were seen to crash when one was taken from under them. Its name is gone all the same.
        """
        with self._lock:
            self._is_closed = True
            pools = [*self._pools.values(), *self._retired]
        in_use = [segment for pool in pools for segment in pool.retire()]
        self.registrar.close(timeout_s=timeout_s)
        self.references.close(timeout_s=timeout_s)
        for segment in in_use:
            if segment.region is not None:
                segment.region.unlink()

    def _probe(self, stream: str, remedy: str) -> None:
        """Find out whether the server shares memory; with a remedy, it has to."""
        try:
            self.registrar.probe()
        except Refused as error:
            sentence = (f'the server at {self._endpoint} refuses shared memory for stream '
                        f'{stream!r} ({error})')
            if remedy:
                raise BackendUnavailable(
                    f'{sentence}: give both the same /dev/shm, or {remedy}') from None
            _log.warning('%s; its frames are copied through the connection instead, which costs '
                         'more with every megabyte', sentence)
        except Unreachable as error:
            if remedy:
                raise BackendUnavailable(
                    f'the server at {self._endpoint} did not answer about shared memory for '
                    f'stream {stream!r}: {error}') from None

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise BackendUnavailable(f'the connection to {self._endpoint} is closed')
