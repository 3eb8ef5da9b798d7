"""What a run will take: the profile, unless reality is slower; and measured interference."""

from math import exp
from random import Random

import pytest
from vig_core.contract import MissBudget
from vig_core.estimate import (
    COLD_HORIZON_NS, HORIZON_NS, LONG_PAUSE_NS, MIN_RUNS, Occupancy, OCCUPANCY_HORIZON_NS,
    RuntimeBook, RuntimeWindow, WINDOW_RUNS,
)
from vig_core.interference import added_ns
from vig_core.units import ms, NS_PER_S
from virtual_server import model, system, variant

NOBODY = frozenset()
FIRST_MS = 3_000
"""Longer than anything else here: the first run of all trains nothing."""


def book(margin=110, contract=None, **options):
    """A book about one model with p50 10 and p99 20 that has run once, and its variant."""
    m = model('m', p50=10, p99=20, **(contract or {}))
    made = RuntimeBook(system(m, margin_percent=margin,
                              **{'learns_occupancy': True, **options}))
    made.observe(m.variants[0], ms(FIRST_MS), NOBODY, 0, ms(FIRST_MS))
    return made, m.variants[0]


def observe(made, only, runtime_ms, *, at_ns=0, neighbours=NOBODY):
    """Tell of a run that was dispatched with the plan of now."""
    made.look(at_ns)
    made.observe(only, ms(runtime_ms), neighbours, at_ns, made.plan_ns(only))


def test_before_any_run_the_plan_is_p99_times_the_margin():
    made, only = book()
    assert made.plan_ns(only) == ms(22)


def test_fast_runs_never_make_the_plan_more_optimistic_than_the_profile():
    made, only = book()
    for _ in range(200):
        observe(made, only, 1)
    assert made.plan_ns(only) == ms(22)


def test_slow_runs_raise_it_once_there_are_enough_of_them():
    made, only = book()
    for number in range(MIN_RUNS):
        assert made.plan_ns(only) == ms(22), number
        observe(made, only, 50)
    assert made.plan_ns(only) == ms(55)


def test_one_outlier_is_not_learned():
    made, only = book()
    for runtime in [10_000] + [15] * 30:
        observe(made, only, runtime)
    assert made.plan_ns(only) == ms(22)


def test_slow_runs_that_left_the_window_no_longer_count():
    made, only = book()
    for runtime in [50] * WINDOW_RUNS + [10] * WINDOW_RUNS:
        observe(made, only, runtime)
    assert made.plan_ns(only) == ms(22)


def test_slow_runs_of_long_ago_no_longer_count():
    made, only = book()
    for second in range(2 * MIN_RUNS):
        observe(made, only, 50, at_ns=second)
    made.forget_before(MIN_RUNS)
    assert made.plan_ns(only) == ms(55)
    made.forget_before(MIN_RUNS + 1)
    assert made.plan_ns(only) == ms(22)


def test_a_run_beside_a_measured_neighbour_does_not_train():
    made, only = book(interference_ns={('m_main', 'x'): ms(5)})
    for _ in range(50):
        observe(made, only, 90, neighbours=frozenset({'x'}))
    assert made.plan_ns(only) == ms(22)
    for _ in range(50):
        observe(made, only, 90, neighbours=frozenset({'y'}))
    assert made.plan_ns(only) == ms(99)


def test_a_backend_model_in_two_logical_ones_is_planned_with_the_slower_profile():
    shared = [variant('m', p50=10, p99=value) for value in (20, 30)]
    a, b = (model(name, variants=(each,)) for name, each in zip('ab', shared))
    made = RuntimeBook(system(a, b))
    assert made.plan_ns(shared[0]) == made.plan_ns(shared[1]) == ms(30)


def every(made, only, runtimes_ms, begin_ms, period_ms=33):
    """Tell of runs on a grid; gives the instant of the last in ns."""
    for index, runtime in enumerate(runtimes_ms):
        at_ns = ms(begin_ms + index * period_ms)
        observe(made, only, runtime, at_ns=at_ns)
    return at_ns


def test_a_measured_0_keeps_no_run_from_training():
    made, only = book(interference_ns={('m_main', 'x'): 0})
    for _ in range(MIN_RUNS):
        observe(made, only, 50, neighbours=frozenset({'x'}))
    assert made.plan_ns(only) == ms(55)


def test_the_first_run_of_all_is_no_estimate():
    m = model('m', p50=10, p99=20)
    made = RuntimeBook(system(m))
    made.observe(m.variants[0], ms(10_000), NOBODY, 0, ms(22))
    every(made, m.variants[0], [12] * MIN_RUNS, 100)
    assert made.plan_ns(m.variants[0]) == ms(20)


def test_what_comes_after_a_long_pause_trains_nothing_and_is_planned_after_the_next_pause():
    made, only = book()
    last_ns = every(made, only, [12] * 40, 100)
    cold_ns = last_ns + LONG_PAUSE_NS + ms(90)
    observe(made, only, 90, at_ns=cold_ns)
    assert made.plan_ns(only) == ms(22), 'warm again'
    last_ns = every(made, only, [12] * 40, cold_ns // 10**6 + 33)
    made.look(last_ns + LONG_PAUSE_NS - 1)
    assert made.plan_ns(only) == ms(22)
    made.look(last_ns + LONG_PAUSE_NS)
    assert made.plan_ns(only) == ms(99)
    observe(made, only, 12, at_ns=last_ns + LONG_PAUSE_NS + ms(50))
    assert made.plan_ns(only) == ms(22)


def test_a_cold_run_is_forgotten_so_that_it_locks_nothing_out_for_good():
    made, only = book()
    observe(made, only, 900, at_ns=LONG_PAUSE_NS + ms(900))
    made.look(2 * LONG_PAUSE_NS + ms(900))
    assert made.plan_ns(only) == ms(990)
    made.look(LONG_PAUSE_NS + ms(901) + COLD_HORIZON_NS)
    assert made.plan_ns(only) == ms(22)


def test_overruns_widen_the_margin_and_runs_within_the_plan_narrow_it():
    made, only = book()
    every(made, only, [15] * MIN_RUNS, 100)
    observe(made, only, 23, at_ns=ms(1000))
    assert made.margin_percent(only) == 110, 'one overrun is the credit of a quiet time'
    observe(made, only, 23, at_ns=ms(1000))
    assert made.margin_percent(only) == 120, '110 - 10 + 2 x 9.9, rounded up'
    every(made, only, [15] * 50, 1000, 1)
    assert made.margin_percent(only) == 115


def test_overruns_that_are_rarer_than_their_target_widen_nothing():
    made, only = book()
    for block in range(5):
        every(made, only, [15] * 120, 100 + 1300 * block, 10)
        observe(made, only, 23, at_ns=ms(1300 + 1300 * block))
        assert made.margin_percent(only) == 110


def test_no_margin_is_learned_before_there_are_enough_runs():
    made, only = book()
    every(made, only, [30] * MIN_RUNS, 100)
    assert made.margin_percent(only) == 110
    assert made.plan_ns(only) == ms(33), 'the observed quantile does it'


def test_the_margin_has_a_floor_and_a_ceiling():
    made, only = book()
    every(made, only, [15] * 60, 100, 10)
    assert made.margin_percent(only) == 110
    for index in range(30):
        observe(made, only, 1000 if index % 2 else 15, at_ns=ms(700 + index))
    assert made.margin_percent(only) <= 200


def test_a_miss_budget_says_how_many_overruns_are_acceptable():
    made, only = book(contract={'consumer_period_ns': ms(33),
                                'miss_budget': MissBudget(4, 100, 2)})
    every(made, only, [15] * MIN_RUNS, 100)
    observe(made, only, 23, at_ns=ms(1000))
    observe(made, only, 23, at_ns=ms(1000))
    every(made, only, [15] * 10, 1000, 1)
    assert made.margin_percent(only) == 116, '110 - 10 + 2 x 9.6 - 10 x 0.4, rounded up'


def test_a_contradicted_profile_is_40_points_wider_until_own_runs_replace_it():
    made, only = book()
    every(made, only, [15] * MIN_RUNS, 100)
    made.doubt('m_main', ms(800))
    assert (made.margin_percent(only), made.plan_ns(only)) == (150, ms(30))
    last_ns = every(made, only, [15] * 420, 800, 10)
    made.look(last_ns)
    assert made.plan_ns(only) == ms(22)


def test_without_runs_a_margin_narrows_by_time_so_that_it_locks_nothing_out_for_good():
    made, only = book()
    last_ns = every(made, only, [15] * MIN_RUNS, 100)
    made.doubt('m_main', last_ns)
    scarce_ns = ms(100) + HORIZON_NS
    made.look(scarce_ns)
    assert made.plan_ns(only) == ms(30)
    made.look(scarce_ns + 20 * NS_PER_S)
    assert made.plan_ns(only) == ms(26)
    made.look(scarce_ns + 40 * NS_PER_S)
    assert made.plan_ns(only) == ms(22)


def test_of_what_never_ran_it_narrows_a_tenth_as_fast():
    m = model('m', p50=10, p99=20)
    made = RuntimeBook(system(m))
    made.doubt('m_main', 0)
    made.look(100 * NS_PER_S)
    assert made.plan_ns(m.variants[0]) == ms(26)


def test_how_often_somebody_looks_changes_nothing():
    plans = []
    for step_ms in (1, 7, 1000, 60_000):
        made, only = book()
        last_ns = every(made, only, [15] * 30, 100)
        made.doubt('m_main', last_ns)
        for at_ms in range(last_ns // 10**6, 41_000, step_ms):
            made.look(ms(at_ms))
        made.look(ms(41_000))
        plans.append(made.plan_ns(only))
    assert len(set(plans)) == 1


def test_a_profile_that_reality_exceeds_twofold_is_called_wrong_and_no_margin_covers_it():
    made, only = book()
    every(made, only, [19] * 40, 100)
    assert made.remark(only) == ''
    every(made, only, [24] * 64, 2000)
    assert made.remark(only) == ('the profile of m_main is wrong: its median is 10.0 ms, that of '
                                 'the last runs 24.0 ms')
    wide = made.margin_percent(only)
    observe(made, only, 90, at_ns=ms(5000))
    assert made.margin_percent(only) <= wide


def test_the_share_of_overruns_comes_within_20_percent_of_its_target():
    draws, runs = Random(7), 40_000
    made, only = book()
    overruns = 0
    for index in range(runs):
        runtime_ns = round(ms(15) * exp(0.4 * draws.gauss(0, 1)))
        plan_ns = made.plan_ns(only)
        made.observe(only, runtime_ns, NOBODY, ms(100 + 33 * index), plan_ns)
        overruns += runtime_ns > plan_ns
    assert 0.8 <= overruns / runs / 0.01 <= 1.2


@pytest.mark.parametrize('percent, expected', [(50, 10), (95, 19), (99, 20), (100, 20)])
def test_quantiles_are_nearest_rank(percent, expected):
    window = RuntimeWindow()
    for value in reversed(range(1, 21)):
        window.add(value, 0)
    assert window.quantile_ns(percent) == expected


def test_interference_is_directed_and_never_summed():
    table = {('a', 'b'): 5, ('a', 'c'): 7, ('b', 'a'): 1}
    assert added_ns(table, 'a', ['b', 'c', 'x']) == 7
    assert added_ns(table, 'b', ['a']) == 1
    assert added_ns(table, 'c', ['a', 'b']) == 0
    assert added_ns(table, 'a', []) == 0


def observe_apart(made, only, *apart_ms, at_ns=0):
    """Tell of runs that took 20 ms and were answered that long after what they followed."""
    for each in apart_ms:
        made.observe(only, ms(20), NOBODY, at_ns, ms(22), apart_ns=ms(each))


def test_nothing_is_learned_of_occupancy_unless_the_file_asks_for_it():
    made, only = book(learns_occupancy=False)
    observe_apart(made, only, *[12] * (2 * MIN_RUNS))
    assert made.occupancy(only) is None


def test_how_long_a_slot_is_kept_is_unknown_before_there_are_enough_distances():
    made, only = book()
    observe_apart(made, only, *[12] * (MIN_RUNS - 1))
    assert made.occupancy(only) is None
    for _ in range(MIN_RUNS):
        observe(made, only, 20)
    assert made.occupancy(only) is None
    version = made.version
    observe_apart(made, only, 12)
    assert made.occupancy(only) == Occupancy(ms(12), ms(12))
    assert made.version > version


def test_a_slot_is_kept_for_p95_of_the_distances_without_a_margin():
    made, only = book(margin=150)
    observe_apart(made, only, *range(1, 21))
    assert made.occupancy(only) == Occupancy(ms(19), ms(10))
    assert made.plan_ns(only) == ms(30)


def test_distances_are_remembered_longer_than_runtimes():
    made, only = book()
    observe_apart(made, only, *[12] * MIN_RUNS, at_ns=HORIZON_NS)
    made.forget_before(HORIZON_NS + OCCUPANCY_HORIZON_NS - HORIZON_NS)
    assert made.occupancy(only) is not None
    made.forget_before(HORIZON_NS + OCCUPANCY_HORIZON_NS - HORIZON_NS + 1)
    assert made.occupancy(only) is None
