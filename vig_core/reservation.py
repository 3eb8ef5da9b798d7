"""
The place of an expected frame: until when it must end, and how long it keeps a slot.

Rule: what was learned of occupancies (adr/0022) is a high quantile and a median. Behind each other
on a slot the medians add up, and the slacks above them as independent deviations do: in squares.
A single one, and all that was not learned, is planned with its whole slack.
"""

from dataclasses import dataclass
from math import isqrt

from vig_core.contract import Contract


@dataclass(frozen=True, slots=True)
class Stay:
    """
    How long a run keeps a slot from the next, conservatively.

    :ivar planned_ns: one that it had to wait for; the time counts from when that was free.
    :ivar alone_ns: one that it finds idle; the time counts from its dispatch.
    :ivar slack_ns: of ``planned_ns``, above the median; 0 where none was learned.
    """

    planned_ns: int
    alone_ns: int
    slack_ns: int = 0

    def behind(self, end_ns: int, squares: int) -> tuple[int, int]:
        """
        Add it to what ends then.

        :param squares: of the slack in that end.
        :returns: its own end, and the squares of the slack in that.
        """
        slack_ns = self.slack_ns
        both = squares + slack_ns * slack_ns
        if not squares or not slack_ns:
            return end_ns + self.planned_ns, both
        return end_ns - isqrt(squares) + self.planned_ns - slack_ns + isqrt(both), both


@dataclass(slots=True)
class Reservation:
    """
    An expected frame that holds a place.

    :ivar likely_ns: how long it keeps a slot by its median.
    :ivar deadline_ns: by when it must end; later than the contract says where the pace decides.
    :ivar is_moving: overdue; its arrival and deadline move with the clock.
    :ivar changes_at_ns: when its forecast says something else.
    :ivar beside: what it may not run beside and what slows it, where anything does.
    :ivar longest_gap_ns: see ``quantum``.
    """

    stream: str
    arrival_ns: int
    stay: Stay
    likely_ns: int
    deadline_ns: int
    is_moving: bool
    changes_at_ns: int
    beside: 'Beside | None' = None
    longest_gap_ns: int = 0


@dataclass(frozen=True, slots=True)
class Beside:
    """
    What a reservation has to do with what runs at the same time; read by ``corun``.

    :ivar runs: of each usable variant: backend model, conservative and median runtime alone.
    :ivar budget_ns: from arrival to deadline; ``None`` for a frame that is there and waits.
    """

    model: str
    banned: frozenset[str]
    runs: tuple[tuple[str, int, int], ...]
    budget_ns: int | None


def pace_budget_ns(contract: Contract, budget_ns: int, planned_ns: int) -> int:
    """
    Say how long after its arrival a frame may end without its stream losing its pace.

    No longer than to its deadline where a late result is lost: without a maximum age, or with a
    new sample needed at each cycle.

    :param budget_ns: from its arrival to its deadline; 0 where it is late on arrival.
    :param planned_ns: conservative runtime of its successor.
    """
    max_age_ns, period_ns = contract.max_age_ns, contract.period_ns
    if (max_age_ns is None or period_ns is None or budget_ns == 0
            or contract.require_new_sample_each_cycle):
        return budget_ns
    return budget_ns + max(0, min(max_age_ns - contract.deadline_ns, period_ns) - planned_ns)
