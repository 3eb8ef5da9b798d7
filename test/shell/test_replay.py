"""A recorded run replays to the identical decisions; what changed is said, not ignored."""

import json
from pathlib import Path

import pytest
from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.events import BackendCompleted, CancelRequested, RequestArrived, TimeJumped
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.scheduler import Scheduler
from vig_core.sim.engine import SimStream, simulate
from vig_core.sim.workload import Periodic
from vig_core.units import ms
from vig_governor.cli import main
from vig_governor.config import load_config
from vig_governor.recorder import RecordingScheduler, TraceError, TraceWriter
from vig_governor.replay import read_trace, replay
from vig_governor.trace_values import decode, encode

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


def record(path, contract):
    """Record ten simulated seconds of one overloaded camera."""
    config = load_config(contract)
    system = System(config.system.models, streams={'front': 'cam'})
    writer = TraceWriter(path, system=system, origin_ns=0, config=str(contract),
                         config_digest=config.digest)
    recording = RecordingScheduler(Scheduler(system), writer)
    simulate(recording, system, [SimStream('front', 'cam', Periodic(ms(27), 0, ms(2), ms(3)))],
             seed=3, duration_ns=ms(10_000))
    writer.close()
    return path


@pytest.fixture
def trace(tmp_path, contract):
    return record(tmp_path / 'run.trace', contract)


def test_a_recorded_run_replays_to_the_identical_decisions(trace, capsys):
    assert main(['replay', str(trace)]) == 0
    out = capsys.readouterr().out
    assert 'identical: every event' in out
    assert 'notice' not in out


def test_one_changed_event_is_found(trace, capsys):
    lines = trace.read_text().splitlines()
    number = next(number for number, line in enumerate(lines) if 'RequestArrived' in line)
    changed = json.loads(lines[number + 40])
    changed['at'] += 1
    lines[number + 40] = json.dumps(changed)
    trace.write_text('\n'.join(lines))
    assert main(['replay', str(trace)]) == 1
    assert 'other decisions than when they were recorded' in capsys.readouterr().out


def test_a_changed_configuration_is_said(trace, contract, capsys):
    contract.write_text(CONTRACT.replace('MAX_AGE', '70'))
    assert main(['replay', str(trace)]) == 0
    out = capsys.readouterr().out
    assert f'{contract} has changed since' in out
    assert 'identical' in out


def test_a_trace_that_was_cut_off_replays_up_to_there(trace, capsys):
    trace.write_text(trace.read_text()[:-120])
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


def test_what_if_without_a_model_of_the_trace_is_refused(trace, contract, capsys):
    other = contract.with_name('other.yaml')
    other.write_text(CONTRACT.replace('cam:', 'lidar:').replace('MAX_AGE', '40'))
    assert main(['replay', str(trace), '--contract', str(other)]) == 1
    assert f'{other}: models: cam is missing' in capsys.readouterr().err


@pytest.mark.parametrize('text, words', [
    ('', 'the file is empty'), ('hello\nworld', ':1: is no JSON'),
    ('{"a": 1}', ':1: vig_trace is missing'), ('{"vig_trace": 99}', 'reads format 1'),
    ('{"vig_trace": 1, "system": {"_": "Nobody"}}', ':1: is no line of a trace')])
def test_what_is_no_trace_is_named(tmp_path, text, words, capsys):
    path = tmp_path / 'x.trace'
    path.write_text(text)
    assert main(['replay', str(path)]) == 1
    err = capsys.readouterr().err
    assert f'{path}' in err and words in err


def test_a_trace_that_is_not_there_is_named(tmp_path, capsys):
    assert main(['replay', str(tmp_path / 'none')]) == 1
    assert 'No such file' in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_is_said_before_the_first_frame(tmp_path):
    with pytest.raises(TraceError, match='cannot be written'):
        TraceWriter(tmp_path / 'no' / 'x', system=System({}), origin_ns=0, config='',
                    config_digest='')


def test_a_full_disk_ends_the_trace_and_not_the_governor(caplog):
    if not Path('/dev/full').exists():
        pytest.skip('needs /dev/full, a device that is always full')
    writer = TraceWriter('/dev/full', system=System({}), origin_ns=0, config='',
                         config_digest='')
    for number in range(5000):
        writer.add(BackendCompleted(number), number, 'x')
    writer.close()
    assert len(caplog.records) == 1


def test_the_story_tells_events_and_decisions(trace, capsys):
    assert main(['trace', 'show', str(trace), '--limit', '40']) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 40
    assert any('in   arrive 1 cam stream front captured' in line for line in lines)
    assert any('out  dispatch 1 main planned' in line for line in lines)
    assert any('terminate' in line for line in lines)


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
