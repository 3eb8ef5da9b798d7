"""What the checks look at: the file, the server, the machine, the ROS graph; values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vig_core.model import Model, Variant

from vig_governor.backend.base import ModelSignature
from vig_governor.config import Config
from vig_governor.config.schema_model import Manifest
from vig_governor.measure.manifest import ServerFacts


PROFILE_VARIABLES = ('FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE')
"""Both name a file of transports for Fast DDS; the older one counts on Jazzy."""


@dataclass(frozen=True, slots=True)
class ServerView:
    """
    What was found out of the server.

    :ivar text: name, version and address; empty where it did not answer.
    :ivar problem: why it did not answer, or empty.
    :ivar signatures: of every model that is ready.
    :ivar not_ready: backend model -> what the server says about it.
    :ivar shared_memory: why shared memory is refused; empty where it works, ``None`` unasked.
    :ivar grown: completions of each model while nothing was sent for a moment.
    """

    text: str = ''
    problem: str = ''
    facts: ServerFacts = ServerFacts()
    signatures: Mapping[str, ModelSignature] = field(default_factory=dict)
    not_ready: Mapping[str, str] = field(default_factory=dict)
    shared_memory: str | None = None
    grown: Mapping[str, int] = field(default_factory=dict)
    watched_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Publisher:
    """One publisher of a topic, and why our subscription cannot hear it; empty if it can."""

    node: str
    message_type: str
    incompatible: str = ''


@dataclass(frozen=True, slots=True)
class Heard:
    """
    What was heard of one stream.

    :ivar arrivals_ns: on the steady clock.
    :ivar ages_ns: ROS time less stamp on arrival; empty where the stamp is not used.
    :ivar zero_stamps: messages whose stamp is zero.
    :ivar largest_bytes: of the bulk field of a message.
    """

    topic: str
    publishers: tuple[Publisher, ...] = ()
    arrivals_ns: tuple[int, ...] = ()
    ages_ns: tuple[int, ...] = ()
    zero_stamps: int = 0
    largest_bytes: int = 0


@dataclass(frozen=True, slots=True)
class GraphView:
    """
    What was found out of ROS.

    :ivar governors: nodes that publish a GovernorStatus.
    :ivar listened_s: for how long.
    """

    streams: Mapping[str, Heard] = field(default_factory=dict)
    governors: tuple[str, ...] = ()
    listened_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Context:
    """
    Everything.

    :ivar server: ``None`` offline.
    :ivar graph: ``None`` where ROS was not asked; ``why_no_graph`` says why.
    :ivar manifests: what was found now, by backend model.
    :ivar artifact_gaps: why an artifact is unknown, by backend model.
    :ivar environment: of this shell; ``missing_files``: its variables for DDS that name no file.
    :ivar record_folder: where recordings would go; ``free_bytes`` is its disk's.
    """

    config: Config
    server: ServerView | None = None
    graph: GraphView | None = None
    why_no_graph: str = 'not asked'
    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    artifact_gaps: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    missing_files: frozenset[str] = frozenset()
    record_folder: str = '.'
    free_bytes: int | None = None

    @property
    def guarded(self) -> tuple[Model, ...]:
        """The models whose expected frames the look-ahead protects, highest class first."""
        return tuple(sorted((model for model in self.config.system.models.values()
                             if model.is_guarded), key=lambda model: model.criticality))

    def is_profiled(self, model: Model) -> bool:
        """Whether all variants that may run have measured runtimes."""
        return not any((model.name, variant.variant_id) in self.config.unprofiled
                       for variant in model.runnable_variants)

    def planned_ns(self, variant: Variant) -> int:
        """Plan with the profile alone, as the node begins."""
        return variant.profile.p99_ns * self.config.system.margin_percent // 100

    def fastest(self, model: Model) -> Variant:
        """Give the variant with the shortest plan."""
        return min(model.runnable_variants or model.variants, key=self.planned_ns)

    def streams_of(self, model: Model) -> int:
        """Count the streams that feed a model, at least one."""
        return max(1, sum(binding.model == model.name for binding in self.config.streams))
