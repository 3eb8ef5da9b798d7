"""
The scheduler: a function of its history.

One way in, ``handle(event, now_ns=...)``; one way out, its return value. It owns no clock and no
timer: ``next_wakeup_ns`` says when to call again if nothing happens before.

Rules:

- An event is validated, then applied; a refused one leaves no trace.
- Every accepted request ends with exactly one ``Terminate``.
- What lies between two calls happens as if the call had come in time: consumer cycles, the
  overload grid and inference timeouts before ``now_ns`` are settled before the event.
"""

from collections.abc import Iterable

from vig_core import freshness, order
from vig_core.actions import Action, Defer
from vig_core.estimate import HORIZON_NS, RuntimeBook
from vig_core.events import CyclesInherited, Event
from vig_core.guards import Guards
from vig_core.held import Held
from vig_core.ledger import Ledger
from vig_core.model import System
from vig_core.overload import OverloadController
from vig_core.quantum import Shortage
from vig_core.reactions import Reactions
from vig_core.request import Reason, Request, State
from vig_core.roster import NEVER, Roster
from vig_core.selection import Selector
from vig_core.snapshot import SystemSnapshot
from vig_core.sweep import Sweep
from vig_core.variants import VariantSelector
from vig_core.why import NoAnswer


class Scheduler:
    """Decides before dispatch which inference is still worth running."""

    def __init__(self, system: System, *, origin_ns: int = 0) -> None:
        """
        Begin with nothing waiting and nothing running.

        :param origin_ns: where consumer cycles are counted from; no event may lie before it.
        """
        self._system = system
        self._variants = {name: VariantSelector(model) for name, model in system.models.items()}
        optimistic_ns = {name: freshness.optimistic_runtime_ns(model)
                         for name, model in system.models.items()}
        self._runtimes = RuntimeBook(system)
        self._guards = Guards()
        self._overload = OverloadController(origin_ns, system.slowest_guarded_cycle_ns)
        self._ledger = Ledger(system, self._overload, origin_ns)
        self._roster = Roster(system, self._ledger, origin_ns)
        self._sweep = Sweep(self._roster, self._overload, self._variants, self._runtimes)
        self._selector = Selector(system, self._roster.slots, self._runtimes, self._variants,
                                  self._guards, self._ledger)
        self._reactions = Reactions(system, self._roster, self._ledger, self._runtimes,
                                    self._guards, self._overload, self._variants, optimistic_ns)
        self._held_until_ns = NEVER

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs for a client; held credits do not count."""
        return all(request.state is State.ABANDONED for request in self._roster.requests.values())

    @property
    def running_ids(self) -> tuple[int, ...]:
        """The requests that hold a credit, those of clients that gave up included."""
        return tuple(claim.request.request_id for claim in self._roster.slots)

    def snapshot(self, *, now_ns: int) -> SystemSnapshot:
        """Describe counters and state at an instant not before the last event; no change."""
        return self._ledger.snapshot(now_ns, self._roster.slots, self._variants, self._runtimes)

    def bequeath(self, *, now_ns: int) -> tuple[CyclesInherited, ...]:
        """Give the windows of all miss budgets, for a later scheduler with the same contracts."""
        return self._ledger.bequeath(now_ns)

    def handle(self, event: Event, *, now_ns: int) -> tuple[Action, ...]:
        """
        Take in one event at one instant and say what to do.

        :raises RefusedEvent: the event contradicts the history; the state is unchanged.
        """
        self._reactions.check(event, now_ns)
        self._roster.now_ns = now_ns
        self._time_out(before_ns=now_ns)
        self._catch_up()
        self._reactions.apply(event)
        self._time_out(before_ns=now_ns + 1)
        self._start_what_may()
        return self._roster.take_actions()

    def next_wakeup_ns(self) -> int | None:
        """Say when to call again with ``Woke`` if nothing happens before; ``None`` for never."""
        roster = self._roster
        slots, now_ns, soonest_ns = roster.slots, roster.now_ns, NEVER
        if slots.oldest_dispatch_ns is not None:
            soonest_ns = slots.oldest_dispatch_ns + self._system.inference_timeout_ns
        if not self._overload.is_quiet or self._guards.is_any_alive(now_ns):
            soonest_ns = min(soonest_ns, self._overload.next_grid_ns)
        if roster.has_waiting:
            soonest_ns = min(soonest_ns, self._held_until_ns, slots.opens_at_ns)
            useless_ns = roster.next_useless_ns
            if useless_ns < NEVER and (self._sweep.is_watching_all or slots.has_credit):
                soonest_ns = min(soonest_ns, slots.too_late_from_ns(useless_ns))
        return max(now_ns, soonest_ns) if soonest_ns < NEVER else None

    # ---- time ----

    def _catch_up(self) -> None:
        while self._overload.next_grid_ns <= self._roster.now_ns:
            grid_ns = self._overload.next_grid_ns
            self._ledger.settle(grid_ns)
            self._runtimes.forget_before(grid_ns - HORIZON_NS)
            self._roster.actions += self._overload.judge(
                may_climb=self._guards.is_any_alive(grid_ns))
            if self._overload.is_quiet and not self._guards.is_any_alive(grid_ns):
                self._overload.skip_to(self._roster.now_ns)
        self._ledger.settle(self._roster.now_ns)
        self._runtimes.look(self._roster.now_ns)

    def _time_out(self, before_ns: int) -> None:
        limit_ns = before_ns - self._system.inference_timeout_ns
        oldest_ns = self._roster.slots.oldest_dispatch_ns
        if oldest_ns is None or oldest_ns >= limit_ns:
            return
        late = [claim for claim in self._roster.slots if not claim.is_quarantined
                and claim.request.dispatched_at_ns is not None
                and claim.request.dispatched_at_ns < limit_ns]
        for claim in late:
            self._roster.give_up(claim.request, Reason.BACKEND_TIMEOUT, NoAnswer(
                self._system.inference_timeout_ns, claim.planned_ns))

    # ---- decisions ----

    def _start_what_may(self) -> None:
        roster, slots = self._roster, self._roster.slots
        is_idling = False
        self._held_until_ns = NEVER
        slots.look(roster.now_ns)
        self._sweep.run()
        while roster.has_waiting and slots.has_credit:
            found = self._selector.select(
                order.ranked(roster.heads(), self._ledger.is_next_miss_fatal
                             if self._system.is_miss_aware else None),
                now_ns=roster.now_ns, overload=self._overload.state,
                is_guarding=not self._reactions.is_draining)
            for held in found.held:
                self._defer(held)
            if found.start is None or found.choice is None:
                is_idling = self._hold(found.held)
                break
            if not found.start.has_begun:
                self._variants[found.start.model.name].commit(found.choice, roster.now_ns)
            roster.start(found.start, found.choice)
            self._sweep.run()
        self._ledger.idle.set(slots.total - slots.busy if is_idling else 0, roster.now_ns)

    def _hold(self, held: Iterable[Held]) -> bool:
        """Note when to look again at what is held; says whether slots idle for it on purpose."""
        is_idling = False
        for each in held:
            if each.choice is not None:
                self._held_until_ns = min(self._held_until_ns, each.until_ns,
                                          self._runtimes.changes_at_ns)
            if each.veto is not None or each.wait is not None or each.shortage is not None:
                is_idling = True
        return is_idling

    def _defer(self, held: Held) -> None:
        """Say each kind of hold once per request (adr/0004); that of a hopeless job is one."""
        request, veto, wait, shortage = held.request, held.veto, held.wait, held.shortage
        if held.behind_id is not None and held.choice is not None:
            self._roster.await_instance(request, held.choice.variant.backend_model,
                                        held.behind_id)
            return
        if shortage is not None and _is_news(request, shortage):
            self._ledger.of(request).deferred += not request.is_deferred
            request.is_deferred, request.held_for = True, shortage.gap.ends_for
            until_ns = shortage.until_ns
        elif veto is not None and not request.is_deferred:
            request.is_deferred, request.held_for = True, veto.victim.stream
            self._ledger.of(request).deferred += 1
            until_ns = veto.until_ns
        elif veto is None and wait is not None and not request.is_waiting_for_fresher:
            request.is_waiting_for_fresher, request.held_for = True, request.stream
            until_ns = wait.until_ns
        else:
            return
        self._roster.actions.append(Defer(
            request.request_id, until_ns, request.held_for, held.because))


def _is_news(request: Request, shortage: Shortage) -> bool:
    """Note a shortage; whether that it holds the job, or that it always will, was not said yet."""
    job, is_hopeless = request.job, shortage.is_hopeless
    assert job is not None
    is_news = not request.is_deferred or (is_hopeless and not job.is_hopeless_said)
    if not is_hopeless:
        job.hopeless = None
    elif job.hopeless is None:
        job.hopeless = shortage.because
    job.is_hopeless_said |= is_hopeless
    return is_news
