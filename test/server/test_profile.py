"""``vig profile`` on a real server: runtimes, counters, discarded cells, sentences."""

import json

import numpy as np
import pytest
from vig_core.units import NS_PER_MS

from vig_governor import cli
from vig_governor.backend.triton import TritonBackend
from vig_governor.measure.exchange import Caller
from vig_governor.measure.inputs import Feed
from vig_governor.measure.profiling import Plan, profile_alone, Profiler

TEXT = """\
version: 1
backend: {{grpc_endpoint: "{endpoint}", slots: 1}}
models:
  camera:
    class: protected
    queue: {{policy: latest, capacity: 1}}
    contract: {{period_ms: 33, deadline_ms: 33, max_age_ms: 66}}
    variants: [{{id: main, backend_model: {model}}}]
"""


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch):
    """Keep what else runs on this machine from spoiling the cells of a test."""
    monkeypatch.setattr('vig_governor.measure.state.MAX_STEAL_PERCENT', 100)


@pytest.fixture
def config(triton_server, tmp_path):
    def write(model):
        path = tmp_path / 'vig.yaml'
        path.write_text(TEXT.format(endpoint=triton_server.grpc_endpoint, model=model))
        return str(path)
    return write


def test_a_model_is_profiled_and_the_file_has_every_cell(config, tmp_path, capsys):
    out = tmp_path / 'out.json'
    assert cli.main(['profile', '-c', config('echo'), '--shape', 'IMAGE=4,5,3', '--runs', '2',
                     '--samples', '100', '--warmup', '2', '--json', str(out)]) == 0
    printed = capsys.readouterr().out
    assert '2 runs of 100 release points back to back' in printed and 'clock: steps of' in printed
    assert 'note: 1 models were fed zeros' in printed
    found = json.loads(out.read_text())['profiles']['echo']
    assert 0 < found['p50_ns'] <= found['p95_ns'] <= found['p99_ns']
    assert [(cell['ok'], cell['overrun'], cell['failed'], cell['skipped'])
            for cell in found['cells']] == [(100, 0, 0, 0)] * 2


def test_on_the_grid_the_counters_add_up_and_no_p99_is_claimed_from_few(config, tmp_path, capsys):
    out = tmp_path / 'out.json'
    assert cli.main(['profile', '-c', config('sleeper'), '--shape', 'IMAGE=4,5,3', '--runs', '1',
                     '--samples', '60', '--warmup', '1', '--periodic-us', '40000', '--json',
                     str(out)]) == 1
    printed = capsys.readouterr().out
    assert 'absolute grid of 40000 us' in printed and 'no p99 is claimed from' in printed
    found = json.loads(out.read_text())['profiles']['sleeper']
    cell = found['cells'][0]
    assert found['p99_ns'] is None and found['p50_ns'] >= 50 * NS_PER_MS
    # 50 ms do not fit into 40: every request overruns and the point after it passes.
    assert cell['overrun'] >= 20 and cell['skipped'] >= 20
    assert cell['ok'] + cell['overrun'] + cell['failed'] + cell['skipped'] == 60


def test_a_failing_model_is_thrown_away_with_the_servers_words(config, tmp_path, capsys):
    frames = tmp_path / 'bad.npz'
    np.savez(frames, IMAGE=np.full((1, 4, 5, 3), 255, np.uint8))
    assert cli.main(['profile', '-c', config('failing'), '--data', f'camera={frames}', '--runs',
                     '1', '--samples', '20', '--warmup', '0']) == 1
    printed = capsys.readouterr().out
    assert 'run 1 is thrown away: 0 answers' in printed
    assert '20 of 20 requests failed' in printed and 'asked for an error' in printed


@pytest.mark.parametrize('arguments, words', [
    (['--shape', 'IMAGE'], 'must be TENSOR=A,B'),
    (['--samples', '0'], 'must lie between'),
    (['--data', 'nothere.npz'], 'there is no file nothere.npz'),
    ([], '--shape IMAGE=480,480,480'),
])
def test_a_mistake_is_one_sentence(config, capsys, arguments, words):
    assert cli.main(['profile', '-c', config('echo'), *arguments]) == 1
    err = capsys.readouterr().err
    assert words in err and 'Traceback' not in err


def test_a_model_that_is_not_there_is_named(config, capsys):
    assert cli.main(['profile', '-c', config('nobody')]) == 1
    assert "no model 'nobody'" in capsys.readouterr().err


def test_a_second_caller_spoils_the_cell(triton_server):
    backend = TritonBackend(triton_server.grpc_endpoint)
    backend.inspect('echo', timeout_s=5)
    feed = Feed(({'IMAGE': np.zeros((4, 5, 3), np.uint8)},), 'zeros')
    foreign = Caller(backend, 'foreign')

    def on_point(model):
        if len(seen) == 30:
            foreign.call(model, feed[0])
        seen.append(model)
    seen = []
    made = profile_alone(Profiler(backend, {'echo': feed}, Plan(2, 50, 0), on_point=on_point))
    backend.close()
    first, second = made['echo'].cells
    assert 'somebody else ran echo 1 times meanwhile' in first.reasons
    assert not [each for each in second.reasons if 'somebody' in each]
