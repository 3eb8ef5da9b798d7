"""
The event loop: virtual time, a total order of simultaneous events, a digest of all decisions.

At one instant answers come first, then arrivals in the order of their streams, then wake-ups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
import hashlib
from heapq import heappop, heappush
from typing import Protocol

from vig_core.actions import Action, Dispatch, Terminate
from vig_core.events import BackendCompleted, Event, QuantumCompleted, RequestArrived, Woke
from vig_core.model import System
from vig_core.request import Reason
from vig_core.sim.client import Client
from vig_core.sim.server import Backend, NEVER, Server
from vig_core.sim.workload import ArrivalProcess, Frame, RuntimeLaw

_ANSWER, _ARRIVAL = 0, 1


class Policy(Protocol):
    """What decides: the scheduler, or a baseline with the same face."""

    def handle(self, event: Event, *, now_ns: int) -> tuple[Action, ...]:
        """Take in one event and say what to do."""

    def next_wakeup_ns(self) -> int | None:
        """Say when to look again if nothing happens before."""


@dataclass(frozen=True, slots=True)
class SimStream:
    """
    One stream of the simulation.

    :ivar is_closed_loop: a synchronous client: at most one frame in flight; when it is free it
        takes the newest capture that has passed and gives up the older ones.
    :ivar prompt_tokens: of each job of a generative model, whose texts go on to their bound.
    """

    name: str
    model: str
    arrivals: ArrivalProcess
    is_closed_loop: bool = False
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """How one request ended, with its capture and the instant of its end."""

    stream: str
    reason: Reason
    captured_at_ns: int
    ended_at_ns: int
    backend_ns: int
    tokens: int = 0
    quanta: int = 0


@dataclass(slots=True)
class Run:
    """All ends of one simulation in order, and the digest of everything that was decided."""

    duration_ns: int
    ends: list[Delivery] = field(default_factory=list)
    digest: str = ''
    decisions: int = 0
    given_up: dict[str, int] = field(default_factory=dict)
    """Releases that a synchronous client never asked for, by stream."""


def simulate(policy: Policy, system: System, streams: Sequence[SimStream], *, seed: int,
             duration_ns: int, laws: Mapping[str, RuntimeLaw] | None = None,
             instances: Mapping[str, int] | None = None,
             backend: Backend | None = None) -> Run:
    """
    Play a workload to a policy until every frame captured in ``duration_ns`` has ended.

    :param laws: what reality costs by backend model; by default exactly what is profiled.
    :param instances: executions of a backend model that the server runs at once; by default what
        the system says.
    :param backend: what executes instead of one ``Server`` like that.
    """
    reality = {variant.backend_model: RuntimeLaw.of(variant.profile)
               for model in system.models.values() for variant in model.variants}
    backend = backend or Server(seed, {**reality, **(laws or {})}, system.interference_ns,
                                system.instances if instances is None else instances)
    return _Simulation(policy, system, streams, seed, duration_ns, backend).run()


class _Simulation:
    """One run; used once."""

    def __init__(self, policy: Policy, system: System, streams: Sequence[SimStream], seed: int,
                 duration_ns: int, backend: Backend) -> None:
        self._policy = policy
        self._models = system.models
        self._prompts = {stream.name: stream.prompt_tokens for stream in streams}
        self._asked: dict[int, int] = {}
        self._written: dict[int, int] = {}
        self._read_last: dict[str, int] = {}
        self._quanta = 0
        self._variants = {(model.name, variant.variant_id): variant
                          for model in system.models.values() for variant in model.variants}
        self._backend = backend
        self._out = Run(duration_ns)
        self._digest = hashlib.sha256()
        self._heap: list[tuple[int, int, int, int, int | tuple[SimStream, Frame]]] = []
        self._serial = 0
        self._frames: dict[int, tuple[str, int, int]] = {}
        self._clients: dict[str, tuple[int, SimStream, Client]] = {}
        self._last_id = 0
        for rank, stream in enumerate(streams):
            if stream.is_closed_loop:
                client = Client(stream.arrivals, seed, stream.name, duration_ns)
                self._clients[stream.name] = rank, stream, client
                self._ask_again(stream.name, 0, was_run=True)
                continue
            for frame in stream.arrivals.frames(seed, stream.name, duration_ns):
                self._push(frame.arrives_at_ns, _ARRIVAL, rank, (stream, frame))

    def run(self) -> Run:
        """Play until nothing is left to happen."""
        while True:
            at_ns = self._heap[0][0] if self._heap else None
            wakeup_ns = self._policy.next_wakeup_ns()
            open_ns = self._backend.next_ns()
            if open_ns < NEVER and open_ns <= min(
                    each_ns for each_ns in (at_ns, wakeup_ns, open_ns) if each_ns is not None):
                request_id, answered_at_ns = self._backend.advance()
                self._push(answered_at_ns, _ANSWER, 0, request_id)
            elif wakeup_ns is not None and (at_ns is None or wakeup_ns < at_ns):
                if at_ns is None and not self._frames:
                    break
                self._feed(Woke(), wakeup_ns)
            elif at_ns is None:
                break
            else:
                self._next()
        self._out.digest = self._digest.hexdigest()
        self._out.given_up = {name: client.given_up
                              for name, (_, _, client) in self._clients.items()}
        return self._out

    def _next(self) -> None:
        at_ns, _, _, _, what = heappop(self._heap)
        if isinstance(what, int):
            self._backend.end(what)
            tokens = self._asked.pop(what, 0)
            if tokens:
                self._written[what] = self._written.get(what, 0) + tokens
                self._feed(QuantumCompleted(what, tokens, False), at_ns)
            else:
                self._feed(BackendCompleted(what), at_ns)
            return
        stream, frame = what
        self._last_id += 1
        self._frames[self._last_id] = (stream.name, frame.index, frame.captured_at_ns)
        self._feed(RequestArrived(self._last_id, stream.model, stream.name, stream.name,
                                  frame.captured_at_ns, prompt_tokens=stream.prompt_tokens),
                   at_ns)

    def _feed(self, event: Event, now_ns: int) -> None:
        for action in self._policy.handle(event, now_ns=now_ns):
            self._digest.update(f'{now_ns} {action!r}\n'.encode())
            self._out.decisions += 1
            if isinstance(action, Dispatch):
                stream, index, _ = self._frames[action.request_id]
                variant = self._variants[action.model, action.variant_id]
                cost_ns = self._cost_of_quantum_ns(action, stream)
                ends_ns = self._backend.begin(
                    action.request_id, stream, index if cost_ns is None else self._quanta,
                    variant, now_ns, cost_ns)
                if ends_ns is not None:
                    self._push(ends_ns, _ANSWER, 0, action.request_id)
            elif isinstance(action, Terminate):
                stream, _, captured_ns = self._frames.pop(action.request_id)
                self._written.pop(action.request_id, None)
                self._out.ends.append(Delivery(
                    stream, action.reason, captured_ns, now_ns, action.backend_ns or 0,
                    action.tokens, action.quanta))
                self._ask_again(stream, now_ns, was_run=action.backend_ns is not None)

    def _cost_of_quantum_ns(self, dispatch: Dispatch, stream: str) -> int | None:
        """
        Give what a quantum costs by the cost model; ``None`` for an ordinary request.

        A backend model remembers the one text that it was sent last. A policy that knows no
        quanta asks for the whole text at once.
        """
        model = self._models[dispatch.model]
        if model.cooperative is None:
            return None
        self._quanta += 1
        if dispatch.tokens:
            self._asked[dispatch.request_id] = dispatch.tokens
        is_new = self._read_last.get(dispatch.backend_model) != dispatch.request_id
        self._read_last[dispatch.backend_model] = dispatch.request_id
        cost_ns = model.cooperative.cost_ns(
            self._prompts[stream] + self._written.get(dispatch.request_id, 0),
            dispatch.tokens or model.cooperative.max_total_tokens, is_new=is_new)
        return model.in_proportion_ns(self._variants[model.name, dispatch.variant_id], cost_ns)

    def _ask_again(self, stream: str, now_ns: int, *, was_run: bool) -> None:
        if stream not in self._clients:
            return
        rank, what, client = self._clients[stream]
        frame = client.next_frame(now_ns, was_run=was_run)
        if frame is not None:
            self._push(max(now_ns, frame.arrives_at_ns), _ARRIVAL, rank, (what, frame))

    def _push(self, at_ns: int, kind: int, rank: int,
              what: int | tuple[SimStream, Frame]) -> None:
        self._serial += 1
        heappush(self._heap, (at_ns, kind, rank, self._serial, what))
