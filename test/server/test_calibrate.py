"""``vig calibrate`` on a real server: one run, and everything that its file must hold."""

import json
from pathlib import Path

import pytest
from triton_fixture import model_repository, require_triton

from vig_core.events import RequestArrived
from vig_core.scheduler import Scheduler

from vig_governor import cli
from vig_governor.authority import AuthorityCheck
from vig_governor.backend.triton import TritonBackend
from vig_governor.config import load_config
from vig_governor.triton_server import TritonServer

from waiting import wait_until

TEXT = """\
# The operator's words.
version: 1
backend: {{grpc_endpoint: "{endpoint}", slots: 2, model_repository: {repository}}}
models:
  camera:
    class: protected
    queue: {{policy: latest, capacity: 1}}
    contract: {{period_ms: 33, deadline_ms: 33, max_age_ms: 66}}
    variants: [{{id: main, backend_model: quick}}]
  other:
    class: best_effort
    queue: {{policy: latest, capacity: 1}}
    contract: {{deadline_ms: 300}}
    variants: [{{id: main, backend_model: slow}}]
"""
FEW = ['--shape', 'IMAGE=4,5,3', '--runs', '1', '--samples', '100', '--warmup', '2']


@pytest.fixture(scope='module')
def calibrated(tmp_path_factory):
    """Give the old file, the new one, and the server; a busy machine spoils no cell here."""
    require_triton()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('vig_governor.measure.state.MAX_STEAL_PERCENT', 100)
        patch.setattr('vig_governor.measure.interference.MIN_NEIGHBOUR_RUNS', 1)
        yield from calibrate(tmp_path_factory)


def calibrate(tmp_path_factory):
    folder = tmp_path_factory.mktemp('calibrated')
    repository = model_repository(folder / 'models', {
        'quick': ('sleeper', {'delay_ms': '2'}), 'slow': ('sleeper', {'delay_ms': '5'})})
    with TritonServer(repository) as server:
        old = folder / 'vig.yaml'
        old.write_text(TEXT.format(endpoint=server.grpc_endpoint, repository=repository))
        new = folder / 'measured.yaml'
        assert cli.main(['calibrate', '-c', str(old), '-o', str(new), *FEW]) == 0
        yield old, new, server


def test_every_variant_has_a_profile_and_the_node_may_plan_with_the_file(calibrated):
    _, new, _ = calibrated
    profile = load_config(new, require_profiles=True).file.models['camera'].variants[0].profile
    assert 2000 <= profile.p50_us <= profile.p95_us <= profile.p99_us
    assert profile.samples == 100


def test_the_manifest_says_where_the_figures_were_measured(calibrated):
    _, new, server = calibrated
    manifest = load_config(new).file.models['camera'].variants[0].profile.manifest
    assert manifest.artifact.digest.startswith('sha256:') and manifest.artifact.versions == ['1']
    assert (manifest.runtime.server, manifest.runtime.platform) == ('triton', 'python')
    assert manifest.device.name and manifest.resources.instances == 1
    assert manifest.measurement.shapes == {'IMAGE': [4, 5, 3]}
    assert (manifest.measurement.release, manifest.measurement.dataset) == (
        'back_to_back', 'zeros')


def test_instances_below_the_slots_are_written_as_the_server_says(calibrated, capsys):
    old, new, _ = calibrated
    assert not load_config(old).system.instances
    assert load_config(new).system.instances == {'quick': 1, 'slow': 1}
    assert '# quick: instances: 1, as the server says' in new.read_text()
    _, found = examine(old, capsys)
    assert any('1 instance for 2 slots' in one['text'] for one in found['slots'])
    _, found = examine(new, capsys)
    assert [one['level'] for one in found['slots']] == ['OK']


def test_both_directions_of_the_pair_are_measured(calibrated):
    _, new, _ = calibrated
    assert set(load_config(new).system.interference_ns) == {('quick', 'slow'), ('slow', 'quick')}


def test_the_old_file_keeps_its_comments_and_the_new_one_says_where_they_are(calibrated):
    old, new, _ = calibrated
    assert old.read_text().startswith("# The operator's words.")
    assert 'from vig.yaml, where its comments are' in new.read_text().splitlines()[0]


def test_the_input_is_refused_as_output_before_anything_is_measured(calibrated, capsys):
    old, _, _ = calibrated
    assert cli.main(['calibrate', '-c', str(old), '-o', str(old), *FEW]) == 1
    captured = capsys.readouterr()
    assert 'this is the input' in captured.err and captured.out == ''
    assert Path(old).read_text().startswith('# The operator')


def examine(path, capsys, *arguments):
    """Run the doctor without ROS; give its exit code and its findings by check."""
    capsys.readouterr()
    code = cli.main(['doctor', '-c', str(path), '--no-ros', '--listen-s', '0', '--json',
                     *arguments])
    found = {}
    for one in json.loads(capsys.readouterr().out)['findings']:
        found.setdefault(one['check'], []).append(one)
    return code, found


def contradicted(found):
    """Name the fields that the manifest check calls contradicted."""
    return {field for one in found['manifest'] for field, verdict
            in one['facts'].get('fields', {}).items() if verdict['verdict'] == 'contradicted'}


def test_the_doctor_finds_a_calibrated_system_in_order(calibrated, capsys):
    _, new, _ = calibrated
    code, found = examine(new, capsys)
    assert code == 0
    assert {one['level'] for one in found['manifest']} == {'OK'}
    for check in ('file', 'server', 'models', 'profiles', 'shared memory', 'foreign callers'):
        assert [one['level'] for one in found[check]] == ['OK'], found[check]


def test_the_doctor_sees_that_nothing_was_measured_yet(calibrated, capsys):
    old, _, _ = calibrated
    code, found = examine(old, capsys)
    assert code == 1 and [one['level'] for one in found['profiles']] == ['FAIL', 'FAIL']


def test_exchanged_weights_under_the_same_version_are_named(calibrated, capsys):
    _, new, _ = calibrated
    weights = new.parent / 'models' / 'quick' / '1' / 'model.py'
    before = weights.read_text()
    weights.write_text(before + '# other weights, same version\n')
    try:
        code, found = examine(new, capsys)
    finally:
        weights.write_text(before)
    assert code == 0, 'a contradiction never refuses a start'
    assert contradicted(found) == {'artifact.digest', 'artifact.bytes'}
    assert any('quick: artifact.digest' in one['text'] for one in found['manifest'])


def test_exchanged_weights_widen_the_plan_of_that_model_only(calibrated, caplog):
    _, new, server = calibrated
    config = load_config(new)
    quick, slow = (config.system.models[name].variants[0] for name in ('camera', 'other'))
    weights = new.parent / 'models' / 'quick' / '1' / 'model.py'
    before = weights.read_text()
    backend = TritonBackend(server.grpc_endpoint)
    events = []
    weights.write_text(before + '# other weights, same version\n')
    caplog.set_level('INFO')
    try:
        AuthorityCheck(config, backend, events.append).start()
        wait_until(lambda: 'the profile of slow: ' in caplog.text, 20)
    finally:
        weights.write_text(before)
        backend.close()
    scheduler = Scheduler(config.system)
    for event in events:
        scheduler.handle(event, now_ns=0)
    planned = {}
    for number, model in enumerate(('camera', 'other')):
        for action in scheduler.handle(RequestArrived(number, model, model, '', 0), now_ns=0):
            planned[action.model] = action.planned_ns
    assert planned['camera'] == quick.profile.p99_ns * 150 // 100
    assert planned['other'] < slow.profile.p99_ns * 150 // 100


def test_a_model_that_is_gone_is_a_failure_of_that_model_only(calibrated, tmp_path, capsys):
    old, _, _ = calibrated
    other = tmp_path / 'other.yaml'
    other.write_text(old.read_text().replace('backend_model: quick', 'backend_model: gone'))
    code, found = examine(other, capsys)
    assert code == 1 and "'gone'" in found['models'][0]['text']
    assert found['server'][0]['level'] == 'OK'


def test_other_instance_groups_are_named_as_resources(calibrated, capsys):
    """Last of this file: it starts the server anew with another configuration."""
    _, new, server = calibrated
    config = new.parent / 'models' / 'quick' / 'config.pbtxt'
    config.write_text(config.read_text().replace('count: 1', 'count: 2'))
    server.stop()
    server.start()
    _, found = examine(new, capsys)
    assert contradicted(found) == {'resources.instances'}
    assert any('resources.instances: recorded 1, found 2' in one['text']
               for one in found['manifest'])
