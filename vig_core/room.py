"""
How long a prompt may be beside guarded streams, by the profiles alone.

Rules:

- Gaps are the longest of ``quantum``; quanta are planned as a scheduler begins to, with the
  variant that is fastest. What does not fit then waits until a guarded stream stops, or a frame of
  it stays away.
- With a second slot frames and texts run beside each other, and a job that is not cut is no
  matter of gaps.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from vig_core.estimate import RuntimeBook
from vig_core.model import Model, System
from vig_core.quantum import longest_gap_ns

MOST_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True)
class Room:
    """
    The longest gap that is left to a generative model, and what it holds.

    :ivar guarded: the model before whose frames there is so little time.
    :ivar period_ns: of its frames.
    :ivar smallest_ns: plan of the smallest quantum without anything to read.
    :ivar per_new_token_ns: plan for each token of a new prompt.
    :ivar new_prompt: tokens of the longest prompt that can be begun; -1 where none can.
    :ivar text: tokens of the longest text that can be continued, its prompt included; as above.
    """

    guarded: str
    period_ns: int
    gap_ns: int
    smallest_ns: int
    per_new_token_ns: int
    new_prompt: int
    text: int

    def takes_ns(self, work_ns: int) -> int:
        """Give the least time in which so much is done in gaps like this, which is not empty."""
        gaps_before = max(0, -(-work_ns // max(1, self.gap_ns)) - 1)
        return work_ns + gaps_before * (self.period_ns - self.gap_ns)


def find_room(system: System, model: Model, guarded: Iterable[Model]) -> Room | None:
    """
    Find the room for a generative model; ``None`` where nothing limits it.

    :param guarded: the models that count, of which those of higher classes leave less room.
    """
    cooperative = model.cooperative
    gaps = [(longest_gap_ns(other, system.slots), other.name) for other in guarded
            if other.is_guarded and other.criticality < model.criticality]
    if cooperative is None or not cooperative.is_split or system.slots > 1 or not gaps:
        return None
    gap_ns, name = min(gaps)
    book, least = RuntimeBook(system), min(cooperative.min_tokens, cooperative.max_total_tokens)

    def plan_ns(context: int, *, is_new: bool) -> int:
        cost_ns = cooperative.cost_ns(context, least, is_new=is_new)
        return min(book.plan_quantum_ns(model, variant, cost_ns)
                   for variant in model.runnable_variants or model.variants)

    prompt, text = (bisect_right(range(MOST_TOKENS), gap_ns, key=lambda tokens: plan_ns(
        tokens, is_new=is_new)) - 1 for is_new in (True, False))
    smallest_ns = plan_ns(0, is_new=True)
    period_ns = system.models[name].contract.period_ns
    assert period_ns is not None
    return Room(name, period_ns, gap_ns, smallest_ns,
                (plan_ns(1000, is_new=True) - smallest_ns) // 1000, prompt, text)
