"""
Input slots: where the encoders write, and who may write there.

A slot belongs to one request from ``acquire`` to ``release`` and to nobody else, because the
server may read it until the end of the execution is proven. Its memory is a list of segments:
one in the steady state, more while a frame turns out to be bigger than all before. Segments are
exchanged only between two requests, so nothing is ever taken from under a running inference.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vig_governor.backend.base import NoFreeSlot, ReferenceRefused
from vig_governor.backend.references import LentRegion, References
from vig_governor.backend.segments import Segment
from vig_governor.datatypes import numpy_dtype

ALIGNMENT = 64
"""Tensors start at cache lines, which is also what vector instructions like."""


@dataclass(frozen=True, slots=True)
class FilledTensor:
    """
    One input as the encoder left it.

    :ivar array: of the tensor's type and shape; of ``object`` with bytes for BYTES.
    :ivar segment: the memory it lies in; ``None`` for what is always sent inline.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    array: NDArray[Any]
    segment: Segment | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class LentTensor:
    """One input in memory of its producer, ``byte_size`` bytes from ``offset`` on."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    region: LentRegion
    offset: int
    byte_size: int


class Slot:
    """
    The inputs of one request; an ``InputSlot``.

    :param new_segment: gives memory of at least so many bytes.
    :param discard: takes memory back that this slot no longer uses.
    :param references: knows the memory of producers; without it none is referred to.
    """

    def __init__(self, new_segment: Callable[[int], Segment],
                 discard: Callable[[Segment], None],
                 references: References | None = None) -> None:
        self._new_segment = new_segment
        self._discard = discard
        self._references = references
        self._lent: list[LentRegion] = []
        self._segments: list[Segment] = []
        self._used = 0
        self._wanted = 0
        self.tensors: dict[str, FilledTensor | LentTensor] = {}

    def begin(self) -> None:
        """Make ready for the next request: forget its predecessor, merge and renew memory."""
        self.tensors.clear()
        if len(self._segments) > 1:
            self._wanted = sum(segment.byte_size for segment in self._segments)
            self.clear()
        elif self._segments and self._segments[0].is_outdated:
            self.clear()
        self._used = 0

    def clear(self) -> None:
        """Give all memory back; only between two requests."""
        segments, self._segments = self._segments, []
        self.tensors.clear()
        for segment in segments:
            self._discard(segment)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The memory that this slot holds now."""
        return tuple(self._segments)

    def allocate(self, name: str, shape: Sequence[int], datatype: str) -> NDArray[np.generic]:
        """
        Give the array that the encoder fills; a second call with the same name replaces the first.

        :raises ValueError: a type without a fixed size, or a negative axis.
        """
        dtype = numpy_dtype(datatype)
        axes = tuple(int(axis) for axis in shape)
        if any(axis < 0 for axis in axes):
            raise ValueError(f'tensor {name!r}: shape {list(axes)} has a negative axis')
        byte_size = math.prod(axes) * dtype.itemsize
        if byte_size == 0:
            array: NDArray[np.generic] = np.empty(axes, dtype)
            self.tensors[name] = FilledTensor(name, datatype, axes, array)
            return array
        segment, offset = self._place(byte_size)
        array = np.ndarray(axes, dtype, segment.memory, offset)
        self.tensors[name] = FilledTensor(name, datatype, axes, array, segment, offset)
        return array

    def put_bytes(self, name: str, shape: Sequence[int], elements: Sequence[bytes]) -> None:
        """
        Add a BYTES tensor, row-major.

        :raises ValueError: the shape does not hold that many elements.
        """
        axes = tuple(int(axis) for axis in shape)
        if math.prod(axes) != len(elements):
            raise ValueError(f'tensor {name!r}: shape {list(axes)} does not hold '
                             f'{len(elements)} elements')
        array = np.empty(len(elements), object)
        array[:] = list(elements)
        self.tensors[name] = FilledTensor(name, 'BYTES', axes, array.reshape(axes))

    def refer(self, name: str, shape: Sequence[int], datatype: str, region: str, offset: int,
              byte_size: int) -> None:
        """Add a tensor in memory of its producer; see ``InputSlot``."""
        if self._references is None:
            raise ReferenceRefused('this connection passes no references on')
        lent = self._references.lend(region, offset, byte_size)
        self._lent.append(lent)
        self.tensors[name] = LentTensor(name, datatype, tuple(shape), lent, offset, byte_size)

    def give_back(self) -> None:
        """Say that nobody reads the producers' memory for this slot any more."""
        lent, self._lent = self._lent, []
        if self._references is not None:
            for region in lent:
                self._references.give_back(region)

    def _place(self, byte_size: int) -> tuple[Segment, int]:
        if self._segments:
            offset = -(-self._used // ALIGNMENT) * ALIGNMENT
            if offset + byte_size <= self._segments[-1].byte_size:
                self._used = offset + byte_size
                return self._segments[-1], offset
            if not self.tensors:
                self.clear()
        segment = self._new_segment(max(byte_size, self._wanted))
        self._segments.append(segment)
        self._used = byte_size
        return segment, 0


class SlotPool:
    """
    The slots of one stream; safe to use from several threads.

    :param make_slot: called at most ``slots`` times, when one more is needed at once.
    """

    def __init__(self, stream: str, slots: int, make_slot: Callable[[], Slot]) -> None:
        if slots < 1:
            raise ValueError(f'stream {stream!r} needs at least one input slot, not {slots}')
        self.stream = stream
        self._slots = slots
        self._make_slot = make_slot
        self._free: list[Slot] = []
        self._taken: dict[int, Slot] = {}
        self._made = 0
        self._is_retired = False
        self._lock = threading.Lock()

    @property
    def taken(self) -> int:
        """How many slots wait for the proven end of their request."""
        with self._lock:
            return len(self._taken)

    def acquire(self, request_id: int) -> Slot:
        """
        Reserve the most recently used free slot.

        :raises NoFreeSlot: all are taken; the sentence says by which requests.
        :raises ValueError: the request holds one already.
        """
        with self._lock:
            if request_id in self._taken:
                raise ValueError(f'request {request_id} already holds an input slot of stream '
                                 f'{self.stream!r}')
            if self._free:
                slot = self._free.pop()
            elif self._made < self._slots:
                slot = self._make_slot()
                self._made += 1
            else:
                holders = ', '.join(str(holder) for holder in sorted(self._taken))
                raise NoFreeSlot(
                    f'all {self._slots} input slots of stream {self.stream!r} are in use by '
                    f'requests whose end is not proven: {holders}')
            self._taken[request_id] = slot
        slot.begin()
        return slot

    def release(self, request_id: int) -> bool:
        """Give a slot back; whether this pool had lent one to the request."""
        with self._lock:
            slot = self._taken.pop(request_id, None)
        if slot is None:
            return False
        slot.give_back()
        with self._lock:
            is_retired = self._is_retired
            if not is_retired:
                self._free.append(slot)
        if is_retired:
            slot.clear()
        return True

    def retire(self) -> tuple[Segment, ...]:
        """
        Free all memory that is not in use, now; the rest when it is released.

        :returns: the segments still in use.
        """
        with self._lock:
            self._is_retired = True
            free, self._free = self._free, []
            in_use = tuple(segment for slot in self._taken.values() for segment in slot.segments)
        for slot in free:
            slot.clear()
        return in_use
