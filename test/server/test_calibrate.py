"""``vig calibrate`` on a real server: one run, and everything that its file must hold."""

from pathlib import Path

import pytest
from triton_fixture import model_repository, require_triton

from vig_governor import cli
from vig_governor.config import load_config
from vig_governor.triton_server import TritonServer

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
