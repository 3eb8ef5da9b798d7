"""
Threads between the actor and the backend: acquire input memory, encode, send.

One thread takes a request all the way to its answer: handing it on once more before it is sent
would cost each frame another wake-up. So there are as many as there are requests in flight.
Only a request that is about to run is converted; a superseded frame costs nothing here.
Every submitted request comes back to ``post`` exactly once: answered, failed or refused.
"""

from collections.abc import Callable, Mapping
from functools import partial
import logging
import time
from types import MappingProxyType

from vig_core.actions import Dispatch
from vig_core.events import BackendCompleted, BackendFailed, DispatchRefused, QuantumCompleted
from vig_core.request import Reason

from vig_governor.backend.base import Answered, Backend, ModelSignature, NoFreeSlot, Outcome
from vig_governor.backend.senders import Senders
from vig_governor.encoders.base import EncodeError, Encoder
from vig_governor.generation import UnusableAnswer
from vig_governor.ports import Payload
from vig_governor.timing import Timings

_log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 0.5

Post = Callable[..., None]
"""``post(event, payload=None)`` of the actor."""


class Dispatcher:
    """
    A thread for each request in flight.

    :param encoders: one for each stream whose messages are no prompts.
    :param signatures: of the backend models.
    """

    def __init__(self, backend: Backend, encoders: Mapping[str, Encoder],
                 signatures: Mapping[str, ModelSignature] = MappingProxyType({})) -> None:
        self._backend = backend
        self._encoders = encoders
        self._signatures = signatures
        self._post: Post | None = None
        self._senders = Senders('vig-dispatch')
        self.encode_ns = Timings()

    def start(self, post: Post) -> None:
        """Begin to send; outcomes go to ``post``."""
        self._post = post

    def submit(self, action: Dispatch, payload: Payload) -> None:
        """Send one request on a thread of its own; never waits."""
        try:
            self._senders.submit(partial(self._send, action, payload))
        except RuntimeError as error:
            assert self._post is not None
            self._post(DispatchRefused(action.request_id, Reason.BACKEND_FAILED,
                                       f'no thread to send it: {error}'))

    def release(self, request_id: int) -> None:
        """Let the input memory of a request be used again; unknown ids are ignored."""
        self._backend.release(request_id)

    def close(self) -> None:
        """
        End the threads after what they do; bounded and idempotent.

        A thread whose server does not answer ends when it does, or with the connection.
        """
        self._senders.close(timeout_s=CLOSE_TIMEOUT_S)

    def _send(self, action: Dispatch, payload: Payload) -> None:
        assert self._post is not None
        request_id = action.request_id
        started_ns = time.perf_counter_ns()
        try:
            slot = self._backend.acquire(payload.stream, request_id)
            if payload.job is not None:
                payload.job.fill(slot, action.tokens, self._signatures[action.backend_model])
            else:
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
                                lambda outcome: self._ended(action, payload, outcome))
        except Exception as error:
            # Whether it was sent is unknown, so its end is not proven.
            _log.exception('request %d of stream %s could not be sent', request_id,
                           payload.stream)
            self._post(BackendFailed(
                request_id, f'could not be sent: {type(error).__name__}: {error}',
                is_over=False))

    def _ended(self, action: Dispatch, payload: Payload, outcome: Outcome) -> None:
        assert self._post is not None
        if not isinstance(outcome, Answered):
            self._post(BackendFailed(action.request_id, outcome.detail, outcome.is_over))
        elif payload.job is None:
            self._post(BackendCompleted(action.request_id), outcome.outputs)
        else:
            try:
                quantum = payload.job.read(outcome.outputs, action.tokens)
            except UnusableAnswer as error:
                self._post(BackendFailed(action.request_id,
                                         f'model {action.backend_model!r}: {error}'))
                return
            self._post(QuantumCompleted(action.request_id, quantum.tokens, quantum.is_end),
                       quantum)
