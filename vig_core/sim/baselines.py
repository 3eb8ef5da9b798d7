"""
What a robot without a governor does. No strawmen: each is what a careful team builds.

All of them run the best variant, never drop for age, and know nothing of what is expected.
They have the face of ``Scheduler``, so that the same engine plays the same frames to them. They
are given the benefit of the doubt: what happens at one instant is all known before they choose,
so that a client which asks again the moment it is answered still takes part.
"""

from collections import deque
from collections.abc import Callable

from vig_core.actions import Action, Dispatch, Terminate
from vig_core.errors import RefusedEvent
from vig_core.events import BackendCompleted, Event, RequestArrived, Woke
from vig_core.model import Model, System
from vig_core.request import Reason


class _Job:
    """A request in a baseline's hands."""

    __slots__ = ('event', 'model', 'sequence', 'arrived_at_ns', 'started_at_ns')

    def __init__(self, event: RequestArrived, model: Model, now_ns: int) -> None:
        self.event = event
        self.model = model
        self.sequence = event.request_id
        self.arrived_at_ns = now_ns
        self.started_at_ns: int | None = None

    @property
    def deadline_at_ns(self) -> int:
        """Capture plus deadline."""
        return self.event.generation_ns + self.model.contract.deadline_ns


Rank = Callable[[_Job], tuple[int, ...]]


class Baseline:
    """
    Queues per stream in front of ``slots`` execution units, and a ranking among their fronts.

    :ivar depth: how many requests of one stream may wait.
    :ivar keeps_newest: a full queue drops its oldest request instead of the new one.
    """

    def __init__(self, system: System, *, depth: int, keeps_newest: bool, rank: Rank) -> None:
        """Begin with nothing waiting."""
        self._system = system
        self._depth = depth
        self._keeps_newest = keeps_newest
        self._rank = rank
        self._queues: dict[str, deque[_Job]] = {}
        self._running: dict[int, _Job] = {}
        self._actions: list[Action] = []
        self._choose_at_ns: int | None = None

    def next_wakeup_ns(self) -> int | None:
        """Choose when all of this instant is known; baselines never wait for another."""
        return self._choose_at_ns

    def handle(self, event: Event, *, now_ns: int) -> tuple[Action, ...]:
        """
        Take in an arrival or an answer, or choose.

        :raises RefusedEvent: any other event.
        """
        self._actions = []
        self._choose_at_ns = None
        if isinstance(event, RequestArrived):
            self._arrive(_Job(event, self._system.models[event.model], now_ns), now_ns)
        elif isinstance(event, BackendCompleted):
            self._actions.append(_answered(self._running.pop(event.request_id), now_ns))
        elif isinstance(event, Woke):
            self._start(now_ns)
        else:
            raise RefusedEvent(f'a baseline does not know {event!r}')
        if not isinstance(event, Woke) and len(self._running) < self._system.slots:
            self._choose_at_ns = now_ns
        return tuple(self._actions)

    def _arrive(self, job: _Job, now_ns: int) -> None:
        queue = self._queues.setdefault(job.event.stream, deque())
        if len(queue) >= self._depth:
            if not self._keeps_newest:
                self._actions.append(_ended(job, Reason.CAPACITY, now_ns))
                return
            self._actions.append(_ended(queue.popleft(), Reason.SUPERSEDED, now_ns))
        queue.append(job)

    def _start(self, now_ns: int) -> None:
        while len(self._running) < self._system.slots:
            fronts = [queue[0] for queue in self._queues.values() if queue]
            if not fronts:
                return
            job = min(fronts, key=self._rank)
            self._queues[job.event.stream].popleft()
            job.started_at_ns = now_ns
            self._running[job.event.request_id] = job
            self._actions.append(_dispatch(job))


def _dispatch(job: _Job) -> Dispatch:
    variant = job.model.variants[0]
    return Dispatch(job.event.request_id, job.model.name, variant.variant_id,
                    variant.backend_model, variant.profile.p99_ns)


def _answered(job: _Job, now_ns: int) -> Terminate:
    max_age_ns = job.model.contract.max_age_ns
    is_stale = max_age_ns is not None and now_ns - job.event.generation_ns > max_age_ns
    return _ended(job, Reason.OBSOLETE if is_stale else Reason.COMPLETED, now_ns)


def _ended(job: _Job, reason: Reason, now_ns: int) -> Terminate:
    started_ns = job.started_at_ns
    return Terminate(
        request_id=job.event.request_id, stream=job.event.stream, model=job.model.name,
        variant_id=None if started_ns is None else job.model.variants[0].variant_id,
        reason=reason, because='', age_ns=now_ns - job.event.generation_ns,
        queue_wait_ns=(now_ns if started_ns is None else started_ns) - job.arrived_at_ns,
        backend_ns=None if started_ns is None else now_ns - started_ns,
        is_deadline_met=reason is Reason.COMPLETED and now_ns <= job.deadline_at_ns)


def tuned_server(system: System, depth: int) -> Baseline:
    """
    Bounded FIFO per stream with priority by class: Triton with rate limiter and priorities.

    A full queue rejects the new request, as Triton's ``max_queue_size`` does.
    """
    return Baseline(system, depth=depth, keeps_newest=False,
                    rank=lambda job: (job.model.criticality, job.sequence))


def newest_only_client(system: System) -> Baseline:
    """
    Keep only the newest frame of each stream, one in flight each: the well-known fifty lines.

    The server behind it serves its clients in the order in which they ask.
    """
    return Baseline(system, depth=1, keeps_newest=True, rank=lambda job: (job.sequence,))


def earliest_deadline_first(system: System, depth: int) -> Baseline:
    """Class, then earliest deadline, over bounded queues that drop their oldest frame."""
    return Baseline(system, depth=depth, keeps_newest=True,
                    rank=lambda job: (job.model.criticality, job.deadline_at_ns, job.sequence))


class DirectClients:
    """
    Clients that send to the server by themselves: the order is the server's, not theirs.

    :ivar in_flight: how many requests each stream may have at the server.
    """

    def __init__(self, system: System, *, in_flight: int, keeps_newest: bool) -> None:
        """
        Begin with nothing sent.

        :param keeps_newest: keep the newest frame beyond that and send it next, or refuse it.
        """
        self._system = system
        self._limit = in_flight
        self._keeps_newest = keeps_newest
        self._sent: dict[int, _Job] = {}
        self._kept: dict[str, _Job] = {}

    def next_wakeup_ns(self) -> int | None:
        """Never wait for anything but a frame or an answer."""
        return None

    def handle(self, event: Event, *, now_ns: int) -> tuple[Action, ...]:
        """
        Take in an arrival or an answer.

        :raises RefusedEvent: any other event.
        """
        if isinstance(event, RequestArrived):
            job = _Job(event, self._system.models[event.model], now_ns)
            if sum(one.event.stream == event.stream
                   for one in self._sent.values()) < self._limit:
                return (self._send(job, now_ns),)
            if not self._keeps_newest:
                return (_ended(job, Reason.CAPACITY, now_ns),)
            older = self._kept.pop(event.stream, None)
            self._kept[event.stream] = job
            return () if older is None else (_ended(older, Reason.SUPERSEDED, now_ns),)
        if isinstance(event, BackendCompleted):
            job = self._sent.pop(event.request_id)
            following = self._kept.pop(job.event.stream, None)
            return (_answered(job, now_ns),
                    *(() if following is None else (self._send(following, now_ns),)))
        raise RefusedEvent(f'a client does not know {event!r}')

    def _send(self, job: _Job, now_ns: int) -> Dispatch:
        job.started_at_ns = now_ns
        self._sent[job.event.request_id] = job
        return _dispatch(job)
