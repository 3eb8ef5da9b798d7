"""How the benchmark of generative jobs judges an arm, and what its report says of it."""

from dataclasses import replace

from benchmark.cooperative import picture, report
from benchmark.cooperative.__main__ import rate_of
from benchmark.cooperative.arms import Grid
from benchmark.cooperative.costs import Costs
from benchmark.cooperative.record import Ended, judge, Record
from benchmark.cooperative.stage import CAMERA, CONFIG, WRITER

import pytest

from vig_governor.config import load_config

MS, S = 10**6, 10**9
COSTS = Costs(90_000, 99_000, 10_000, 50.0, 0.0, 5000.0, 9000, 9500, {})
FACTS = {'processor': 'p', 'machine': 'm', 'cores': 2, 'python': '3', 'load_1min': 0.0}


def arm(name, answers, quanta, coverage=100, slots=1):
    """Judge an arm of 10 cycles of which so many percent have a fresh result."""
    record = Record()
    for cycle in range(10):
        if cycle < coverage // 10:
            record.delivered(cycle * 100 * MS, cycle * 100 * MS)
    for _ in range(answers):
        record.ended(Ended(1, 'completed', 24, quanta))
    return judge(record, name, slots, 10.0, range(0, S, 100 * MS), 50 * MS)


def results(*arms, slots=1):
    """Make what a run writes."""
    return {'conditions': FACTS, 'costs': {str(slots): COSTS.as_json()}, 'seconds': 30,
            'arms': [one.as_json() for one in arms], 'max_tokens': 24, 'camera': CAMERA,
            'writer': WRITER}


def test_a_cycle_is_covered_while_the_newest_delivered_result_is_young():
    record = Record()
    record.delivered(0, 10 * MS)
    record.delivered(300 * MS, 320 * MS)
    outcome = judge(record, 'cut', 1, 10.0, range(50 * MS, 450 * MS, 100 * MS), 100 * MS)
    # Judged at 50, 150, 250 and 350: the first and the last have a result of at most 100 ms.
    assert outcome.coverage == 50
    assert outcome.longest_gap_ms == 200


def test_only_whole_answers_are_answers_and_their_tokens_count():
    record = Record()
    record.ended(Ended(10 * MS, 'completed', 24, 3))
    record.ended(Ended(20 * MS, 'infeasible', 7, 1))
    outcome = judge(record, 'cut', 1, 10.0, range(0, 100 * MS, 100 * MS), 100 * MS)
    assert (outcome.answers, outcome.tokens, outcome.quanta) == (1, 24, 3)
    assert outcome.refused == {'infeasible': 1}


def test_what_ends_outside_of_the_window_of_the_coverage_counts_nothing():
    record = Record()
    for at_ns in (99 * MS, 100 * MS, 299 * MS, 300 * MS):
        record.ended(Ended(at_ns, 'completed', 24, 1))
        record.ended(Ended(at_ns, 'capacity'))
    outcome = judge(record, 'cut', 1, 10.0, range(100 * MS, 300 * MS, 100 * MS), 100 * MS)
    assert (outcome.answers, outcome.tokens, outcome.refused) == (2, 48, {'capacity': 2})


def test_the_camera_runs_alone_before_the_window_and_each_cycle_of_it_has_a_capture():
    grid, captured = Grid(10 * MS, 0.05), []
    grid.start()
    window = grid.window
    grid.run(captured.append)
    assert len(window) == 5
    assert sum(instant_ns >= window.start for instant_ns in captured) == 5
    assert window.start - captured[0] > S


@pytest.mark.parametrize('whole_ms, periods, rate_hz', [
    (400, 2, 5), (399, 2, 10), (400, 4, 10), (140, 2, 15), (140, 4, 30), (50, 4, 30)])
def test_the_camera_is_as_fast_as_a_text_in_one_piece_is_long(whole_ms, periods, rate_hz):
    assert rate_of(periods, 1000 * whole_ms) == rate_hz


def test_the_trade_is_met_by_twenty_answers_for_one_and_few_points_of_coverage():
    text = report.text(results(arm('whole', 1, 1), arm('cut', 20, 3)))
    assert '1 slot, 10 Hz: 20.0 answers for each one in one piece, for +0.0 points' in text
    # Two requests more for each answer are 20 ms, on 490 ms.
    assert 'the requests more cost 4.1 % of the same answers whole' in text
    assert 'the published trade (20 for one, at most 7 points) is met' in text


def test_too_few_answers_or_too_much_coverage_is_said_with_the_arithmetic():
    for cut in (arm('cut', 19, 3), arm('cut', 40, 3, coverage=90)):
        text = report.text(results(arm('whole', 1, 1), cut))
        # 100 ms less the frame and the request are 81 ms, of 20 ms for each token.
        assert 'not met: between two frames 91 ms are free, which hold 4 tokens' in text
        assert 'at most 50 answers in 30 s' in text


def test_answers_shorter_than_the_bound_are_counted_as_long_as_they_are():
    cut = replace(arm('cut', 10, 3), tokens=120)
    assert 'at most 100 answers in 30 s' in report.text(results(arm('whole', 1, 1), cut))


def test_where_a_text_fits_between_two_frames_the_report_says_so():
    one = results(arm('whole', 40, 1), arm('cut', 40, 1)) | {'max_tokens': 4}
    assert ('4 tokens in one piece take 90 ms and fit between two frames, which leave 91: none '
            'need be cut') in report.text(one)


def test_a_whole_arm_without_any_answer_counts_as_one():
    assert report.is_met(arm('cut', 20, 3), arm('whole', 0, 0))
    assert not report.is_met(arm('cut', 19, 3), arm('whole', 0, 0))


def test_with_a_slot_for_each_the_report_says_that_cutting_is_not_needed():
    text = report.text(results(arm('whole', 40, 1, slots=2), arm('cut', 40, 1, slots=2), slots=2))
    assert 'no text need be cut: in one piece 40 are written' in text


def test_the_file_of_an_arm_is_valid_and_plans_with_what_was_measured(tmp_path):
    costs = replace(COSTS, interference_us={CAMERA: 3000, WRITER: 0})
    (tmp_path / 'vig.yaml').write_text(CONFIG.format(
        endpoint='localhost:1', slots=2, camera=CAMERA, writer=WRITER, period_ms=100.0,
        deadline_ms=80.0, age_ms=150.0, max_tokens=24, split='true',
        interference=costs.interference(), **costs.figures()))
    system = load_config(tmp_path / 'vig.yaml', require_profiles=True).system
    assert system.interference_ns[CAMERA, WRITER] == 3 * MS
    assert system.models['writer'].cooperative.per_token_ns == 20 * MS


def test_the_picture_is_drawn_from_what_a_run_writes(tmp_path):
    picture.draw(tmp_path / 'answers.png', results(arm('direct', 9, 1), arm('cut', 20, 3)))
    assert (tmp_path / 'answers.png').stat().st_size > 1000
