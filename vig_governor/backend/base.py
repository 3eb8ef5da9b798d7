"""
What the governor needs of an inference server, whoever speaks to it.

The order of calls for one inference: ``acquire`` a slot of the stream's input memory, let the
encoder write tensors into it through ``InputSlot.allocate``, then ``infer`` with that slot.
``on_end`` is called exactly once, from a thread of the backend's choice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vig_core.errors import VigError
from vig_core.reconcile import Ending

from vig_governor.instances import Capacity


class BackendUnavailable(VigError):
    """The server does not answer, or the model is not there; says endpoint, model and remedy."""


class NoFreeSlot(VigError):
    """Every input slot of the stream is still in use by an execution whose end is not proven."""


class ReferenceRefused(VigError):
    """A reference to memory of another process that is not passed on; says why."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """
    One input or output of a backend model as the server describes it.

    :ivar datatype: KServe v2 name: ``FP32``, ``UINT8``, ``BYTES`` ...
    :ivar shape: without a batch axis unless the model lists one; ``-1`` is any size.
    :ivar is_optional: the model also runs without this input.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """Inputs and outputs of one backend model, and the facts that hurt when they are unknown."""

    backend_model: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch_size: int = 0
    warnings: tuple[str, ...] = ()
    """One sentence each: dynamic batching delay, bounded server queue, and the like."""
    steps: tuple[str, ...] = ()
    """Models that run within this one, where it is an ensemble."""
    is_decoupled: bool = False
    """It answers any number of times, on the streaming endpoint only."""
    capacity: Capacity | None = None
    """How many requests of it run at once; ``None`` if unsaid."""

    @property
    def digest(self) -> str:
        """Equal for two models that can stand in for each other."""
        return repr((self.inputs, self.outputs, self.max_batch_size > 0, self.is_decoupled))


@dataclass(frozen=True, slots=True)
class OutputTensor:
    """One output: ``data`` is row-major; BYTES elements stay length-prefixed as on the wire."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    """The server answered; the execution is over."""

    outputs: tuple[OutputTensor, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """
    The server said no, or the connection broke.

    :ivar is_over: the server itself reported the end. False for a broken connection or any
        failure of the transport after the request may have been sent.
    :ivar ending: what the server's completion counter makes of it.
    """

    detail: str
    is_over: bool
    ending: Ending = Ending.UNCLEAR


Outcome = Answered | Failed


class InputSlot(Protocol):
    """Memory for the inputs of one inference; shared with the server or private."""

    def allocate(self, name: str, shape: Sequence[int], datatype: str) -> NDArray[np.generic]:
        """
        Give the array that the encoder fills for one input tensor.

        :param datatype: KServe v2 name of a fixed-size type; BYTES is refused with ValueError.
        :returns: a C-contiguous array of that shape; its content is undefined.
        """

    def put_bytes(self, name: str, shape: Sequence[int], elements: Sequence[bytes]) -> None:
        """Add a BYTES tensor; always sent inline."""

    def refer(self, name: str, shape: Sequence[int], datatype: str, region: str, offset: int,
              byte_size: int) -> None:
        """
        Add a tensor that lies in memory of another process; it is neither read nor copied here.

        :param region: POSIX key, as it came in a message.
        :param byte_size: what shape and datatype take.
        :raises ReferenceRefused: the region is not there, not allowed or too small, or the server
            does not take it.
        :raises NoFreeSlot: too many regions are in use.
        """


class Backend(Protocol):
    """One inference server."""

    def connect(self, *, timeout_s: float) -> str:
        """
        Reach the server and say its name and version.

        :raises BackendUnavailable: within ``timeout_s``; the object may be used again.
        """

    def inspect(self, backend_model: str, *, timeout_s: float,
                may_stream: bool = False) -> ModelSignature:
        """
        Describe a model that is ready.

        :param may_stream: from now on, take the model also where it is decoupled; its outcome
            has the outputs of all its answers.
        :raises BackendUnavailable: the model is unknown, not ready, or the server is gone.
        """

    def ready_models(self, *, timeout_s: float) -> tuple[str, ...]:
        """
        Name every model of the server that would run a request now.

        :raises BackendUnavailable: the server is gone.
        """

    def open_stream(self, stream: str, *, slots: int, transport: str) -> None:
        """
        Prepare input memory: ``transport`` is ``shm``, ``copy``, ``auto`` or ``refer``.

        With ``refer`` the tensors lie in memory of their producers, see ``InputSlot.refer``.
        """

    def acquire(self, stream: str, request_id: int) -> InputSlot:
        """
        Reserve an input slot for a request.

        :raises NoFreeSlot: all are taken.
        """

    def release(self, request_id: int) -> None:
        """Give the slot back: the execution is over or never began. Unknown ids are ignored."""

    def infer(self, request_id: int, backend_model: str, slot: InputSlot,
              on_end: Callable[[Outcome], None]) -> None:
        """
        Send; faults of the server arrive through ``on_end``, never here.

        Returns at once, except on a thread of ``senders.Senders``: nobody else needs that one, so
        it may carry the inference to its end itself.
        """

    def close(self) -> None:
        """Unregister and free everything; bounded in time; idempotent."""
