"""
Execution slots and the credits on them.

Rules:

- A dispatch takes a credit; only a proven end gives it back, never a timer.
- A slot has ``1 + pipelining_depth`` credits; what is pipelined runs after what it follows.
- With a lead, a slot that runs takes more only when it is expected (median) to run dry within it.
  The lead is the time of an execution that is spent under way, to the server and back: it does not
  keep the slot from the next (adr/0018).
- Where it was learned how long an execution keeps its slot (adr/0022), that counts from the end of
  the one before it. One that finds its slot idle keeps it as long as without that knowledge.
- A claim whose client gave up stays: its slot is quarantined and takes nothing new.
- Where a backend model has fewer instances than there are slots, ``instances`` says which slots
  it may take.
"""

from collections.abc import Iterator, Mapping

from vig_core.claim import Claim, dry_at, is_quarantined
from vig_core.clockwork import Clockwork, Instant, NEVER
from vig_core.estimate import Occupancy
from vig_core.instances import Begin, next_instance, used, used_beside
from vig_core.request import Request

LEAST_SHARE = 4
"""However long the lead: an execution keeps its slot for a fourth of its runtime."""


class SlotTable:
    """
    The slots of one backend.

    :ivar has_credit: whether a dispatch is possible, at the instant of the last ``look``.
    :ivar overlap_ns: time of an execution that does not keep its slot from the next.
    :ivar opens_at_ns: when a credit that a lead holds back can be used; ``NEVER`` without any.
    :ivar oldest_dispatch_ns: of the executions that are not quarantined; ``None`` without any.
    """

    def __init__(self, slots: int, pipelining_depth: int, lead_ns: int | None = None, *,
                 is_apart: bool = False, instances: Mapping[str, int] | None = None) -> None:
        """
        Start with every credit free.

        :param lead_ns: ``None`` is a lead without end.
        :param is_apart: what runs together matters, so no execution may begin before the answer
            of another: the lead opens credits and shortens no plan.
        :param instances: of the backend models that have fewer than there are slots.
        """
        self._credits = 1 + pipelining_depth
        self._lead_ns = lead_ns if pipelining_depth else None
        self.overlap_ns = 0 if is_apart else self._lead_ns or 0
        self._instances = instances or {}
        self._is_learning = not is_apart and not instances
        self._now_ns = 0
        self.opens_at_ns = NEVER
        self._claims: list[list[Claim]] = [[] for _ in range(slots)]
        self._by_request: dict[int, Claim] = {}
        self._quarantined = 0
        self.has_credit = True
        self.oldest_dispatch_ns: int | None = None

    def __iter__(self) -> Iterator[Claim]:
        """Go through all claims, quarantined ones included."""
        return iter(self._by_request.values())

    def __len__(self) -> int:
        """Count the credits in use."""
        return len(self._by_request)

    @property
    def total(self) -> int:
        """Count all slots."""
        return len(self._claims)

    @property
    def busy(self) -> int:
        """Count the slots on which something runs or may still run."""
        return sum(1 for claims in self._claims if claims)

    @property
    def quarantined(self) -> int:
        """Count the slots that wait for a proof of an end."""
        return sum(1 for claims in self._claims if is_quarantined(claims))

    @property
    def is_fully_quarantined(self) -> bool:
        """Whether nothing can start until an end is proven."""
        return self._quarantined > 0 and all(map(is_quarantined, self._claims))

    def next_free(self, clock: Clockwork, backend_model: str | None = None) -> list[Instant]:
        """
        Predict when each slot is free, conservatively, the one for the next dispatch first.

        :param backend_model: what is dispatched; it must be able to ``begin``.
        """
        if len(self._claims) == 1:
            return [dry_at(self._claims[0], clock)]
        open_slots, _ = self.in_order_of_dispatch(clock, backend_model)
        return [dry_at(claims, clock) for claims in open_slots]

    def likely_free(self, clock: Clockwork) -> list[Instant]:
        """Predict by the medians when each slot is free, in the order of ``next_free``."""
        if len(self._claims) == 1:
            return [dry_at(self._claims[0], clock, is_likely=True)]
        open_slots, _ = self.in_order_of_dispatch(clock)
        return [dry_at(claims, clock, is_likely=True) for claims in open_slots]

    def begin(self, backend_model: str, clock: Clockwork) -> Begin:
        """Predict when an execution could begin; there must be a credit."""
        slot = self._best(clock, backend_model)
        if slot < 0:
            return next_instance(self._claims, backend_model, self._instances[backend_model],
                                 clock)
        return Begin(dry_at(self._claims[slot], clock))

    def takes_last_instance(self, backend_model: str, clock: Clockwork) -> bool:
        """Whether the next dispatch to a backend model leaves no instance of it unused."""
        instances = self._instances.get(backend_model)
        return instances is not None and instances <= 1 + used_beside(
            self._claims, self._best(clock, backend_model), backend_model)

    def successor_free(self, backend_model: str, clock: Clockwork) -> list[Instant]:
        """
        Predict when the slots are free that may run the next dispatch and its successor.

        :param backend_model: of both; it must be able to ``begin``.
        """
        (best, *rest), _ = self.in_order_of_dispatch(clock, backend_model)
        is_last = self.takes_last_instance(backend_model, clock)
        return [dry_at(claims, clock) for claims in (
            best, *(each for each in rest if not is_last or used(each, backend_model)))]

    def in_order_of_dispatch(self, clock: Clockwork, backend_model: str | None = None
                             ) -> tuple[list[list[Claim]], list[list[Claim]]]:
        """
        List the claims of each slot, in the order of ``next_free``, first to run first.

        :returns: those of the slots that can take something, and those of the quarantined ones.
        """
        best = self._best(clock, backend_model)
        rest = [claims for slot, claims in enumerate(self._claims) if slot != best]
        return ([self._claims[best], *(each for each in rest if not is_quarantined(each))],
                [each for each in rest if is_quarantined(each)])

    def earliest_start_ns(self, now_ns: int) -> int:
        """
        Say when the next dispatch can begin at best; now where nobody knows.

        What runs may end at any moment (adr/0008); what is pipelined behind it takes its median.
        """
        return now_ns if self._credits == 1 else now_ns + min(self._behind_ns(), default=0)

    def too_late_from_ns(self, limit_ns: int) -> int:
        """Say from when on the next dispatch cannot begin before ``limit_ns`` any more."""
        return limit_ns if self._credits == 1 else limit_ns - min(self._behind_ns(), default=0)

    def look(self, now_ns: int) -> None:
        """Open the credits whose lead has come."""
        self._now_ns = now_ns
        if self.opens_at_ns <= now_ns:
            self._recount()

    def alone_ns(self, runtime_ns: int) -> int:
        """Say how long an execution of this runtime keeps a slot that it finds idle."""
        if not self.overlap_ns:
            return runtime_ns
        return max(runtime_ns - self.overlap_ns, runtime_ns // LEAST_SHARE)

    def take(self, request: Request, *, now_ns: int, planned_ns: int, optimistic_ns: int,
             occupancy: Occupancy | None = None) -> Claim:
        """Claim a credit on the open slot that is free first; there must be one for it."""
        self._now_ns = now_ns
        assert request.variant is not None
        clock = Clockwork(now_ns)
        slot = self._best(clock, request.variant.backend_model) if len(self._claims) > 1 else 0
        begins_at_ns, _ = dry_at(self._claims[slot], clock)
        keeps_ns, median_ns = self.alone_ns(planned_ns), self.alone_ns(optimistic_ns)
        claim = Claim(request, slot, now_ns, begins_at_ns, planned_ns, keeps_ns, median_ns,
                      now_ns + keeps_ns, now_ns + median_ns)
        if occupancy is not None:
            claim.keeps_ns = min(keeps_ns, occupancy.planned_ns)
            claim.optimistic_ns = min(median_ns, occupancy.median_ns)
        claim.ahead = (-1 if not self._is_learning or self._quarantined
                       else max(0, len(self._by_request) + 1 - len(self._claims)))
        if self._by_request:
            self._meet(claim, request.variant.backend_model)
        self._claims[slot].append(claim)
        self._by_request[request.request_id] = claim
        self._recount()
        return claim

    def hold(self, request: Request, *, now_ns: int) -> None:
        """
        Keep a slot for an execution from before, whose end is not proven.

        Nobody knows on which slot it runs; where none is open, it joins one that is held.
        """
        self._now_ns = now_ns
        slot = max(self._best(Clockwork(now_ns)), 0)
        claim = Claim(request, slot, now_ns, now_ns, 0, 0, 0, now_ns, now_ns,
                      is_quarantined=True)
        self._quarantined += 1
        self._claims[slot].append(claim)
        self._by_request[request.request_id] = claim
        self._recount()

    def _meet(self, claim: Claim, backend_model: str) -> None:
        running = set()
        for other in self._by_request.values():
            running.add(other.backend_model)
            other.neighbours = other.neighbours | {backend_model}
        claim.neighbours = frozenset(running)

    def quarantine(self, request_id: int) -> None:
        """Keep the credit of a request whose end is not proven."""
        self._by_request[request_id].is_quarantined = True
        self._quarantined += 1
        self._recount()

    def end(self, request_id: int, *, now_ns: int) -> Claim:
        """Give a credit back: the end is proven."""
        self._now_ns = now_ns
        claim = self._by_request.pop(request_id)
        self._quarantined -= int(claim.is_quarantined)
        rest = self._claims[claim.slot]
        was_first = rest[0] is claim
        rest.remove(claim)
        for other in self._by_request.values():
            if other.ahead > 0:
                other.ahead -= 1
                if not other.ahead:
                    other.followed_at_ns = now_ns
        if rest and was_first:
            # It was under way already when the one before it ended.
            rest[0].begins_at_ns = max(now_ns - self.overlap_ns, rest[0].taken_at_ns)
        self._recount()
        return claim

    def _recount(self) -> None:
        """Note what is asked for more often than it changes; claims are in order of dispatch."""
        self.oldest_dispatch_ns = None
        for claim in self._by_request.values():
            if not claim.is_quarantined:
                self.oldest_dispatch_ns = claim.request.dispatched_at_ns
                break
        self.has_credit = False
        self.opens_at_ns = NEVER
        for claims in self._claims:
            if self._is_open(claims):
                self.has_credit = True
                if self._lead_ns is None:
                    return
            elif self._lead_ns is not None and self._has_room(claims):
                self.opens_at_ns = min(self.opens_at_ns, self._opens_at_ns(claims))

    def _is_open(self, claims: list[Claim]) -> bool:
        return self._has_room(claims) and (
            self._lead_ns is None or not claims or self._opens_at_ns(claims) <= self._now_ns)

    def _has_room(self, claims: list[Claim]) -> bool:
        return len(claims) < self._credits and not (
            self._quarantined and is_quarantined(claims))

    def _opens_at_ns(self, claims: list[Claim]) -> int:
        assert self._lead_ns is not None
        ends_at_ns = claims[0].begins_at_ns
        for claim in claims:
            ends_at_ns = max(ends_at_ns + claim.optimistic_ns, claim.expected_at_ns)
        return ends_at_ns - self._lead_ns + self.overlap_ns

    def _best(self, clock: Clockwork, backend_model: str | None = None) -> int:
        """Give the slot for the next dispatch; -1 where none can take it."""
        instances = None if backend_model is None else self._instances.get(backend_model)
        able = [slot for slot, claims in enumerate(self._claims) if self._is_open(claims) and (
            instances is None or backend_model is None
            or used_beside(self._claims, slot, backend_model) < instances)]
        if len(able) < 2:
            return able[0] if able else -1
        return able[clock.first([dry_at(self._claims[slot], clock) for slot in able])]

    def _behind_ns(self) -> list[int]:
        return [sum(claim.optimistic_ns for claim in claims[1:])
                for claims in self._claims if not is_quarantined(claims)]
