"""Calls that are open while a real server is replaced by another one at the same address."""

import shutil
import time

from holder import Holder
import numpy as np
import pytest
from triton_fixture import Asker, model_repository, require_triton
from vig_governor import watch
from vig_governor.backend.base import Answered, Failed
from vig_governor.backend.triton import TritonBackend
from vig_governor.triton_server import TritonServer
from waiting import wait_until

PIXEL = np.zeros((1, 1, 3), np.uint8)
LONG = np.array([3000], np.float32)


@pytest.fixture
def repository(tmp_path):
    """Give a repository whose model ``m`` sleeps, two at once."""
    folder = model_repository(tmp_path / 'models', {'m': ('sleeper', {'delay_ms': '1'})})
    config = folder / 'm' / 'config.pbtxt'
    config.write_text(config.read_text().replace('KIND_CPU count: 1', 'KIND_CPU count: 2'))
    return folder


@pytest.fixture
def server(repository):
    require_triton()
    with TritonServer(repository) as server:
        yield server


@pytest.fixture
def watched(server, monkeypatch):
    """Give a client that gives up soon, with a watch that looks when something breaks."""
    monkeypatch.setattr(watch, 'QUIET_PERIOD_S', 60.0)
    backend = TritonBackend(server.grpc_endpoint, give_up_after_s=0.5)
    backend.connect(timeout_s=5.0)
    backend.open_stream('copied', slots=4, transport='copy')
    made = watch.ServerWatch(backend, {'m': backend.inspect('m', timeout_s=5.0)})
    made.start()
    assert made.wait_until_warm(10.0)
    wait_until(lambda: backend.tally.is_counting('m'))
    yield Asker(backend), made
    made.close()
    backend.close()


def other_weights(repository):
    """Exchange what the model computes, under the same name and signature."""
    model = repository / 'm' / '1' / 'model.py'
    model.write_text(model.read_text().replace("DEFAULT_DELAY_MS = '50'",
                                               "DEFAULT_DELAY_MS = '60'"))


def another_model(repository, template):
    """Put a model with other outputs under the same name, or the first one back."""
    shutil.rmtree(repository / 'm')
    model_repository(repository, {'m': (template, {})})


def is_held_for(holder, seconds):
    with pytest.raises(AssertionError):
        wait_until(lambda: not holder.held, seconds)
    return bool(holder.held)


def broken_call(asker, made):
    """Send a long inference, wait until its client gives up, and hold its slot."""
    asked = asker.send('copied', 'm', IMAGE=PIXEL, DELAY_MS=LONG)
    holder = Holder(asked.request_id)
    made.attach(holder)
    begin = time.monotonic()
    outcome = asked.wait()
    assert isinstance(outcome, Failed) and not outcome.is_over
    return holder, begin


def test_what_broke_on_a_new_server_before_it_was_seen_is_not_freed_by_its_warm_up(
        watched, server, repository):
    asker, made = watched
    server.stop()
    other_weights(repository)
    server.start()
    wait_until(lambda: isinstance(asker.ask('copied', 'm', IMAGE=PIXEL), Answered))
    assert made.state.restarts == 0, 'the watch has seen the new server too early for this test'
    holder, begin = broken_call(asker, made)
    wait_until(lambda: made.state.restarts == 1, 5)
    wait_until(lambda: asker.backend.statistics('m').finished >= 2, 5, 'no warm-up')
    assert time.monotonic() - begin < 2.5, 'too slow for this test: it does not run any more'
    assert is_held_for(holder, max(0.0, begin + 3.0 - time.monotonic()))

    server.kill()
    made.poke()
    wait_until(lambda: made.state.silent_since_s is not None)
    server.start()
    wait_until(lambda: not holder.held, 10, 'a server that was seen to execute frees nothing')


@pytest.mark.parametrize('template', ['sleeper', 'echo'])
def test_what_ran_in_a_killed_server_waits_until_its_successor_executes(
        watched, server, repository, template):
    asker, made = watched
    asked = asker.send('copied', 'm', IMAGE=PIXEL, DELAY_MS=LONG)
    holder = Holder(asked.request_id)
    made.attach(holder)
    with pytest.raises(AssertionError):
        asked.wait(0.2)
    server.kill()
    assert isinstance(asked.wait(2.0), Failed)
    wait_until(lambda: made.state.silent_since_s is not None)
    assert holder.held
    another_model(repository, template)
    server.start()
    if template == 'echo':
        wait_until(lambda: made.state.changed, 10)
        assert is_held_for(holder, 1.0), 'nothing was sent to a model of another signature'
        server.stop()
        another_model(repository, 'sleeper')
        server.start()
    wait_until(lambda: not holder.held, 10)
    assert made.state.reconciled == 1
