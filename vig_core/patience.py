"""
When waiting for the next frame of the same stream beats starting this one.

Rules. A frame waits for its successor only if all of this holds:

- the very next frame of its stream is expected (the forecast of stage C says so);
- started now, this one would probably still run when that one arrives, and no other slot is
  expected to be free for it;
- its result would be too old at delivery after a moderately long run; a frame that starts on
  arrival never counts as such, because its successor could not fare better;
- it can hardly serve a consumer cycle that is not served already.

So a frame that finds a free slot on arrival starts, whatever the load, and nobody waits for ever.
It is a wait and not a discard: stage B stays optimistic, and a frame whose successor does not come
in its window is started after all while it is still worth something.

"Moderately long" and "hardly" are quantiles of a lognormal runtime with the profile's median and
99 % quantile: ``p50^(3/8) * p99^(5/8)`` lies 1.45 standard deviations above the median (93 % of
the runs are shorter), ``p50 * sqrt(p50 / p99)`` 1.16 below it (12 % are shorter).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

from vig_core.clockwork import Clockwork, Instant
from vig_core.coverage import CycleMonitor
from vig_core.forecast import ArrivalForecast
from vig_core.model import RuntimeProfile
from vig_core.request import Request
from vig_core.why_waiting import Awaiting


@dataclass(slots=True)
class Wait:
    """
    A frame waits for its successor.

    :ivar successor_ns: when that one is expected; never in the past.
    :ivar until_ns: first later instant at which time alone can end the wait; at the latest when
        the successor counts as lost.
    :ivar late_ns: by how much a moderately long run that began now would miss ``max_age``, or by
        how much later than on arrival it would begin.
    """

    successor_ns: int
    until_ns: int
    late_ns: int

    def because(self, now_ns: int) -> Awaiting:
        """Gather why, with the numbers that decided."""
        return Awaiting(self.successor_ns - now_ns, self.late_ns)


@lru_cache(maxsize=1024)
def long_run_ns(profile: RuntimeProfile) -> int:
    """Runtime that 93 % of the runs stay below."""
    return isqrt(isqrt(isqrt(profile.p50_ns ** 3 * profile.p99_ns ** 5)))


@lru_cache(maxsize=1024)
def short_run_ns(profile: RuntimeProfile) -> int:
    """Runtime that 12 % of the runs stay below."""
    return isqrt(profile.p50_ns ** 3 // profile.p99_ns)


def wait_for_successor(request: Request, profile: RuntimeProfile, *,
                       free_at: Sequence[Instant], forecast: ArrivalForecast,
                       monitor: CycleMonitor | None, clock: Clockwork) -> Wait | None:
    """
    Judge a candidate that would start on the first slot with a variant of this profile.

    :param free_at: predicted end of what runs on each slot; the first is the candidate's.
    :param forecast: of its stream.
    :param monitor: the consumer cycles of its stream, if its contract defines any.
    """
    max_age_ns = request.model.contract.max_age_ns
    if max_age_ns is None:
        return None
    start, now_ns = free_at[0], clock.now_ns
    worthless_ns = request.generation_ns + max_age_ns
    fine_until_ns = worthless_ns - min(long_run_ns(profile),
                                       worthless_ns - request.arrived_at_ns)
    if not clock.is_later(start, (fine_until_ns, False)):
        return None
    expected = forecast.successor(now_ns)
    if expected is None:
        return None
    due_ns, lost_from_ns = expected
    if not clock.is_later((start[0] + profile.p50_ns, start[1]), (due_ns, False)) or any(
            other[0] <= now_ns or not clock.is_later(other, (due_ns, False))
            for other in free_at[1:]):
        return None
    if monitor is not None and monitor.can_serve(
            captured_at_ns=request.generation_ns,
            delivered_at=(start[0] + short_run_ns(profile), start[1]), clock=clock):
        return None
    clock.note(lost_from_ns)
    return Wait(max(now_ns, due_ns), clock.until_ns, start[0] - fine_until_ns)
