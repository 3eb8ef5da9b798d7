"""How a run is judged, on results made by hand (milliseconds)."""

import pytest

from vig_core.units import NS_PER_MS

from vig_governor.demo.plan import DemoStream
from vig_governor.demo.report import judge
from vig_governor.measure.supply import covered_cycles


def covered(results, *, end, period=10, max_age=15):
    return covered_cycles([(captured * NS_PER_MS, received * NS_PER_MS)
                           for captured, received in results],
                          start_ns=0, end_ns=end * NS_PER_MS, period_ns=period * NS_PER_MS,
                          max_age_ns=max_age * NS_PER_MS)


def test_a_cycle_without_any_result_is_uncovered():
    assert covered([], end=20) == (0, 3)


def test_a_result_covers_the_cycles_from_its_reception_until_it_is_too_old():
    # Received at 12: missing at 0 and 10, age 15 at 20 is just good enough, age 25 at 30 is not.
    assert covered([(5, 12)], end=30) == (1, 4)


def test_a_result_received_at_the_very_instant_counts():
    assert covered([(5, 10)], end=10) == (1, 2)


def test_an_older_capture_that_comes_later_does_not_replace_the_newest():
    assert covered([(8, 10), (1, 19)], end=20) == (2, 3)


def stream(**changes):
    return DemoStream(**{'name': 'face', 'video': 'v', 'size': (4, 4), 'rate_hz': 100.0,
                         'criticality': 'protected', 'deadline_ms': 10, 'max_age_ms': 15,
                         'variants': (), 'direct_model': 'm', 'draws': 'face', 'seed': 0,
                         **changes})


def test_only_captures_of_the_span_are_judged():
    notes = {'results': [(ms * NS_PER_MS, (ms + age) * NS_PER_MS)
                         for ms, age in ((0, 5), (10, 5), (20, 25), (30, 5))],
             'statuses': [(10 * NS_PER_MS, 'completed', 'full', 5, 0, 5),
                          (20 * NS_PER_MS, 'stale', '', 5, 5, 0),
                          (30 * NS_PER_MS, 'completed', 'full', 5, 0, 5)]}
    captures = [(ms * NS_PER_MS, 0, 0) for ms in (0, 10, 20, 30)]
    report = judge(stream(), notes, captures, start_ns=10 * NS_PER_MS, end_ns=30 * NS_PER_MS)
    assert (report.frames, report.results) == (2, 2)
    assert report.reasons == {'completed': 1, 'stale': 1}
    assert report.variants == {'full': 1}
    assert (report.age_p50_ms, report.age_p95_ms) == (5, 25)
    assert report.unusable_percent == 50


def test_a_stream_without_results_has_no_age_and_no_coverage():
    report = judge(stream(), {'results': [], 'statuses': []}, [], start_ns=0,
                   end_ns=30 * NS_PER_MS)
    assert report.age_p50_ms is None
    assert report.coverage_percent == pytest.approx(0)
