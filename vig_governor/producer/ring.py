"""
Which memory a producer may write into: the rules of ownership, without ROS.

Memory is the producer's until its frame is published, and again when the frame's terminal status
has come, unless that status says that the server may still read it. Memory that is not proven
free is never written again: it is given up, its name is taken away, and new memory under a new
name takes its place. That is also the answer to a status that never comes, because the governor
was restarted or the message lost: whoever still reads the old memory reads what he was promised.

    free --take--> being written --sent--> lent --last status, input free--> free
      ^                |                    '---- holds_input, time-out ---> given up
      '---put_back-----'

A status names its frame by the stamp. Where stamps repeat, as they do with a clock that stands
still or a recording that is played again, statuses are counted: frames of one stamp become free
together, with the last that is owed for any of them, and what is still owed for a frame that was
given up comes off first. Doubt costs new memory, never a frame.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
import threading

from vig_governor.producer.memory import ProducerMemory


_LATE_KEPT = 1000


@dataclass(slots=True)
class _Frame:
    """
    All that was lent under one stamp.

    :ivar owed: statuses that are still to come.
    """

    memories: list[ProducerMemory]
    owed: int
    sent_at_ns: int
    is_held: bool = False


class Ring:
    """
    The memory of one producer; safe to use from several threads. Times are of one steady clock.

    :ivar given_up: how often new memory took the place of one that was not proven free.

    :param slots: how many memories there are at most.
    :param make: gives new memory; raises ProducerError.
    :param readers: how many statuses end one frame.
    :param timeout_ns: after which a frame's memory is given up.
    """

    def __init__(self, slots: int, make: Callable[[], ProducerMemory], *, readers: int,
                 timeout_ns: int) -> None:
        self._slots = slots
        self._make = make
        self._readers = readers
        self._timeout_ns = timeout_ns
        self._free: list[ProducerMemory] = []
        self._in_use = 0
        self._frames: dict[int, _Frame] = {}
        self._late: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.Lock()
        self._is_closed = False
        self.given_up = 0

    @property
    def lent(self) -> int:
        """How many frames wait for their status."""
        with self._lock:
            return sum(len(frame.memories) for frame in self._frames.values())

    def take(self, now_ns: int) -> ProducerMemory | None:
        """
        Give memory to write into, or ``None`` if all is in use.

        :raises ProducerError: new memory is needed and cannot be had.
        """
        with self._lock:
            for stamp_ns in [stamp_ns for stamp_ns, frame in self._frames.items()
                             if now_ns - frame.sent_at_ns > self._timeout_ns]:
                self._give_up(stamp_ns, self._frames.pop(stamp_ns))
            if self._is_closed or self._in_use >= self._slots:
                return None
            memory = self._free.pop() if self._free else self._make()
            self._in_use += 1
            return memory

    def put_back(self, memory: ProducerMemory) -> None:
        """Take back memory that nobody else has heard of."""
        with self._lock:
            self._in_use -= 1
            if self._is_closed:
                memory.close()
            else:
                self._free.append(memory)

    def sent(self, memory: ProducerMemory, stamp_ns: int, now_ns: int) -> None:
        """Note that memory is lent; frames of one stamp become free together."""
        with self._lock:
            if self._is_closed:
                memory.close()
                return
            frame = self._frames.setdefault(stamp_ns, _Frame([], 0, now_ns))
            frame.memories.append(memory)
            frame.owed += self._readers

    def ended(self, stamp_ns: int, *, holds_input: bool) -> None:
        """Take a terminal status; one of an unknown stamp means nothing."""
        with self._lock:
            if stamp_ns in self._late:
                self._late[stamp_ns] -= 1
                if not self._late[stamp_ns]:
                    del self._late[stamp_ns]
                return
            frame = self._frames.get(stamp_ns)
            if frame is None:
                return
            frame.owed -= 1
            frame.is_held |= holds_input
            if frame.owed > 0:
                return
            del self._frames[stamp_ns]
            if frame.is_held:
                self._give_up(stamp_ns, frame)
            else:
                self._in_use -= len(frame.memories)
                self._free += frame.memories

    def give_up(self) -> None:
        """Give up all that is lent: there is nobody who could send a status."""
        with self._lock:
            while self._frames:
                self._give_up(*self._frames.popitem())

    def close(self) -> None:
        """Take all names away; idempotent."""
        with self._lock:
            self._is_closed = True
            memories = [memory for frame in self._frames.values() for memory in frame.memories]
            self._frames.clear()
            memories += self._free
            self._free.clear()
        for memory in memories:
            memory.close()

    def _give_up(self, stamp_ns: int, frame: _Frame) -> None:
        if frame.owed > 0:
            self._late[stamp_ns] = self._late.get(stamp_ns, 0) + frame.owed
            while len(self._late) > _LATE_KEPT:
                self._late.popitem(last=False)
        self._in_use -= len(frame.memories)
        self.given_up += len(frame.memories)
        for memory in frame.memories:
            memory.close()
