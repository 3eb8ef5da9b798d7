"""A scheduler against a tiny virtual server: fixed runtimes, exact instants, no simulation."""

from collections.abc import Callable, Iterable, Mapping
import heapq

from vig_core.actions import Dispatch, ReleaseInput, Terminate
from vig_core.contract import Contract, Criticality, Overflow, QueuePolicy
from vig_core.cooperative import Cooperative
from vig_core.events import BackendCompleted, BackendFailed, Event, RequestArrived
from vig_core.model import Model, QualitySource, RuntimeProfile, System, Variant
from vig_core.units import ms
from witness import Witness

_ANSWER, _ARRIVAL = 0, 1


class VirtualServer:
    """
    As many executions at once as the system has slots; what is beyond them queues here.

    :ivar starts: request id -> instant of its dispatch.
    :ivar peak: most requests that were with the server at any moment.
    """

    def __init__(self, system: System,
                 exec_ns: Mapping[str, int] | Callable[[Dispatch], int],
                 arrivals: Iterable[tuple[int, Event]], *, failing: Iterable[int] = (),
                 lost: Iterable[int] = (), origin_ns: int = 0) -> None:
        """
        Prepare a run.

        :param exec_ns: runtime of each backend model, or of each dispatch.
        :param failing: requests whose execution ends with an error.
        :param lost: requests that the server takes in and never answers.
        """
        self.witness = Witness(system, origin_ns)
        self._exec_ns = exec_ns if callable(exec_ns) else (
            lambda dispatch: exec_ns[dispatch.backend_model])
        self._failing = frozenset(failing)
        self._lost = frozenset(lost)
        self._heap: list[tuple[int, int, int, Event]] = []
        self._free_ns = [origin_ns] * system.slots
        self._count = 0
        self._inside: set[int] = set()
        self.starts: dict[int, int] = {}
        self.peak = 0
        for at_ns, event in arrivals:
            self._push(at_ns, _ARRIVAL, event)

    def run(self, until_ns: int | None = None) -> 'VirtualServer':
        """Run until everything has ended, or up to an instant and including it."""
        while True:
            wakeup_ns = self.witness.scheduler.next_wakeup_ns()
            next_ns = self._heap[0][0] if self._heap else None
            if next_ns is None and (until_ns is None and self.witness.scheduler.is_idle):
                return self
            if next_ns is not None and (wakeup_ns is None or next_ns <= wakeup_ns):
                if until_ns is not None and next_ns > until_ns:
                    return self
                at_ns, _, _, event = heapq.heappop(self._heap)
                self._feed(event, at_ns)
            elif wakeup_ns is None or (until_ns is not None and wakeup_ns > until_ns):
                return self
            else:
                self._carry_out(self.witness.wake(wakeup_ns), wakeup_ns)

    def ended(self, reason: str) -> list[int]:
        """List the requests that ended with a reason."""
        return [request_id for request_id, what in self.witness.reasons().items()
                if what == reason]

    def end_of(self, request_id: int) -> tuple[int, Terminate]:
        """Give instant and action of a request's end."""
        return self.witness.ended[request_id]

    def _feed(self, event: Event, at_ns: int) -> None:
        if isinstance(event, (BackendCompleted, BackendFailed)):
            self._inside.discard(event.request_id)
        self._carry_out(self.witness.handle(event, at_ns), at_ns)

    def _carry_out(self, actions: tuple, at_ns: int) -> None:
        for action in actions:
            if isinstance(action, ReleaseInput):
                assert action.request_id not in self._inside, 'released while it runs'
            if not isinstance(action, Dispatch):
                continue
            request_id = action.request_id
            self.starts[request_id] = at_ns
            self._inside.add(request_id)
            self.peak = max(self.peak, len(self._inside))
            if request_id in self._lost:
                continue
            slot = self._free_ns.index(min(self._free_ns))
            end_ns = max(at_ns, self._free_ns[slot]) + self._exec_ns(action)
            self._free_ns[slot] = end_ns
            self._push(end_ns, _ANSWER, BackendFailed(request_id, 'the model raised')
                       if request_id in self._failing else BackendCompleted(request_id))

    def _push(self, at_ns: int, order: int, event: Event) -> None:
        heapq.heappush(self._heap, (at_ns, order, self._count, event))
        self._count += 1


def variant(name: str, variant_id: str = 'main', *, p50: float, p99: float | None = None,
            quality: float = 1.0, source: QualitySource = QualitySource.MEASURED,
            signature: str = '') -> Variant:
    """Build a variant; times in milliseconds, p99 as p50 unless said."""
    return Variant(variant_id, f'{name}_{variant_id}',
                   RuntimeProfile(p50_ns=ms(p50), p99_ns=ms(p50 if p99 is None else p99)),
                   quality, source, signature)


def model(name: str, policy: str = 'latest', *, criticality: str = 'normal',
          p50: float = 10, p99: float | None = None, capacity: int = 1,
          overflow: str = 'reject_new', variants: Iterable[Variant] | None = None,
          deadline: float = 1000, max_age: float | None = None, period: float | None = None,
          is_stateful: bool = False, cooperative: Cooperative | None = None,
          **contract: object) -> Model:
    """Build a model; times in milliseconds, ``contract`` as the fields of ``Contract``."""
    return Model(
        name=name, criticality=Criticality[criticality.upper()], policy=QueuePolicy(policy),
        capacity=capacity, overflow=Overflow(overflow), is_stateful=is_stateful,
        cooperative=cooperative,
        variants=(variant(name, p50=p50, p99=p99),) if variants is None else tuple(variants),
        contract=Contract(
            deadline_ns=ms(deadline), max_age_ns=None if max_age is None else ms(max_age),
            period_ns=None if period is None else ms(period), **contract))


def system(*models: Model, **options: object) -> System:
    """Build a system that plans with the profiles as they are."""
    return System(models={each.name: each for each in models},
                  **{'margin_percent': 100, **options})


def arrive(request_id: int, name: str, at: float, captured: float | None = None,
           **options: object) -> tuple[int, RequestArrived]:
    """Build an arrival and its instant; times in milliseconds."""
    fields = {'stream': name, 'key': '', **options}
    return ms(at), RequestArrived(
        request_id=request_id, model=name,
        generation_ns=ms(at if captured is None else captured), **fields)
