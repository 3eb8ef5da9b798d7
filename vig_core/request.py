"""
A request's life: waiting, running, abandoned, ended, with exactly one terminal reason.

A job that is cut into quanta waits again between two of them.

``TRANSITIONS`` is the whole rule; nothing else changes a state.
"""

from dataclasses import dataclass, field
from enum import Enum

from vig_core.cooperative import Job
from vig_core.model import Model, Variant


class Reason(Enum):
    """Why a request ended; the order is that of ``vig/msg/RequestStatus``."""

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is a slow Python call

    COMPLETED = 'completed'
    OBSOLETE = 'obsolete'
    SUPERSEDED = 'superseded'
    STALE = 'stale'
    INFEASIBLE = 'infeasible'
    INVALID_STAMP = 'invalid_stamp'
    CAPACITY = 'capacity'
    CANCELLED = 'cancelled'
    BACKEND_TIMEOUT = 'backend_timeout'
    BACKEND_FAILED = 'backend_failed'


class State(Enum):
    """Where a request is; ``ABANDONED`` has told its client but still occupies its credit."""

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is a slow Python call

    WAITING = 'waiting'
    RUNNING = 'running'
    ABANDONED = 'abandoned'
    ENDED = 'ended'


class Trigger(Enum):
    """What moves a request on."""

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is a slow Python call

    DISPATCHED = 'dispatched'
    DROPPED = 'dropped'
    ANSWERED = 'answered'
    GIVEN_UP = 'given_up'
    AT_BOUNDARY = 'at_boundary'
    PROVEN_OVER = 'proven_over'


TRANSITIONS: dict[tuple[State, Trigger], State] = {
    (State.WAITING, Trigger.DISPATCHED): State.RUNNING,
    (State.WAITING, Trigger.DROPPED): State.ENDED,
    (State.RUNNING, Trigger.ANSWERED): State.ENDED,
    (State.RUNNING, Trigger.GIVEN_UP): State.ABANDONED,
    (State.RUNNING, Trigger.AT_BOUNDARY): State.WAITING,
    (State.ABANDONED, Trigger.ANSWERED): State.ENDED,
    (State.ABANDONED, Trigger.PROVEN_OVER): State.ENDED,
}


@dataclass(frozen=True, slots=True)
class Awaited:
    """
    An instance that a request waits for.

    :ivar since_ns: since when, with a credit free.
    :ivar behind_id: a request that used one at that time, of ``behind_stream``.
    """

    since_ns: int
    backend_model: str
    behind_id: int
    behind_stream: str


@dataclass(slots=True, eq=False)
class Request:
    """
    One accepted request; owned and changed by the scheduler alone.

    :ivar useless_from_ns: first instant at which starting it is useless; ``None`` for never.
    :ivar held_for: the stream that it was said to be held back for, its own where a fresher frame
        is expected; empty for none.
    :ivar awaits: an instance that it has waited for since its arrival or its last quantum.
    :ivar rank: who goes first, see ``order``; the smaller goes first.
    :ivar job: how far a generative request has come; ``None`` for any other.
    """

    request_id: int
    model: Model
    stream: str
    key: str
    generation_ns: int
    arrived_at_ns: int
    sequence: int
    payload_bytes: int
    deadline_at_ns: int
    useless_from_ns: int | None = None
    state: State = State.WAITING
    variant: Variant | None = None
    dispatched_at_ns: int | None = None
    is_deferred: bool = False
    is_waiting_for_fresher: bool = False
    held_for: str = ''
    job: Job | None = None
    awaits: Awaited | None = None
    rank: tuple[int, int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        """Fix the rank: nothing that it is made of changes."""
        self.rank = (self.model.criticality, self.deadline_at_ns, self.generation_ns,
                     self.sequence)

    @property
    def has_begun(self) -> bool:
        """Whether it was dispatched before: a request that waits has only between two quanta."""
        return self.variant is not None

    def move(self, trigger: Trigger) -> None:
        """
        Take one step of ``TRANSITIONS``.

        :raises KeyError: for a step that the table does not have; the state is unchanged.
        """
        self.state = TRANSITIONS[self.state, trigger]
