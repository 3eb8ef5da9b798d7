"""
Misses that a contract forces by its own numbers, whoever serves it: arithmetic, no server needed.

With T the distance of results, P that of the consumer's cycles, C the age that a result has at
best when it is delivered, and A the age from which on it is worthless:

- Where each cycle needs a new sample, T > P: of all cycles only the share P / T can have one, so
  in some window of K cycles ``K - floor(K P / T)`` are missed, and ``ceil(T / P) - 1`` in a row.
- A result is of use for A - C, and the next comes T later. For T + C - A of every T there is none,
  so at least ``ceil((T + C - A) / P) - 1`` cycles in a row are missed, once in every T.
"""

from dataclasses import dataclass

from vig_core.contract import Contract, DeliverySemantics
from vig_core.units import text_ms


@dataclass(frozen=True, slots=True)
class Forced:
    """
    Misses that nobody can avoid.

    :ivar in_a_row: cycles, at least once.
    :ivar in_window: cycles of a window of the budget; 0 without one.
    :ivar text: the arithmetic.
    """

    in_a_row: int
    in_window: int
    text: str

    def breaks(self, contract: Contract) -> bool:
        """Whether the contract's own miss budget bears less."""
        budget = contract.miss_budget
        return budget is not None and (self.in_a_row > budget.max_consecutive
                                       or self.in_window > budget.max_misses)

    def sentence(self, contract: Contract) -> str:
        """Say the arithmetic and what the budget allows."""
        budget = contract.miss_budget
        if budget is None:
            return f'{self.text}: {self.in_a_row} cycles in a row must be missed each time'
        return (f'{self.text}: {self.in_a_row} cycles in a row and {self.in_window} of '
                f'{budget.window_cycles} must be missed, and the budget allows '
                f'{budget.max_consecutive} in a row and {budget.max_misses} of '
                f'{budget.window_cycles}')


def forced_misses(contract: Contract, *, runtime_ns: int = 0,
                  spacing_ns: int = 0) -> tuple[Forced, ...]:
    """
    Find what the numbers of a contract rule out.

    :param runtime_ns: age that every result has at least when it is delivered.
    :param spacing_ns: results cannot follow each other faster than this, whatever the period.
    """
    cycle_ns, period_ns = contract.cycle_ns, contract.period_ns
    if cycle_ns is None or period_ns is None:
        return ()
    supply_ns = max(period_ns, spacing_ns)
    window = contract.miss_budget.window_cycles if contract.miss_budget is not None else 0
    found = []
    if contract.require_new_sample_each_cycle:
        found.append(Forced(
            -(-supply_ns // cycle_ns) - 1, window - min(window, window * cycle_ns // supply_ns),
            f'a new sample comes every {text_ms(supply_ns)} and the consumer needs one every '
            f'{text_ms(cycle_ns)}'))
    if (contract.max_age_ns is not None
            and contract.delivery_semantics is DeliverySemantics.LATEST_STATE):
        gap_ns = supply_ns + runtime_ns - contract.max_age_ns
        in_a_row = max(0, -(-gap_ns // cycle_ns) - 1)
        found.append(Forced(
            in_a_row, min(window, -(-in_a_row * window * cycle_ns // supply_ns)),
            f'a result comes every {text_ms(supply_ns)}, is {text_ms(runtime_ns)} old at best and '
            f'worthless after {text_ms(contract.max_age_ns)}, so for {text_ms(max(0, gap_ns))} '
            f'each time there is none for a consumer that looks every {text_ms(cycle_ns)}'))
    return tuple(one for one in found if one.in_a_row > 0 or one.in_window > 0)
