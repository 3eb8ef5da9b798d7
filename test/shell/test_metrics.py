"""What Prometheus reads: the names of semantics.md, the values of the scheduler."""

from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families
import pytest
from vig_core.actions import Terminate
from vig_core.contract import Contract, Criticality, MissBudget, QueuePolicy
from vig_core.events import BackendCompleted, RequestArrived, Woke
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.scheduler import Scheduler
from vig_core.units import ms
from vig_governor.metrics import CannotServe, Health, Metrics, MetricsServer
from vig_governor.ports import Payload

CAM = Model('cam', Criticality.PROTECTED, Contract(
    ms(33), max_age_ns=ms(40), period_ns=ms(33), consumer_period_ns=ms(33),
    miss_budget=MissBudget(1, 4, 1)),
    (Variant('full', 'cam_net', RuntimeProfile(ms(20), ms(25))),), QueuePolicy.LATEST, 1)
JOB = Model('job', Criticality.BEST_EFFORT, Contract(
    ms(40), max_age_ns=ms(70), observation_window=1, minimum_background_progress_percent=5),
            (Variant('only', 'job_net', RuntimeProfile(ms(30), ms(30))),), QueuePolicy.FIFO, 4)
SYSTEM = System({'cam': CAM, 'job': JOB}, streams={'front': 'cam', 'jobs': 'job'})
STREAMS = {number: 'jobs' if number == 5 else 'front' for number in range(1, 9)}

STORY = [
    *((event, at) for number in range(1, 5) for event, at in (
        (RequestArrived(number, 'cam', 'front', '', ms(33 * number - 25)), 33 * number - 23),
        (BackendCompleted(number), 33 * number - 3))),
    (RequestArrived(5, 'job', 'jobs', '', ms(129)), 130),
    (RequestArrived(6, 'cam', 'front', '', ms(140)), 142), (BackendCompleted(6), 162),
    (Woke(), 175), (Woke(), 200)]


class Quiet:
    """A sink that tells nobody."""

    def on_terminated(self, action, payload, outputs):
        """Tell nobody."""

    def on_decided(self, action, payload):
        """Tell nobody."""


@pytest.fixture
def played():
    scheduler = Scheduler(SYSTEM)
    metrics = Metrics(lambda: scheduler.snapshot(now_ns=ms(201)))
    metrics.begin()
    sink = metrics.watch(Quiet())
    for event, at_ms in STORY:
        for action in scheduler.handle(event, now_ns=ms(at_ms)):
            payload = Payload(STREAMS[action.request_id], None)
            if isinstance(action, Terminate):
                sink.on_terminated(action, payload, ())
            else:
                sink.on_decided(action, payload)
    return scheduler, metrics


@pytest.fixture
def serve():
    servers = []

    def begin(metrics, health=Health(True, True)):
        servers.append(MetricsServer(metrics, lambda: health, address='127.0.0.1', port=0))
        return f'http://127.0.0.1:{servers[-1].port}'
    yield begin
    for server in servers:
        server.close()


def samples(url):
    text = urlopen(f'{url}/metrics', timeout=5).read().decode()
    return {(sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}


def test_counters_are_those_of_the_scheduler(played, serve):
    scheduler, metrics = played
    values = samples(serve(metrics))
    front, jobs = scheduler.snapshot(now_ns=ms(201)).streams
    assert values['vig_requests_received_total', 'cam', 'front'] == front.received == 5
    assert values['vig_requests_completed_total', 'cam', 'front'] == 5
    assert values['vig_requests_dispatched_total', 'cam', 'front'] == 5
    assert values['vig_uncovered_cycles_total', 'cam', 'front'] == (
        front.judged_cycles - front.covered_cycles)
    assert values['vig_weakly_hard_misses', 'cam', 'front'] == front.weakly_hard_misses
    assert ('vig_weakly_hard_misses', 'job', 'jobs') not in values
    assert values['vig_deferred_for_protected_total', 'job', 'jobs'] == jobs.deferred == 1
    idle_ns = scheduler.snapshot(now_ns=ms(201)).deliberate_idle_ns
    assert values['vig_deliberate_idle_seconds_total',] == pytest.approx(idle_ns / 1e9)
    assert idle_ns > 0
    assert values['vig_overload_state',] == 0 and values['vig_quarantined_slots',] == 0


def test_a_wait_for_an_instance_is_counted_although_a_slot_was_free(serve):
    pair = Model('pair', Criticality.HIGH, Contract(ms(90)), (Variant(
        'only', 'net', RuntimeProfile(ms(20), ms(20)), instances=1),), QueuePolicy.FIFO, 4)
    scheduler = Scheduler(System({'pair': pair}, slots=2))
    for number, stream in enumerate(('left', 'right', 'right'), 1):
        scheduler.handle(RequestArrived(number, 'pair', stream, '', 0), now_ns=ms(number))
    scheduler.handle(BackendCompleted(1), now_ns=ms(20))
    values = samples(serve(Metrics(lambda: scheduler.snapshot(now_ns=ms(20)))))
    assert values['vig_waited_for_instance_total', 'pair', 'left'] == 0
    assert values['vig_waited_for_instance_total', 'pair', 'right'] == 2


def test_the_background_has_its_progress_and_its_starvation(played, serve):
    values = samples(serve(played[1]))
    assert values['vig_requests_stale_total', 'job', 'jobs'] == 1
    assert values['vig_best_effort_starved_total', 'job', 'jobs'] == 1
    assert values['vig_background_progress_ratio', 'job', 'jobs'] == 0
    assert values['vig_background_progress_required_ratio', 'job', 'jobs'] == 0.05
    assert ('vig_best_effort_starved_total', 'cam', 'front') not in values


def test_gaps_and_the_window_of_the_budget_are_told(played, serve):
    scheduler, metrics = played
    values = samples(serve(metrics))
    front = scheduler.snapshot(now_ns=ms(201)).streams[0]
    assert values['vig_longest_gap_seconds', 'cam', 'front'] == front.longest_gap_ns / 1e9
    assert values['vig_weakly_hard_observed', 'cam', 'front'] == 1
    assert values['vig_weakly_hard_misses_left', 'cam', 'front'] == front.weakly_hard_left
    assert ('vig_longest_gap_seconds', 'job', 'jobs') not in values


def test_histograms_and_variants_are_counted_as_they_happen(played, serve):
    metrics = played[1]
    metrics.timings().add(30_000)
    values = samples(serve(metrics))
    assert values['vig_variant_selected_total', 'cam', 'front', 'full'] == 5
    assert values['vig_backend_runtime_seconds_sum', 'cam', 'full'] == pytest.approx(0.1)
    assert values['vig_information_age_seconds_count', 'cam', 'front'] == 5
    assert values['vig_queue_wait_seconds_count', 'job', 'jobs'] == 1
    assert values['vig_decision_seconds_bucket', '5e-05'] == 1
    assert values['vig_decision_seconds_bucket', '2e-05'] == 0


def test_without_a_session_there_are_no_streams(serve):
    values = samples(serve(Metrics(lambda: None)))
    assert ('vig_overload_state',) not in values
    assert values['vig_decision_seconds_count',] == 0


@pytest.mark.parametrize('path, health, code, words', [
    ('healthz', Health(True, False, 'inactive'), 200, 'ok'),
    ('readyz', Health(True, True), 200, 'ok'),
    ('readyz', Health(True, False, 'the node is inactive'), 503, 'the node is inactive'),
    ('healthz', Health(False, False, 'no answer'), 503, 'no answer'),
    ('secrets', Health(True, True), 404, '/readyz')])
def test_alive_and_ready_are_different_questions(serve, path, health, code, words):
    url = serve(Metrics(lambda: None), health)
    try:
        answer = urlopen(f'{url}/{path}', timeout=5)
    except HTTPError as error:
        answer = error
    assert answer.status == code and words in answer.read().decode()


def test_only_reading_is_allowed(serve):
    with pytest.raises(HTTPError, match='405'):
        urlopen(Request(f'{serve(Metrics(lambda: None))}/metrics', data=b'x'), timeout=5)


def test_a_port_that_is_taken_is_named(serve):
    port = int(serve(Metrics(lambda: None)).rpartition(':')[2])
    with pytest.raises(CannotServe, match=f'metrics_port {port} on 127.0.0.1: .*in use'):
        MetricsServer(Metrics(lambda: None), lambda: Health(True, True), address='127.0.0.1',
                      port=port)
