"""The one place that speaks to Triton: gRPC, system shared memory, bounded waits."""

from collections.abc import Callable
import logging
import threading
import time
from typing import Any

from tritonclient.utils import InferenceServerException

from vig_core.reconcile import Ending

from vig_governor.backend.base import (Answered, BackendUnavailable, Failed, InputSlot,
                                       ModelSignature, Outcome, ReferenceRefused)
from vig_governor.backend.budget import MAX_REGIONS
from vig_governor.backend.calls import Call
from vig_governor.backend.carriers import Carriers, verdict_of
from vig_governor.backend.channel import make_client
from vig_governor.backend.credentials import Credentials, remedy
from vig_governor.backend.http_calls import CallFailed, NoHttpService
from vig_governor.backend.input_memory import InputMemory, is_loopback
from vig_governor.backend.marker import forget_the_dead, Marker
from vig_governor.backend.segments import Refused, Unreachable
from vig_governor.backend.senders import may_wait_here, Senders
from vig_governor.backend.shared_memory import KEY_PREFIX
from vig_governor.backend.signature import NotGovernable, signature_of, wrong_output
from vig_governor.backend.slots import FilledTensor, LentTensor, Slot
from vig_governor.backend.streaming import BrokenOff
from vig_governor.backend.tally import Tally
from vig_governor.backend.triton_facts import TritonFacts
from vig_governor.backend.verdict import judge, Meaning

_log = logging.getLogger('vig.backend')

GIVE_UP_AFTER_S = 300.0
SHARED_MEMORY_TIMEOUT_S = 1.0
CLOSE_TIMEOUT_S = 2.0
_ATTEMPT_S = 1.0
_PAUSE_S = 0.1


class RegionForgotten(Exception):
    """The server has lost a region that it knew: it was restarted."""


class TritonBackend(TritonFacts):
    """
    A ``Backend`` over one Triton server. All methods may be called from any thread.

    :ivar sent_by_reference: answered inferences whose input the server read from shared memory.
    :ivar sent_inline: those whose input travelled through the connection.
    :ivar tally: what was sent and has not been seen to end, over the life of this object.

    :param endpoint: ``host:port`` of the gRPC service.
    :param give_up_after_s: when an unanswered inference is reported as failed. This is *not* the
        inference timeout: the scheduler decides that, and a late answer is the proof that frees
        the credit, so this limit only keeps a lost request from being remembered for ever.
    :param max_regions: shared-memory regions registered at once, ours and those of producers.
    :param owners: user ids whose regions may be referred to; empty: that of this process.
    :param credentials: what is shown to the server and demanded of it; nothing by default.
    :param http_endpoint: ``host:port`` of the same server's HTTP service, for inferences whose
        model answers once; empty sends them over gRPC too.
    """

    def __init__(self, endpoint: str, *, give_up_after_s: float = GIVE_UP_AFTER_S,
                 key_prefix: str = KEY_PREFIX, max_regions: int = MAX_REGIONS,
                 owners: tuple[int, ...] = (),
                 credentials: Credentials = Credentials(), http_endpoint: str = '') -> None:
        self.endpoint = endpoint
        self.addresses = (endpoint, http_endpoint) if http_endpoint else (endpoint,)
        self._credentials = credentials
        self._key_prefix = key_prefix
        self._client = make_client(endpoint, credentials)
        self._carriers = Carriers(self._client, endpoint, credentials,
                                  http_endpoint=http_endpoint, timeout_s=give_up_after_s)
        self._may_stream: set[str] = set()
        self._memory = InputMemory(endpoint, self._register, self._unregister,
                                   key_prefix=key_prefix, max_regions=max_regions,
                                   owners=owners)
        self._marker = self._new_marker() if is_loopback(endpoint) else None
        self._senders = Senders()
        self.tally = Tally()
        self._objections: dict[str, str] = {}
        self._signatures: dict[str, ModelSignature] = {}
        self._lock = threading.Lock()
        self._is_closed = False
        self.sent_by_reference = 0
        self.sent_inline = 0

    def connect(self, *, timeout_s: float) -> str:
        """Reach the server, however often it takes within the time; see ``Backend``."""
        end_s = time.monotonic() + timeout_s
        pause = threading.Event()
        while True:
            try:
                facts = self._client.get_server_metadata(
                    client_timeout=_share(end_s, _ATTEMPT_S))
                self._carriers.connect(self._new_marker(), timeout_s=_share(end_s, _ATTEMPT_S))
                return f'{facts.name} {facts.version} at {self.endpoint}'
            except (InferenceServerException, ValueError) as error:
                problem = (f'no Triton server answered at {self.endpoint} within {timeout_s:g} s '
                           f'({_text(error)}): {remedy(str(error), self._credentials)}')
            except NoHttpService as error:
                problem = str(error)
            if time.monotonic() + _PAUSE_S >= end_s:
                raise BackendUnavailable(problem)
            pause.wait(_PAUSE_S)

    def _new_marker(self) -> Marker:
        return Marker(self._register, self._unregister, self._knows_region,
                      key_prefix=self._key_prefix)

    def inspect(self, backend_model: str, *, timeout_s: float,
                may_stream: bool = False) -> ModelSignature:
        """Describe a model that is ready, whatever the rest of the server says of itself."""
        if may_stream:
            self._may_stream.add(backend_model)
        end_s = time.monotonic() + timeout_s
        try:
            if not self._client.is_model_ready(backend_model, client_timeout=timeout_s):
                raise BackendUnavailable(self._why_not_ready(backend_model, _share(end_s)))
            answer = self._client.get_model_config(backend_model, as_json=True,
                                                   client_timeout=_share(end_s))
            signature = signature_of(answer['config'],
                                     may_stream=backend_model in self._may_stream)
        except NotGovernable as error:
            raise BackendUnavailable(f'{self.endpoint}: {error}') from None
        except (InferenceServerException, ValueError) as error:
            raise BackendUnavailable(
                f'model {backend_model!r} at {self.endpoint} could not be inspected within '
                f'{timeout_s:g} s: {_text(error)}') from None
        with self._lock:
            self._signatures[backend_model] = signature
        return signature

    def ready_models(self, *, timeout_s: float) -> tuple[str, ...]:
        """Name the models that are ready, whoever uses them; see ``Backend``."""
        try:
            index = self._client.get_model_repository_index(client_timeout=timeout_s).models
        except (InferenceServerException, ValueError) as error:
            raise BackendUnavailable(f'the models of {self.endpoint} could not be listed: '
                                     f'{_text(error)}') from None
        return tuple(sorted({entry.name for entry in index if entry.state == 'READY'}))

    def is_live(self, *, timeout_s: float = 1.0) -> bool:
        """Whether the server process answers."""
        try:
            return bool(self._client.is_server_live(client_timeout=timeout_s))
        except (InferenceServerException, ValueError):
            return False

    def is_model_ready(self, backend_model: str, *, timeout_s: float = 1.0) -> bool:
        """Whether this model takes requests; an unready neighbour does not matter."""
        try:
            return bool(self._client.is_model_ready(backend_model, client_timeout=timeout_s))
        except (InferenceServerException, ValueError):
            return False

    def identity(self, *, timeout_s: float = 1.0) -> str:
        """
        Tell the server process from the one that follows it; empty where nothing tells them apart.

        :raises BackendUnavailable: the server does not answer.
        """
        if not self.is_live(timeout_s=timeout_s):
            raise BackendUnavailable(f'the Triton server at {self.endpoint} does not answer')
        return '' if self._marker is None else self._marker.identity()

    def forget_the_dead(self) -> int:
        """Unregister what killed processes of ours left; how many regions that were."""
        return forget_the_dead(self.region_names, self._unregister, self._key_prefix)

    def succeed(self, before: 'TritonBackend') -> None:
        """
        Go on with the book of another connection to the same server, before anything is sent.

        What ``before`` still hears is booked here too.
        """
        self.tally = before.tally
        if self._marker is not None and before._marker is not None:
            self._marker.take_over(before._marker)

    def object_to(self, backend_model: str, reason: str) -> None:
        """Send nothing to this model until ``reason`` is empty: each request fails with it."""
        self._objections[backend_model] = reason

    def open_stream(self, stream: str, *, slots: int, transport: str) -> None:
        """
        Prepare input memory; a stream that is open is opened anew.

        :raises BackendUnavailable: ``shm`` or ``refer``, and the server refuses shared memory or
            does not answer.
        :raises ValueError: an unknown transport, or no slot.
        """
        self._memory.open(stream, slots, transport)

    def acquire(self, stream: str, request_id: int) -> Slot:
        """
        Reserve an input slot; see ``Backend``.

        :raises KeyError: the stream was never opened.
        """
        return self._memory.acquire(stream, request_id)

    def release(self, request_id: int) -> None:
        """Give the slot back; see ``Backend``."""
        self._memory.release(request_id)

    def infer(self, request_id: int, backend_model: str, slot: InputSlot,
              on_end: Callable[[Outcome], None]) -> None:
        """Send; whatever goes wrong, here or there, arrives at ``on_end``; see ``Backend``."""
        assert isinstance(slot, Slot)
        call = Call(request_id, backend_model, tuple(slot.tensors.values()), on_end)
        if may_wait_here():
            call.end(self._carry_out(call))
            return
        try:
            self._senders.submit(lambda: call.end(self._carry_out(call)))
        except RuntimeError as error:
            call.end(Failed(f'model {backend_model!r} at {self.endpoint}: not sent: {error}',
                            is_over=True))

    def close(self) -> None:
        """Free all memory that is not in use, and end what is in flight as failed."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if self._marker is not None:
            self._marker.close()
        self._memory.close(timeout_s=CLOSE_TIMEOUT_S)
        self._client.close()
        self._carriers.close()
        self._senders.close(timeout_s=_ATTEMPT_S)

    def _carry_out(self, call: Call) -> Outcome:
        where = f'model {call.backend_model!r} at {self.endpoint}'
        if reason := self._objections.get(call.backend_model):
            return Failed(f'{where}: {reason}', is_over=True, ending=Ending.NOT_COUNTED)
        self.tally.note_sent(call.backend_model, call.request_id)
        outcome = self._attempt(call, where)
        self.tally.note_ended(call.backend_model, call.request_id, Ending.COUNTED
                              if isinstance(outcome, Answered) else outcome.ending)
        return outcome

    def _attempt(self, call: Call, where: str) -> Outcome:
        lent = [(tensor.region, tensor.region.name) for tensor in call.tensors
                if isinstance(tensor, LentTensor)]
        try:
            try:
                return self._exchange(call, may_refer=True)
            except RegionForgotten:
                # The server was restarted between two frames. It has run nothing, and the frame
                # still lies in its slot: send it again, inline, or by reference if it is lent.
                for region, forgotten in lent:
                    self._memory.references.renew(region, forgotten)
                return self._exchange(call, may_refer=False)
        except (InferenceServerException, CallFailed) as error:
            verdict = verdict_of(error)
            if verdict.meaning is not Meaning.ANSWERED:
                self._memory.registrar.start_epoch()
            return Failed(f'{where}: {verdict.text}', verdict.is_over, verdict.ending)
        except BrokenOff as error:
            verdict = judge(error.code, str(error))
            return Failed(f'{where}: {verdict.text}', True, verdict.ending)
        except (ReferenceRefused, ValueError) as error:
            return Failed(f'{where}: not sent: {error}', True, Ending.NOT_COUNTED)
        except Exception as error:
            _log.exception('request %d failed on this side', call.request_id)
            return Failed(f'{where}: {type(error).__name__}: {error}', is_over=True)

    def _exchange(self, call: Call, *, may_refer: bool) -> Outcome:
        with self._lock:
            signature = self._signatures.get(call.backend_model)
        sent = [(tensor, self._is_read_by_server(tensor, may_refer=may_refer))
                for tensor in call.tensors]
        is_by_reference = any(is_shared for _, is_shared in sent)
        try:
            outputs = self._carriers.send(call, signature, sent)
        except (InferenceServerException, CallFailed) as error:
            if (may_refer and is_by_reference
                    and verdict_of(error).meaning is Meaning.REGION_UNKNOWN):
                self._memory.registrar.start_epoch()
                raise RegionForgotten from None
            raise
        with self._lock:
            self.sent_by_reference += is_by_reference
            self.sent_inline += not is_by_reference
        if signature is not None and (fault := wrong_output(signature, outputs)):
            return Failed(f'model {call.backend_model!r} at {self.endpoint}: {fault}', True,
                          Ending.COUNTED)
        return Answered(outputs)

    def _is_read_by_server(self, tensor: FilledTensor | LentTensor, *, may_refer: bool) -> bool:
        if isinstance(tensor, LentTensor):
            return True
        return (may_refer and tensor.segment is not None
                and self._memory.registrar.may_refer_to(tensor.segment))

    def _register(self, name: str, key: str, byte_size: int) -> None:
        _ask_about_memory(lambda: self._client.register_system_shared_memory(
            name, key, byte_size, client_timeout=SHARED_MEMORY_TIMEOUT_S))

    def _unregister(self, name: str) -> None:
        _ask_about_memory(lambda: self._client.unregister_system_shared_memory(
            name, client_timeout=SHARED_MEMORY_TIMEOUT_S))

    def _knows_region(self, name: str) -> bool:
        try:
            _ask_about_memory(lambda: self._client.get_system_shared_memory_status(
                name, client_timeout=SHARED_MEMORY_TIMEOUT_S))
        except Refused:
            return False
        return True


def _ask_about_memory(question: Callable[[], Any]) -> None:
    try:
        question()
    except InferenceServerException as error:
        verdict = verdict_of(error)
        if verdict.meaning in (Meaning.ANSWERED, Meaning.REGION_UNKNOWN):
            raise Refused(verdict.text) from None
        raise Unreachable(verdict.text) from None
    except ValueError as error:
        raise Unreachable(str(error)) from None


def _text(error: Exception) -> str:
    if isinstance(error, InferenceServerException):
        return verdict_of(error).text
    return str(error) or type(error).__name__


def _share(end_s: float, at_most_s: float = 60.0) -> float:
    """Give the time that is left for one attempt, never quite nothing."""
    return max(0.01, min(at_most_s, end_s - time.monotonic()))
