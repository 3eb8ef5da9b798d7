"""The three ways of an inference to a Triton server: gRPC, its streams, and HTTP."""

from collections.abc import Callable, Sequence
from typing import Any

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from vig_core.reconcile import Ending

from vig_governor.backend.base import ModelSignature, OutputTensor
from vig_governor.backend.calls import Call, outputs_of, wire_shape
from vig_governor.backend.channel import make_channel
from vig_governor.backend.credentials import Credentials
from vig_governor.backend.http_calls import (CallFailed, http_input, http_outputs_of,
                                             HttpCalls)
from vig_governor.backend.marker import Marker
from vig_governor.backend.slots import FilledTensor, LentTensor
from vig_governor.backend.streaming import StreamingCalls
from vig_governor.backend.verdict import judge, Meaning, Verdict
from vig_governor.backend.wire import wire_input
from vig_governor.endpoints import is_loopback


class Carriers:
    """
    Blocking inferences from any thread.

    :param client: of the gRPC service; it is not closed here.
    :param http_endpoint: of the same server's HTTP service; empty if it is not to be used.
    :param timeout_s: after which an unanswered inference counts as broken.
    """

    def __init__(self, client: triton.InferenceServerClient, endpoint: str,
                 credentials: Credentials, *, http_endpoint: str, timeout_s: float) -> None:
        self._client = client
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._channel = make_channel(endpoint, credentials)
        self._streaming = StreamingCalls(self._channel, credentials)
        self._http = (HttpCalls(http_endpoint, credentials.authorization) if http_endpoint
                      else None)

    def connect(self, page: Marker, *, timeout_s: float) -> None:
        """
        See that the HTTP service, if it is to be used, is there and of the same server.

        :param page: a marker for this alone; it is closed again.
        :param timeout_s: for each question.
        :raises NoHttpService: it does not answer now.
        :raises BackendUnavailable: it is another server, or none that can be used.
        """
        if self._http is None:
            return
        self._http.require_live(timeout_s=timeout_s)
        if not is_loopback(self._http.endpoint):
            return
        try:
            if region := page.identity():
                self._http.require_same_server(region, self._endpoint, timeout_s=timeout_s)
        finally:
            page.close(attempts=2)

    def send(self, call: Call, signature: ModelSignature | None,
             tensors: Sequence[tuple[FilledTensor | LentTensor, bool]]
             ) -> tuple[OutputTensor, ...]:
        """
        Send a request and wait for its answer.

        :param tensors: each with whether the server reads it from memory itself.
        :raises InferenceServerException: a call over gRPC failed; carries the status.
        :raises CallFailed: the same over HTTP, or the answer cannot be read.
        :raises BrokenOff: a decoupled model answered with an error.
        """
        request_id = str(call.request_id)
        is_decoupled = signature is not None and signature.is_decoupled
        if self._http is not None and not is_decoupled:
            parts = [http_input(tensor, wire_shape(tensor, signature), is_shared)
                     for tensor, is_shared in tensors]
            return _read(http_outputs_of, self._http.infer(
                call.backend_model, parts, request_id=request_id, timeout_s=self._timeout_s))
        inputs = [wire_input(tensor, signature, is_shared) for tensor, is_shared in tensors]
        if is_decoupled:
            return self._streaming.infer(call.backend_model, inputs, request_id=request_id,
                                         timeout_s=self._timeout_s)
        return _read(outputs_of, self._client.infer(
            call.backend_model, inputs, request_id=request_id,
            client_timeout=self._timeout_s).get_response())

    def close(self) -> None:
        """End what is under way as broken, calls over the client excepted; idempotent."""
        self._channel.close()
        if self._http is not None:
            self._http.close()


def verdict_of(error: InferenceServerException | CallFailed) -> Verdict:
    """Say what the failure of a call proves."""
    if isinstance(error, CallFailed):
        return error.verdict
    return judge(error.status(), error.message() or '')


def _read(parse: Callable[[Any], tuple[OutputTensor, ...]], answer: Any
          ) -> tuple[OutputTensor, ...]:
    try:
        return parse(answer)
    except (ValueError, KeyError, TypeError) as error:
        raise CallFailed(Verdict(Meaning.ANSWERED, f'the answer cannot be read: {error}',
                                 Ending.COUNTED)) from None
