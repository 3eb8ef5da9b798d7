"""A scheduler under observation: every call is checked against the laws that hold at any time."""

from vig_core.actions import Defer, Dispatch, ReleaseInput, Terminate
from vig_core.contract import QueuePolicy
from vig_core.events import ExecutionInherited, QuantumCompleted, RequestArrived, Woke
from vig_core.scheduler import Scheduler


class Witness:
    """
    Passes events on and asserts after each of them.

    - every accepted request ends exactly once, and only accepted ones are dispatched or ended;
    - accepted = terminal counters + waiting + running, in total and for every stream;
    - only approved variants are dispatched;
    - a generative job is dispatched again only after its quantum was answered, on the same
      variant, never with more tokens than its bound leaves, and says how many it wrote;
    - never more executions than credits, never two models of a ``no_corun`` pair, nothing new for
      a backend model whose instances are all in use (pipelined: for what they have taken);
    - at most one request waits for a ``latest`` key, never more than the capacity for a model;
    - a credit is idle only where nothing may start: a veto, the wait of a guarded frame for its
      own successor, the use of all instances of a variant, or a ban holds every candidate, its
      own ban or that of one of at least its class that a start would prolong;
    - a wake-up instant never lies in the past, and waking then moves on.
    """

    def __init__(self, system, origin_ns):
        self.system = system
        self.scheduler = Scheduler(system, origin_ns=origin_ns)
        self.now_ns = origin_ns
        self.arrivals = {}
        self.dispatched = {}
        self.ended = {}
        self.running = set()
        self.written = {}
        self.asked = {}
        self.occupied = set()
        self.inherited = {}
        self.backend_models = {}
        self.vetoed = set()
        self.patient = set()
        self.hopeless = set()
        self.log = []

    def handle(self, event, now_ns):
        """Feed one event; returns the actions."""
        actions = self.scheduler.handle(event, now_ns=now_ns)
        self.now_ns = now_ns
        if isinstance(event, RequestArrived):
            self.arrivals[event.request_id] = event
        elif isinstance(event, ExecutionInherited):
            self.inherited[event.request_id] = event.model
            self.backend_models[event.request_id] = event.backend_model
            self.occupied.add(event.request_id)
        over = getattr(event, 'request_id', None)
        if isinstance(event, QuantumCompleted):
            self.occupied.discard(over)
            if over in self.running:
                self.running.discard(over)
                if event.tokens <= self.asked[over]:
                    self.written[over] = self.written.get(over, 0) + event.tokens
        if type(event).__name__ in ('BackendCompleted', 'DispatchRefused') or (
                type(event).__name__ == 'BackendFailed' and event.is_over):
            self.occupied.discard(over)
        for action in actions:
            self._book(action)
            self.log.append((now_ns, action))
        self._check()
        return actions

    def wake(self, now_ns):
        """Feed ``Woke``, as the actor does at the instant that the scheduler named."""
        is_due = self.scheduler.next_wakeup_ns() == now_ns
        actions = self.handle(Woke(), now_ns)
        following_ns = self.scheduler.next_wakeup_ns()
        assert not is_due or following_ns is None or following_ns > now_ns, (
            f'woken at {now_ns} ns and asked to be woken at the same instant again')
        return actions

    @property
    def waiting_ids(self):
        """Accepted requests that were neither dispatched nor ended, in order of arrival."""
        return [request_id for request_id in self.arrivals
                if request_id not in self.running and request_id not in self.ended]

    def bound(self, request_id):
        """Tokens that a generative job may write at most."""
        arrival = self.arrivals[request_id]
        most = self.system.models[arrival.model].cooperative.max_total_tokens
        return min(arrival.max_tokens or most, most)

    def reasons(self):
        """Name the terminal reason of each ended request."""
        return {request_id: action.reason.value
                for request_id, (_, action) in sorted(self.ended.items())}

    def _book(self, action):
        if isinstance(action, Dispatch):
            request_id = action.request_id
            assert request_id in self.arrivals, f'{request_id} was dispatched but never accepted'
            assert request_id not in self.running, f'{request_id} was dispatched while it runs'
            assert request_id not in self.ended, f'{request_id} was dispatched after its end'
            contract = self.system.models[action.model].contract
            assert action.variant_id in (contract.approved_variants or [action.variant_id]), (
                f'{request_id} was dispatched to a variant that nobody approved')
            before = self.dispatched.get(request_id)
            cost = self.system.models[action.model].cooperative
            assert before is None or (cost is not None
                                      and before[1].variant_id == action.variant_id)
            if cost is not None:
                left = self.bound(request_id) - self.written.get(request_id, 0)
                assert 1 <= action.tokens <= left, f'{request_id} may write too much'
                assert action.tokens >= min(cost.min_tokens, left)
            self.asked[request_id] = action.tokens
            assert self._used(action.backend_model) < (
                self.system.instances.get(action.backend_model, self.system.slots)
                * (1 + self.system.pipelining_depth) + len(self.inherited)), (
                f'{request_id} was dispatched to {action.backend_model}, which has no instance')
            self.backend_models[request_id] = action.backend_model
            self.running.add(request_id)
            self.dispatched[request_id] = (self.now_ns, action)
            self.occupied.add(request_id)
        elif isinstance(action, Terminate):
            request_id = action.request_id
            assert request_id in self.arrivals, f'{request_id} ended but was never accepted'
            assert request_id not in self.ended, f'{request_id} ended twice'
            self.ended[request_id] = (self.now_ns, action)
            self.running.discard(request_id)
            assert action.tokens == self.written.get(request_id, 0)
            assert action.holds_input == (request_id in self.occupied)
        elif isinstance(action, ReleaseInput):
            assert action.request_id in self.ended or action.request_id in self.inherited, (
                'released before its client was told')
            self.occupied.discard(action.request_id)
        elif isinstance(action, Defer):
            assert action.request_id in self.waiting_ids, 'deferred but not waiting'
            is_own = action.beneficiary == self.arrivals[action.request_id].stream
            is_hopeless = getattr(action.because, 'longest_ns', None) is not None
            said = (self.patient if is_own else self.hopeless if is_hopeless
                    else self.vetoed | self.hopeless)
            assert action.request_id not in said, 'a hold was said twice'
            assert action.until_ns > self.now_ns
            (self.patient if is_own else self.vetoed).add(action.request_id)
            self.hopeless |= {action.request_id} if is_hopeless else set()
            assert not is_own or (
                self.system.models[self.arrivals[action.request_id].model].is_guarded)

    def _used(self, backend_model):
        """Count the executions of a backend model whose end is not proven."""
        return sum(self.backend_models[request_id] == backend_model
                   for request_id in self.occupied)

    def _check(self):
        scheduler = self.scheduler
        snapshot = scheduler.snapshot(now_ns=self.now_ns)
        waiting = self.waiting_ids
        running = self.running
        assert sum(stream.received for stream in snapshot.streams) == len(self.arrivals)
        for stream in snapshot.streams:
            assert stream.received == (sum(stream.counts.values()) + stream.waiting
                                       + stream.running), f'{stream.stream} lost a request'
        assert sum(stream.waiting for stream in snapshot.streams) == len(waiting)
        assert sum(stream.running for stream in snapshot.streams) == len(running)
        assert set(scheduler.running_ids) == self.occupied
        assert scheduler.is_idle == (not waiting and not running)
        credits = self.system.slots * (1 + self.system.pipelining_depth)
        assert len(self.occupied - self.inherited.keys()) <= credits, (
            'more executions than credits')
        models = [self.inherited.get(request_id) or self.arrivals[request_id].model
                  for request_id in self.occupied]
        for pair in self.system.no_corun:
            names = sorted(pair)
            together = [models.count(name) for name in names]
            assert not (len(names) == 2 and all(together)), f'{names} run together'
            assert not (len(names) == 1 and together[0] > 1), f'{names[0]} runs beside itself'
        self._check_queues(waiting)
        self._check_idle(waiting, models)
        wakeup_ns = scheduler.next_wakeup_ns()
        assert wakeup_ns is None or wakeup_ns >= self.now_ns

    def _check_queues(self, waiting):
        places = {}
        for request_id in waiting:
            arrival = self.arrivals[request_id]
            model = self.system.models[arrival.model]
            key = arrival.key if model.policy is QueuePolicy.LATEST_PER_KEY else ''
            places.setdefault(arrival.model, []).append((key, request_id in self.dispatched))
        for name, kept in places.items():
            model = self.system.models[name]
            keys = [key for key, _ in kept]
            assert sum(not has_begun for _, has_begun in kept) <= model.capacity, (
                f'{name} keeps more than its capacity')
            if model.policy.is_latest:
                assert len(keys) == len(set(keys)), f'{name} keeps two captures of one key'

    def _check_idle(self, waiting, models):
        """Every candidate on a free slot is held by what it was told of, or by a ban."""
        busy = self.scheduler.snapshot(now_ns=self.now_ns).slots_busy
        if not waiting or busy == self.system.slots:
            return
        places = {}
        for request_id in waiting:
            places.setdefault(self.arrivals[request_id].model, []).append(request_id)
        held = {name for name in places if set(models) & self._banned(name)}
        for name, line in places.items():
            model = self.system.models[name]
            if name in held or any(
                    self.system.models[other].criticality <= model.criticality
                    for other in held & self._banned(name)) or any(
                    self._used(variant.backend_model) >= self.system.instances.get(
                        variant.backend_model, 1 << 62) for variant in model.usable_variants):
                continue
            candidates = set(line if model.policy.is_latest else line[:1])
            assert candidates & (self.vetoed | self.patient), (
                f'request {line[0]} waits although a slot is free and nothing holds it')
            assert self.scheduler.next_wakeup_ns() is not None, (
                f'request {line[0]} is held back for ever')

    def _banned(self, name):
        """Name the models that a model must never run beside."""
        return {other for pair in self.system.no_corun if name in pair
                for other in pair - {name} or pair}
