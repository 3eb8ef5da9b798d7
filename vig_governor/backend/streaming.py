"""
One request on Triton's streaming endpoint: decoupled models answer there, any number of times.

Each request has a stream of its own that is closed behind it at once: the server then ends it
with the last response. A stream that stays open keeps a server from ending: one with an idle
stream had not finished its SIGTERM after ten minutes.
"""

from collections.abc import Sequence
from typing import Any

import grpc
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from vig_governor.backend.base import OutputTensor
from vig_governor.backend.calls import outputs_of
from vig_governor.backend.credentials import Credentials

_FINAL, _EMPTY_FINAL = 'triton_final_response', 'triton_enable_empty_final_response'


class BrokenOff(Exception):
    """
    The server ended the stream with an error in it, which has no status.

    :ivar code: the status that the same error has elsewhere, as far as that is known: a model
        that had begun to answer was executed.
    """

    def __init__(self, message: str, *, has_begun: bool) -> None:
        super().__init__(message)
        self.code = 'StatusCode.INTERNAL' if has_begun else None


class StreamingCalls:
    """
    Calls of one server's ``ModelStreamInfer``.

    :param channel: open as long as this is used.
    """

    def __init__(self, channel: grpc.Channel, credentials: Credentials) -> None:
        self._stub = triton.service_pb2_grpc.GRPCInferenceServiceStub(channel)
        self._metadata = ([('authorization', credentials.authorization)]
                          if credentials.authorization else [])

    def infer(self, backend_model: str, inputs: Sequence[triton.InferInput], *, request_id: str,
              timeout_s: float) -> tuple[OutputTensor, ...]:
        """
        Send one request and wait for its final response.

        :returns: the outputs of all responses in their order: a name comes once for each.
        :raises InferenceServerException: the call failed; carries the gRPC status.
        :raises BrokenOff: the server answered with an error.
        """
        request = triton.service_pb2.ModelInferRequest(model_name=backend_model, id=request_id)
        request.parameters[_EMPTY_FINAL].bool_param = True
        for each in inputs:
            # The library's own calls do the same; it has no public way to a request.
            request.inputs.append(each._get_tensor())
            content = each._get_content()
            if content is not None:
                request.raw_input_contents.append(content)
        outputs: list[OutputTensor] = []
        has_begun = is_over = False
        try:
            for answer in self._stub.ModelStreamInfer(iter((request,)), timeout=timeout_s,
                                                      metadata=self._metadata):
                if answer.error_message:
                    raise BrokenOff(answer.error_message, has_begun=has_begun)
                has_begun = True
                outputs += outputs_of(answer.infer_response)
                is_over = is_over or _is_final(answer.infer_response)
        except grpc.RpcError as error:
            raise InferenceServerException(error.details() or '', str(error.code())) from None
        if not is_over:
            raise InferenceServerException('the stream was closed before the final response',
                                           'StatusCode.UNAVAILABLE')
        return tuple(outputs)


def _is_final(response: Any) -> bool:
    parameters = response.parameters
    return _FINAL in parameters and bool(parameters[_FINAL].bool_param)
