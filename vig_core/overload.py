"""
Overload states, entered on measured evidence and never on an operator's threshold.

Rules:

- Evidence: outcomes of guarded streams over a sliding window: consumer cycles and delivered
  requests count as good or bad; a bad one is an uncovered cycle, a missed deadline or one that
  was given up, a stale drop, an obsolete completion.
- The window is the last 2 s. Where these hold fewer than 20 outcomes it reaches back to the last
  20, but no further than 20 cycles of the slowest guarded stream (adr/0010).
- One step at a time, each state held for a minimum dwell, with separate entry and exit levels.
- Judged on a fixed grid of instants, so that being asked more often changes nothing.
"""

from collections import deque

from vig_core.actions import OverloadState, ReportOverload
from vig_core.units import NS_PER_MS
from vig_core.why import BadOutcomes

WINDOW_NS = 2_000 * NS_PER_MS
GRID_NS = 100 * NS_PER_MS
MIN_DWELL_NS = 500 * NS_PER_MS
MIN_EVIDENCE = 20

ENTRY_PERMILLE = (50, 150, 300, 500)
EXIT_PERMILLE = (20, 70, 150, 250)
"""Share of bad outcomes from which on state i leads to i + 1, and up to which it leads back."""

STATES = tuple(OverloadState)


class OverloadController:
    """
    The present state and the evidence for it.

    :ivar state: the state in force.
    :ivar raised_by: the evidence for the last step up.
    :ivar next_grid_ns: the next instant at which the state is judged.
    """

    def __init__(self, origin_ns: int, slowest_cycle_ns: int = 0) -> None:
        """
        Begin in ``normal`` with no evidence.

        :param slowest_cycle_ns: of all guarded streams.
        """
        self._horizon_ns = max(WINDOW_NS, MIN_EVIDENCE * slowest_cycle_ns)
        self._level = 0
        self.state = OverloadState.NORMAL
        self._since_ns = origin_ns - MIN_DWELL_NS
        self.next_grid_ns = origin_ns + GRID_NS
        self.raised_by = BadOutcomes(0, 0, 0, 0, WINDOW_NS // NS_PER_MS)
        self._evidence: deque[tuple[int, int, int, int]] = deque()
        self._good = 0
        self._bad = 0
        self._bad_cycles = 0

    @property
    def is_quiet(self) -> bool:
        """Whether nothing bad is known and the state is ``normal``: judging changes nothing."""
        return not self._level and not self._bad

    @staticmethod
    def exit_permille(state: OverloadState) -> int:
        """Share of bad outcomes at which a state other than ``normal`` is left downwards."""
        return EXIT_PERMILLE[STATES.index(state) - 1]

    def note(self, at_ns: int, *, good: int = 0, bad: int = 0, bad_cycles: int = 0) -> None:
        """
        Take in outcomes of guarded streams.

        :param bad_cycles: how many of the bad ones are uncovered cycles.
        """
        if not good and not bad:
            return
        self._good += good
        self._bad += bad
        self._bad_cycles += bad_cycles
        if self._evidence and self._evidence[-1][0] == at_ns:
            _, good_before, bad_before, cycles_before = self._evidence.pop()
            good, bad = good + good_before, bad + bad_before
            bad_cycles += cycles_before
        self._evidence.append((at_ns, good, bad, bad_cycles))

    def skip_to(self, now_ns: int) -> None:
        """Pass all grid instants before ``now_ns`` at once; only while it is quiet."""
        behind = (now_ns - self.next_grid_ns) // GRID_NS
        self.next_grid_ns += max(0, behind) * GRID_NS

    def judge(self, *, may_climb: bool = True) -> list[ReportOverload]:
        """
        Judge the next grid instant; evidence up to it must have been noted.

        :param may_climb: False while no guarded stream is alive: what happened before it stopped
            is no reason to give up more.
        """
        report = self._judge(self.next_grid_ns, may_climb)
        self.next_grid_ns += GRID_NS
        return [] if report is None else [report]

    def _judge(self, at_ns: int, may_climb: bool) -> ReportOverload | None:
        self._forget(at_ns)
        if at_ns - self._since_ns < MIN_DWELL_NS:
            return None
        total = self._good + self._bad
        share = self._bad * 1000 // total if total >= MIN_EVIDENCE else 0
        step = 0
        if (may_climb and self._level < len(ENTRY_PERMILLE)
                and share >= ENTRY_PERMILLE[self._level]):
            step = 1
        elif self._level > 0 and share <= EXIT_PERMILLE[self._level - 1]:
            step = -1
        if step == 0:
            return None
        before = self.state
        self._level += step
        self.state = STATES[self._level]
        self._since_ns = at_ns
        evidence = BadOutcomes(share, total, self._bad_cycles, self._bad - self._bad_cycles,
                               self._reach_ns(at_ns) // NS_PER_MS)
        if step > 0:
            self.raised_by = evidence
        return ReportOverload(before, self.state, evidence)

    def _forget(self, at_ns: int) -> None:
        evidence = self._evidence
        while evidence and evidence[0][0] <= at_ns - WINDOW_NS:
            then_ns, good, bad, bad_cycles = evidence[0]
            if (then_ns > at_ns - self._horizon_ns
                    and self._good + self._bad - good - bad < MIN_EVIDENCE):
                return
            evidence.popleft()
            self._good -= good
            self._bad -= bad
            self._bad_cycles -= bad_cycles

    def _reach_ns(self, at_ns: int) -> int:
        """How far back the evidence reaches."""
        return max(WINDOW_NS, at_ns - self._evidence[0][0]) if self._evidence else WINDOW_NS
