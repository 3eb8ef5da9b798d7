"""What a person sees of the second scene: growing text, table, sentences, picture (ms)."""

import io
import re

import cv2
import pytest
from rich.console import Console

from vig_core.units import NS_PER_MS

from vig_governor.demo import text_view
from vig_governor.demo.arms import Arm
from vig_governor.demo.plan import DemoPlan, DemoStream, DemoVariant, DemoWriter
from vig_governor.demo.report import StreamReport
from vig_governor.demo.text_report import TextReport
from vig_governor.demo.text_timeline import direct_panel, draw_text_timeline, join, one_at_a_time
from vig_governor.demo.timeline import Life
from vig_governor.demo.writer_costs import WriterCosts

PLAN = DemoPlan(
    (DemoStream('face', 'v', (4, 4), 5, 'protected', 100, 300, (DemoVariant('only', 'm', 1.0),),
                'm', 'face', seed=0),), (),
    DemoWriter('assistant', 'writer', '{prompt}', ('one?',), max_tokens=48, deadline_ms=5000,
               max_age_ms=10_000))
LONG = 'The forest was a vast, ancient, and mysterious realm, where the trees stood as sentinels.'


def camera(covered, **changes):
    return StreamReport(**{
        'stream': 'face', 'criticality': 'protected', 'frames': 70, 'results': covered,
        'covered': covered, 'cycles': 70, 'longest_gap_ms': 1208.0, 'age_p50_ms': 20.0,
        'age_p95_ms': 940.0, 'unusable_percent': 0.0, 'reasons': {}, 'variants': {}, **changes})


def text(answers, requests, refused=()):
    return TextReport(answers, 25 * answers, requests, 1239.0 if answers else None,
                      dict(refused), 0)


def snapshot(said, reason='', stalest_ms=215.0, **changes):
    return {'streams': {'face': {'coverage': 0.987, 'stalest_ms': stalest_ms}}, 'text': {
        'answers': 3, 'tokens': 61, 'refused': {}, 'refusal': '', 'exchanges': 4,
        'shown': [{'question': 'Why?', 'text': said, 'tokens': 18, 'requests': 3,
                   'reason': reason}], **changes}}


def shown_in_a_pipe(width, *snapshots):
    output = io.StringIO()
    with text_view.TextView(Console(file=output, width=width), PLAN, 'With the governor') as view:
        for second, each in enumerate(snapshots, 1):
            view.show(each, float(second), 20.0)
    return output.getvalue().splitlines()


def shown_on_a_terminal(each):
    output = io.StringIO()
    console = Console(file=output, width=80, force_terminal=True, color_system=None)
    with text_view.TextView(console, PLAN, 'With the governor') as view:
        view.show(each, 3.0, 20.0)
    return re.sub(r'\x1b\[[?0-9;]*[A-Za-z]', '', output.getvalue())


@pytest.mark.parametrize('width', [80, 110])
def test_without_a_terminal_each_second_has_a_line_of_80_columns_with_the_end_of_the_text(width):
    title, *lines = shown_in_a_pipe(width, snapshot(''), snapshot('The forest'), snapshot(LONG))
    assert title == 'With the governor'
    assert [line[:9] for line in lines] == ['[ 1.0 s] ', '[ 2.0 s] ', '[ 3.0 s] ']
    assert 'face at most  215 ms old' in lines[0] and lines[0].endswith('(Why?)')
    assert lines[1].endswith('3 answers: The forest')
    assert lines[2].endswith(' stood as sentinels.') and '…' in lines[2]
    assert max(map(len, lines)) <= 80


def test_a_camera_without_a_result_yet_has_no_age():
    assert 'face at most       - old' in shown_in_a_pipe(80, snapshot('', stalest_ms=None))[1]


def test_on_a_terminal_the_text_grows_beside_the_freshness_in_80_columns():
    shown = shown_on_a_terminal(snapshot(LONG[:59]))
    for words in ('face, 5 Hz, protected', '215 ms old', '98.7 %', '3 answers with 61 tokens',
                  '? Why?', LONG[:59] + '▌', '3 of 20 s'):
        assert words in shown
    assert 'no answer' not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_on_a_terminal_an_answer_and_a_refusal_say_what_they_are():
    assert '(18 tokens, 3 requests)' in shown_on_a_terminal(snapshot('Because.', 'completed'))
    shown = ' '.join(shown_on_a_terminal(snapshot(
        'Bec', 'stale', refused={'stale': 2}, refusal='too old by 3 ms')).split())
    for words in ('no answer: stale 2', 'Bec (no answer: stale)', 'last refusal: too old by 3 ms'):
        assert words in shown


@pytest.mark.parametrize('width', [80, 110])
def test_the_table_has_both_runs_in_80_columns(width):
    output = io.StringIO()
    Console(file=output, width=width).print(text_view.comparison(
        PLAN, {'direct': camera(10), 'governed': camera(70, longest_gap_ms=0.0)},
        {'direct': text(13, 13), 'governed': text(0, 0, {'infeasible': 2})}, 'as it was'))
    shown = output.getvalue()
    for words in ('14.3 %', '100.0 %', '1208 ms', '325', '1239 ms', ' 2 │'):
        assert words in shown
    assert '…' not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_verdict_has_the_figures_of_both_runs():
    said = text_view.verdict({'direct': camera(10), 'governed': camera(70)},
                             {'direct': text(13, 13), 'governed': text(11, 66)})
    assert '60 of 70 cycles when both go straight to the server, 0 of 70 with' in said
    assert '13 answers against 11, these in 66 requests' in said


def test_who_got_no_answer_is_told_why_in_the_last_words_of_the_governor():
    exchanges = [{'reason': reason, 'detail': f'because of {number}'} for number, reason
                 in enumerate(['stale', 'completed', 'infeasible', 'stale', 'completed', ''])]
    assert text_view.refusals('governed', {'exchanges': exchanges}) == [
        'governed, without an answer: stale 2, infeasible 1. The last one: because of 3']
    assert text_view.refusals('direct', {'exchanges': exchanges[4:]}) == []


def test_answers_are_given_to_be_read_and_texts_that_broke_off_are_not():
    record = {'exchanges': [
        {'question': 'a?', 'reason': 'stale', 'parts': [[0, 'Bro', 1, 1]]},
        {'question': 'b?', 'reason': 'completed', 'parts': [[0, 'It ', 1, 1], [1, 'is.', 2, 2]]},
        {'question': 'c?', 'reason': 'completed', 'parts': [[0, 'Yes.', 2, 1]]}]}
    assert text_view.samples(record, 1) == ['"b?" It is. (2 requests)']


@pytest.mark.parametrize('base_us, said', [
    # 200 - 20 ms; each piece is planned with 110 % and a spread of 1.2: n * 20 ms * 1.32.
    (0, 'face at 5 Hz 180 ms are free, as it is planned: about 6 tokens in one piece'),
    (130_000, 'not even one token (198 ms)')])
def test_the_room_between_two_frames_is_told_with_its_figures(base_us, said):
    costs = WriterCosts(100_000, 120_000, base_us, 50.0, 0.0, 2000.0)
    assert said in text_view.room(PLAN, 20.0, costs)


def life(stream, sent, ended, reason='completed'):
    return Life(stream, sent * NS_PER_MS, sent * NS_PER_MS,
                sent * NS_PER_MS if reason == 'completed' else None, ended * NS_PER_MS, reason)


def test_on_a_server_that_runs_one_model_at_a_time_the_next_begins_when_the_one_before_ended():
    ran = one_at_a_time([life('text', 0, 500), life('face', 200, 510), life('face', 400, 521),
                         life('face', 450, 455, 'capacity'), life('face', 600, 611)])
    assert [(began // NS_PER_MS, ended // NS_PER_MS, stream) for began, ended, stream in ran] == [
        (0, 500, 'text'), (500, 510, 'face'), (510, 521, 'face'), (600, 611, 'face')]


def test_words_of_pieces_without_a_frame_in_between_are_put_together():
    last = (30 * NS_PER_MS, 40 * NS_PER_MS, ' wide.')
    assert join([(0, 10, 'A sea'), (11, 20, ' is'), last]) == [(0, 20, 'A sea is'), last]


def arm():
    """Answer one question; the second is open at the end."""
    ms = NS_PER_MS
    return Arm({
        'face': {'results': [], 'statuses': [[200 * ms, 'completed', 'm', 320 * ms, 0, 318 * ms]]},
        'assistant': {'statuses': [[10 * ms, 'completed', 'w', 490 * ms, 0, 490 * ms]],
                      'exchanges': [
                          {'question': 'a?', 'asked': 9 * ms, 'ended': 499 * ms,
                           'reason': 'completed', 'detail': '',
                           'parts': [[499 * ms, 'It is.', 3, 1]]},
                          {'question': 'b?', 'asked': 520 * ms, 'ended': None, 'reason': '',
                           'detail': '', 'parts': []}]}}, {}, {}, 0, 600 * ms)


def test_without_the_governor_a_text_stands_where_it_was_written():
    panel = direct_panel(PLAN, arm())
    assert [(began // NS_PER_MS, ended // NS_PER_MS, text) for began, ended, text in panel.words
            ] == [(10, 500, 'It is.')]
    assert [lane.name for lane in panel.lanes] == ['face', 'assistant']


def test_the_picture_of_one_run_alone_is_drawn(tmp_path):
    draw_text_timeline(tmp_path / 'timeline.png', PLAN, {'direct': arm()}, tmp_path / 'no.mcap')
    height, width = cv2.imread(str(tmp_path / 'timeline.png')).shape[:2]
    assert height > 300 and width > 1000
