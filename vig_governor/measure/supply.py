"""
What a consumer was given, from what it noted: ``(captured, received)`` of each result.

Whether a cycle was covered is decided by ``vig_core.coverage`` alone. All instants are
nanoseconds of one clock.
"""

from collections.abc import Callable, Sequence

from vig_core.contract import Contract
from vig_core.coverage import Supply, supply_of


def covered_cycles(results: Sequence[Sequence[int]], *, start_ns: int, end_ns: int,
                   period_ns: int, max_age_ns: int,
                   counts: Callable[[int], bool] | None = None) -> tuple[int, int]:
    """
    Count the consumer cycles in which a usable result was there.

    The cycles lie at ``start + k * period`` up to ``end``. One is covered if the newest capture
    delivered by then is at most ``max_age`` old at that instant.

    :param results: in the order of reception.
    :param counts: tells of a cycle's instant whether it is judged at all.
    :returns: covered cycles, all cycles that count.
    """
    given = supply(results, start_ns=start_ns, end_ns=end_ns, period_ns=period_ns,
                   max_age_ns=max_age_ns, counts=counts)
    return given.covered, given.cycles


def supply(results: Sequence[Sequence[int]], *, start_ns: int, end_ns: int, period_ns: int,
           max_age_ns: int, counts: Callable[[int], bool] | None = None) -> Supply:
    """Judge the same, with the longest time without a usable result; see ``covered_cycles``."""
    return supply_of(
        Contract(deadline_ns=max_age_ns, max_age_ns=max_age_ns, period_ns=period_ns),
        ((received_ns, captured_ns) for captured_ns, received_ns in results),
        origin_ns=start_ns - period_ns, until_ns=end_ns, counts=counts)


def fresh_ns(results: Sequence[Sequence[int]], *, start_ns: int, end_ns: int,
             max_age_ns: int) -> int:
    """
    Measure how long a result of at most ``max_age`` was at hand between start and end.

    Unlike the cycles it does not depend on when the consumer looks.
    """
    total_ns, free_from_ns = 0, start_ns
    for captured_ns, received_ns in results:
        first_ns = max(free_from_ns, received_ns)
        last_ns = min(captured_ns + max_age_ns, end_ns)
        if last_ns > first_ns:
            total_ns += last_ns - first_ns
            free_from_ns = last_ns
    return total_ns
