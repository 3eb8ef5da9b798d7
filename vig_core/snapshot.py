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

    :ivar profile_remark: why the profile of the current variant is wrong, or empty.
    """

    stream: str
    model: str
    criticality: Criticality
    received: int
    waiting: int
    running: int
    counts: Mapping[Reason, int]
    covered_cycles: int
    judged_cycles: int
    age_p50_ns: int | None
    age_p95_ns: int | None
    last_result_age_ns: int | None
    deadline_misses: int
    deferred: int
    variant_id: str | None
    planned_ns: int | None
    margin_percent: int
    profile_remark: str
    weakly_hard_observed: bool
    weakly_hard_misses: int
    weakly_hard_consecutive: int
    weakly_hard_left: int | None
    weakly_hard_violated: bool


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
