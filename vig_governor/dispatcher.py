"""
Threads between the actor and the backend: acquire input memory, encode, send.

Only a request that is about to run is converted; a superseded frame costs nothing here.
Every submitted request comes back to ``post`` exactly once: answered, failed or refused.
"""

from collections.abc import Callable, Mapping
import logging
from queue import SimpleQueue
import threading
import time

from vig_core.actions import Dispatch
from vig_core.events import BackendCompleted, BackendFailed, DispatchRefused
from vig_core.request import Reason

from vig_governor.backend.base import Answered, Backend, NoFreeSlot, Outcome
from vig_governor.encoders.base import EncodeError, Encoder
from vig_governor.ports import Payload
from vig_governor.timing import Timings

_log = logging.getLogger(__name__)

Post = Callable[..., None]
"""``post(event, payload=None)`` of the actor."""


class Dispatcher:
    """
    A small pool of sending threads.

    :param encoders: one for each stream.
    :param threads: how many conversions may run at once; the number of credits is enough.
    """

    def __init__(self, backend: Backend, encoders: Mapping[str, Encoder], *,
                 threads: int) -> None:
        self._backend = backend
        self._encoders = encoders
        self._post: Post | None = None
        self._queue: SimpleQueue[tuple[Dispatch, Payload] | None] = SimpleQueue()
        self.encode_ns = Timings()
        self._threads = [
            threading.Thread(target=self._run, name=f'vig-dispatch-{index}', daemon=True)
            for index in range(threads)]

    def start(self, post: Post) -> None:
        """Begin to send; outcomes go to ``post``."""
        self._post = post
        for thread in self._threads:
            thread.start()

    def submit(self, action: Dispatch, payload: Payload) -> None:
        """Queue one request for sending; never waits."""
        self._queue.put((action, payload))

    def release(self, request_id: int) -> None:
        """Let the input memory of a request be used again; unknown ids are ignored."""
        self._backend.release(request_id)

    def close(self) -> None:
        """End the threads after what is queued; bounded and idempotent."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=2.0)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            self._send(*item)
            del item

    def _send(self, action: Dispatch, payload: Payload) -> None:
        assert self._post is not None
        request_id = action.request_id
        started_ns = time.perf_counter_ns()
        try:
            slot = self._backend.acquire(payload.stream, request_id)
            self._encoders[payload.stream].encode(payload.message, slot)
        except NoFreeSlot as error:
            self._post(DispatchRefused(request_id, Reason.CAPACITY, str(error)))
            return
        except EncodeError as error:
            self._post(DispatchRefused(request_id, Reason.BACKEND_FAILED, str(error)))
            return
        except Exception as error:
            _log.exception('request %d of stream %s could not be encoded', request_id,
                           payload.stream)
            self._post(DispatchRefused(
                request_id, Reason.BACKEND_FAILED,
                f'the encoder failed: {type(error).__name__}: {error}'))
            return
        self.encode_ns.add(time.perf_counter_ns() - started_ns)
        try:
            self._backend.infer(request_id, action.backend_model, slot,
                                lambda outcome: self._ended(request_id, outcome))
        except Exception as error:
            # Whether it was sent is unknown, so its end is not proven.
            _log.exception('request %d of stream %s could not be sent', request_id,
                           payload.stream)
            self._post(BackendFailed(
                request_id, f'could not be sent: {type(error).__name__}: {error}',
                is_over=False))

    def _ended(self, request_id: int, outcome: Outcome) -> None:
        assert self._post is not None
        if isinstance(outcome, Answered):
            self._post(BackendCompleted(request_id), outcome.outputs)
        else:
            self._post(BackendFailed(request_id, outcome.detail, outcome.is_over))
