"""Logical models, their physical variants, and the system that they share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from vig_core.contract import Contract, Criticality, Overflow, QueuePolicy
from vig_core.cooperative import Cooperative
from vig_core.errors import ContractError
from vig_core.units import NS_PER_S


class QualitySource(Enum):
    """Where a quality figure comes from; an unknown one cannot be compared."""

    MEASURED = 'measured'
    USER_DECLARED = 'user_declared'
    UNKNOWN = 'unknown'


@dataclass(frozen=True, slots=True)
class RuntimeProfile:
    """Measured runtimes of one variant alone on the server, in nanoseconds."""

    p50_ns: int
    p99_ns: int
    p95_ns: int | None = None

    def __post_init__(self) -> None:
        """Refuse a profile whose quantiles are not positive and in order."""
        quantiles = [value for value in (self.p50_ns, self.p95_ns, self.p99_ns)
                     if value is not None]
        if quantiles[0] <= 0 or quantiles != sorted(quantiles):
            raise ContractError(('profile',), 'p50, p95 and p99 must be positive and in order')


@dataclass(frozen=True, slots=True)
class Variant:
    """
    One physical backend model behind a logical one.

    :ivar signature: digest of the inputs and outputs; variants with different ones are not
        interchangeable.
    :ivar instances: how many executions of the backend model the server runs at once; ``None``
        for as many as there are slots.
    """

    variant_id: str
    backend_model: str
    profile: RuntimeProfile
    quality: float = 1.0
    quality_source: QualitySource = QualitySource.USER_DECLARED
    signature: str = ''
    instances: int | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """
    A logical model: its class, queue, contract and variants in falling quality.

    :ivar cooperative: of a generative model that may be cut; its costs are those of the first
        variant, those of another one are in the proportion of their medians.
    """

    name: str
    criticality: Criticality
    contract: Contract
    variants: tuple[Variant, ...]
    policy: QueuePolicy = QueuePolicy.LATEST
    capacity: int = 1
    overflow: Overflow = Overflow.REJECT_NEW
    is_stateful: bool = False
    cooperative: Cooperative | None = None

    def __post_init__(self) -> None:
        """Refuse a model that nothing could serve or whose queue contradicts its state."""
        at = (self.name,)
        if not self.variants:
            raise ContractError((*at, 'variants'), 'a model needs at least one variant')
        known = [variant.variant_id for variant in self.variants]
        if len(set(known)) != len(known):
            raise ContractError((*at, 'variants'), f'variant ids repeat: {", ".join(known)}')
        if self.capacity < 1:
            raise ContractError((*at, 'queue', 'capacity'),
                                f'{self.capacity} leaves no room for a request')
        if self.policy is QueuePolicy.LATEST and self.capacity != 1:
            raise ContractError((*at, 'queue', 'capacity'),
                                f'latest keeps one waiting request, not {self.capacity}')
        if self.is_stateful and self.policy.is_latest:
            raise ContractError(
                (*at, 'queue', 'policy'),
                f'{self.policy.value} drops frames that a stateful model must see; '
                'use fifo or never_drop')
        contradiction = self.contract.delivery_semantics.contradiction(self.policy)
        if contradiction is not None:
            raise ContractError((*at, 'contract', 'extension', 'delivery_semantics'),
                                contradiction)
        approved = self.contract.approved_variants
        if approved is not None:
            for name in approved:
                if name not in known:
                    raise ContractError(
                        (*at, 'contract', 'extension', 'approved_variants'),
                        f'{name!r} is not a variant of this model; there are {", ".join(known)}')

    @property
    def usable_variants(self) -> tuple[Variant, ...]:
        """The variants that are approved and good enough, in declared order."""
        approved = self.contract.approved_variants
        return tuple(variant for variant in self.variants
                     if variant.quality >= self.contract.min_quality
                     and (approved is None or variant.variant_id in approved))

    @property
    def reason_against_selection(self) -> str | None:
        """Why the governor may not choose among the variants by itself, or ``None``."""
        usable = self.usable_variants
        if len(usable) <= 1:
            return None
        if self.is_stateful:
            return 'the model is stateful: its variants do not share their state'
        if len({variant.signature for variant in usable}) > 1:
            return 'the variants have different inputs or outputs'
        for variant in usable:
            if variant.quality_source is QualitySource.UNKNOWN:
                return f'the quality of variant {variant.variant_id!r} has no known source'
        return None

    @property
    def runnable_variants(self) -> tuple[Variant, ...]:
        """The usable variants; only the first of them where nobody may choose by itself."""
        usable = self.usable_variants
        return usable if self.reason_against_selection is None else usable[:1]

    def in_proportion_ns(self, variant: Variant, cost_ns: int) -> int:
        """Give what costs this much on the first variant on another one, by their medians."""
        first = self.variants[0].profile.p50_ns
        return cost_ns if variant is self.variants[0] else (
            cost_ns * variant.profile.p50_ns // first)

    @property
    def is_guarded(self) -> bool:
        """Whether the look-ahead protects the expected arrivals of this model."""
        return self.criticality.is_guardable and self.contract.period_ns is not None


@dataclass(frozen=True, slots=True)
class System:
    """
    Everything the scheduler knows before the first event.

    :ivar streams: stream name -> model name; cycles of these are counted from the start, those
        of any other stream from its first arrival.
    :ivar slots: execution units of the backend; must equal what the server runs at once.
    :ivar pipelining_depth: extra credits for each slot.
    :ivar pipelining_lead_ns: they can be used only when what the slot has taken is expected to
        end within this; ``None`` for at any time.
    :ivar learns_occupancy: how long runs keep their slot is learned and planned (adr/0022).
    :ivar no_corun: unordered pairs of model names that must never run together.
    :ivar interference_ns: measured added time, ``(victim, co_tenant) -> ns``, backend models.
    :ivar margin_percent: the plan is this share of the measured high quantile.
    :ivar max_inflight_bytes: payload bytes waiting and running together.
    """

    models: Mapping[str, Model]
    streams: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    slots: int = 1
    pipelining_depth: int = 0
    pipelining_lead_ns: int | None = None
    learns_occupancy: bool = False
    no_corun: frozenset[frozenset[str]] = frozenset()
    interference_ns: Mapping[tuple[str, str], int] = field(
        default_factory=lambda: MappingProxyType({}))
    margin_percent: int = 110
    inference_timeout_ns: int = 5 * NS_PER_S
    max_inflight_bytes: int = 512 * 1024 * 1024
    is_miss_aware: bool = False

    @property
    def instances(self) -> Mapping[str, int]:
        """
        How many executions of a backend model run at once, where that is fewer than all slots.

        Whoever sends to a backend model shares its instances, whatever the logical model.
        """
        return {variant.backend_model: variant.instances for model in self.models.values()
                for variant in model.variants
                if variant.instances is not None and variant.instances < self.slots}

    def background_percent(self, model: Model) -> int:
        """
        Share of its requests that a stream of this model should see completed, 0 for none.

        The most that its own contract or one of a higher class asks for; 0 above ``best_effort``.
        """
        if model.criticality is not Criticality.BEST_EFFORT:
            return 0
        return max(other.contract.minimum_background_progress_percent
                   for other in self.models.values()
                   if other.name == model.name or other.criticality < model.criticality)

    @property
    def slowest_guarded_cycle_ns(self) -> int:
        """Longest distance of the instants at which a guarded stream is judged; 0 without any."""
        return max((model.contract.cycle_ns or 0 for model in self.models.values()
                    if model.is_guarded), default=0)

    def __post_init__(self) -> None:
        """Refuse a system without slots and bans that name nothing."""
        if self.slots < 1:
            raise ContractError(('backend', 'slots'), f'{self.slots} leaves nothing to run on')
        if self.pipelining_depth < 0:
            raise ContractError(('backend', 'pipelining_depth'),
                                f'{self.pipelining_depth} is negative')
        if self.pipelining_lead_ns is not None and self.pipelining_lead_ns < 0:
            raise ContractError(('backend', 'pipelining_lead_ms'), 'is negative')
        if self.margin_percent < 100:
            raise ContractError(
                ('backend', 'safety_margin_percent'),
                f'{self.margin_percent} plans with less than was measured; at least 100')
        if self.inference_timeout_ns <= 0:
            raise ContractError(('backend', 'inference_timeout_ms'), 'must be positive')
        self._check_instances()
        for stream, model in self.streams.items():
            if model not in self.models:
                raise ContractError(
                    ('streams', stream, 'model'),
                    f'{model!r} is no model; there are {", ".join(sorted(self.models))}')
        for pair in self.no_corun:
            for name in sorted(pair):
                if name not in self.models:
                    raise ContractError(
                        ('backend', 'no_corun'),
                        f'{name!r} is no model; there are {", ".join(sorted(self.models))}')

    def _check_instances(self) -> None:
        """Refuse a backend model that can run nothing, or that is described in two ways."""
        known: dict[str, tuple[str, int]] = {}
        for model in self.models.values():
            for variant in model.variants:
                count, at = variant.instances, ('models', model.name, 'variants')
                if count is None:
                    continue
                if count < 1:
                    raise ContractError(at, f'{count} instances of {variant.backend_model} leave '
                                        'nothing to run on')
                first, before = known.setdefault(variant.backend_model, (model.name, count))
                if before != count:
                    raise ContractError(
                        at, f'{variant.backend_model} has {count} instances here and {before} at '
                        f'models.{first}; a backend model has one number')
