"""
Who goes first.

Rule: class, then (opt-in) a stream whose next miss would break its budget, then the earliest
deadline, then generation, then arrival. A ranking ranks, and only ranks.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop

from vig_core.request import Request

Rank = tuple[int, int, int, int, int]


def rank(request: Request, is_urgent: Callable[[Request], bool] | None = None) -> Rank:
    """Sort key: the smaller goes first. ``is_urgent`` only where the system is miss-aware."""
    urgency = 0 if is_urgent is not None and is_urgent(request) else 1
    return (request.model.criticality, urgency, request.deadline_at_ns, request.generation_ns,
            request.sequence)


def ranked(requests: list[Request],
           is_urgent: Callable[[Request], bool] | None = None) -> Iterator[Request]:
    """Go through requests, the first to serve first; lazily, for most often one is enough."""
    heap = [(rank(request, is_urgent), request) for request in requests]
    heapify(heap)
    while heap:
        yield heappop(heap)[1]
