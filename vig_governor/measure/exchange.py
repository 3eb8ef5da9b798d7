"""One request at a time to the server, by the way that the governor's own requests take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import itertools
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vig_core.errors import VigError

from vig_governor.backend.base import Answered, Backend, InputSlot, Outcome, OutputTensor
from vig_governor.datatypes import DTYPES

Inputs = Mapping[str, NDArray[Any]]
"""Input tensor name to its array; an array of ``object`` holds the elements of a BYTES tensor."""

_ids = itertools.count()
"""Of all callers together: an id names a slot of the backend."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class MeasurementFailed(VigError):
    """A model that failed or did not answer while it was measured; says which and why."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """
    One request and its answer; instants in ns of the monotonic clock.

    :ivar failure: what the server said where it did not answer, else empty.
    :ivar outputs: of the answer; those of a decoupled model one after the other.
    """

    began_at_ns: int
    ended_at_ns: int
    failure: str = ''
    outputs: tuple[OutputTensor, ...] = ()

    @property
    def duration_ns(self) -> int:
        """Time from the decision to send until the answer was there."""
        return self.ended_at_ns - self.began_at_ns


class Caller:
    """
    A stream of its own with one slot of input memory.

    :param stream: its name; callers of different names may be used at the same time.
    :param timeout_s: for each request.
    """

    def __init__(self, backend: Backend, stream: str, *, timeout_s: float = 10.0) -> None:
        self._backend = backend
        self._stream = stream
        self._timeout_s = timeout_s
        backend.open_stream(stream, slots=1, transport='auto')

    def call(self, backend_model: str, inputs: Inputs) -> Exchange:
        """
        Send arrays; see ``send``.

        :raises MeasurementFailed: no answer within the time; the slot stays taken then.
        """
        def fill(slot: InputSlot) -> None:
            for name, array in inputs.items():
                if array.dtype == np.object_:
                    slot.put_bytes(name, array.shape, list(array.ravel()))
                else:
                    slot.allocate(name, array.shape, _NAMES[array.dtype])[...] = array
        return self.send(backend_model, fill)

    def send(self, backend_model: str, fill: Callable[[InputSlot], None]) -> Exchange:
        """
        Take a slot, let it be filled, send, wait for the end.

        :raises MeasurementFailed: no answer within the time; the slot stays taken then.
        """
        answered = threading.Event()
        ends: list[tuple[Outcome, int]] = []

        def on_end(outcome: Outcome) -> None:
            ends.append((outcome, time.monotonic_ns()))
            answered.set()

        request_id = next(_ids)
        began_at_ns = time.monotonic_ns()
        slot = self._backend.acquire(self._stream, request_id)
        fill(slot)
        self._backend.infer(request_id, backend_model, slot, on_end)
        if not answered.wait(self._timeout_s):
            raise MeasurementFailed(
                f'{backend_model} did not answer within {self._timeout_s:g} s')
        self._backend.release(request_id)
        outcome, ended_at_ns = ends[0]
        if isinstance(outcome, Answered):
            return Exchange(began_at_ns, ended_at_ns, outputs=outcome.outputs)
        return Exchange(began_at_ns, ended_at_ns, outcome.detail)
