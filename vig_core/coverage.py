"""
What the consumer sees: whether there was a fresh result at each of its cycles.

Rules:

- Cycle k is judged at ``phase + k * consumer period``, at that instant, by the contract's clock
  and never by accepted requests. What is delivered at that very instant counts. The clock begins
  with the monitor and stops for nothing: not for a stream that is silent, not while the governor
  is inactive (``inherit``).
- ``latest_state``: the newest delivered result covers the cycle while its age is at most
  ``max_age``.
- ``every_event``: the cycle is covered if since the cycle before no request of the stream ended
  in any other way than delivered. Where nothing came nothing was lost.
- ``stateful_sequence``: the same, and no result was delivered behind one of a later capture.
- With ``require_new_sample_each_cycle`` also a result newer than all before must have been
  delivered since the cycle before; so a quiet cycle is a miss.
- A gap is a time without a result of at most ``max_age`` at hand, from the first cycle on. It is
  measured, not counted in cycles, and the same for all three semantics.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vig_core.clockwork import Clockwork, Instant
from vig_core.contract import Contract, DeliverySemantics
from vig_core.events import CyclesInherited
from vig_core.misses import MissWindow

FOREVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Supply:
    """
    What one consumer got over a whole run.

    :ivar cycles: that were judged; ``covered`` of them were.
    :ivar violated: cycles after which the miss budget was broken.
    """

    cycles: int
    covered: int
    longest_gap_ns: int
    violated: int = 0


def supply_of(contract: Contract, ends: Iterable[tuple[int, int | None]], *, origin_ns: int,
              until_ns: int, counts: Callable[[int], bool] | None = None) -> Supply:
    """
    Judge a run after the fact, by the monitor that judges it while it happens.

    :param ends: ``(instant, capture)`` in ns in order of time; ``None`` for a request that ended
        without a result.
    :param until_ns: the end of the run; a cycle at that instant is judged.
    :param counts: tells of a cycle's instant whether it belongs to the figures; all by default.
    """
    monitor = CycleMonitor(contract, origin_ns)
    cycles = covered = violated = 0
    is_stepwise = counts is not None or contract.miss_budget is not None

    def judge(now_ns: int) -> None:
        nonlocal cycles, covered, violated
        while is_stepwise and monitor.next_cycle_ns < now_ns:
            instant_ns = monitor.next_cycle_ns
            good, bad = monitor.judge_before(instant_ns + 1)
            if counts is None or counts(instant_ns):
                cycles, covered = cycles + good + bad, covered + good
                violated += monitor.window.is_violated
        monitor.judge_before(now_ns)

    for at_ns, captured_ns in ends:
        if at_ns > until_ns:
            break
        judge(at_ns)
        if captured_ns is None:
            monitor.lose()
        else:
            monitor.deliver(captured_ns, at_ns)
    judge(until_ns + 1)
    if not is_stepwise:
        cycles, covered = monitor.judged, monitor.covered
    return Supply(cycles, covered, monitor.longest_gap_ns(until_ns), violated)


class CycleMonitor:
    """
    Coverage of one stream. It reports; it enforces nothing.

    :ivar judged: cycles so far; ``covered`` of them were.
    :ivar window: the last of them, and the miss budget.
    """

    def __init__(self, contract: Contract, origin_ns: int) -> None:
        """Judge the first cycle at ``origin_ns`` plus phase plus one period."""
        assert contract.cycle_ns is not None
        self._cycle_ns = contract.cycle_ns
        self._max_age_ns = contract.max_age_ns
        self._needs_new = contract.require_new_sample_each_cycle
        self._needs_all = contract.delivery_semantics is not DeliverySemantics.LATEST_STATE
        self._needs_order = contract.delivery_semantics is DeliverySemantics.STATEFUL_SEQUENCE
        self.next_cycle_ns = origin_ns + contract.phase_ns + contract.cycle_ns
        self._newest_capture_ns: int | None = None
        self._has_new = False
        self._has_loss = False
        self._supplied_until_ns = self.next_cycle_ns
        self._longest_gap_ns = 0
        self.judged = 0
        self.covered = 0
        self.window = MissWindow(contract.miss_budget)

    def deliver(self, captured_at_ns: int, now_ns: int) -> None:
        """Take note of a result that reached the consumer."""
        self._longest_gap_ns = self.longest_gap_ns(now_ns)
        if self._newest_capture_ns is None or captured_at_ns > self._newest_capture_ns:
            self._newest_capture_ns = captured_at_ns
            self._has_new = True
            self._supplied_until_ns = max(self._supplied_until_ns, FOREVER if (
                self._max_age_ns is None) else captured_at_ns + self._max_age_ns)
        elif self._needs_order and captured_at_ns < self._newest_capture_ns:
            self._has_loss = True

    def lose(self) -> None:
        """Take note of a request whose result the consumer will not see."""
        self._has_loss = self._needs_all

    def can_serve(self, *, captured_at_ns: int, delivered_at: Instant, clock: Clockwork) -> bool:
        """
        Whether such a result would cover a coming cycle that nothing delivered covers yet.

        :param delivered_at: later than now.
        """
        if self._max_age_ns is None:
            return True
        delivered_ns = delivered_at[0]
        ahead_ns = max(0, delivered_ns - self.next_cycle_ns)
        first_ns = self.next_cycle_ns + -(-ahead_ns // self._cycle_ns) * self._cycle_ns
        if self._needs_new:
            clock.is_later(delivered_at, (first_ns, False))
            return (first_ns <= captured_at_ns + self._max_age_ns
                    and not (self._has_new and first_ns == self.next_cycle_ns))
        covered_until_ns = (self.next_cycle_ns - self._cycle_ns if self._newest_capture_ns is None
                            else self._newest_capture_ns + self._max_age_ns)
        periods = (captured_at_ns + self._max_age_ns - self.next_cycle_ns) // self._cycle_ns
        last_ns = self.next_cycle_ns + periods * self._cycle_ns
        return last_ns > covered_until_ns and not clock.is_later(delivered_at, (last_ns, False))

    def judge_before(self, now_ns: int) -> tuple[int, int]:
        """
        Judge every cycle whose instant lies before ``now_ns``.

        :returns: how many of them were covered and how many were not.
        """
        if self.next_cycle_ns >= now_ns:
            return 0, 0
        cycles = (now_ns - 1 - self.next_cycle_ns) // self._cycle_ns + 1
        covered_before = self.covered
        if self._needs_all:
            self._record(not self._has_loss and (self._has_new or not self._needs_new), 1)
            self._record(not self._needs_new, cycles - 1)
        else:
            covered = min(cycles, self._coverable())
            self._record(True, covered)
            self._record(False, cycles - covered)
        self._has_new = self._has_loss = False
        self.next_cycle_ns += cycles * self._cycle_ns
        good = self.covered - covered_before
        return good, cycles - good

    def longest_gap_ns(self, now_ns: int) -> int:
        """Longest time without a fresh result from the first cycle up to an instant."""
        return max(self._longest_gap_ns, now_ns - self._supplied_until_ns)

    def seen_at(self, now_ns: int) -> 'CycleMonitor':
        """Copy it with every cycle before an instant judged; it stays as it is."""
        seen = CycleMonitor.__new__(CycleMonitor)
        vars(seen).update(vars(self), window=self.window.copy())
        seen.judge_before(now_ns)
        return seen

    def bequeath(self, stream: str, contract_version: int) -> CyclesInherited:
        """Say what a later monitor of the same contract must know to go on with the window."""
        return CyclesInherited(
            stream, contract_version, self.next_cycle_ns, self.window.cycles,
            self.window.consecutive, self._newest_capture_ns, self._has_new, self._has_loss)

    def inherit(self, event: CyclesInherited, now_ns: int) -> None:
        """
        Go on with the window and the clock of an earlier monitor of the same contract.

        The cycles between the two are judged by what was delivered before, and belong to the
        window; everything else counts from now on.
        """
        self.next_cycle_ns = event.next_cycle_ns
        self._newest_capture_ns = event.newest_capture_ns
        self._has_new, self._has_loss = event.has_new, event.has_loss
        self.window.restore(event.cycles, event.consecutive)
        self.judge_before(now_ns)
        self.judged = self.covered = 0
        self._supplied_until_ns = self.next_cycle_ns
        if self._newest_capture_ns is not None and self._max_age_ns is not None:
            self._supplied_until_ns = max(self._supplied_until_ns,
                                          self._newest_capture_ns + self._max_age_ns)

    def _coverable(self) -> int:
        """Count the next cycles that the newest result covers by itself."""
        if self._newest_capture_ns is None or (self._needs_new and not self._has_new):
            return 0
        if self._max_age_ns is None:
            return 1 if self._needs_new else FOREVER
        left_ns = self._newest_capture_ns + self._max_age_ns - self.next_cycle_ns
        cycles = 0 if left_ns < 0 else left_ns // self._cycle_ns + 1
        return min(cycles, 1) if self._needs_new else cycles

    def _record(self, is_covered: bool, cycles: int) -> None:
        self.judged += cycles
        self.covered += cycles if is_covered else 0
        self.window.add(is_covered, cycles)
