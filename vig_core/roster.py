"""
The requests that live, where each of them is, and how each of them ends.

Rule: a request ends through exactly one of ``remove``/``drop`` (it does not run), ``end`` (it ran
and its credit is back) and ``give_up`` (its client is told, its execution may go on until
``release``); each tells the client exactly once.
"""

from vig_core.actions import Action, Dispatch, ReleaseInput, Terminate
from vig_core.claim import Claim
from vig_core.cooperative import Job, TextsRead
from vig_core.ledger import Ledger
from vig_core.model import System
from vig_core.queue import Ended, WaitingQueue
from vig_core.request import Awaited, Reason, Request, Trigger
from vig_core.slots import SlotTable
from vig_core.variants import Choice
from vig_core.why import Delivered, TooOld
from vig_core.why_waiting import AfterWaiting, NeverFits, NothingFits, Waited

NEVER = 1 << 62


class Roster:
    """Queues, slots and accounts, moved together; the scheduler decides, this books."""

    def __init__(self, system: System, ledger: Ledger, now_ns: int) -> None:
        """Begin with nothing waiting and nothing running."""
        self.now_ns = now_ns
        self.ledger = ledger
        self.queues = {name: WaitingQueue(model) for name, model in system.models.items()}
        self._busy_queues: dict[str, WaitingQueue] = {}
        self.slots = SlotTable(
            system.slots, system.pipelining_depth, system.pipelining_lead_ns,
            is_apart=bool(system.no_corun or system.interference_ns),
            instances=system.instances)
        self.texts = TextsRead()
        self.requests: dict[int, Request] = {}
        self.inflight_bytes = 0
        self.next_useless_ns = NEVER
        self._ended_last: tuple[Request | None, int, int] = None, NEVER, 0
        self.actions: list[Action] = []

    @property
    def has_waiting(self) -> bool:
        """Whether any request waits."""
        return bool(self._busy_queues)

    def waiting(self) -> list[Request]:
        """List all that waits."""
        return [request for queue in self._busy_queues.values() for request in queue]

    def heads(self) -> list[Request]:
        """List the next candidates of all queues."""
        return [queue.head for queue in self._busy_queues.values() if queue.head is not None]

    def watch(self, request: Request) -> None:
        """Remember when this one becomes useless; too early only costs a look."""
        useless_ns = request.useless_from_ns
        if useless_ns is not None and useless_ns < self.next_useless_ns:
            self.next_useless_ns = useless_ns

    def take_actions(self) -> tuple[Action, ...]:
        """Hand over what was asked for since the last time."""
        actions, self.actions = tuple(self.actions), []
        return actions

    def accept(self, request: Request) -> None:
        """Book a new request; it must be offered to its queue or dropped next."""
        account = self.ledger.of(request)
        account.received += 1
        account.note_waiting(1, self.now_ns)
        self.inflight_bytes += request.payload_bytes

    def enqueue(self, request: Request) -> None:
        """Let a request wait (again), and end whichever request ends for it."""
        self.requests[request.request_id] = request
        queue = self.queues[request.model.name]
        ended: tuple[Ended, ...] = (queue.readmit(request) if request.has_begun
                                    else queue.offer(request))
        if queue.head is not None:
            self.watch(request)
            if queue.head is not request:
                self.watch(queue.head)
            self._busy_queues[request.model.name] = queue
        for each in ended:
            if each.request is request:
                self.drop(request, each.reason, each.because)
            else:
                self.drop(each.request, each.reason, self._waited(each.request, each.because))

    def start(self, request: Request, choice: Choice) -> None:
        """Move a waiting request onto a free credit and ask for its dispatch."""
        self._take_out(request)
        if request.job is None:
            optimistic_ns = choice.variant.profile.p50_ns
            self.queues[request.model.name].note_dispatched(request)
        else:
            optimistic_ns = self._start_quantum(request, request.job, choice)
        request.move(Trigger.DISPATCHED)
        request.variant = choice.variant
        request.dispatched_at_ns = self.now_ns
        self.slots.take(request, now_ns=self.now_ns, planned_ns=choice.planned_ns,
                        optimistic_ns=optimistic_ns, occupancy=choice.occupancy)
        account = self.ledger.of(request)
        account.note_waiting(-1, self.now_ns, has_started=True)
        account.running += 1
        because: object = choice.because
        if request.awaits is not None:
            because = AfterWaiting(
                because, self.now_ns - request.awaits.since_ns, request.awaits.backend_model,
                request.awaits.behind_id, request.awaits.behind_stream)
            request.awaits = None
        self.actions.append(Dispatch(
            request.request_id, request.model.name, choice.variant.variant_id,
            choice.variant.backend_model, choice.planned_ns, choice.tokens, because))

    def await_instance(self, request: Request, backend_model: str, behind_id: int) -> None:
        """Book that a request waits although a credit is free; once for each wait."""
        if request.awaits is None:
            request.awaits = Awaited(self.now_ns, backend_model, behind_id,
                                     self.requests[behind_id].stream)
            self.ledger.of(request).awaited += 1

    def _start_quantum(self, request: Request, job: Job, choice: Choice) -> int:
        """Book that a quantum starts; only the first takes a turn. Returns its median time."""
        if job.started_at_ns is None:
            job.started_at_ns = self.now_ns
            self.queues[request.model.name].note_dispatched(request)
        job.asked, job.hopeless = choice.tokens, None
        self.texts.send(choice.variant.backend_model, job)
        assert request.model.cooperative is not None
        return request.model.in_proportion_ns(
            choice.variant, request.model.cooperative.cost_ns(
                job.context, choice.tokens, is_new=job.was_new))

    def pause(self, request: Request) -> None:
        """Let a job whose quantum was answered wait; it must be enqueued or dropped next."""
        self._ended_last = request, self.now_ns, self.run_ns(request)
        request.move(Trigger.AT_BOUNDARY)
        account = self.ledger.of(request)
        account.running -= 1
        account.note_waiting(1, self.now_ns)

    def inherit(self, request: Request) -> None:
        """Hold a slot for what was sent by somebody else, and may still run."""
        self.requests[request.request_id] = request
        self.slots.hold(request, now_ns=self.now_ns)

    def run_ns(self, request: Request) -> int:
        """Time since a request was dispatched (last)."""
        assert request.dispatched_at_ns is not None
        return self.now_ns - request.dispatched_at_ns

    def deliver(self, request: Request, claim: Claim) -> None:
        """End a request whose result is there: in time, or too old; ``claim`` has just ended."""
        job, age_ns = request.job, self.now_ns - request.generation_ns
        took_ns = max(0, self.now_ns - claim.begins_at_ns) if job is None else job.backend_ns
        waited_ns = max(0, self.now_ns - request.arrived_at_ns - took_ns)
        planned_ns = claim.planned_ns if job is None else None
        max_age_ns = request.model.contract.max_age_ns
        if max_age_ns is not None and age_ns > max_age_ns:
            self.ledger.stale_compute_ns += (
                self.run_ns(request) if job is None else job.backend_ns)
            self.end(request, Reason.OBSOLETE, TooOld(
                age_ns, age_ns - max_age_ns, waited_ns, took_ns, planned_ns))
            return
        self.end(request, Reason.COMPLETED, Delivered(
            self.now_ns - request.deadline_at_ns, waited_ns, took_ns, planned_ns))

    def remove(self, request: Request, reason: Reason, because: object) -> None:
        """End a waiting request."""
        self._take_out(request)
        self.drop(request, reason, self._waited(request, because))

    def _waited(self, request: Request, because: object) -> object:
        """Add what a request had waited for to the reason for its end."""
        waited = self._how_long(request, because)
        if request.job is None or request.job.hopeless is None:
            return waited
        assert isinstance(request.job.hopeless, NothingFits)
        return NeverFits(waited, request.job.hopeless)

    def _how_long(self, request: Request, because: object) -> object:
        waited_ns = self.now_ns - request.arrived_at_ns
        if request.job is not None:
            waited_ns -= request.job.backend_ns
        if waited_ns <= 0:
            return because
        ended, ended_at_ns, ran_ns = self._ended_last
        if ended is not None and ended_at_ns == self.now_ns:
            return Waited(because, waited_ns, request.stream, request.held_for,
                          ended.request_id, ended.stream, ran_ns, others=len(self.slots))
        awaits = request.awaits
        claim = next((each for each in self.slots if awaits is not None
                      and each.backend_model == awaits.backend_model), None)
        if self.slots.has_credit and claim is None:
            return Waited(because, waited_ns, request.stream, request.held_for)
        claim = claim or next(iter(self.slots))
        return Waited(because, waited_ns, request.stream, request.held_for,
                      claim.request.request_id, claim.request.stream,
                      self.now_ns - claim.taken_at_ns, claim.is_quarantined, len(self.slots) - 1)

    def _take_out(self, request: Request) -> None:
        queue = self.queues[request.model.name]
        queue.remove(request)
        if queue.head is not None:
            self.watch(queue.head)
        else:
            del self._busy_queues[request.model.name]

    def drop(self, request: Request, reason: Reason, because: object) -> None:
        """End a request that is in no queue (any more) and does not run."""
        self.ledger.of(request).note_waiting(-1, self.now_ns)
        self.requests.pop(request.request_id, None)
        self.inflight_bytes -= request.payload_bytes
        self._tell(request, Trigger.DROPPED, reason, because)

    def end(self, request: Request, reason: Reason, because: object, *,
            is_answered: bool = True) -> None:
        """
        End a request that was dispatched and whose credit is back.

        :param is_answered: False where it never reached the server.
        """
        self.ledger.of(request).running -= 1
        self._ended_last = request, self.now_ns, self.run_ns(request)
        del self.requests[request.request_id]
        self.inflight_bytes -= request.payload_bytes
        self._tell(request, Trigger.ANSWERED, reason, because,
                   self.run_ns(request) if is_answered else None)

    def give_up(self, request: Request, reason: Reason, because: object) -> None:
        """Tell the client that it is over; nobody knows whether the execution is."""
        self.slots.quarantine(request.request_id)
        self.ledger.of(request).running -= 1
        self._tell(request, Trigger.GIVEN_UP, reason, because)

    def release(self, request: Request, trigger: Trigger) -> None:
        """Give back what a request still held after its client was told."""
        request.move(trigger)
        self.slots.end(request.request_id, now_ns=self.now_ns)
        del self.requests[request.request_id]
        self.inflight_bytes -= request.payload_bytes
        self.actions.append(ReleaseInput(request.request_id))

    def _tell(self, request: Request, trigger: Trigger, reason: Reason, because: object,
              backend_ns: int | None = None) -> None:
        request.move(trigger)
        is_met = self.ledger.book_end(request, reason, self.now_ns)
        started_ns = request.dispatched_at_ns
        tokens, quanta, is_end = 0, 0, False
        if request.job is not None:
            job, started_ns = request.job, request.job.started_at_ns
            tokens, quanta, is_end = job.tokens, job.quanta, job.is_end_of_sequence
            backend_ns = job.backend_ns if quanta else None
        self.actions.append(Terminate(
            request_id=request.request_id, stream=request.stream, model=request.model.name,
            variant_id=None if request.variant is None else request.variant.variant_id,
            reason=reason, because=because, age_ns=self.now_ns - request.generation_ns,
            queue_wait_ns=(self.now_ns if started_ns is None else started_ns)
            - request.arrived_at_ns,
            backend_ns=backend_ns,
            is_deadline_met=is_met, holds_input=trigger is Trigger.GIVEN_UP,
            tokens=tokens, quanta=quanta, is_end_of_sequence=is_end))
