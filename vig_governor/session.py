"""The time between activation and deactivation: one scheduler, its actor, its ways in and out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
import itertools
import logging
import time
from typing import Any

from vig_core.events import TextsForgotten, TimeJumped
from vig_core.model import System
from vig_core.scheduler import Scheduler
from vig_core.snapshot import SystemSnapshot
from vig_core.units import NS_PER_S

from vig_governor.actor import Actor, ActorStopped
from vig_governor.assembly import Assembly
from vig_governor.authority import AuthorityCheck
from vig_governor.backend.base import Backend
from vig_governor.config import Config
from vig_governor.contract_memory import ContractMemory
from vig_governor.diagnostics import StreamDiagnostics
from vig_governor.dispatcher import Dispatcher
from vig_governor.encoders import reader_of
from vig_governor.held import Sent
from vig_governor.intake import Intake
from vig_governor.metrics import Metrics
from vig_governor.ports import Clock, Scheduling, Sink
from vig_governor.prompt_room import Outlook
from vig_governor.publishing import Publishing, StreamOutputs
from vig_governor.recorder import DEFAULT_MAX_BYTES, RecordingScheduler, TraceWriter
from vig_governor.watch import ServerWatch

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Governed:
    """
    What ``configure`` made.

    :ivar classes: message type of each stream.
    :ivar outputs: publishers of each stream.
    :ivar topics: resolved input topic of each stream.
    :ivar output_topics: resolved base of each stream's output topics.
    """

    config: Config
    assembly: Assembly
    backend: Backend
    watch: ServerWatch
    classes: Mapping[str, type[Any]]
    outputs: dict[str, StreamOutputs] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    output_topics: dict[str, str] = field(default_factory=dict)


class Session:
    """
    Everything that exists only while the node is active; ends with ``close``.

    :param numbers: request ids, unique for the life of the node, so that a late answer of an
        earlier session means nothing to this one.
    :param record: path of the trace to write, or empty.
    :param record_max_bytes: what the trace may take on the disk.
    :param before: the actor of an earlier session, whatever its configuration was: what it has
        not seen end holds its slots here too.
    :param metrics: where to count for Prometheus, if that is asked for.
    :param memory: windows of miss budgets, which go on here and are given back at the end.
    :raises TraceError: the trace cannot be written.
    """

    def __init__(self, governed: Governed, *, clock: Clock, ros_now_ns: Callable[[], int],
                 numbers: 'itertools.count[int]', on_overload: Callable[[], object],
                 logs_decisions: bool, record: str = '',
                 record_max_bytes: int = DEFAULT_MAX_BYTES,
                 metrics: Metrics | None = None, before: Actor | None = None,
                 memory: ContractMemory | None = None) -> None:
        config, assembly = governed.config, governed.assembly
        self._drain_deadline_s = config.backend.drain_deadline_ns / NS_PER_S
        self._clock = clock
        self.began_at_ns = clock.now_ns()
        system = assembly.system
        self._slots = system.slots
        self.publishing = Publishing(system, governed.outputs, on_overload=on_overload,
                                     logs_decisions=logs_decisions)
        self.dispatcher = Dispatcher(governed.backend, assembly.encoders,
                                     assembly.signatures)
        self._governed = governed
        self._scheduler = RecordingScheduler(Scheduler(system, origin_ns=self.began_at_ns))
        self._trace: TraceWriter | None = None
        if record:
            self._trace = self._open_trace(record, max_bytes=record_max_bytes)
            self._scheduler.listen(self._trace, self.began_at_ns)
        scheduler: Scheduling = self._scheduler
        sink: Sink = self.publishing
        if metrics is not None:
            metrics.begin()
            sink = metrics.watch(sink)
        self.actor = Actor(scheduler, clock=clock, sending=self.dispatcher, sink=sink,
                           on_unproven=governed.watch.poke)
        self._memory = ContractMemory() if memory is None else memory
        for window in self._memory.resume(system):
            self.actor.post(window)
        if before is not None:
            self.actor.inherit(before, partial(attributed, system))
            if self.actor.unproven_executions:
                _log.warning('%d executions of the last activation have not been seen to end; '
                             'their slots are held until they are',
                             self.actor.unproven_executions)
        governed.watch.attach(self.actor)
        if metrics is not None:
            self.actor.decision_ns = metrics.timings()
        self.intakes = {
            binding.name: Intake(binding, clock=clock, ros_now_ns=ros_now_ns, numbers=numbers,
                                 post=self.actor.post,
                                 read=None if binding.is_generative else reader_of(
                                     assembly.encoders[binding.name], binding.message_type),
                                 generative=config.generative.get(binding.model),
                                 outlook=Outlook(system, system.models[binding.model])
                                 if binding.is_generative else None)
            for binding in (*config.streams, *config.job_streams)}
        self.monitors: list[StreamDiagnostics] = []
        self.authority = AuthorityCheck(config, governed.backend, self.actor.post)
        governed.watch.on_anew = self.authority.look_again
        governed.watch.on_forgotten = self._forget_texts
        self.dispatcher.start(self.actor.post)
        self.actor.start()
        self.authority.start()

    def _forget_texts(self, backend_model: str) -> None:
        """Say that the server has to read the texts of a generative model anew."""
        if any(variant.backend_model == backend_model
               for model in self._governed.assembly.system.models.values()
               if model.cooperative is not None for variant in model.variants):
            self.actor.post(TextsForgotten(backend_model))

    def jump(self, delta_ns: int) -> None:
        """Say that ROS time jumped back; what waits was captured in another time."""
        _log.warning('ROS time jumped by %.3f s: waiting requests are cancelled, capture times '
                     'count anew', delta_ns / NS_PER_S)
        for intake in self.intakes.values():
            intake.order.forget()
        self.actor.post(TimeJumped(f'ROS time jumped by {delta_ns / NS_PER_S:.3f} s'))

    def record(self, path: str, *, max_bytes: int) -> None:
        """
        Record from now on into ``path``, or with an empty one no more.

        :raises TraceError: the file cannot be written; what was recorded before goes on.
        :raises ActorStopped: the session has ended.
        :raises TimeoutError: no answer in time.
        """
        writer = self._open_trace(path, max_bytes=max_bytes) if path else None
        try:
            before = self.actor.ask(
                lambda: self._scheduler.listen(writer, self._clock.now_ns()))
        except (ActorStopped, TimeoutError):
            if writer is not None:
                writer.close()
            raise
        self._trace = writer
        if before is not None:
            before.close()

    @property
    def recording(self) -> str:
        """Path of the trace that is being written, or empty."""
        return '' if self._trace is None else str(self._trace.path)

    def _open_trace(self, path: str, *, max_bytes: int) -> TraceWriter:
        config = self._governed.config
        return TraceWriter(
            path, system=self._governed.assembly.system, origin_ns=self.began_at_ns,
            config=config.source, config_digest=config.digest, max_bytes=max_bytes,
            wall_minus_steady_ns=time.time_ns() - self._clock.now_ns())

    def snapshot(self, *, timeout_s: float = 1.0) -> SystemSnapshot | None:
        """Give the scheduler's counters, or ``None`` when there is no answer in time."""
        try:
            answer: SystemSnapshot = self.actor.snapshot(timeout_s=timeout_s)
        except (ActorStopped, TimeoutError):
            return None
        return answer

    def deliberate_idle_share(self, snapshot: SystemSnapshot) -> float:
        """Share of the slot time since activation that was left idle for expected arrivals."""
        available_ns = self._slots * (self._clock.now_ns() - self.began_at_ns)
        return snapshot.deliberate_idle_ns / available_ns if available_ns > 0 else 0.0

    def figures(self) -> dict[str, Any]:
        """Say how fast the governor itself is: values for its diagnostics entry."""
        figures: dict[str, Any] = {'open_requests': self.actor.open_requests}
        for name, timings in (('decision', self.actor.decision_ns),
                              ('wakeup_lateness', self.actor.wakeup_lateness_ns),
                              ('receipt_to_decision', self.actor.receipt_to_decision_ns),
                              ('completion_to_dispatch', self.actor.completion_to_dispatch_ns),
                              ('encode', self.dispatcher.encode_ns)):
            for percent in (50, 99):
                value_ns = timings.quantile_ns(percent)
                if value_ns is not None:
                    figures[f'{name}_p{percent}_us'] = round(value_ns / 1000)
        return figures

    def drain(self) -> None:
        """Take no more work and see that every accepted request ends; bounded."""
        if not self.actor.drain(deadline_s=self._drain_deadline_s):
            _log.warning('the drain took longer than drain_deadline_s (%g s); what was left ended '
                         'cancelled, and the server may still be computing it',
                         self._drain_deadline_s)

    def close(self) -> None:
        """End both kinds of threads; idempotent."""
        self.authority.close()
        if self.actor.stop():
            self._memory.keep(self._governed.assembly.system,
                              self._scheduler.bequeath(now_ns=self._clock.now_ns()))
        self.dispatcher.close()
        if self._trace is not None:
            self._trace.close()


def attributed(system: System, sent: Sent) -> Sent:
    """
    Say as which of this system's models an execution from before counts: it holds a slot.

    The same model where it is still there, else one that runs the same backend model, else any:
    that a slot is taken does not depend on the names of a configuration (adr/0024).
    """
    runs = [(model.name, variant.backend_model) for model in system.models.values()
            for variant in model.variants]
    return next((each for each in runs if each == sent), next(
        (each for each in runs if each[1] == sent[1]), runs[0] if runs else sent))
