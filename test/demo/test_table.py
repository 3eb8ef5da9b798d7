"""What the demo tells a person about its figures."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from vig_governor.demo import table
from vig_governor.demo.plan import DemoPlan, DemoStream, DemoVariant
from vig_governor.demo.report import StreamReport
from vig_governor.measure.runtime import RuntimeSamples


def stream(name, criticality, model, **changes):
    return DemoStream(**{
        'name': name, 'video': 'v', 'size': (4, 4), 'rate_hz': 30.0, 'criticality': criticality,
        'deadline_ms': 80, 'max_age_ms': 120, 'variants': (DemoVariant('only', model, 1.0),),
        'direct_model': model, 'draws': 'face', 'seed': 0, **changes})


def report(name, criticality, covered, **changes):
    return StreamReport(**{
        'stream': name, 'criticality': criticality, 'frames': 100, 'results': covered,
        'covered': covered, 'cycles': 100, 'longest_gap_ms': 0.0, 'age_p50_ms': 20.0,
        'age_p95_ms': 40.0, 'unusable_percent': 0.0,
        'reasons': {'completed': covered, 'superseded': 3}, 'variants': {'only': covered},
        **changes})


PLAN = DemoPlan((stream('face', 'protected', 'small'), stream('archive', 'best_effort', 'big')),
                ())


def profiles(big_ms):
    return {'small': RuntimeSamples('small', ((10_000_000,),)),
            'big': RuntimeSamples('big', ((big_ms * 1_000_000,),))}


def test_a_stream_that_cannot_fit_is_explained_with_both_figures():
    hint, = table.hints(PLAN, profiles(100),
                        [report('face', 'protected', 100), report('archive', 'best_effort', 0)])
    # 33 + 80 - 2 - 2 * 11 ms of room for a job planned with 110 ms.
    assert 'archive went short: a run is planned with 110 ms, and about 89 ms fit' in hint


@pytest.mark.parametrize('big_ms, covered', [(60, 0), (100, 90)])
def test_a_stream_that_fits_or_that_got_enough_is_not_explained(big_ms, covered):
    assert table.hints(PLAN, profiles(big_ms), [
        report('face', 'protected', 100), report('archive', 'best_effort', covered)]) == []


def test_the_verdict_names_the_guarded_streams_with_the_figures_of_both_runs():
    others = [report('street', 'normal', 50)]
    said = table.verdict([report('face', 'protected', 10, age_p95_ms=185.0), *others],
                         [report('face', 'protected', 99), *others])
    assert 'street' not in said
    assert 'face (protected)' in said
    assert '90 of 100 cycles' in said and '1 of 100 with the governor' in said
    assert '185 ms against 40 ms' in said


def test_the_comparison_shows_both_runs_of_every_stream_in_110_columns():
    output = io.StringIO()
    arms = {'direct': [report('face', 'protected', 10), report('archive', 'best_effort', 50)],
            'governed': [report('face', 'protected', 99), report('archive', 'best_effort', 0,
                                                                 age_p50_ms=None)]}
    Console(file=output, width=110).print(table.comparison(PLAN, arms, 'as it was'))
    shown = output.getvalue()
    assert shown.count('direct') == shown.count('governed') == 2
    assert '10.0 %' in shown and '99.0 %' in shown and 'superseded' in shown
    assert max(len(line) for line in shown.splitlines()) <= 110


def test_the_table_of_the_readme_has_its_columns_and_rows():
    readme = (Path(__file__).parents[2] / 'README.md').read_text(encoding='utf-8')
    said = table.markdown(
        DemoPlan((stream('face', 'protected', 'small'),
                  stream('archive', 'best_effort', 'big', max_age_ms=2000, rate_hz=5.0)), ()),
        [report('face', 'protected', 53), report('archive', 'best_effort', 100)],
        [report('face', 'protected', 97), report('archive', 'best_effort', 0)]).splitlines()
    assert '\n'.join(said[:2]) in readme
    assert said[2] == ('| face, 30 Hz | protected | ≤ 120 ms old, every 33 ms | 53 % '
                       '| **97 %** |')
    assert said[3] == ('| archive, 5 Hz | best effort | ≤ 2 s old, every 200 ms | 100 % | 0 % |')
    assert said[5] == ('Age of the results, p50 / p95: face 20 ms / 40 ms against '
                       '20 ms / 40 ms.')


def snapshot(**face):
    figures = {'rate_in_hz': 30.0, 'results': 5, 'coverage': None, 'age_p50_ms': None,
               'age_p95_ms': None, 'reasons': {}, 'variant': ''}
    return {'streams': {'face': {**figures, **face}, 'archive': figures}, 'idle_share': 0.25,
            'state': 'active'}


def test_the_live_table_shows_idle_drops_and_variant_on_a_terminal():
    output = io.StringIO()
    console = Console(file=output, width=120, force_terminal=True, color_system=None)
    with table.LiveView(console, PLAN, 'With the governor') as view:
        view.show(snapshot(coverage=0.987, age_p95_ms=41.2, reasons={'stale': 7},
                           variant='short'), 3.0, 20.0)
    shown = output.getvalue()
    for text in ('98.7 %', '41 ms', 'stale 7', 'short', '25.0 % of the time', '3 of 20 s'):
        assert text in shown


def test_without_a_terminal_there_is_a_plain_line_every_few_seconds():
    output = io.StringIO()
    with table.LiveView(Console(file=output, width=200), PLAN, 'With the governor') as view:
        for second in range(9):
            view.show(snapshot(coverage=0.5), float(second), 20.0)
    title, *lines = output.getvalue().splitlines()
    assert title == 'With the governor'
    assert [line[:8] for line in lines] == ['[   4 s]', '[   8 s]']
    assert 'face 50.0 % covered' in lines[0]
