"""The simulated backend: as many executions at once as it has slots, and what they cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vig_core.interference import added_ns
from vig_core.model import Variant
from vig_core.sim.workload import RuntimeLaw


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
              now_ns: int) -> int:
        """Begin an execution and say when it will end."""
        runtime_ns = self.laws[variant.backend_model].draw_ns(self.seed, stream, index, variant)
        runtime_ns += added_ns(self.interference_ns, variant.backend_model,
                               self.running.values())
        self.running[request_id] = variant.backend_model
        return now_ns + runtime_ns

    def end(self, request_id: int) -> None:
        """Forget an execution that is over."""
        del self.running[request_id]
