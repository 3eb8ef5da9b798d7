"""
Who goes first.

Rule: class, then (opt-in) a stream whose next miss would break its budget, then the earliest
deadline, then generation, then arrival. A ranking ranks, and only ranks.
"""

from collections.abc import Callable
from operator import attrgetter

from vig_core.request import Request

_RANK = attrgetter('rank')


def ranked(requests: list[Request],
           is_urgent: Callable[[Request], bool] | None = None) -> list[Request]:
    """Put the first to serve first. ``is_urgent`` only where the system is miss-aware."""
    if is_urgent is None:
        return sorted(requests, key=_RANK)
    return sorted(requests, key=lambda request: (
        request.model.criticality, not is_urgent(request), request.rank))
