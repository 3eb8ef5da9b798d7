"""Release points of a cell: each is counted once, late ones are not caught up, bad cells go."""

import pytest
from vig_core.units import NS_PER_MS, NS_PER_US

from vig_governor.measure.cells import clock_resolution_ns, measure_cell
from vig_governor.measure.exchange import Exchange, MeasurementFailed
from vig_governor.measure.profiling import MeasuredProfile


class Stage:
    """A clock and a server in one: request k takes ``runtimes_ms[k]``; ``None`` fails."""

    def __init__(self, runtimes_ms, wakes_late_ms=0):
        self.runtimes_ms = runtimes_ms
        self.now = 1000
        self.late_ns = wakes_late_ms * NS_PER_MS
        self.sent_at_ms = []

    def now_ns(self):
        return self.now

    def wait_until(self, instant_ns):
        self.now = max(self.now, instant_ns) + self.late_ns

    def send(self, point):
        began = self.now
        self.sent_at_ms.append((began - 1000) / NS_PER_MS)
        runtime = self.runtimes_ms[point % len(self.runtimes_ms)]
        self.now += (runtime or 1) * NS_PER_MS
        return Exchange(began, self.now, '' if runtime else 'it said no')


def cell_of(stage, points, period_ms=None):
    return measure_cell('m', 0, stage.send, stage, points=points, on_point=lambda: None,
                        period_ns=None if period_ms is None else period_ms * NS_PER_MS)


def counters(cell):
    return cell.ok, cell.overrun, cell.failed, cell.skipped


def test_back_to_back_every_answer_is_ok_however_long_it_took():
    cell = cell_of(Stage([5, 50]), 4)
    assert counters(cell) == (4, 0, 0, 0)
    assert [each // NS_PER_MS for each in cell.durations_ns] == [5, 50, 5, 50]


def test_the_grid_is_absolute_and_what_passed_is_skipped_not_caught_up():
    stage = Stage([5, 25, 5, 5, 5, 5])
    cell = cell_of(stage, 6, period_ms=10)
    assert stage.sent_at_ms == [0, 10, 40, 50]
    assert counters(cell) == (3, 1, 0, 2)
    assert cell.release_points == 6


def test_the_runtime_of_an_overrun_counts():
    assert max(cell_of(Stage([5, 25]), 2, period_ms=10).durations_ns) == 25 * NS_PER_MS


def test_a_failure_is_neither_ok_nor_a_runtime():
    cell = cell_of(Stage([5, None, 5]), 3, period_ms=10)
    assert counters(cell) == (2, 0, 1, 0)
    assert len(cell.durations_ns) == 2


@pytest.mark.parametrize('runtimes', [[1], [9], [10], [11], [35, None, 3], [100]])
@pytest.mark.parametrize('period_ms', [None, 10])
def test_the_four_counters_always_add_up(runtimes, period_ms):
    assert cell_of(Stage(runtimes), 50, period_ms).release_points == 50


def test_late_releases_are_told():
    assert cell_of(Stage([5], wakes_late_ms=2), 3, 10).latest_release_ns == 2 * NS_PER_MS


def test_a_good_cell_is_kept():
    assert cell_of(Stage([5]), 20).judged(50).is_kept


@pytest.mark.parametrize('runtimes, points, words', [
    ([5], 19, '19 answers, at least 20'),
    ([5] * 18 + [None] * 2, 40, '4 of 40 requests failed'),
])
def test_a_cell_that_says_too_little_is_thrown_away_with_the_reason(runtimes, points, words):
    cell = cell_of(Stage(runtimes), points).judged(50)
    assert not cell.is_kept
    assert words in '; '.join(cell.reasons)


def test_runtimes_that_the_clock_cannot_resolve_are_thrown_away():
    reasons = cell_of(Stage([1]), 20).judged(20 * NS_PER_US).reasons
    assert 'less than 100 steps of the clock' in reasons[0]


def test_a_change_on_the_machine_throws_the_cell_away():
    cell = cell_of(Stage([5]), 20).judged(50, ('cores online changed from 0-3 to 0-1',))
    assert cell.reasons == ('cores online changed from 0-3 to 0-1',)


def test_a_coarse_clock_is_refused_before_anything_is_measured():
    readings = iter(range(0, 10**9, 15 * NS_PER_US))
    with pytest.raises(MeasurementFailed, match='in steps of 15 us'):
        clock_resolution_ns(lambda: next(readings))
    with pytest.raises(MeasurementFailed, match='does not move'):
        clock_resolution_ns(lambda: 7)


def test_the_clock_of_this_machine_is_fine_enough():
    assert 0 < clock_resolution_ns() <= 10 * NS_PER_US


def profile(*cells):
    return MeasuredProfile('m', tuple(cell.judged(50) for cell in cells))


def test_below_100_samples_in_a_run_no_p99_is_claimed():
    few, enough = cell_of(Stage([5]), 99), cell_of(Stage([5]), 100)
    assert profile(enough, enough).quantile_ns(99) == 5 * NS_PER_MS
    assert profile(enough, few).quantile_ns(99) is None
    assert profile(enough, few).quantile_ns(95) == 5 * NS_PER_MS
    assert not profile(enough, few).is_complete


def test_a_run_that_was_thrown_away_counts_nowhere():
    bad = cell_of(Stage([50, 50, None]), 120)
    made = profile(bad, cell_of(Stage([5]), 100))
    assert made.quantile_ns(99) == 5 * NS_PER_MS
    assert made.samples == 100


def test_without_a_kept_run_there_is_no_profile():
    assert profile(cell_of(Stage([None]), 120)).quantile_ns(50) is None
