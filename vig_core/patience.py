"""
When waiting for the next frame of the same stream beats starting this one.

Rules. A frame waits for its successor only if all of this holds:

- a newer frame of the stream is expected (the forecast of stage C says so);
- started now, this one would probably still run when the newer one arrives;
- its result would be too old at delivery even after a moderately long run;
- it can hardly serve a consumer cycle that is not served already.

It is a wait and not a discard: stage B stays optimistic, and a frame whose successor does not come
is started after all while it is still worth something.

"Moderately long" and "hardly" are quantiles of a lognormal runtime with the profile's median and
99 % quantile: ``sqrt(p50 * p99)`` lies 1.16 standard deviations above the median (88 % of the runs
are shorter), ``p50 * sqrt(p50 / p99)`` as far below it.
"""

from dataclasses import dataclass
from math import isqrt

from vig_core.coverage import CycleMonitor
from vig_core.forecast import ArrivalForecast
from vig_core.model import RuntimeProfile
from vig_core.request import Request


@dataclass(frozen=True, slots=True)
class Wait:
    """
    A frame waits for its successor.

    :ivar successor_ns: when that one is expected.
    :ivar until_ns: the instant at which the answer can change without another event.
    """

    successor_ns: int
    until_ns: int


def long_run_ns(profile: RuntimeProfile) -> int:
    """Runtime that 88 % of the runs stay below."""
    return isqrt(profile.p50_ns * profile.p99_ns)


def short_run_ns(profile: RuntimeProfile) -> int:
    """Runtime that 12 % of the runs stay below."""
    return isqrt(profile.p50_ns ** 3 // profile.p99_ns)


def wait_for_successor(request: Request, profile: RuntimeProfile, *, start_ns: int, now_ns: int,
                       forecast: ArrivalForecast, monitor: CycleMonitor | None) -> Wait | None:
    """
    Judge a candidate that would start at ``start_ns`` with a variant of this profile.

    :param forecast: of its stream.
    :param monitor: the consumer cycles of its stream, if its contract defines any.
    """
    max_age_ns = request.model.contract.max_age_ns
    expected = forecast.expected(now_ns)
    if max_age_ns is None or expected is None:
        return None
    if start_ns + profile.p50_ns <= expected.arrival_ns:
        return None
    if start_ns + long_run_ns(profile) <= request.generation_ns + max_age_ns:
        return None
    if monitor is not None and monitor.can_serve(
            captured_at_ns=request.generation_ns,
            delivered_at_ns=start_ns + short_run_ns(profile)):
        return None
    return Wait(expected.arrival_ns, expected.changes_at_ns)
