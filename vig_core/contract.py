"""
What a stream needs: period, deadline, maximum age, class, and the optional extension.

Contracts are never measured. They are statements of the operator about the robot.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum

from vig_core.errors import ContractError


class Criticality(IntEnum):
    """The class of a model; a smaller number is always served first, never traded."""

    __hash__ = int.__hash__  # as integers; Enum's own hash is a slow Python call

    PROTECTED = 0
    HIGH = 1
    NORMAL = 2
    BEST_EFFORT = 3

    @property
    def is_guardable(self) -> bool:
        """Whether a stream of this class with a period is guarded by the look-ahead."""
        return self <= Criticality.HIGH


class QueuePolicy(Enum):
    """What happens to a waiting request when another one of the same stream arrives."""

    __hash__ = object.__hash__  # members are singletons; Enum's own hash is a slow Python call

    LATEST = 'latest'
    LATEST_PER_KEY = 'latest_per_key'
    FIFO = 'fifo'
    NEVER_DROP = 'never_drop'

    @property
    def is_latest(self) -> bool:
        """Whether a newer capture supersedes an older waiting one."""
        return self in (QueuePolicy.LATEST, QueuePolicy.LATEST_PER_KEY)


class Overflow(Enum):
    """What a full ``fifo`` queue does with one request too many."""

    REJECT_NEW = 'reject_new'
    REJECT_OLDEST_NON_PROTECTED = 'reject_oldest_non_protected'
    BACKPRESSURE_CLIENT = 'backpressure_client'


class DeliveryBoundary(Enum):
    """Where a result counts as delivered; ``consumer`` is stored but not observable here."""

    GOVERNOR = 'governor'
    CONSUMER = 'consumer'


class DeliverySemantics(Enum):
    """What the consumer does with results; ``vig_core.coverage`` says when a cycle is covered."""

    LATEST_STATE = 'latest_state'
    EVERY_EVENT = 'every_event'
    STATEFUL_SEQUENCE = 'stateful_sequence'

    def contradiction(self, policy: QueuePolicy) -> str | None:
        """Say why a queue of this policy can never give it, or ``None``."""
        if self is DeliverySemantics.LATEST_STATE or not policy.is_latest:
            return None
        return (f'{self.value} wants the result of every frame, and a {policy.value} queue keeps '
                'only the newest that waits: of n frames that arrive during one run n - 1 are '
                'superseded; use fifo or never_drop, or delivery_semantics: latest_state')


class Evidence(Enum):
    """How strong a promise the operator requires; never a statement about what happened."""

    OBSERVED = 'observed'
    QUALIFIED_SLO = 'qualified_slo'


@dataclass(frozen=True, slots=True)
class MissBudget:
    """At most ``max_misses`` in any ``window_cycles``, at most ``max_consecutive`` in a row."""

    max_misses: int
    window_cycles: int
    max_consecutive: int

    def __post_init__(self) -> None:
        """Refuse budgets that cannot bind: M >= K, L > M, K outside 1..1024."""
        at = ('miss_budget',)
        if not 1 <= self.window_cycles <= 1024:
            raise ContractError((*at, 'window_cycles'),
                                f'{self.window_cycles} is outside 1..1024 cycles')
        if self.max_misses < 0:
            raise ContractError((*at, 'max_misses'), f'{self.max_misses} is negative')
        if self.max_misses >= self.window_cycles:
            raise ContractError(
                (*at, 'max_misses'),
                f'{self.max_misses} misses in {self.window_cycles} cycles can never be exceeded; '
                'max_misses must be smaller than window_cycles')
        if not 0 <= self.max_consecutive <= self.max_misses:
            raise ContractError(
                (*at, 'max_consecutive'),
                f'{self.max_consecutive} in a row can never be reached with max_misses '
                f'{self.max_misses}; it must lie between 0 and max_misses')


@dataclass(frozen=True, slots=True)
class Contract:
    """
    What one model's stream promises its consumer.

    :ivar deadline_ns: after the capture; steers order and variant, destroys nothing by itself.
    :ivar max_age_ns: beyond it a result is worthless; ``None`` means never worthless.
    :ivar period_ns: the expected distance of arrivals; ``None`` means no forecast.
    :ivar min_quality: variants below it are never used.
    :ivar variant_dwell_ns: how long a reserve must last before a better variant is tried.
    :ivar release_jitter_ns: envelope J of the capture jitter.
    :ivar consumer_period_ns: when the consumer samples; ``None`` means with the period.
    :ivar approved_variants: the only variants that may run; ``None`` means all.
    :ivar evidence_required: never read by anything that observes; it is a requirement.
    :ivar minimum_background_progress_percent: share of its requests that every stream of class
        ``best_effort`` should see completed, this one or those below it; observed only.
    :ivar observation_window: how far back is looked: so many results for ages (at most 1000),
        requests for the background's progress, cycles for its starvation.
    """

    deadline_ns: int
    max_age_ns: int | None = None
    period_ns: int | None = None
    min_quality: float = 0.0
    variant_dwell_ns: int = 100_000_000
    release_jitter_ns: int = 0
    consumer_period_ns: int | None = None
    phase_ns: int = 0
    require_new_sample_each_cycle: bool = False
    miss_budget: MissBudget | None = None
    approved_variants: tuple[str, ...] | None = None
    delivery_boundary: DeliveryBoundary = DeliveryBoundary.GOVERNOR
    delivery_semantics: DeliverySemantics = DeliverySemantics.LATEST_STATE
    evidence_required: Evidence = Evidence.OBSERVED
    minimum_background_progress_percent: int = 0
    observation_window: int = 300
    contract_version: int = 0

    def __post_init__(self) -> None:
        """Refuse instants that cannot be met and budgets without a clock of their own."""
        for name, value in (('deadline', self.deadline_ns), ('max_age', self.max_age_ns),
                            ('period', self.period_ns),
                            ('consumer_period', self.consumer_period_ns)):
            if value is not None and value <= 0:
                raise ContractError((name,), f'{value} ns is not a positive duration')
        for name, value in (('variant_dwell', self.variant_dwell_ns), ('phase', self.phase_ns),
                            ('release_jitter', self.release_jitter_ns)):
            if value < 0:
                raise ContractError((name,), f'{value} ns is negative')
        if self.miss_budget is not None and self.consumer_period_ns is None:
            raise ContractError(
                ('miss_budget',),
                'a miss budget needs consumer_period: cycles are counted by the contract, '
                'not by the requests that happen to be accepted')
        if self.observation_window < 1:
            raise ContractError(('observation_window',),
                                f'{self.observation_window} observes nothing; at least 1')
        if not 0 <= self.minimum_background_progress_percent <= 100:
            raise ContractError(('minimum_background_progress',),
                                f'{self.minimum_background_progress_percent} is outside 0..100 %')
        if self.approved_variants is not None and not self.approved_variants:
            raise ContractError(('approved_variants',), 'the contract approves no variant at all')

    @property
    def cycle_ns(self) -> int | None:
        """Distance of the instants at which coverage is judged, if any is defined."""
        return self.consumer_period_ns or self.period_ns

    @property
    def cycle_terms(self) -> tuple[object, ...]:
        """What decides whether a cycle is a miss; windows under different terms do not add up."""
        return (self.cycle_ns, self.phase_ns, self.max_age_ns, self.delivery_semantics,
                self.require_new_sample_each_cycle, self.miss_budget)
