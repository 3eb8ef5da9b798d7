"""A server that is killed, stopped, restarted, or half ready: what the adapter says and does."""

import os
import re
import signal
import time
import zlib

import numpy as np
import pytest
from triton_fixture import (Asker, CARRIERS, connected_to, model_repository, MODELS, output,
                            require_triton)
from vig_governor.backend.base import Answered, BackendUnavailable, Failed
from vig_governor.backend.triton import TritonBackend
from vig_governor.triton_server import free_port, TritonServer
from waiting import wait_until

PIXEL = np.zeros((1, 1, 3), np.uint8)
LONG = np.array([4000], np.float32)


@pytest.fixture(scope='module')
def mortal_server():
    """Give a server that the tests of this module may kill; it is running at each start."""
    require_triton()
    with TritonServer(MODELS, load=['echo', 'sleeper']) as server:
        yield server


@pytest.fixture(params=CARRIERS)
def mortal(mortal_server, request):
    if not mortal_server.is_running:
        mortal_server.start()
    backend = connected_to(mortal_server, request.param)
    backend.connect(timeout_s=5.0)
    backend.open_stream('shared', slots=2, transport='auto')
    yield Asker(backend)
    backend.close()


def until_answered(asker):
    """Ask until the server answers again; gives the seconds that took."""
    begin = time.monotonic()
    wait_until(lambda: isinstance(asker.ask('shared', 'echo', IMAGE=PIXEL), Answered), 10.0)
    return time.monotonic() - begin


def test_a_killed_server_ends_its_request_at_once_but_proves_nothing(mortal, mortal_server):
    asked = mortal.send('shared', 'sleeper', IMAGE=PIXEL, DELAY_MS=LONG)
    with pytest.raises(AssertionError):
        asked.wait(0.3)
    killed = time.monotonic()
    mortal_server.kill()
    outcome = asked.wait(1.0)
    assert isinstance(outcome, Failed) and not outcome.is_over
    assert time.monotonic() - killed < 1.0
    assert mortal_server.grpc_endpoint in outcome.detail
    assert re.search('UNAVAILABLE|connection to .* lost', outcome.detail)
    mortal.backend.release(asked.request_id)

    refused = mortal.ask('shared', 'echo', IMAGE=PIXEL)
    assert isinstance(refused, Failed) and refused.is_over, 'it never left this host'
    assert 'failed to connect' in refused.detail

    mortal_server.start()
    assert until_answered(mortal) < 2.5
    assert len(asked.outcomes) == 1


def test_no_frame_is_lost_to_the_shared_memory_of_a_restarted_server(mortal, mortal_server):
    image = np.arange(30000, dtype=np.uint8).reshape(100, 100, 3)

    def is_by_reference():
        before = mortal.backend.sent_by_reference
        answer = mortal.ask('shared', 'echo', IMAGE=image)
        assert output(answer, 'CHECKSUM')[0] == zlib.crc32(image)
        return mortal.backend.sent_by_reference > before

    wait_until(is_by_reference)
    mortal_server.stop()
    mortal_server.start()
    wait_until(mortal.backend.is_live)
    # Nobody has told the backend; its next frame points into memory that the server forgot.
    assert output(mortal.ask('shared', 'echo', IMAGE=image), 'CHECKSUM')[0] == zlib.crc32(image)
    wait_until(is_by_reference)


def test_a_stopped_server_answers_after_it_is_continued(mortal, mortal_server):
    mortal_server.pause()
    try:
        asked = mortal.send('shared', 'echo', IMAGE=PIXEL)
        assert not mortal.backend.is_live(timeout_s=0.2)
        with pytest.raises(AssertionError):
            asked.wait(0.3)
    finally:
        mortal_server.resume()
    assert isinstance(asked.wait(5.0), Answered)


@pytest.mark.parametrize('carrier', CARRIERS)
def test_giving_up_on_a_stopped_server_proves_nothing(mortal_server, carrier):
    impatient = connected_to(mortal_server, carrier, give_up_after_s=0.3)
    impatient.open_stream('copied', slots=1, transport='copy')
    impatient.connect(timeout_s=2.0)
    mortal_server.pause()
    try:
        outcome = Asker(impatient).send('copied', 'echo', IMAGE=PIXEL).wait(2.0)
    finally:
        mortal_server.resume()
    impatient.close()
    assert isinstance(outcome, Failed) and not outcome.is_over
    assert re.search('DEADLINE_EXCEEDED|no answer within 0.3 s', outcome.detail)


def test_everything_at_configure_is_bounded_while_the_server_is_stopped(mortal, mortal_server):
    fresh = TritonBackend(mortal_server.grpc_endpoint)
    fresh.connect(timeout_s=2.0)
    mortal_server.pause()
    try:
        for call in (lambda: mortal.backend.connect(timeout_s=0.5),
                     lambda: mortal.backend.inspect('echo', timeout_s=0.5),
                     lambda: mortal.backend.statistics('echo', timeout_s=0.5),
                     lambda: fresh.open_stream('two', slots=1, transport='shm')):
            begin = time.monotonic()
            with pytest.raises(BackendUnavailable, match=mortal_server.grpc_endpoint):
                call()
            assert time.monotonic() - begin < 1.8
        fresh.close()
        begin = time.monotonic()
        asked = mortal.send('shared', 'echo', IMAGE=np.zeros((500, 500, 3), np.uint8))
        assert time.monotonic() - begin < 0.3, 'sending waited for the server'
        begin = time.monotonic()
        mortal.backend.close()
        assert time.monotonic() - begin < 3.0
        outcome = asked.wait(1.0)
        assert isinstance(outcome, Failed) and not outcome.is_over
    finally:
        mortal_server.resume()
    assert not [name for name in os.listdir('/dev/shm') if name.startswith(f'vig_{os.getpid()}_')]


def test_an_unreachable_server_is_said_with_endpoint_and_remedy_and_can_be_tried_again():
    require_triton()
    port = free_port()
    backend = TritonBackend(f'127.0.0.1:{port}')
    begin = time.monotonic()
    with pytest.raises(BackendUnavailable) as caught:
        backend.connect(timeout_s=0.6)
    assert time.monotonic() - begin < 1.0
    assert f'127.0.0.1:{port}' in str(caught.value) and 'start the server' in str(caught.value)
    with TritonServer(MODELS, load=['echo'], grpc_port=port):
        assert backend.connect(timeout_s=5.0) == f'triton 2.51.0 at 127.0.0.1:{port}'
    backend.close()


def test_an_unknown_model_is_said_with_those_that_exist(mortal):
    with pytest.raises(BackendUnavailable, match="no model 'detektor'; its models are .*echo, "):
        mortal.backend.inspect('detektor', timeout_s=2.0)
    assert not mortal.backend.is_model_ready('detektor')


def test_frames_end_one_by_one_while_their_model_is_away_and_run_again_by_themselves(
        mortal, mortal_server):
    # Field case T15, with the model unloaded instead of the server's two seconds of excuses.
    assert isinstance(mortal.ask('shared', 'echo', IMAGE=PIXEL), Answered)
    mortal_server.unload_model('echo')
    wait_until(lambda: not mortal.backend.is_model_ready('echo'))
    assert mortal.backend.is_live()
    for _ in range(5):
        outcome = mortal.ask('shared', 'echo', IMAGE=PIXEL)
        assert isinstance(outcome, Failed) and outcome.is_over and "'echo'" in outcome.detail
    with pytest.raises(BackendUnavailable, match="'echo' at .* is not ready .*load it"):
        mortal.backend.inspect('echo', timeout_s=2.0)
    mortal_server.load_model('echo')
    assert until_answered(mortal) < 1.0


@pytest.fixture(scope='module')
def half_ready_server(tmp_path_factory):
    """Give a server that is never ready, because one model does not load; others are odd."""
    require_triton()
    repository = model_repository(tmp_path_factory.mktemp('models'), {
        name: ('echo', {}) for name in ('echo', 'broken', 'decoupled', 'batching')})
    (repository / 'broken' / '1' / 'model.py').write_text('raise RuntimeError("no weights")\n')
    for name, line in (('decoupled', 'model_transaction_policy { decoupled: true }'),
                       ('batching', 'dynamic_batching { max_queue_delay_microseconds: 100000 }')):
        config = repository / name / 'config.pbtxt'
        text = config.read_text().replace('max_batch_size: 0', 'max_batch_size: 4')
        config.write_text(f'{text}{line}\n')
    with TritonServer(repository, arguments=['--exit-on-error=false'],
                      wait_for=['echo', 'decoupled', 'batching']) as server:
        yield server


@pytest.fixture
def half_ready(half_ready_server):
    backend = TritonBackend(half_ready_server.grpc_endpoint)
    backend.open_stream('front', slots=1, transport='auto')
    yield Asker(backend)
    backend.close()


def test_a_model_keeps_running_while_the_server_says_that_it_is_not_ready(half_ready):
    # Field case T16: readiness is a matter of the model, not of its neighbours.
    backend = half_ready.backend
    assert backend.is_model_ready('echo') and not backend.is_model_ready('broken')
    backend.inspect('echo', timeout_s=2.0)
    assert isinstance(half_ready.ask('front', 'echo', IMAGE=PIXEL), Answered)
    with pytest.raises(BackendUnavailable, match="'broken' at .* is not ready .*no weights"):
        backend.inspect('broken', timeout_s=2.0)


def test_a_decoupled_model_is_refused_at_configure_with_the_remedy(half_ready):
    with pytest.raises(BackendUnavailable, match="'decoupled' is decoupled .*config.pbtxt"):
        half_ready.backend.inspect('decoupled', timeout_s=2.0)


def test_a_batching_model_is_warned_about_and_gets_the_axis_it_wants(half_ready):
    signature = half_ready.backend.inspect('batching', timeout_s=2.0)
    assert signature.max_batch_size == 4 and signature.inputs[0].shape == (-1, -1, -1)
    assert any('waits up to 100 ms' in warning for warning in signature.warnings)
    outcome = half_ready.ask('front', 'batching', IMAGE=np.zeros((2, 3, 4), np.uint8))
    assert list(output(outcome, 'SHAPE').flat) == [1, 2, 3, 4]


def test_a_server_that_is_told_to_end_first_answers_what_runs(mortal, mortal_server):
    asked = mortal.send('shared', 'sleeper', IMAGE=PIXEL, DELAY_MS=np.array([700], np.float32))
    with pytest.raises(AssertionError):
        asked.wait(0.3)
    os.kill(mortal_server.pid, signal.SIGTERM)
    assert isinstance(asked.wait(5.0), Answered)
    mortal_server.stop()
    late = mortal.ask('shared', 'echo', IMAGE=PIXEL)
    assert isinstance(late, Failed) and late.is_over
