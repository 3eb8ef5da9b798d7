"""
Extra ticks change nothing, tried at every instant of many small worlds.

A decision that time alone can change and that nobody wakes for shows as a log that differs.
"""

from random import Random

from hypothesis import settings
import pytest
from small_worlds import small, tell
from worlds import relive

LENGTH = settings.default.max_examples
"""So many examples have the other laws."""


@pytest.mark.parametrize('kind, worlds, step_ns', [
    ('alone', 2 * LENGTH, 1), ('learned', LENGTH, 1), ('coupled', LENGTH, 1),
    ('rare', LENGTH // 4, 5)])
def test_a_tick_at_any_instant_changes_nothing(kind, worlds, step_ns):
    for seed in range(worlds):
        chance = Random(f'{kind} {seed}')
        with small(min_runs=chance.choice([1, 2, 20])):
            life = tell(chance, kind)
            ticked = relive(life, ticks=lambda begin_ns, end_ns: range(
                begin_ns + 1, end_ns, step_ns))
        assert ticked.log == life.log, f'world {seed}'
