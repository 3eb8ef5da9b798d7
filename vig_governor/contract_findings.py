"""What is wrong about a contract that is being observed, in sentences. Knows nothing of ROS."""

from collections.abc import Iterator

from vig_core.model import Model
from vig_core.snapshot import StreamSnapshot


def contract_findings(model: Model, seen: StreamSnapshot, starved: int) -> Iterator[str]:
    """
    Say which promises of a stream's contract are broken at this moment.

    :param starved: how often its work starved lately.
    """
    budget = model.contract.miss_budget
    if budget is not None and seen.weakly_hard_violated:
        yield (f'its miss budget is broken: {seen.weakly_hard_misses} misses in a window of '
               f'{budget.window_cycles} cycles ({budget.max_misses} allowed), '
               f'{seen.weakly_hard_consecutive} in a row ({budget.max_consecutive} allowed)')
    if seen.is_background_short:
        yield (f'{seen.background_completed} of its last {seen.background_ended} requests were '
               f'completed, {seen.background_progress:.0%} where the contracts ask for '
               f'{seen.background_required_percent} %')
    if starved:
        yield (f'it starved: {starved} times its work had waited for a whole observation window '
               'and none of it started; a slot more, smaller pieces or a higher class would help')
