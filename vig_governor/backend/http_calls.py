"""
Inferences over Triton's HTTP service: the protocol of KServe v2 with its binary tensors.

It takes less of Python's time than gRPC (adr/0031). Everything but inferences stays with gRPC.
"""

from collections.abc import Sequence
import json
from typing import Any
from urllib.parse import quote

from tritonclient.utils import serialize_byte_tensor

from vig_governor.backend.base import BackendUnavailable, OutputTensor
from vig_governor.backend.calls import region_of
from vig_governor.backend.http_connection import Answer, Broken, HttpConnections, NeverSent
from vig_governor.backend.slots import FilledTensor, LentTensor
from vig_governor.backend.verdict import first_line, judge_http, Meaning, Verdict

_JSON_SIZE = 'inference-header-content-length'
_OK = 200


class CallFailed(Exception):
    """
    An inference without an answer that can be used.

    :ivar verdict: what that proves.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.text)
        self.verdict = verdict


class NoHttpService(Exception):
    """The HTTP service did not answer a question about itself; says where, why and what to do."""


class HttpCalls:
    """
    One server's HTTP service.

    :param endpoint: ``host:port``.
    :param authorization: value of the header of the same name; none if empty.
    """

    def __init__(self, endpoint: str, authorization: str = '') -> None:
        self.endpoint = endpoint
        self._connections = HttpConnections(endpoint, authorization)

    def infer(self, backend_model: str,
              inputs: Sequence[tuple[dict[str, Any], bytes | memoryview | None]], *,
              request_id: str, timeout_s: float) -> Answer:
        """
        Send one request and wait for its answer; ``http_outputs_of`` reads it.

        :param inputs: of ``http_input``.
        :raises CallFailed: there is no answer, or it is an error.
        """
        head = json.dumps({'id': request_id, 'inputs': [tensor for tensor, _ in inputs],
                           'parameters': {'binary_data_output': True}}).encode()
        contents = [content for _, content in inputs if content is not None]
        path = f'/v2/models/{quote(backend_model, "")}/infer'
        answer = self._ask('POST', path, (head, *contents), timeout_s=timeout_s,
                           headers=f'Inference-Header-Content-Length: {len(head)}\r\n')
        if answer.status != _OK:
            raise CallFailed(judge_http(answer.status, _complaint(answer)))
        return answer

    def require_live(self, *, timeout_s: float) -> None:
        """
        Ask once whether the service is there.

        :raises NoHttpService: it did not answer; it may be asked again.
        :raises BackendUnavailable: it is there and cannot be used.
        """
        answer = self._look('/v2/health/live', timeout_s)
        if answer.status != _OK:
            raise BackendUnavailable(f'backend.http_endpoint {self.endpoint} is no Triton that '
                                     f'can be used: it answers {answer.status} '
                                     f'{first_line(_complaint(answer))}')

    def require_same_server(self, region: str, grpc_endpoint: str, *, timeout_s: float) -> None:
        """
        Ask once whether this is the server that was told of a region over gRPC.

        :raises NoHttpService: it did not answer; it may be asked again.
        :raises BackendUnavailable: it is another server.
        """
        answer = self._look(f'/v2/systemsharedmemory/region/{quote(region, "")}/status', timeout_s)
        if answer.status != _OK:
            raise BackendUnavailable(
                f'backend.http_endpoint {self.endpoint} is another server than '
                f'backend.grpc_endpoint {grpc_endpoint}: it does not know the memory that the '
                'other was told of a moment ago. Both must name the same server')

    def close(self) -> None:
        """End what is under way as broken; idempotent."""
        self._connections.close()

    def _look(self, path: str, timeout_s: float) -> Answer:
        try:
            return self._ask('GET', path, timeout_s=timeout_s)
        except CallFailed as error:
            raise NoHttpService(
                f'no HTTP service of Triton at {self.endpoint} ({error.verdict.text}): correct '
                'backend.http_endpoint, or take it out to send inferences over gRPC') from None

    def _ask(self, method: str, path: str, body: Sequence[bytes | memoryview] = (), *,
             headers: str = '', timeout_s: float) -> Answer:
        try:
            return self._connections.request(method, path, body, headers=headers,
                                             timeout_s=timeout_s)
        except NeverSent as error:
            raise CallFailed(Verdict.unanswered(Meaning.NEVER_SENT, str(error))) from None
        except Broken as error:
            raise CallFailed(Verdict.unanswered(Meaning.BROKEN, str(error))) from None


def http_input(tensor: FilledTensor | LentTensor, shape: Sequence[int], is_shared: bool
               ) -> tuple[dict[str, Any], bytes | memoryview | None]:
    """
    Describe one input tensor, and give its bytes where they travel with the request.

    :param shape: with the batch axis, where the model wants one.
    :param is_shared: whether the server reads it itself.
    """
    described: dict[str, Any] = {'name': tensor.name, 'shape': list(shape),
                                 'datatype': tensor.datatype}
    region = region_of(tensor, is_shared)
    if region is not None:
        name, byte_size, offset = region
        described['parameters'] = {'shared_memory_region': name,
                                   'shared_memory_byte_size': byte_size,
                                   'shared_memory_offset': offset}
        return described, None
    assert isinstance(tensor, FilledTensor)
    content: bytes | memoryview
    if tensor.datatype == 'BYTES':
        packed = serialize_byte_tensor(tensor.array)
        content = packed.item() if packed.size else b''
    else:
        content = memoryview(tensor.array.reshape(-1)).cast('B') if tensor.array.size else b''
    described['parameters'] = {'binary_data_size': len(content)}
    return described, content


def http_outputs_of(answer: Answer) -> tuple[OutputTensor, ...]:
    """
    Take the outputs out of the answer to an inference; one copy of each as a whole.

    :raises ValueError: an output without its bytes, or no JSON.
    :raises KeyError: JSON that is no answer to an inference.
    """
    json_size = int(answer.headers.get(_JSON_SIZE, len(answer.body)))
    begin, outputs = json_size, []
    for output in json.loads(answer.body[:json_size])['outputs']:
        size = output.get('parameters', {}).get('binary_data_size')
        if size is None:
            raise ValueError(f'output {output["name"]!r} came without its bytes')
        content = answer.body[begin:begin + size]
        if len(content) != size:
            raise ValueError(f'output {output["name"]!r} is cut off: {len(content)} of {size} '
                             'bytes came')
        begin += size
        outputs.append(OutputTensor(output['name'], output['datatype'], tuple(output['shape']),
                                    content))
    return tuple(outputs)


def _complaint(answer: Answer) -> str:
    try:
        return str(json.loads(answer.body)['error'])
    except (ValueError, KeyError, TypeError):
        return answer.body[:1000].decode(errors='replace')
