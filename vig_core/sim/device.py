"""
A serial device at the end of a way: what a server on the other side of a network stack is.

A request is under way to the server, waits there for the device, runs alone, and its answer is
under way back. After each execution the device stands still for a moment, whoever waits. Of those
that wait the highest class goes first, as the server's priorities say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from vig_core.contract import Criticality
from vig_core.model import Variant
from vig_core.sim.server import NEVER
from vig_core.sim.workload import RuntimeLaw


@dataclass(frozen=True, slots=True)
class Way:
    """
    What an execution costs beside its run.

    :ivar there: from dispatch until the device could take the request.
    :ivar back: from the end of the run until the answer is known.
    :ivar turnaround_ns: how long the device stands still after each run.
    """

    there: RuntimeLaw
    back: RuntimeLaw
    turnaround_ns: int


@dataclass(frozen=True, slots=True, order=True)
class _Sent:
    """A request at the server, or under way to it; ordered as the device takes them."""

    criticality: Criticality
    arrives_at_ns: int
    request_id: int
    runs_ns: int
    back_ns: int


class SerialServer:
    """
    One device for all models, and the ways to it and back; has the face of ``Server``.

    :ivar executions: begin, end and backend model of every run so far.
    """

    def __init__(self, seed: int, laws: Mapping[str, RuntimeLaw], way: Way,
                 classes: Mapping[str, Criticality]) -> None:
        """
        Begin with an idle device.

        :param laws: how long a run holds the device, by backend model.
        :param classes: whose request goes first, by backend model.
        """
        self._seed = seed
        self._laws = laws
        self._way = way
        self._classes = classes
        self._under_way: list[tuple[int, _Sent]] = []
        self._waiting: list[_Sent] = []
        self._free_at_ns = 0
        self.executions: list[tuple[int, int, str]] = []
        self._models: dict[int, str] = {}

    def begin(self, request_id: int, stream: str, index: int, variant: Variant,
              now_ns: int, cost_ns: int | None = None) -> int | None:
        """Send a request; when its answer comes is known once it runs."""
        def draw_ns(law: RuntimeLaw, what: str) -> int:
            return law.draw_ns(self._seed, f'{stream}{what}', index, variant)

        name = variant.backend_model
        runtime_ns = draw_ns(self._laws[name], '')
        if cost_ns is not None:
            runtime_ns = runtime_ns * cost_ns // self._laws[name].p50_ns
        arrives_at_ns = now_ns + draw_ns(self._way.there, '/there')
        self._models[request_id] = name
        heappush(self._under_way, (arrives_at_ns, _Sent(
            self._classes[name], arrives_at_ns, request_id, runtime_ns,
            draw_ns(self._way.back, '/back'))))
        return None

    def next_ns(self) -> int:
        """Say when the device takes its next request; ``NEVER`` while none is known."""
        if self._waiting:
            return self._free_at_ns
        return max(self._under_way[0][0], self._free_at_ns) if self._under_way else NEVER

    def advance(self) -> tuple[int, int]:
        """Let the device take its next request; returns whose it is and when its answer comes."""
        now_ns = self.next_ns()
        while self._under_way and self._under_way[0][0] <= now_ns:
            heappush(self._waiting, heappop(self._under_way)[1])
        sent = heappop(self._waiting)
        ends_at_ns = now_ns + sent.runs_ns
        self._free_at_ns = ends_at_ns + self._way.turnaround_ns
        self.executions.append((now_ns, ends_at_ns, self._models[sent.request_id]))
        return sent.request_id, ends_at_ns + sent.back_ns

    def end(self, request_id: int) -> None:
        """Forget a request that was answered."""
        del self._models[request_id]
