"""How a live cell is judged and cells become figures, on records made by hand (milliseconds)."""

import json
import os
import subprocess
import sys

from benchmark.live import judge, report
from benchmark.live.machine import between, look, Share, Usage
from benchmark.live.summary import Summary
import pytest

from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.measure.supply import fresh_ns

QUIET = Share({}, 0.0, 0.0)


def ms(*values):
    return [value * NS_PER_MS for value in values]


def judged(results, statuses=(), log=(), windows=(), start=0, end=100):
    need = judge.Need('protected', True, 10 * NS_PER_MS, 20 * NS_PER_MS,
                      tuple(tuple(ms(*window)) for window in windows))
    return judge.judge_stream(
        need, {'results': [ms(*result) for result in results],
               'statuses': [[*ms(stamp), reason] for stamp, reason in statuses]},
        [ms(stamp, 0) for stamp in log], judge.Span(0, *ms(start, end)))


def test_cycles_without_a_fresh_result_are_counted_from_the_start_of_the_span_on():
    found = judged([(0, 5), (10, 15), (60, 65)], start=10, end=100)
    # Cycles at 10 .. 100. Fresh: 10, 20, 30 from the first two; 70, 80 from the third.
    assert found['uncovered_at_phase_0_permille'] == 500.0


def test_the_cycles_of_consumers_at_eight_phases_count():
    # One result each period, received 9 ms after its capture and useless 10 ms after it: of the
    # phases 0, 1.25, 2.5 .. 8.75 ms after a capture none is covered but phase 0.
    frames = [(at, at + 9) for at in range(-10, 100, 10)]
    need = judge.Need('protected', True, 10 * NS_PER_MS, 10 * NS_PER_MS)
    found = judge.judge_stream(need, {'results': [ms(*frame) for frame in frames],
                                      'statuses': []}, [], judge.Span(0, 0, ms(99)[0]))
    assert (found['cycles'], found['uncovered_permille']) == (80, 875.0)
    assert found['uncovered_at_phase_0_permille'] == 0.0


def test_the_longest_gap_runs_from_the_end_of_one_supply_to_the_next_delivery():
    assert judged([(0, 5), (60, 65)])['longest_gap_ms'] == 45.0


def test_stale_time_does_not_depend_on_the_cycles():
    assert judged([(0, 5), (60, 65)])['stale_time_permille'] == 700.0


def test_of_a_camera_in_bursts_only_its_bursts_count():
    found = judged([], windows=[(20, 60)])
    # From 20 on, one period later, the windows begin at 30: cycles at 40, 50, 60.
    assert (found['cycles'], found['longest_gap_ms']) == (3 + 7 * 2, None)


def test_a_frame_whose_end_nobody_tells_is_lost():
    found = judged([(0, 5)], statuses=[(0, 'completed'), (10, 'superseded')], log=(0, 10, 20, 30))
    assert found['ends'] == {'completed': 1, 'superseded': 1, 'lost': 2}


def test_a_result_that_overtakes_another_does_not_add_fresh_time_twice():
    assert fresh_ns([ms(10, 15), ms(5, 18)], start_ns=0, end_ns=ms(100)[0],
                    max_age_ns=ms(20)[0]) == ms(15)[0]


def status(streams=None, share=QUIET, late=0, frames=100, planned=100):
    streams = streams or {'s': {'ends': {'completed': 100}, 'results': 100, 'frames': 100}}
    return judge.status_of(streams, share, [[ms(0, late)] * frames], planned)[0]


def test_a_cell_on_a_quiet_machine_is_valid():
    assert status() == 'valid'


@pytest.mark.parametrize('change, name', [
    ({'share': Share({}, 40.0, 0.0)}, 'disturbed'),
    ({'share': Share({}, 0.0, 9.0)}, 'disturbed'),
    ({'frames': 60}, 'incomplete'),
    ({'streams': {'s': {'ends': {'backend_failed': 1}, 'results': 9, 'frames': 9}}}, 'broken'),
    ({'streams': {'s': {'ends': {'stale': 9}, 'results': 0, 'frames': 9}}}, 'broken'),
])
def test_whatever_makes_a_cell_doubtful_is_named(change, name):
    assert status(**change) == name


def test_cameras_that_the_arm_itself_made_late_are_named_and_disturb_nothing():
    streams = {'s': {'ends': {'completed': 100}, 'results': 100, 'frames': 100}}
    assert judge.status_of(streams, QUIET, [[ms(0, 30)] * 100], 100) == (
        'valid', ['the cameras were late by 30.0 ms (p99)'])


def test_the_processor_time_of_children_that_have_ended_is_ours():
    before = look()
    subprocess.run([sys.executable, '-c',
                    'import time\nwhile time.process_time() < 0.4: pass'], check=True)
    after = look()
    assert after.parts_s['all'] - before.parts_s['all'] >= 0.39


def test_processor_time_that_is_not_ours_is_foreign():
    share = between(Usage(0.0, {'governor': 1.0, 'bench': 1.0}, 10.0, 0.0),
                    Usage(10.0, {'governor': 2.0, 'bench': 1.0}, 15.0, 0.0))
    assert share.parts_percent['governor'] == 10.0
    assert share.foreign_percent == pytest.approx(100 * 4.0 / 10.0 / os.cpu_count())


def stream(uncovered, criticality='protected'):
    return {'class': criticality, 'uncovered_permille': uncovered, 'age_p50_ms': 1.0,
            'age_p95_ms': 2.0, 'age_p99_ms': 3.0, 'results_per_s': 30.0, 'longest_gap_ms': 4.0,
            'ends': {'completed': 5, 'stale': 1}}


def cell(arm, detector, pose=0.0, *, point='ramp-110', load=1100, repeat=1, status='valid',
         cpu=10.0):
    return {'point': point, 'workload': 'ramp', 'load_permille': load, 'arm': arm,
            'repeat': repeat, 'status': status, 'reasons': [], 'frames_per_s': 60.0,
            'streams': {'detector': stream(detector), 'pose': stream(pose, 'high')},
            'node': {'decision_p50_us': 50.0, 'decision_p99_us': 99.0}, 'between_percent': cpu,
            'background_permille': None, 'accelerator_busy_percent': 90.0}


def four(detector, pose=(0.0, 0.0, 0.0, 0.0), **options):
    arms = ('direct, depth 1', 'direct, depth 8', 'newest only', 'governor')
    return [cell(arm, *values, **options) for arm, *values in zip(arms, detector, pose)]


def verdicts(cells):
    return [aim.verdict for aim in Summary(cells).aims()]


def test_the_direct_depth_with_the_better_protected_stream_counts():
    assert Summary(four((300, 900, 0, 0))).best_direct('ramp-110') == 'direct, depth 1'


def test_equal_protection_is_decided_by_the_worst_stream():
    cells = four((300, 300, 0, 0), (700, 600, 0, 0))
    assert Summary(cells).best_direct('ramp-110') == 'direct, depth 8'


def test_the_factors_are_met_and_missed():
    assert verdicts(four((300, 900, 100, 10))) == ['met', 'met', 'met']
    assert verdicts(four((300, 900, 90, 16))) == ['missed', 'missed', 'met']


def test_below_saturation_no_stream_may_lose():
    assert verdicts(four((0, 0, 0, 0), (1, 9, 0, 6), point='ramp-90', load=900)) == ['met', 'met']
    assert verdicts(four((0, 0, 0, 0), (1, 9, 0, 7), point='ramp-90', load=900))[0] == 'missed'


def test_the_share_of_a_core_is_an_aim():
    assert verdicts(four((300, 900, 100, 10), cpu=15.0))[-1] == 'missed'


def test_medians_are_over_all_cells_that_have_figures():
    cells = [cell('governor', value, repeat=repeat, status=status) for repeat, value, status in (
        (1, 1.0, 'valid'), (2, 9.0, 'disturbed'), (3, 2.0, 'valid'))]
    cells.append({**cell('governor', 0.0, repeat=4, status='broken'), 'streams': {}})
    summary = Summary(cells)
    assert summary.uncovered('ramp-110', 'governor', 'detector') == 2.0
    assert summary.statuses('ramp-110', 'governor') == {'valid': 2, 'disturbed': 1, 'broken': 1}


def test_losers_are_named_with_the_arm_that_does_better():
    assert Summary(four((300, 900, 100, 10), (0, 0, 50, 800))).losers() == [
        'ramp-110 %: pose (high) 800.0 ‰ against 0.0 ‰ with direct, depth 1']


def test_an_interrupted_run_can_be_reported(tmp_path):
    results = {'cells': [*four((300, 900, 100, 10))[:2],
                         {**cell('governor', 0.0, status='incomplete'), 'streams': {}}]}
    report.write(tmp_path, results)
    assert len(json.loads((tmp_path / 'results.json').read_text())['cells']) == 3
    assert '1 incomplete' in report.text(results)
    report.write(tmp_path, {'cells': []})


def test_the_report_says_what_the_governor_measured_of_itself():
    assert 'decision 50/99' in report.text({'cells': four((300, 900, 100, 10))})


def test_only_diagnostics_of_the_judged_span_count():
    span = judge.Span(0, NS_PER_S, 3 * NS_PER_S)
    entries = [{'received': at * NS_PER_S // 2, 'deliberate_idle_ms': str(idle),
                'decision_p50_us': '7', 'config': 'x'}
               for at, idle in ((1, 0), (2, 100), (4, 300), (8, 900))]
    assert judge.node_figures(entries, span) == {
        'decision_p50_us': 7.0, 'deliberate_idle_percent': 20.0}
