"""A recorded run replays to the identical decisions; what changed is said, not ignored."""

import json
from pathlib import Path
import pickle

from mcap.reader import make_reader
from mcap.writer import Writer
import pytest
from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.cooperative import Cooperative
from vig_core.events import BackendCompleted, CancelRequested, RequestArrived, TimeJumped
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.scheduler import Scheduler
from vig_core.sim.engine import SimStream, simulate
from vig_core.sim.workload import Continuous, Periodic
from vig_core.units import ms, us
from vig_governor.cli import main
from vig_governor.config import load_config
from vig_governor.doctor.file_checks import BYTES_PER_FRAME
from vig_governor.recorded import read_trace
from vig_governor.recorder import RecordingScheduler, TraceWriter
from vig_governor.replay import replay, what_if
from vig_governor.trace_file import EVENT, read_file, TraceError, TraceFile
from vig_governor.trace_values import decode, encode
from waiting import wait_until

CONTRACT = """\
version: 1
backend: {grpc_endpoint: "127.0.0.1:8001", slots: 1}
models:
  cam:
    class: protected
    queue: {policy: latest, capacity: 1}
    contract: {period_ms: 33, deadline_ms: 66, max_age_ms: MAX_AGE}
    variants:
      - id: main
        backend_model: cam_net
        quality: {value: 1.0, source: measured}
        profile: {p50_us: 30000, p99_us: 45000}
"""


@pytest.fixture
def contract(tmp_path):
    path = tmp_path / 'vig.yaml'
    path.write_text(CONTRACT.replace('MAX_AGE', '66'))
    return path


class Paced(RecordingScheduler):
    """No faster than the disk, as in real time."""

    def handle(self, event, *, now_ns):
        """Wait for the disk first."""
        wait_until(self._writer._queue.empty, 5)
        return super().handle(event, now_ns=now_ns)


def record(path, contract, *, of=RecordingScheduler, **limits):
    """Record ten simulated seconds of one overloaded camera."""
    config = load_config(contract)
    system = System(config.system.models, streams={'front': 'cam'})
    writer = TraceWriter(path, system=system, origin_ns=0, config=str(contract),
                         config_digest=config.digest, wall_minus_steady_ns=0, **limits)
    recording = of(Scheduler(system))
    recording.listen(writer, 0)
    simulate(recording, system, [SimStream('front', 'cam', Periodic(ms(27), 0, ms(2), ms(3)))],
             seed=3, duration_ns=ms(10_000))
    writer.close()
    return path


@pytest.fixture
def trace(tmp_path, contract):
    return record(tmp_path / 'run.mcap', contract)


def test_a_recorded_run_replays_to_the_identical_decisions(trace, capsys):
    assert main(['replay', str(trace)]) == 0
    out = capsys.readouterr().out
    assert 'identical: every event' in out
    assert 'notice' not in out


def rewrite(path, change):
    """Write a trace again with one of its events changed."""
    content = read_file(path)
    file = TraceFile(path, head={name: value for name, value in content.head.items()
                                 if name != 'format'},
                     system=content.system, state=content.state, wall_minus_steady_ns=0)
    for number, event in enumerate(content.events):
        change(number, event)
        file.add(EVENT, event['at'], event)
    file.close(content.end)


def test_one_changed_event_is_found(trace, capsys):
    def later(number, event):
        event['at'] += number == 40
    rewrite(trace, later)
    assert main(['replay', str(trace)]) == 1
    assert 'other decisions than when they were recorded' in capsys.readouterr().out


def test_a_changed_configuration_is_said(trace, contract, capsys):
    contract.write_text(CONTRACT.replace('MAX_AGE', '70'))
    assert main(['replay', str(trace)]) == 0
    out = capsys.readouterr().out
    assert f'{contract} has changed since' in out
    assert 'identical' in out


@pytest.mark.parametrize('kept', [1.0, 0.7, 0.3])
def test_a_trace_that_was_cut_off_replays_up_to_there(trace, kept, capsys):
    whole = trace.read_bytes()
    trace.write_bytes(whole[:round(whole.index(b'vig_trace_end') * kept)])
    assert main(['replay', str(trace)]) == 0
    out = capsys.readouterr().out
    assert 'the trace has no end' in out
    assert 'identical' in out


def rows(out):
    return {line.split()[0 if 'what if' in line else 1]: line for line in out.splitlines()
            if ' recorded ' in line or 'what if' in line}


def test_what_if_with_the_same_contract_gives_what_was_recorded(trace, contract, capsys):
    assert main(['replay', str(trace), '--contract', str(contract)]) == 0
    found = rows(capsys.readouterr().out)
    assert found['what'].split()[2:] == found['recorded'].split()[2:]


def test_what_if_with_another_contract_says_both(trace, contract, capsys):
    other = contract.with_name('other.yaml')
    other.write_text(CONTRACT.replace('MAX_AGE', '40'))
    assert main(['replay', str(trace), '--contract', str(other)]) == 0
    found = rows(capsys.readouterr().out)
    assert int(found['what'].split()[3]) < int(found['recorded'].split()[3])


def test_a_run_with_generative_jobs_replays_and_what_if_writes_the_same_texts(tmp_path, contract):
    config = load_config(contract)
    llm = Model('llm', Criticality.BEST_EFFORT, Contract(deadline_ns=ms(30_000)),
                (Variant('main', 'llm_net', RuntimeProfile(100, 105)),), QueuePolicy.FIFO,
                cooperative=Cooperative(ms(2), ms(4), 48, new_prompt_per_token_ns=us(300)))
    cam = Model('cam', Criticality.PROTECTED, Contract(
        deadline_ns=ms(33), max_age_ns=ms(66), period_ns=ms(33)),
        (Variant('main', 'cam_net', RuntimeProfile(ms(14), ms(16))),))
    system = System({'cam': cam, 'llm': llm})
    writer = TraceWriter(tmp_path / 'text.mcap', system=system, origin_ns=0, config=str(contract),
                         config_digest=config.digest, wall_minus_steady_ns=0)
    recording = RecordingScheduler(Scheduler(system))
    recording.listen(writer, 0)
    simulate(recording, system, [
        SimStream('front', 'cam', Periodic(ms(33))),
        SimStream('text', 'llm', Continuous(), is_closed_loop=True, prompt_tokens=9)],
        seed=3, duration_ns=ms(3_000))
    writer.close()
    recorded = read_trace(str(tmp_path / 'text.mcap'))
    outcome, differences = replay(recorded)
    assert not differences
    texts, again = ([end for end in ends if end.stream == 'text'
                     and end.reason.value == 'completed']
                    for ends in (outcome.ends, what_if(recorded, system, outcome).ends))
    assert texts and [(end.request_id, end.tokens) for end in texts] == [
        (end.request_id, end.tokens) for end in again]
    for end in again:
        assert end.backend_ns == end.quanta * ms(2) + end.tokens * ms(4) + 9 * us(300)


def test_what_if_without_a_model_of_the_trace_is_refused(trace, contract, capsys):
    other = contract.with_name('other.yaml')
    other.write_text(CONTRACT.replace('cam:', 'lidar:').replace('MAX_AGE', '40'))
    assert main(['replay', str(trace), '--contract', str(other)]) == 1
    assert f'{other}: models: cam is missing' in capsys.readouterr().err


@pytest.mark.parametrize('content, words', [
    (b'', 'the file is empty'), (b'hello\nworld', 'is no MCAP file'),
    (b'[1,2', 'is no MCAP file'),
    (b'\x89MCAP0\r\n' + b'\x01' * 200, 'is no MCAP file')])
def test_what_is_no_trace_is_named(tmp_path, content, words, capsys):
    path = tmp_path / 'x.mcap'
    path.write_bytes(content)
    assert main(['replay', str(path)]) == 1
    err = capsys.readouterr().err
    assert f'{path}' in err and words in err


def test_a_trace_of_another_format_is_named(tmp_path, capsys):
    path = tmp_path / 'x.mcap'
    with open(path, 'wb') as file:
        writer = Writer(file)
        writer.start()
        writer.add_metadata('vig_trace', {'format': '99'})
        writer.finish()
    assert main(['replay', str(path)]) == 1
    assert f'{path}: format 99' in capsys.readouterr().err


def test_an_event_of_another_version_is_named(trace, capsys):
    def other(number, event):
        if number == 2:
            event['event'] = {'_': 'Nobody'}
    rewrite(trace, other)
    assert main(['replay', str(trace)]) == 1
    assert f'{trace}: event 3 is none' in capsys.readouterr().err


def test_a_trace_that_is_not_there_is_named(tmp_path, capsys):
    assert main(['replay', str(tmp_path / 'none')]) == 1
    assert 'No such file' in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_is_said_before_the_first_frame(tmp_path):
    with pytest.raises(TraceError, match='cannot be written'):
        TraceWriter(tmp_path / 'no' / 'x.mcap', system=System({}), origin_ns=0, config='',
                    config_digest='', wall_minus_steady_ns=0)


def test_a_trace_takes_the_place_of_no_file_of_another_kind(tmp_path):
    precious = tmp_path / 'vig.yaml'
    precious.write_text('version: 1')
    with pytest.raises(TraceError, match=r'must be called \*\.mcap'):
        TraceWriter(precious, system=System({}), origin_ns=0, config='', config_digest='',
                    wall_minus_steady_ns=0)
    assert precious.read_text() == 'version: 1'


def test_a_full_disk_ends_the_trace_and_not_the_governor(tmp_path, caplog):
    if not Path('/dev/full').exists():
        pytest.skip('needs /dev/full, a device that is always full')
    full = tmp_path / 'full.mcap'
    full.symlink_to('/dev/full')
    writer = TraceWriter(full, system=System({}), origin_ns=0, config='',
                         config_digest='', wall_minus_steady_ns=0)
    writer.begin(None, 0)
    for number in range(5000):
        writer.add(BackendCompleted(number), number, ())
    writer.close()
    assert len(caplog.records) == 1


def test_the_story_tells_events_and_decisions(trace, capsys):
    assert main(['trace', 'show', str(trace), '--limit', '40']) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 40
    assert any('in   arrive 1 cam stream front captured' in line for line in lines)
    assert any('out  dispatch 1 main planned' in line for line in lines)
    assert any('terminate' in line for line in lines)


@pytest.mark.parametrize('arguments, words', [
    (['--stream', 'nobody'], "there is no stream 'nobody'; there are front"),
    (['--limit', '-1'], '--limit -1: must be 0 (all lines) or more')])
def test_a_part_of_the_story_that_cannot_be_is_said(trace, arguments, words, capsys):
    assert main(['trace', 'show', str(trace), *arguments]) == 1
    said = capsys.readouterr()
    assert words in said.err and not said.out


def test_every_value_survives_the_trace():
    model = Model('m', Criticality.HIGH, Contract(ms(5), max_age_ns=ms(9)),
                  (Variant('v', 'm', RuntimeProfile(1, 2)),), QueuePolicy.FIFO, 3)
    system = System({'m': model}, streams={'s': 'm'}, no_corun=frozenset([frozenset(['m'])]),
                    interference_ns={('a', 'b'): 3})
    for value in (system, RequestArrived(1, 'm', 's', 'k', 5), CancelRequested(3),
                  TimeJumped('back')):
        assert decode(json.loads(json.dumps(encode(value)))) == value


def test_a_replayed_system_is_the_recorded_one(trace):
    recorded = read_trace(str(trace))
    outcome, differences = replay(recorded)
    assert not differences
    assert len(outcome.ends) == 371


def test_a_bounded_trace_keeps_four_files_that_each_replay_alone(tmp_path, contract, capsys):
    path = record(tmp_path / 'run.mcap', contract, of=Paced, max_bytes=4 * 9 * 1024)
    files = sorted(tmp_path.glob('*.mcap'))
    assert [file.name for file in files] == ['run.1.mcap', 'run.2.mcap', 'run.3.mcap',
                                             'run.mcap']
    assert [int(read_file(file).head['part']) for file in files][:3] == sorted(
        (int(read_file(file).head['part']) for file in files[:3]), reverse=True)
    for file in files:
        assert main(['replay', str(file)]) == 0
        out = capsys.readouterr().out
        assert 'identical: every event' in out and 'has no end' not in out
        assert 'begins in the middle of a run' in out
    assert read_trace(path).begin_ns > read_trace(files[0]).begin_ns > 0


def test_a_new_trace_keeps_the_one_before(tmp_path, contract):
    record(tmp_path / 'run.mcap', contract)
    before = (tmp_path / 'run.mcap').read_bytes()
    record(tmp_path / 'run.mcap', contract)
    assert (tmp_path / 'run.1.mcap').read_bytes() == before


def test_recording_can_begin_and_end_in_the_middle_of_a_run(tmp_path, contract, capsys):
    config = load_config(contract)
    system = System(config.system.models, streams={'front': 'cam'})
    recording = RecordingScheduler(Scheduler(system))
    path = tmp_path / 'middle.mcap'
    for number in range(1, 40):
        now_ns = ms(20) * number
        if number == 11:
            writer = TraceWriter(path, system=system, origin_ns=0, config=str(contract),
                                 config_digest=config.digest, wall_minus_steady_ns=0)
            assert recording.listen(writer, now_ns) is None
        if number == 31:
            assert recording.listen(None, now_ns) is writer
            writer.close()
        recording.handle(RequestArrived(number, 'cam', 'front', '', now_ns), now_ns=now_ns)
        if number % 2:
            recording.handle(BackendCompleted(recording_first(recording)), now_ns=now_ns + ms(9))
    assert len(read_trace(path).events) == 30
    assert main(['replay', str(path)]) == 0
    assert 'identical' in capsys.readouterr().out


def recording_first(recording):
    """Give a request that runs."""
    return recording._scheduler.running_ids[0]


def test_foreign_tools_find_topics_schemas_and_log_times(trace):
    with open(trace, 'rb') as file:
        reader = make_reader(file)
        summary = reader.get_summary()
        assert {channel.topic for channel in summary.channels.values()} == {
            '/vig/event', '/vig/dispatch', '/vig/end', '/vig/defer', '/vig/overload'}
        ends = [(message.log_time, json.loads(message.data)) for schema, _, message
                in reader.iter_messages(topics=['/vig/end'])]
        schemas = {schema.encoding for schema in summary.schemas.values()}
    assert schemas == {'jsonschema'}
    assert len(ends) == 371
    assert {end['reason'] for _, end in ends} >= {'completed', 'superseded'}
    assert [at for at, _ in ends] == sorted(at for at, _ in ends)


class Hostile:
    """Something that runs code when it is read."""

    def __init__(self, *call):
        """Say what is called with what."""
        self.call = call

    def __reduce__(self):
        """Let pickle call it."""
        return self.call[0], self.call[1:]


@pytest.mark.parametrize('state, words', [
    (pickle.dumps(Hostile(print, 'it ran')),
     'names builtins.print, which is no part of a scheduler'),
    (pickle.dumps(Hostile(getattr, 'text', 'format')), "asks 'text' for format, which is no part"),
    (b'cvig_core.ledger\ndeque\n.', 'names vig_core.ledger.deque, which is no part'),
    (b'cvig_core.not_imported\nAny\n.', 'names vig_core.not_imported.Any, which is no part')])
def test_a_state_that_would_run_code_is_refused(trace, state, words, capsys):
    content = read_file(trace)
    file = TraceFile(trace, head={**content.head, 'begin_ns': '5'}, system=content.system,
                     state=state, wall_minus_steady_ns=0)
    file.close(content.end)
    assert main(['replay', str(trace)]) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert 'it ran' not in captured.out


def test_a_frame_of_a_trace_takes_no_more_than_the_doctor_counts_with(tmp_path, contract):
    path = tmp_path / 'run.mcap'
    record(path, contract)
    frames = sum(isinstance(event, RequestArrived) for _, event, _ in read_trace(path).events)
    assert frames > 200
    assert 50 * frames < path.stat().st_size < BYTES_PER_FRAME * frames
