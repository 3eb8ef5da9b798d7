"""
Stage C where what runs at the same time concerns each other.

That is ``no_corun``, interference, and models with fewer instances than there are slots. The
rules of ``lookahead`` and, for what is reserved:

- An expected frame begins after the end of all that it must not run beside: executions, the
  candidate, frames reserved before it. Behind one whose end nobody proved it never begins.
- It begins when fewer than all instances of its backend model are in use, counting all that has
  not ended by then; of several variants the one counts that ends first.
- It takes longer by the worst measured interference of what still runs when it begins.
- A frame that is there and waits for the end of a ban or for an instance holds a place like an
  expected one.
- Whatever waits so takes the slot that ends then. Where that one is taken, it occupies none: the
  time until then belongs to others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vig_core.claim import Claim, ends_at
from vig_core.clockwork import Clockwork, Instant, NEVER
from vig_core.likely import Likely
from vig_core.lookahead import Veto
from vig_core.reservation import Beside, Reservation
from vig_core.slots import SlotTable


@dataclass(frozen=True, slots=True)
class Coupling:
    """
    How backend models concern each other.

    :ivar interference_ns: measured added time, ``(victim, co_tenant) -> ns``.
    :ivar instances: of the backend models that have fewer than there are slots.
    """

    interference_ns: Mapping[tuple[str, str], int]
    instances: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tenant:
    """
    What runs, or will.

    :ivar slot: its place in the list of slots; -1 on one that waits for a proof of an end.
    :ivar ends_at: as far as is known; ``NEVER`` where only a proof can tell.
    """

    model: str
    backend_model: str
    slot: int
    ends_at: Instant


@dataclass(slots=True)
class Schedule:
    """
    When each slot is free and what runs until when; grows as frames are reserved.

    :ivar free_at: in the order of the slots that can take something, the candidate's first.
    :ivar is_likely: by the medians; otherwise conservatively.
    """

    free_at: list[Instant]
    tenants: list[Tenant]
    is_likely: bool = False

    @classmethod
    def of(cls, slots: SlotTable, clock: Clockwork, backend_model: str, *,
           is_likely: bool = False) -> 'Schedule':
        """Predict from what runs; the first slot is for this backend model."""
        schedule = cls([], [], is_likely)
        open_slots, quarantined = slots.in_order_of_dispatch(clock, backend_model)
        for slot, claims in enumerate(open_slots):
            schedule.free_at.append(schedule._add(claims, slot, clock))
        for claims in quarantined:
            schedule._add(claims, -1, clock)
        return schedule

    def _add(self, claims: Sequence[Claim], slot: int, clock: Clockwork) -> Instant:
        end = (clock.now_ns, True)
        for claim, end in zip(claims, ends_at(claims, clock, is_likely=self.is_likely)):
            self.tenants.append(Tenant(
                claim.request.model.name, claim.backend_model, slot, end))
        return end

    def beside(self, candidate: Tenant) -> 'Schedule':
        """Copy it with a candidate on its first slot."""
        return Schedule([candidate.ends_at, *self.free_at[1:]], [*self.tenants, candidate])

    def serve(self, reservation: Reservation, beside: Beside, clock: Clockwork,
              coupling: Coupling) -> tuple[Instant, int]:
        """Reserve a place; returns when the frame is finished and how long it takes."""
        slot = clock.first(self.free_at)
        arrival = (reservation.arrival_ns, reservation.is_moving)
        start = clock.later(self.free_at[slot], arrival)
        holder = None
        for tenant in self.tenants:
            if tenant.model in beside.banned and clock.is_later(tenant.ends_at, start):
                holder, start = tenant, tenant.ends_at
        found = None if start[0] >= NEVER else self._first_to_end(beside, start, clock, coupling)
        if found is None:
            return (NEVER, False), reservation.stay.planned_ns
        finish, planned_ns, backend_model, user = found
        holder = user or holder
        if holder is not None:
            slot = (holder.slot if holder.slot >= 0
                    and self.free_at[holder.slot] == holder.ends_at else -1)
        if slot >= 0:
            self.free_at[slot] = finish
        self.tenants.append(Tenant(beside.model, backend_model, slot, finish))
        return finish, planned_ns

    def _first_to_end(self, beside: Beside, start: Instant, clock: Clockwork, coupling: Coupling
                      ) -> tuple[Instant, int, str, Tenant | None] | None:
        """
        Find the variant that ends first, beside what still runs when it begins.

        :returns: its end and runtime, what it is, and whose instance it waits for, if any;
            ``None`` where no variant ever begins.
        """
        best: tuple[Instant, int, str, Tenant | None] | None = None
        for backend_model, planned_ns, likely_ns in beside.runs:
            alone_ns = likely_ns if self.is_likely else planned_ns
            begin, user = start, self._user(backend_model, start, clock, coupling.instances)
            if user is not None:
                begin = user.ends_at
                if begin[0] >= NEVER:
                    continue
            added_ns = 0
            for tenant in self.tenants:
                more_ns = coupling.interference_ns.get((backend_model, tenant.backend_model), 0)
                if more_ns > added_ns and clock.is_later(tenant.ends_at, begin):
                    added_ns = more_ns
            end = (begin[0] + alone_ns + added_ns, begin[1])
            if best is None or clock.is_later(best[0], end):
                best = end, alone_ns + added_ns, backend_model, user
        return best

    def _user(self, backend_model: str, start: Instant, clock: Clockwork,
              instances: Mapping[str, int]) -> Tenant | None:
        """
        Say whose end frees an instance of a backend model; ``None`` if one is free at start.

        One slot uses one instance, whatever it runs one after the other.
        """
        count = instances.get(backend_model)
        if count is None:
            return None
        last_first: list[Tenant] = []
        for tenant in self.tenants:
            if tenant.backend_model != backend_model or not clock.is_later(tenant.ends_at, start):
                continue
            if tenant.slot >= 0:
                last_first = [user for user in last_first if user.slot != tenant.slot]
            place = 0
            while place < len(last_first) and not clock.is_later(
                    tenant.ends_at, last_first[place].ends_at):
                place += 1
            last_first.insert(place, tenant)
        return last_first[count - 1] if len(last_first) >= count else None


def veto(reservations: Iterable[Reservation], schedule: Schedule, candidate: Tenant,
         clock: Clockwork, coupling: Coupling,
         likely_schedule: Callable[[Clockwork], Schedule]) -> Veto | None:
    """
    Judge a candidate that would start on the first slot.

    :param reservations: of strictly higher classes, in arrival order; read only as far as
        needed.
    :param schedule: without the candidate; this call uses it up.
    :param candidate: until when it would run.
    :param likely_schedule: gives the same by the medians.
    """
    def begin(clock: Clockwork) -> Callable[[Reservation], Instant]:
        by_medians = likely_schedule(clock)

        def serve(reservation: Reservation) -> Instant:
            assert reservation.beside is not None
            return by_medians.serve(reservation, reservation.beside, clock, coupling)[0]
        return serve

    likely, judged = Likely(begin, clock), []
    with_it = schedule.beside(candidate)
    apart_until_ns = candidate.ends_at[0]
    for reservation in reservations:
        arrival_ns, beside = reservation.arrival_ns, reservation.beside
        assert beside is not None
        if apart_until_ns <= arrival_ns and _is_same_from(
                arrival_ns, schedule.free_at, with_it.free_at):
            return None
        judged.append(reservation)
        alone, alone_ns = schedule.serve(reservation, beside, clock, coupling)
        finish, _ = with_it.serve(reservation, beside, clock, coupling)
        deadline = (reservation.deadline_ns if beside.budget_ns is None
                    else arrival_ns + max(beside.budget_ns, alone_ns), reservation.is_moving)
        clock.note(reservation.changes_at_ns)
        if alone != finish:
            apart_until_ns = max(apart_until_ns, alone[0], finish[0])
        if finish[0] <= max(alone[0], deadline[0]):
            continue
        if alone[0] <= deadline[0]:
            clock.is_later(alone, deadline)
        elif likely.is_in_time(judged, deadline):
            clock.is_later(finish, alone)
        else:
            continue
        clock.is_later(finish, deadline)
        return Veto(reservation, finish[0] - max(alone[0], deadline[0]), clock.until_ns)
    return None


def _is_same_from(at_ns: int, one: Sequence[Instant], other: Sequence[Instant]) -> bool:
    """Whether two lists of free slots are the same for what arrives from an instant on."""
    return (sorted(max(free_ns, at_ns) for free_ns, _ in one)
            == sorted(max(free_ns, at_ns) for free_ns, _ in other))
