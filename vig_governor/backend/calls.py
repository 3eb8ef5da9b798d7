"""One inference on its way, and what comes back of it."""

from collections.abc import Callable
from dataclasses import dataclass
import logging
import threading
from typing import Any

from vig_governor.backend.base import ModelSignature, Outcome, OutputTensor
from vig_governor.backend.slots import FilledTensor, LentTensor

_log = logging.getLogger('vig.backend')


@dataclass(frozen=True, slots=True)
class ModelCounts:
    """
    How often a model ran since it was loaded, all callers together.

    A response that the model itself marks as an error counts as a success, and so does a request
    whose client had gone.

    :ivar executions: batches; the same as requests where nothing is batched.
    """

    successes: int
    failures: int
    executions: int

    @property
    def finished(self) -> int:
        """Requests that have left the model, well or not."""
        return self.successes + self.failures


class Call:
    """One request; ``end`` reports its outcome once, however often it is called."""

    def __init__(self, request_id: int, backend_model: str,
                 tensors: tuple[FilledTensor | LentTensor, ...],
                 on_end: Callable[[Outcome], None]) -> None:
        self.request_id = request_id
        self.backend_model = backend_model
        self.tensors = tensors
        self._on_end: Callable[[Outcome], None] | None = on_end
        self._lock = threading.Lock()

    def end(self, outcome: Outcome) -> None:
        """Report the first outcome; a failing receiver is our bug and is logged as such."""
        with self._lock:
            on_end, self._on_end = self._on_end, None
        if on_end is None:
            return
        try:
            on_end(outcome)
        except Exception:
            _log.exception('the receiver of request %d failed', self.request_id)


def wire_shape(tensor: FilledTensor | LentTensor,
               signature: ModelSignature | None) -> tuple[int, ...]:
    """Add the batch axis that a batching model wants and the encoder did not write."""
    if signature is None or signature.max_batch_size == 0:
        return tensor.shape
    for spec in signature.inputs:
        if spec.name == tensor.name and len(spec.shape) == len(tensor.shape):
            return (1, *tensor.shape)
    return tensor.shape


def region_of(tensor: FilledTensor | LentTensor, is_shared: bool) -> tuple[str, int, int] | None:
    """
    Say where the server reads a tensor itself: region, size in bytes, offset.

    :param is_shared: whether it does.
    :returns: ``None`` for one whose bytes travel with the request.
    """
    if isinstance(tensor, LentTensor):
        return tensor.region.name, tensor.byte_size, tensor.offset
    if not is_shared:
        return None
    assert tensor.segment is not None and tensor.segment.region is not None
    return tensor.segment.region.name, tensor.array.nbytes, tensor.offset


def outputs_of(response: Any) -> tuple[OutputTensor, ...]:
    """
    Take the outputs out of a ``ModelInferResponse``; one copy of each as a whole.

    :raises ValueError: an output without raw content.
    """
    contents = response.raw_output_contents
    if len(contents) != len(response.outputs):
        raise ValueError(f'{len(response.outputs)} outputs came with {len(contents)} contents')
    return tuple(
        OutputTensor(output.name, output.datatype, tuple(output.shape), content)
        for output, content in zip(response.outputs, contents))
