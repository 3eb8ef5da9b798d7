"""The simulated backend: as many executions at once as it has slots, and what they cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from vig_core.interference import added_ns
from vig_core.model import Variant
from vig_core.sim.workload import RuntimeLaw

NEVER = 1 << 62


class Backend(Protocol):
    """What executes, as the engine sees it."""

    def begin(self, request_id: int, stream: str, index: int, variant: Variant,
              now_ns: int, cost_ns: int | None = None) -> int | None:
        """
        Take in a request; says when its answer comes, or ``None`` while that is open.

        :param cost_ns: median of a quantum; it varies in the proportion of the variant's law.
        """

    def next_ns(self) -> int:
        """Say when the backend does something by itself; ``NEVER`` for nothing."""

    def advance(self) -> tuple[int, int]:
        """Do it; returns whose answer is known now, and when it comes."""

    def end(self, request_id: int) -> None:
        """Learn that an answer was delivered."""


@dataclass(slots=True)
class Server:
    """
    Runs what it is given at once, as far as it has instances for it; never preempts.

    :ivar laws: runtime law by backend model.
    :ivar interference_ns: ``(victim, co_tenant) -> ns``, charged when a request comes.
    :ivar instances: executions of a backend model at once; without limit where it is not named.
        What comes while all are in use waits here, the first to come first.
    """

    seed: int
    laws: Mapping[str, RuntimeLaw]
    interference_ns: Mapping[tuple[str, str], int] = field(default_factory=dict)
    instances: Mapping[str, int] = field(default_factory=dict)
    running: dict[int, str] = field(default_factory=dict)
    ends_at_ns: dict[int, int] = field(default_factory=dict)

    def begin(self, request_id: int, stream: str, index: int, variant: Variant,
              now_ns: int, cost_ns: int | None = None) -> int:
        """Take in a request and say when its execution will end."""
        law = self.laws[variant.backend_model]
        runtime_ns = law.draw_ns(self.seed, stream, index, variant)
        if cost_ns is not None:
            runtime_ns = runtime_ns * cost_ns // law.p50_ns
        runtime_ns += added_ns(self.interference_ns, variant.backend_model,
                               self.running.values())
        ends_at_ns = self._free_at_ns(variant.backend_model, now_ns) + runtime_ns
        self.running[request_id] = variant.backend_model
        self.ends_at_ns[request_id] = ends_at_ns
        return ends_at_ns

    def _free_at_ns(self, backend_model: str, now_ns: int) -> int:
        """Say when the next instance is free for what comes now."""
        instances = self.instances.get(backend_model, 0)
        ends_ns = sorted(self.ends_at_ns[request_id] for request_id, name in self.running.items()
                         if name == backend_model) if instances else []
        return max(now_ns, ends_ns[-instances]) if len(ends_ns) >= instances > 0 else now_ns

    def next_ns(self) -> int:
        """Do nothing by itself: every end is known from the beginning."""
        return NEVER

    def advance(self) -> tuple[int, int]:
        """
        Never asked for.

        :raises AssertionError: always.
        """
        raise AssertionError('nothing of this server is open')

    def end(self, request_id: int) -> None:
        """Forget an execution that is over."""
        del self.running[request_id], self.ends_at_ns[request_id]
