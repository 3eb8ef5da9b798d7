"""What ``vig calibrate`` measures of models that share a slot's device is what is planned with."""

import pytest
from triton_fixture import model_repository, require_triton

from vig_core.actions import Dispatch
from vig_core.events import RequestArrived
from vig_core.scheduler import Scheduler

from vig_governor import cli
from vig_governor.config import load_config
from vig_governor.triton_server import TritonServer

TEXT = """\
version: 1
backend: {{grpc_endpoint: "{endpoint}", slots: 2}}
models:
  camera:
    class: protected
    queue: {{policy: latest, capacity: 1}}
    contract: {{period_ms: 100, deadline_ms: 90, max_age_ms: 200}}
    variants: [{{id: main, backend_model: quick}}]
  job:
    class: best_effort
    queue: {{policy: latest, capacity: 1}}
    contract: {{deadline_ms: 900}}
    variants: [{{id: main, backend_model: slow}}]
"""
ALONE = (' rate_limiter { resources [ { name: "device" global: true count: 1 } ] } } ]\n')


@pytest.fixture(scope='module')
def measured(tmp_path_factory):
    """Calibrate two models that the server runs one after the other, whatever comes."""
    require_triton()
    folder = tmp_path_factory.mktemp('together')
    repository = model_repository(folder / 'models', {
        'quick': ('sleeper', {'delay_ms': '3'}), 'slow': ('sleeper', {'delay_ms': '20'})})
    for name in ('quick', 'slow'):
        config = repository / name / 'config.pbtxt'
        text = config.read_text()
        assert text.count('count: 1 } ]\n') == 1
        config.write_text(text.replace('count: 1 } ]\n', 'count: 1' + ALONE))
    old, new = folder / 'vig.yaml', folder / 'measured.yaml'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('vig_governor.measure.state.MAX_STEAL_PERCENT', 100)
        with TritonServer(repository, rate_limiter=True) as server:
            old.write_text(TEXT.format(endpoint=server.grpc_endpoint))
            assert cli.main(['calibrate', '-c', str(old), '-o', str(new), '--shape', 'IMAGE=4,5,3',
                             '--runs', '1', '--samples', '100', '--warmup', '2']) == 0
    return load_config(new, require_profiles=True).system


def planned(system, *models):
    """Let requests arrive at once; give what each was dispatched with, by model."""
    scheduler = Scheduler(system)
    return {action.model: action.planned_ns for number, model in enumerate(models)
            for action in scheduler.handle(
                RequestArrived(number, model, model, '', 0), now_ns=0)
            if isinstance(action, Dispatch)}


def test_a_neighbour_that_holds_the_device_is_measured_and_planned_on_top(measured):
    added_ns = measured.interference_ns['quick', 'slow']
    assert added_ns > 10_000_000, 'a run of 20 ms is in the way more often than not'
    alone = planned(measured, 'camera')['camera']
    beside = planned(measured, 'job', 'camera')
    assert beside['camera'] == alone + added_ns
    assert beside['job'] == planned(measured, 'job')['job'], 'nothing ran when it began'


def test_each_direction_has_a_figure_of_its_own(measured):
    assert set(measured.interference_ns) == {('quick', 'slow'), ('slow', 'quick')}
    assert measured.interference_ns['slow', 'quick'] < measured.interference_ns['quick', 'slow']


def test_where_nothing_was_measured_nothing_is_planned(measured):
    unmeasured = type(measured)(models=measured.models, slots=2)
    assert planned(unmeasured, 'job', 'camera')['camera'] == planned(
        measured, 'camera')['camera']
