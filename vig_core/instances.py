"""
Instances: how many executions of one backend model the server runs at once.

Rules:

- What one slot has taken runs one after the other, so it uses one instance of a backend model,
  however many executions of it there are. One may be pipelined behind another on its slot.
- A backend model may take a slot only while fewer than all of its instances are used on others.
- On a slot with an execution whose end is not proven nobody knows what runs: each one counts.
- A variant begins when a slot and an instance are free; stage D judges it from there. One whose
  instances are all in use cannot be sent: the request waits, or takes a variant that ends sooner.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vig_core.claim import Claim, dry_at_ns, is_quarantined

NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Begin:
    """
    When an execution of a backend model could begin.

    :ivar at_ns: predicted conservatively; ``NEVER`` behind one that only a proof can end.
    :ivar moves_from_ns: from then on it moves with the clock.
    :ivar behind_id: a request that uses the instance that is free next; ``None`` where one is
        free, so that it may be sent now.
    """

    at_ns: int
    moves_from_ns: int
    behind_id: int | None = None


def used(claims: Sequence[Claim], backend_model: str) -> int:
    """Count the instances of a backend model that one slot uses."""
    mine = sum(1 for claim in claims if claim.backend_model == backend_model)
    return mine if is_quarantined(claims) else min(mine, 1)


def used_beside(slots: Sequence[Sequence[Claim]], slot: int, backend_model: str) -> int:
    """Count the instances of a backend model that are used on other slots than this one."""
    return sum(used(claims, backend_model) for other, claims in enumerate(slots)
               if claims and other != slot)


def next_instance(slots: Sequence[Sequence[Claim]], backend_model: str, instances: int,
                  now_ns: int) -> Begin:
    """Predict when an instance is free of a backend model that uses all of them."""
    ends = []
    for claims in slots:
        mine = [index for index, claim in enumerate(claims)
                if claim.backend_model == backend_model]
        if is_quarantined(claims):
            ends += [(NEVER, NEVER, claims[index].request.request_id) for index in mine]
        elif mine:
            ends.append((dry_at_ns(claims[:mine[-1] + 1], now_ns), dry_at_ns(claims[:1], now_ns),
                         claims[mine[-1]].request.request_id))
    ends.sort(reverse=True)
    return Begin(*ends[instances - 1])


def soonest_change_ns(begins: Sequence[Begin], plans_ns: Sequence[int], deadline_ns: int,
                      now_ns: int, at_latest_ns: int | None) -> int | None:
    """
    Say when time alone can make another variant the best that is in time, or the first to end.

    :param begins: of each variant, and ``plans_ns`` its conservative runtime.
    :param at_latest_ns: when the choice may change for another reason; ``None`` for never.
    """
    ends = [(begin.at_ns + planned_ns, begin.moves_from_ns)
            for begin, planned_ns in zip(begins, plans_ns) if begin.at_ns < NEVER]
    instants = [] if at_latest_ns is None else [at_latest_ns]
    for end_ns, moves_ns in ends:
        if end_ns <= deadline_ns:
            instants.append(moves_ns + deadline_ns - end_ns + 1)
        for other_ns, stands_until_ns in ends:
            meets_ns = moves_ns + other_ns - end_ns
            if moves_ns <= meets_ns < stands_until_ns:
                instants += (meets_ns, meets_ns + 1)
    return min((at_ns for at_ns in instants if at_ns > now_ns), default=None)
