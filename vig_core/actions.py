"""What the scheduler asks for. Frozen values in the order in which they must be carried out."""

from enum import Enum

from vig_core.request import Reason
from vig_core.values import value


class OverloadState(Enum):
    """How much the governor gives up; each state includes the effects of those before it."""

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is a slow Python call

    NORMAL = 'normal'
    FRESHNESS_PRESSURE = 'freshness_pressure'
    DEGRADED = 'degraded'
    REJECT_BEST_EFFORT = 'reject_best_effort'
    PROTECTED_ONLY = 'protected_only'


@value
class Dispatch:
    """
    Send this request to the backend now.

    A job of a cooperative model is sent once for each of its quanta, always under the same id.

    :ivar planned_ns: the conservative estimate that the decision was made with.
    :ivar tokens: to write at most, for a cooperative model; 0 for any other.
    :ivar because: why this variant, see ``why_waiting.Chosen``.
    """

    request_id: int
    model: str
    variant_id: str
    backend_model: str
    planned_ns: int
    tokens: int = 0
    because: object = ''

    @property
    def detail(self) -> str:
        """One sentence with the numbers that decided, made when it is read."""
        return str(self.because)


@value
class Terminate:
    """
    Tell the client how its request ended. Emitted exactly once for each accepted request.

    :ivar because: a text, or a value of ``why`` whose text is ``detail``.
    :ivar age_ns: capture to now.
    :ivar queue_wait_ns: arrival to (first) dispatch, or to now for a request that never ran.
    :ivar backend_ns: dispatch to the server's answer, of all quanta that were answered together;
        ``None`` where it gave none.
    :ivar is_deadline_met: only a delivered result can meet its deadline.
    :ivar holds_input: the backend may still read the input; wait for ``ReleaseInput``.
    :ivar tokens: that a generative job wrote; its text is whole only where the reason is
        ``COMPLETED`` or ``OBSOLETE``.
    :ivar quanta: backend requests of it that were answered.
    :ivar is_end_of_sequence: the model ended the text; otherwise the bound on its tokens did.
    """

    request_id: int
    stream: str
    model: str
    variant_id: str | None
    reason: Reason
    because: object
    age_ns: int
    queue_wait_ns: int
    backend_ns: int | None = None
    is_deadline_met: bool = False
    holds_input: bool = False
    tokens: int = 0
    quanta: int = 0
    is_end_of_sequence: bool = False

    @property
    def detail(self) -> str:
        """One sentence with the numbers that decided, made when it is read."""
        return str(self.because)


@value
class ReleaseInput:
    """The execution of an already terminated request is over: its input may be reused."""

    request_id: int


@value
class Defer:
    """
    A candidate is held back for an expected arrival. Said once per request and beneficiary kind.

    :ivar until_ns: the instant at which the answer can change without another event.
    :ivar beneficiary: the stream whose expected arrival is protected; the request's own where it
        waits for its successor.
    """

    request_id: int
    until_ns: int
    beneficiary: str
    because: object

    @property
    def detail(self) -> str:
        """One sentence with the numbers that decided, made when it is read."""
        return str(self.because)


@value
class ReportOverload:
    """The overload state changed."""

    before: OverloadState
    after: OverloadState
    because: object

    @property
    def detail(self) -> str:
        """One sentence with the evidence, made when it is read."""
        return str(self.because)


Action = Dispatch | Terminate | ReleaseInput | Defer | ReportOverload
