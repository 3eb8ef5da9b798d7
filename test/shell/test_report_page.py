"""A recorded run as one page: its figures are the core's own."""

from dataclasses import replace
import re

import pytest
from vig_core.contract import Contract, Criticality, MissBudget, QueuePolicy
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.sim.engine import SimStream, simulate
from vig_core.sim.workload import Periodic
from vig_core.units import ms
from vig_governor.cli import main
from vig_governor.history import Frame, History, history_of
from vig_governor.recorded import read_trace
from vig_governor.recorder import RecordingScheduler, TraceWriter
from vig_governor.report_figures import StreamFigures
from vig_governor.report_page import joined, page
from waiting import wait_until

SLOW, FAST = (Variant(name, f'cam_{name}', RuntimeProfile(ms(p50), ms(p50 + 4)), quality=quality)
              for name, p50, quality in (('slow', 24, 1.0), ('fast', 12, 0.7)))
CAM = Model('cam', Criticality.PROTECTED, Contract(
    ms(40), max_age_ns=ms(60), period_ns=ms(33), consumer_period_ns=ms(33),
    miss_budget=MissBudget(2, 20, 1), minimum_background_progress_percent=90),
    (SLOW, FAST), QueuePolicy.LATEST, 1)
JOB = Model('job', Criticality.BEST_EFFORT, Contract(ms(500)),
            (Variant('only', 'job', RuntimeProfile(ms(25), ms(30))),), QueuePolicy.FIFO, 2)
SYSTEM = System({'cam': CAM, 'job': JOB}, streams={'<front>': 'cam', 'jobs': 'job'})


class Watched(RecordingScheduler):
    """No faster than the disk; remembers the scheduler to compare with."""

    def __init__(self, scheduler):
        """Keep it."""
        super().__init__(scheduler)
        self.scheduler = scheduler

    def handle(self, event, *, now_ns):
        """Wait for the disk first."""
        wait_until(self._writer._queue.empty, 5)
        return super().handle(event, now_ns=now_ns)


def record(path, **limits):
    writer = TraceWriter(path, system=SYSTEM, origin_ns=0, config='vig.yaml', config_digest='0',
                         wall_minus_steady_ns=0, **limits)
    watched = Watched(Scheduler(SYSTEM))
    watched.listen(writer, 0)
    simulate(watched, SYSTEM, [
        SimStream('<front>', 'cam', Periodic(ms(33), 0, ms(2), ms(3))),
        SimStream('jobs', 'job', Periodic(ms(50), ms(3), ms(1), ms(2)))],
        seed=4, duration_ns=ms(6000))
    writer.close()
    return watched.scheduler


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp('report') / 'run.mcap'
    return path, record(path)


def test_coverage_ages_and_reasons_are_those_of_the_core(run):
    path, scheduler = run
    recorded = read_trace(path)
    history = history_of(recorded)
    snapshot = scheduler.snapshot(now_ns=recorded.events[-1][0])
    assert history.deliberate_idle_ns == snapshot.deliberate_idle_ns > 0
    for stream in snapshot.streams:
        figures = StreamFigures.of(history, stream.stream)
        assert figures.received == stream.received
        assert dict(figures.reasons) == {
            reason: count for reason, count in stream.counts.items() if count}
        if stream.stream == '<front>':
            assert figures.cycles == stream.judged_cycles > 100
            assert figures.cycles - figures.uncovered == stream.covered_cycles
            assert history.cycles['<front>'][-1].misses == stream.weakly_hard_misses


def test_progress_and_starvation_of_best_effort_work_are_those_of_the_core(run):
    path, scheduler = run
    recorded = read_trace(path)
    history = history_of(recorded)
    seen = {stream.stream: stream for stream in scheduler.snapshot(
        now_ns=recorded.events[-1][0]).streams}
    jobs = StreamFigures.of(history, 'jobs')
    assert jobs.progress.worst == (
        seen['jobs'].background_completed, seen['jobs'].background_ended)
    assert 0 < jobs.progress.worst[0] < jobs.progress.worst[1]
    assert (jobs.progress.short > 0) == seen['jobs'].is_background_short is True
    assert (jobs.totals.starved, jobs.totals.required_percent) == (seen['jobs'].starved, 90)
    assert StreamFigures.of(history, '<front>').progress is None
    text = page(history, [recorded])
    worst = ' of '.join(map(str, jobs.progress.worst))
    assert f'<td>{worst}</td><td><span class="bad">90 %</span></td>' in text
    assert 'Generated text' not in text


def test_the_worst_window_counts_and_not_the_last_one():
    background = replace(JOB, contract=replace(JOB.contract, observation_window=2))
    history = History(0, ms(9), 1, {'jobs': background})
    for number, reason in enumerate([Reason.COMPLETED, Reason.STALE, Reason.STALE,
                                     Reason.COMPLETED, Reason.COMPLETED], 1):
        history.frames.append(Frame(number, 'jobs', 0, 0, ended_ns=ms(number), reason=reason))
    assert StreamFigures.of(history, 'jobs').progress.worst == (0, 2)


def test_the_page_tells_every_stream_and_carries_no_foreign_markup(run, tmp_path, capsys):
    output = tmp_path / 'run.html'
    assert main(['report', str(run[0]), '-o', str(output)]) == 0
    out = capsys.readouterr().out
    assert re.search(r'<front>: \d+ requests, \d+\.\d% of \d+ cycles covered', out)
    text = output.read_text()
    assert '&lt;front&gt;' in text and '<front>' not in text
    assert text.count('<svg') == 2 and 'worst window' in text and 'slow' in text
    assert '<script' not in text and 'src=' not in text


def test_the_files_of_one_run_make_the_same_report_as_one_file(run, tmp_path):
    record(tmp_path / 'parts.mcap', max_bytes=4 * 14 * 1024)
    files = [*sorted(tmp_path.glob('parts.*.mcap'), reverse=True), tmp_path / 'parts.mcap']
    assert len(files) > 1
    output = tmp_path / 'run.html'
    assert main(['report', *map(str, files), '-o', str(output)]) == 0
    assert 'worst window' in output.read_text()
    traces = [read_trace(file) for file in files]
    whole = joined([history_of(trace) for trace in traces], traces).totals['jobs']
    assert whole == history_of(read_trace(run[0])).totals['jobs']


def test_files_in_the_wrong_order_are_refused(tmp_path, capsys):
    record(tmp_path / 'parts.mcap', max_bytes=4 * 14 * 1024)
    files = [str(tmp_path / 'parts.mcap'), str(tmp_path / 'parts.1.mcap')]
    assert main(['report', *files, '-o', str(tmp_path / 'x.html')]) == 1
    assert 'give the oldest first' in capsys.readouterr().err


@pytest.mark.parametrize('output, words', [
    ('x.pdf', 'give a name that ends with .html'), ('/no/where/x.html', 'cannot be written')])
def test_what_cannot_be_written_is_said(run, output, words, capsys):
    assert main(['report', str(run[0]), '-o', output]) == 1
    assert words in capsys.readouterr().err
