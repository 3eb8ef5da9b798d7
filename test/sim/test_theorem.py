"""
The look-ahead's theorem, searched in the simulator.

Within its assumptions no frame is older than ``2 J + D`` at delivery and none is lost; the bound
is reached; and without any one of the assumptions (and with all others) it can break. Of "one
slot" the search found no counterexample: with two, the bound held in every case.
"""

from dataclasses import replace
from random import Random

import pytest
from theorem_cases import breaks, draw, worst_age
from vig_core.contract import Criticality

CASES = range(300)


def test_no_case_within_the_assumptions_breaks_the_bound():
    assert [seed for seed in CASES if breaks(draw(seed))] == []


def test_the_search_reaches_the_bound_exactly():
    slack = [draw(seed).bound - worst_age(draw(seed)) for seed in range(100)]
    assert min(slack) == 0


def rivals(case, chance):
    return replace(case, rival=Criticality.PROTECTED)


def more_jitter(case, chance):
    return replace(case, shifts=tuple(chance.choice([-1, 1]) * (case.jitter + 3)
                                      for _ in case.shifts))


def varying_transport(case, chance):
    return replace(case, delays=tuple(chance.choice([0, 4]) for _ in case.shifts))


def overruns(case, chance):
    return replace(case, actual=1.2 * case.plan)


def an_early_job(case, chance):
    return replace(case, jobs=((case.captures[0] - 1, 2 * case.period), *case.jobs))


def too_short_a_deadline(case, chance):
    return replace(case, deadline=case.plan + case.transport - 0.5)


def too_long_a_runtime(case, chance):
    plan = case.period - 2 * case.jitter + 1
    deadline = max(case.deadline, plan + case.transport)
    return replace(case, plan=plan, deadline=deadline, max_age=deadline + 2 * case.jitter + 5)


def too_long_a_deadline(case, chance):
    deadline = case.period + case.plan + case.transport + 5 - 2 * case.jitter
    return replace(case, deadline=deadline, max_age=deadline + 2 * case.jitter + 5)


def too_small_an_age(case, chance):
    return replace(case, max_age=case.bound - 0.5)


@pytest.mark.parametrize('name, spoil', [
    ('nothing else above normal', rivals),
    ('jitter within the envelope', more_jitter),
    ('constant transport', varying_transport),
    ('runtimes within plan', overruns),
    ('no background before the first arrival', an_early_job),
    ('C + delta <= D', too_short_a_deadline),
    ('C + 2 J <= T', too_long_a_runtime),
    ('D + 2 J < T + C + delta', too_long_a_deadline),
    ('2 J + D <= A', too_small_an_age)])
def test_without_one_assumption_the_bound_can_break(name, spoil):
    spoiled = (spoil(draw(seed), Random(seed)) for seed in range(400))
    assert any(breaks(case) for case in spoiled
               if case.broken() == {name} and case.deadline > 0)
