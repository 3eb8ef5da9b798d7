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
    Runs what it is given at once; never preempts.

    :ivar laws: runtime law by backend model.
    :ivar interference_ns: ``(victim, co_tenant) -> ns``, charged when an execution begins.
    """

    seed: int
    laws: Mapping[str, RuntimeLaw]
    interference_ns: Mapping[tuple[str, str], int] = field(default_factory=dict)
    running: dict[int, str] = field(default_factory=dict)

    def begin(self, request_id: int, stream: str, index: int, variant: Variant,
              now_ns: int, cost_ns: int | None = None) -> int:
        """Begin an execution and say when it will end."""
        law = self.laws[variant.backend_model]
        runtime_ns = law.draw_ns(self.seed, stream, index, variant)
        if cost_ns is not None:
            runtime_ns = runtime_ns * cost_ns // law.p50_ns
        runtime_ns += added_ns(self.interference_ns, variant.backend_model,
                               self.running.values())
        self.running[request_id] = variant.backend_model
        return now_ns + runtime_ns

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
        del self.running[request_id]
