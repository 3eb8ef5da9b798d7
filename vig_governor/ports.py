"""What the actor needs of its neighbours, as protocols; it knows no concrete one of them."""

from dataclasses import dataclass
from typing import Any, Protocol

from vig_core.actions import Action, Defer, Dispatch, ReportOverload, Terminate
from vig_core.events import Event

from vig_governor.backend.base import OutputTensor
from vig_governor.generation import Generation, Quantum


@dataclass(frozen=True, slots=True)
class Payload:
    """
    What travels beside a request id: the message, which the governor never changes.

    :ivar stream: the binding it came through.
    :ivar message: the message by reference; dropped when the request ends.
    :ivar remark: what is odd about its stamp, said in the status if it does not complete.
    :ivar received_at_ns: when its message was received, on the scheduling clock.
    :ivar job: of a generative model: the text as it grows.
    """

    stream: str
    message: Any
    remark: str = ''
    received_at_ns: int = 0
    job: Generation | None = None

    def append(self, quantum: Quantum) -> None:
        """Take what the job's last quantum wrote."""
        if self.job is not None:
            self.job.append(quantum)


class ActorStopped(RuntimeError):
    """A question was put to an actor whose thread has ended."""


class Scheduling(Protocol):
    """What the actor needs of ``vig_core.scheduler.Scheduler``."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""

    def handle(self, event: Event, *, now_ns: int) -> tuple[Action, ...]:
        """Take one fact and say what follows."""

    def next_wakeup_ns(self) -> int | None:
        """Say when to look again without an event."""

    def snapshot(self, *, now_ns: int) -> Any:
        """Freeze the counters."""


class Clock(Protocol):
    """The scheduling clock."""

    def now_ns(self) -> int:
        """Tell the present on the monotonic scheduling clock."""


class Sending(Protocol):
    """What the actor needs of the dispatcher; neither call waits."""

    def submit(self, action: Dispatch, payload: Payload) -> None:
        """Encode and send, elsewhere."""

    def release(self, request_id: int) -> None:
        """Let the request's input memory be used again."""


class Sink(Protocol):
    """Where decisions go; called on the actor's thread, in order, and must not wait."""

    def on_terminated(self, action: Terminate, payload: Payload,
                      outputs: tuple[OutputTensor, ...]) -> None:
        """Tell the client how its request ended; ``outputs`` are there after an answer."""

    def on_written(self, request_id: int, payload: Payload) -> None:
        """Tell the client what its job has written so far; it goes on."""

    def on_decided(self, action: Dispatch | Defer | ReportOverload,
                   payload: Payload | None) -> None:
        """Take note of a decision that ends nothing; without payload it concerns all streams."""
