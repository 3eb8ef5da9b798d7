"""
Facts that reach the scheduler. Frozen values that carry ids, never payloads.

An event is said once, with the instant at which the scheduler learned of it.
"""

from enum import Enum

from vig_core.request import Reason
from vig_core.values import value


class Stamp(Enum):
    """What the clock's edge thinks of a capture time."""

    TRUSTED = 'trusted'
    CLAMPED = 'clamped'
    AHEAD = 'ahead'
    INVALID = 'invalid'


@value
class RequestArrived:
    """
    A frame or a job is there.

    :ivar request_id: unique for the life of the scheduler.
    :ivar stream: the name that counters and statuses carry.
    :ivar key: what ``latest_per_key`` keeps apart.
    :ivar generation_ns: capture instant on the scheduler's clock.
    :ivar stamp: ``INVALID`` ends the request at once and leaves no trace in any queue.
    :ivar stamp_detail: what is odd about the stamp, one sentence, or empty.
    :ivar prompt_tokens: of a cooperative model: estimated length of the prompt.
    :ivar max_tokens: of a cooperative model: tokens to write at most; 0 leaves it to the
        configuration, whose bound holds in any case.
    """

    request_id: int
    model: str
    stream: str
    key: str
    generation_ns: int
    payload_bytes: int = 0
    stamp: Stamp = Stamp.TRUSTED
    stamp_detail: str = ''
    prompt_tokens: int = 0
    max_tokens: int = 0


@value
class BackendCompleted:
    """The backend answered a request; the execution is over."""

    request_id: int


@value
class QuantumCompleted:
    """
    The backend answered a quantum of a cooperative model; the execution is over.

    :ivar tokens: that this quantum wrote, never more than it was asked for.
    :ivar is_end: the model ended its text.
    """

    request_id: int
    tokens: int
    is_end: bool


@value
class BackendFailed:
    """
    The backend answered with an error, or the connection broke.

    :ivar is_over: whether the end of the execution is proven. A broken connection proves
        nothing about the computation, so its credit stays taken.
    """

    request_id: int
    detail: str
    is_over: bool = True


@value
class DispatchRefused:
    """
    A dispatched request never left this host; its credit is free at once.

    :ivar reason: ``CAPACITY`` (no shared-memory slot) or ``BACKEND_FAILED`` (cannot be encoded).
    """

    request_id: int
    reason: Reason
    detail: str


@value
class CancelRequested:
    """
    The client withdrew a request; a running one runs on, and its answer still counts.

    A job that is cut into quanta ends at its next boundary.
    """

    request_id: int
    detail: str = 'withdrawn by the client'


@value
class ExecutionsProvenOver:
    """The server was seen idle on these requests: their held credits end."""

    request_ids: tuple[int, ...]
    detail: str


@value
class ExecutionInherited:
    """
    The server may still compute what was sent before this scheduler began.

    It holds a slot until its end is proven, like one whose client gave up; its client was told.

    :ivar request_id: unique like those of arrivals, which must be greater.
    """

    request_id: int
    model: str
    backend_model: str


@value
class CyclesInherited:
    """
    What was seen of a contract's cycles before this scheduler began; its window goes on from it.

    :ivar contract_version: of the contract that they were judged by.
    :ivar next_cycle_ns: the first instant that was not judged.
    :ivar cycles: whether each cycle of the window was covered, oldest first.
    :ivar consecutive: misses in a row at its end, which may be more than the window holds.
    :ivar newest_capture_ns: of all delivered results, or ``None``.
    :ivar has_new: whether it was delivered since the last judged cycle; so for ``has_loss``, a
        request that ended without a result.
    """

    stream: str
    contract_version: int
    next_cycle_ns: int
    cycles: tuple[bool, ...]
    consecutive: int = 0
    newest_capture_ns: int | None = None
    has_new: bool = False
    has_loss: bool = False


@value
class ProfileDoubted:
    """The profile of a backend model was measured on something else than what runs now."""

    backend_model: str
    detail: str


@value
class TextsForgotten:
    """The server of a backend model remembers no text: it began anew, or something else ran."""

    backend_model: str


@value
class TimeJumped:
    """Capture times before and after this instant do not compare (bag loop, clock reset)."""

    detail: str


@value
class DrainStarted:
    """No new traffic from now on; what was accepted is answered."""


@value
class DrainExpired:
    """The drain took too long, or there is no time for one: the rest ends ``cancelled``."""

    detail: str


@value
class Woke:
    """The instant that ``next_wakeup_ns`` named has come, or any other reason to look again."""


Event = (RequestArrived | BackendCompleted | QuantumCompleted | BackendFailed | DispatchRefused
         | CancelRequested | ExecutionsProvenOver | ExecutionInherited | CyclesInherited
         | ProfileDoubted | TextsForgotten
         | TimeJumped | DrainStarted | DrainExpired | Woke)
