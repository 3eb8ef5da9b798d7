"""What can be seen of a scheduler at one instant: plain values for statuses and diagnostics."""

from collections.abc import Mapping
from dataclasses import dataclass

from vig_core.actions import OverloadState
from vig_core.contract import Criticality
from vig_core.request import Reason


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """
    One stream at one instant; quantiles are over its last delivered results.

    :ivar weakly_hard_left: coming cycles that may be missed in a row before the budget is broken;
        ``None`` without one. ``weakly_hard_window`` is 0 then.
    :ivar longest_gap_ns: longest time without a fresh result since its first cycle.
    :ivar background_ended: requests of a best-effort stream that its progress is the share of;
        0 for other classes.
    :ivar profile_remark: why the profile of the current variant is wrong, or empty.
    :ivar tokens: written by a generative model, in ``quanta`` backend requests; their time is
        divided in the proportion of the cost model.
    :ivar awaited: how often a request waited for an instance although a slot was free.
    """

    stream: str
    model: str
    criticality: Criticality
    received: int
    waiting: int
    running: int
    counts: Mapping[Reason, int]
    age_p50_ns: int | None
    age_p95_ns: int | None
    last_result_age_ns: int | None
    deadline_misses: int
    deferred: int
    variant_id: str | None
    planned_ns: int | None
    margin_percent: int
    profile_remark: str
    age_p99_ns: int | None = None
    covered_cycles: int = 0
    judged_cycles: int = 0
    longest_gap_ns: int = 0
    weakly_hard_observed: bool = False
    weakly_hard_misses: int = 0
    weakly_hard_consecutive: int = 0
    weakly_hard_left: int | None = None
    weakly_hard_violated: bool = False
    weakly_hard_window: int = 0
    contract_version: int = 0
    background_ended: int = 0
    background_completed: int = 0
    background_required_percent: int = 0
    is_background_short: bool = False
    starved: int = 0
    tokens: int = 0
    quanta: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0
    fixed_ns: int = 0
    awaited: int = 0

    @property
    def coverage(self) -> float:
        """Share of the judged cycles that were covered; 0 while none has been judged."""
        return self.covered_cycles / self.judged_cycles if self.judged_cycles else 0.0

    @property
    def background_progress(self) -> float:
        """Share of the last requests that were completed; 0 before one has ended."""
        return self.background_completed / self.background_ended if self.background_ended else 0.0


@dataclass(frozen=True, slots=True)
class SystemSnapshot:
    """
    The whole scheduler at one instant.

    :ivar deliberate_idle_ns: slot time left idle for expected arrivals since the start.
    :ivar stale_compute_ns: backend time spent on results that were obsolete or came too late.
    """

    slots_total: int
    slots_busy: int
    slots_quarantined: int
    is_ready: bool
    overload: OverloadState
    deliberate_idle_ns: int
    deferred_for_protected: int
    stale_compute_ns: int
    late_answers: int
    streams: tuple[StreamSnapshot, ...]
