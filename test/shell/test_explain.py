"""``vig explain`` on a trace: the same sentences without a node."""

import pytest
from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.events import BackendCompleted, RequestArrived
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.scheduler import Scheduler
from vig_core.units import ms

from vig_governor.cli import main
from vig_governor.recorder import RecordingScheduler, TraceWriter


@pytest.fixture
def trace(tmp_path):
    """Two frames that the third supersedes or follows, as a trace."""
    model = Model('cam', Criticality.NORMAL, Contract(ms(30), max_age_ns=ms(60)),
                  (Variant('main', 'cam_main', RuntimeProfile(p50_ns=ms(10), p99_ns=ms(12))),),
                  QueuePolicy.LATEST)
    system = System({'cam': model}, streams={'front': 'cam', 'rear': 'cam'})
    path = tmp_path / 'run.mcap'
    writer = TraceWriter(path, system=system, origin_ns=0, config='vig.yaml', config_digest='0',
                         wall_minus_steady_ns=0)
    recording = RecordingScheduler(Scheduler(system))
    recording.listen(writer, 0)
    for at_ms, event in ((1, 1), (2, 2), (6, 3), (11, BackendCompleted(1))):
        if isinstance(event, int):
            event = RequestArrived(event, 'cam', 'front', 'front', ms(at_ms))
        recording.handle(event, now_ns=ms(at_ms))
    writer.close()
    return str(path)


def test_a_superseded_frame_says_by_which_one_and_what_it_had_waited_for(trace, capsys):
    assert main(['explain', trace, 'front', '--request', '2']) == 0
    assert capsys.readouterr().out.splitlines() == [
        'request 2 ended superseded at age 4.0 ms: request 3, captured 4.0 ms later, took its '
        'place; waited 4.0 ms behind request 1 of front (there 5.0 ms)']


def test_the_last_frames_of_a_trace_come_with_all_their_decisions(trace, capsys):
    assert main(['explain', '--last', '1', trace, 'front']) == 0
    line, = capsys.readouterr().out.splitlines()
    assert line == ('request 3 was sent to cam_main as variant main, planned for 13.2 ms: 25.0 ms '
                    'were left to its deadline')
    assert main(['explain', trace, 'front']) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize('arguments, words', [
    (('nose',), "there is no stream 'nose'; there are front, rear"),
    (('rear',), 'nothing was decided about stream rear; there is nothing'),
    (('front', '--request', '9'), 'about request 9 of stream front; there is requests 1 to 3'),
    (('front', '--request', '-1'), '--request -1: must be 0 to'),
    (('front', '--stamp', '7.5'), '--stamp 7.5: write the seconds, a point and all nine digits'),
    (('front', '--stamp', '7.000000005'), 'a trace holds no header; name the frame with')])
def test_what_is_not_in_the_trace_is_said_with_what_is(trace, arguments, words, capsys):
    assert main(['explain', trace, *arguments]) == 1
    assert words in capsys.readouterr().err
