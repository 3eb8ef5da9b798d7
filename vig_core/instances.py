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

from vig_core.claim import Claim, dry_at, is_quarantined
from vig_core.clockwork import Clockwork, Instant, NEVER


@dataclass(frozen=True, slots=True)
class Begin:
    """
    When an execution of a backend model could begin.

    :ivar at: predicted conservatively; ``NEVER`` behind one that only a proof can end.
    :ivar behind_id: a request that uses the instance that is free next; ``None`` where one is
        free, so that it may be sent now.
    """

    at: Instant
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
                  clock: Clockwork) -> Begin:
    """Predict when an instance is free of a backend model that uses all of them."""
    ends = []
    for claims in slots:
        mine = [index for index, claim in enumerate(claims)
                if claim.backend_model == backend_model]
        if is_quarantined(claims):
            ends += [((NEVER, False), claims[index].request.request_id) for index in mine]
        elif mine:
            ends.append((dry_at(claims[:mine[-1] + 1], clock),
                         claims[mine[-1]].request.request_id))
    clock.note_order([end for end, _ in ends])
    ends.sort(reverse=True)
    return Begin(*ends[instances - 1])
