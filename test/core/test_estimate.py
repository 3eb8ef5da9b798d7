"""What a run will take: the profile, unless reality is slower; and measured interference."""

import pytest
from vig_core.estimate import MIN_RUNS, RuntimeBook, RuntimeWindow, WINDOW_RUNS
from vig_core.interference import added_ns
from vig_core.units import ms
from virtual_server import model, system, variant

NOBODY = frozenset()


def book(margin=110, **options):
    """A book about one model with p50 10 and p99 20, and its variant."""
    m = model('m', p50=10, p99=20)
    return RuntimeBook(system(m, margin_percent=margin, **options)), m.variants[0]


def test_before_any_run_the_plan_is_p99_times_the_margin():
    made, only = book()
    assert made.plan_ns(only) == ms(22)


def test_fast_runs_never_make_the_plan_more_optimistic_than_the_profile():
    made, only = book()
    for _ in range(200):
        made.observe(only, ms(1), NOBODY, 0)
    assert made.plan_ns(only) == ms(22)


def test_slow_runs_raise_it_once_there_are_enough_of_them():
    made, only = book()
    for number in range(MIN_RUNS):
        assert made.plan_ns(only) == ms(22), number
        made.observe(only, ms(50), NOBODY, 0)
    assert made.plan_ns(only) == ms(55)


def test_one_outlier_is_not_learned():
    made, only = book()
    for runtime in [10_000] + [15] * 30:
        made.observe(only, ms(runtime), NOBODY, 0)
    assert made.plan_ns(only) == ms(22)


def test_slow_runs_that_left_the_window_no_longer_count():
    made, only = book()
    for runtime in [50] * WINDOW_RUNS + [10] * WINDOW_RUNS:
        made.observe(only, ms(runtime), NOBODY, 0)
    assert made.plan_ns(only) == ms(22)


def test_slow_runs_of_long_ago_no_longer_count():
    made, only = book()
    for second in range(2 * MIN_RUNS):
        made.observe(only, ms(50), NOBODY, second)
    made.forget_before(MIN_RUNS)
    assert made.plan_ns(only) == ms(55)
    made.forget_before(MIN_RUNS + 1)
    assert made.plan_ns(only) == ms(22)


def test_a_run_beside_a_measured_neighbour_does_not_train():
    made, only = book(interference_ns={('m_main', 'x'): ms(5)})
    for _ in range(50):
        made.observe(only, ms(90), frozenset({'x'}), 0)
    assert made.plan_ns(only) == ms(22)
    for _ in range(50):
        made.observe(only, ms(90), frozenset({'y'}), 0)
    assert made.plan_ns(only) == ms(99)


def test_a_backend_model_in_two_logical_ones_is_planned_with_the_slower_profile():
    shared = [variant('m', p50=10, p99=value) for value in (20, 30)]
    a, b = (model(name, variants=(each,)) for name, each in zip('ab', shared))
    made = RuntimeBook(system(a, b))
    assert made.plan_ns(shared[0]) == made.plan_ns(shared[1]) == ms(30)


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
