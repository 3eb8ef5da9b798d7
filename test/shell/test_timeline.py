"""A recorded run as spans and marks, and the pictures that are made of them."""

from dataclasses import replace
import json
import re

import pytest
from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.cooperative import Cooperative
from vig_core.events import (BackendCompleted, BackendFailed, QuantumCompleted, RequestArrived,
                             Woke)
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.units import ms
from vig_governor import report_page
from vig_governor.cli import main
from vig_governor.history import history_of
from vig_governor.recorded import read_trace
from vig_governor.recorder import RecordingScheduler, TraceWriter
from vig_governor.timeline import cut

CAM = Model('cam', Criticality.PROTECTED, Contract(ms(33), max_age_ns=ms(40), period_ns=ms(33)),
            (Variant('full', 'cam_net', RuntimeProfile(ms(20), ms(25))),), QueuePolicy.LATEST, 1)
JOB = Model('job', Criticality.BEST_EFFORT, Contract(ms(500)),
            (Variant('only', 'job_net', RuntimeProfile(ms(30), ms(30))),), QueuePolicy.FIFO, 4)
SYSTEM = System({'cam': CAM, 'job': JOB}, streams={'front': 'cam', 'a<b>': 'job'})


def arrive(number, stream, at_ms):
    """Let a frame arrive 2 ms after its capture."""
    return RequestArrived(number, SYSTEM.streams[stream], stream, '', ms(at_ms - 2)), at_ms


STORY = [
    arrive(1, 'front', 10), (BackendCompleted(1), 30), arrive(2, 'front', 43),
    (BackendCompleted(2), 63), arrive(3, 'front', 76), (BackendCompleted(3), 96),
    arrive(4, 'front', 109), (BackendCompleted(4), 129), arrive(5, 'a<b>', 130),
    arrive(6, 'front', 142), (BackendCompleted(6), 162), arrive(7, 'front', 175),
    arrive(8, 'front', 177), (BackendFailed(7, 'broken', False), 195), (Woke(), 200),
]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / 'run.mcap'
    writer = TraceWriter(path, system=SYSTEM, origin_ns=0, config='vig.yaml', config_digest='0',
                         wall_minus_steady_ns=0)
    recording = RecordingScheduler(Scheduler(SYSTEM))
    recording.listen(writer, 0)
    for event, at_ms in STORY:
        recording.handle(event, now_ns=ms(at_ms))
    writer.close()
    return path


@pytest.fixture
def history(trace):
    return history_of(read_trace(trace))


def frame(history, number):
    return next(frame for frame in history.frames if frame.request_id == number)


def test_a_frame_that_ran_has_its_slot_and_instants(history):
    first = frame(history, 1)
    assert (first.captured_ns, first.arrived_ns, first.dispatched_ns, first.ended_ns,
            first.freed_ns) == (ms(8), ms(10), ms(10), ms(30), ms(30))
    assert (first.runs[0].lane, first.variant, first.reason) == (0, 'full', Reason.COMPLETED)
    assert first.age_ns == ms(22) and first.is_deadline_met


def test_an_execution_without_proof_of_its_end_keeps_its_slot(history):
    lost = frame(history, 7)
    assert lost.reason is Reason.BACKEND_FAILED and lost.ended_ns == ms(195)
    assert lost.freed_ns is None


def test_a_job_that_is_held_back_shows_the_idle_slot_and_for_whom(history):
    hold = next(hold for hold in history.holds if hold.request_id == 5)
    assert (hold.beneficiary, hold.begin_ns, hold.lanes) == ('front', ms(130), (0,))
    assert 'is expected in' in hold.detail


def test_consumer_cycles_are_judged_as_the_core_judges_them(history):
    scheduler = Scheduler(SYSTEM)
    for event, at_ms in STORY:
        scheduler.handle(event, now_ns=ms(at_ms))
    judged = next(stream for stream in scheduler.snapshot(now_ns=ms(200)).streams
                  if stream.stream == 'front')
    cycles = history.cycles['front']
    assert len(cycles) == judged.judged_cycles
    assert sum(cycle.is_covered for cycle in cycles) == judged.covered_cycles
    assert 'a<b>' not in history.cycles


def test_the_most_important_stream_comes_first(history):
    assert list(history.streams) == ['front', 'a<b>']


def test_a_part_keeps_what_reaches_into_it(history):
    part = cut(history, ms(50), ms(40))
    assert [frame.request_id for frame in part.frames] == [2, 3]
    assert (part.begin_ns, part.end_ns) == (ms(50), ms(90))
    assert all(ms(50) <= cycle.at_ns <= ms(90) for cycle in part.cycles['front'])


@pytest.fixture
def text_trace(tmp_path):
    """Record a job of two pieces of 3 and 4 tokens, 200 ms after the begin."""
    text = replace(JOB, name='text', cooperative=Cooperative(ms(5), ms(2), max_total_tokens=8))
    system = System({'cam': CAM, 'text': text}, streams={
        'front': 'cam', 'story': 'text', 'generate/text': 'text'})
    path = tmp_path / 'text.mcap'
    writer = TraceWriter(path, system=system, origin_ns=0, config='vig.yaml', config_digest='0',
                         wall_minus_steady_ns=0)
    recording = RecordingScheduler(Scheduler(system))
    recording.listen(writer, 0)
    for event, at_ms in ((RequestArrived(1, 'text', 'story', '', ms(200), max_tokens=8), 201),
                         (QuantumCompleted(1, 3, False), 212),
                         (QuantumCompleted(1, 4, True), 230)):
        recording.handle(event, now_ns=ms(at_ms))
    writer.close()
    return path


def test_a_job_in_pieces_has_a_run_for_each_of_them_on_one_slot(text_trace, tmp_path):
    one, = history_of(read_trace(text_trace)).frames
    assert [(run.lane, run.begin_ns, run.end_ns, run.tokens) for run in one.runs] == [
        (0, ms(201), ms(212), 3), (0, ms(212), ms(230), 4)]
    assert (one.reason, one.dispatched_ns, one.freed_ns) == (Reason.COMPLETED, ms(201), ms(230))
    output = tmp_path / 'text.json'
    assert main(['timeline', str(text_trace), '-o', str(output)]) == 0
    spans = [each for each in json.loads(output.read_text())['traceEvents']
             if each['ph'] == 'X' and each['pid'] == 1]
    assert [each['args']['tokens'] for each in spans] == [3, 4]


def test_the_report_tells_what_generative_jobs_did(text_trace):
    recorded = read_trace(text_trace)
    history = history_of(recorded)
    totals = history.totals['story']
    assert (totals.tokens, totals.quanta) == (7, 2)
    text = report_page.page(history, [recorded])
    row = re.search('<h2>Generated text.*?<td>story(.*?)</tr>', text)[1]
    jobs, answers, others, tokens, _, pieces, each = re.findall('<td>(.*?)</td>', row)[:7]
    assert (jobs, answers, others, tokens, pieces, each) == ('1', '1', '–', '7', '2', '3.5')
    shares = [int(share) for share in re.findall(r'(\d+)%', row)]
    assert shares == [0, 62, 38], '5 and 6 of 29 ms are fixed: 8 and 5 tokens were asked for'


def test_job_streams_that_nobody_used_are_left_out_and_cameras_are_not(text_trace):
    assert list(history_of(read_trace(text_trace)).streams) == ['front', 'story']


def test_a_picture_begins_where_the_first_request_came(text_trace, tmp_path):
    output = tmp_path / 'text.svg'
    assert main(['timeline', str(text_trace), '-o', str(output), '--seconds', '0.02']) == 0
    words = output.read_text()
    assert 'from 201 ms after the begin' in words and '<!-- 4 -->' in words
    assert main(['timeline', str(text_trace), '-o', str(output), '--from', '0',
                 '--seconds', '0.02']) == 1


def test_the_page_holds_all_its_data_and_needs_no_network(trace, tmp_path, capsys):
    page = tmp_path / 'run.html'
    assert main(['timeline', str(trace), '-o', str(page)]) == 0
    assert '8 requests of 2 streams' in capsys.readouterr().out
    text = page.read_text()
    start = text.index('application/json">') + len('application/json">')
    data = json.loads(text[start:text.index('</script>', start)])
    assert len(data['frames']) == 8 and data['holds'][0]['for'] == 'front'
    assert 'a<b>' in data['streams'] and 'a<b>' not in text
    assert 'http' not in text and '@DATA@' not in text


def test_the_file_for_perfetto_has_spans_for_slots_and_streams(trace, tmp_path):
    output = tmp_path / 'run.json'
    assert main(['timeline', str(trace), '-o', str(output)]) == 0
    events = json.loads(output.read_text())['traceEvents']
    spans = [event for event in events if event['ph'] == 'X' and event['pid'] == 1]
    assert {'name': 'front full', 'ts': 10_000.0, 'dur': 20_000.0}.items() <= spans[0].items()
    assert any(event['name'] == 'idle for front' for event in spans)
    assert any(event['ph'] == 'i' and event['name'] == 'backend_failed' for event in events)


@pytest.mark.parametrize('ending', ['png', 'svg'])
def test_a_picture_is_drawn(trace, tmp_path, ending):
    output = tmp_path / f'run.{ending}'
    assert main(['timeline', str(trace), '-o', str(output), '--seconds', '0.1']) == 0
    assert output.stat().st_size > 5000


@pytest.mark.parametrize('arguments, words', [
    (['-o', 'x.pdf'], "x.pdf: the ending '.pdf' says nothing"),
    (['-o', 'x.html', '--from', '-1'], '--from -1: must be 0 s or more'),
    (['-o', 'x.png', '--seconds', '0'], '--seconds 0: nothing would be drawn'),
    (['-o', 'x.html', '--from', '60'], 'no request falls into this part'),
    (['-o', '/no/where/x.html'], '/no/where/x.html: cannot be written')])
def test_what_cannot_be_drawn_is_said(trace, arguments, words, capsys):
    assert main(['timeline', str(trace), *arguments]) == 1
    assert words in capsys.readouterr().err
