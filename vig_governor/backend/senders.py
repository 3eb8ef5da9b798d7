"""
Threads that carry inferences: one for each that is in flight, so that none waits for another.

The client library can call back instead, but it then starts a thread of its own whenever nothing
was in flight, and turns a big frame into a message on the caller's time. Measured on a busy
machine with two cores, p50 over 400 small requests: the call that sends took 1.3 ms that way and
0.014 ms this way; from sending to the answer 2.7 ms and 2.4 ms.
"""

from collections.abc import Callable
from queue import SimpleQueue
import threading
import time

from vig_governor.threads import NamedThread

_here = threading.local()


def may_wait_here() -> bool:
    """Whether the calling thread is one that nobody else needs: it may carry an inference."""
    return getattr(_here, 'is_sender', False)


class Senders:
    """
    As many threads as there were jobs at one time; idle ones wait for the next job.

    :param name: of the threads, before their number.
    """

    def __init__(self, name: str = 'vig-send') -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    @property
    def threads(self) -> int:
        """How many threads there are."""
        with self._lock:
            return len(self._threads)

    def submit(self, job: Callable[[], None]) -> None:
        """
        Run a job at once on a thread of its own; never waits.

        :raises RuntimeError: after ``close``, or the system has no more threads.
        """
        with self._lock:
            if self._is_closed:
                raise RuntimeError('the connection is closed')
            if self._idle:
                self._idle -= 1
            else:
                thread = NamedThread(self._run, f'{self._name}-{len(self._threads)}')
                thread.start()
                self._threads.append(thread)
            self._jobs.put(job)

    def close(self, *, timeout_s: float) -> None:
        """Let the threads end after their jobs; waits at most that long; idempotent."""
        with self._lock:
            self._is_closed = True
            threads, self._threads = self._threads, []
        for _ in threads:
            self._jobs.put(None)
        end_s = time.monotonic() + timeout_s
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end_s - time.monotonic()))

    def _run(self) -> None:
        _here.is_sender = True
        while (job := self._jobs.get()) is not None:
            job()
            del job
            with self._lock:
                self._idle += 1
