"""
One instance and two slots on a real server: what a camera waits with and without the limit.

Two cameras share a model of 40 ms with one instance; a third has one of 20 ms of its own. All
three send every 100 ms, the third one last. Without the limit the shared model takes both slots.
"""

from contextlib import contextmanager
from statistics import median
import threading

import numpy as np
import pytest
from triton_fixture import model_repository, require_triton

from vig_core.contract import Contract, Criticality
from vig_core.events import RequestArrived
from vig_core.model import Model, QueuePolicy, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.units import ms, NS_PER_MS

from vig_governor.actor import Actor
from vig_governor.backend.triton import TritonBackend
from vig_governor.clock import SteadyClock
from vig_governor.dispatcher import Dispatcher
from vig_governor.instances import disagreements
from vig_governor.ports import Payload
from vig_governor.triton_server import TritonServer

ROUNDS = 15
CAMERAS = ('left', 'right', 'third')


class Frames:
    """Keeps how each frame ended, and encodes an image of one value."""

    def __init__(self):
        self.ends = {camera: [] for camera in CAMERAS}

    def encode(self, message, slot):
        slot.allocate('IMAGE', (2, 2, 3), 'UINT8')[...] = np.uint8(message)

    def on_decided(self, action, payload):
        pass

    def on_terminated(self, action, payload, outputs):
        self.ends[action.stream].append(action)


@pytest.fixture(scope='module')
def server(tmp_path_factory):
    """Give a server with both models, one instance each."""
    require_triton()
    with TritonServer(model_repository(tmp_path_factory.mktemp('models'), {
            'shared': ('sleeper', {'delay_ms': '40'}),
            'own': ('sleeper', {'delay_ms': '20'})})) as made:
        yield made


def make(instances):
    """Two slots; the shared model has as many instances as the governor is told."""
    contract = Contract(deadline_ns=ms(95), max_age_ns=ms(190), period_ns=ms(100))
    return System({
        'pair': Model('pair', Criticality.HIGH, contract, (Variant(
            'main', 'shared', RuntimeProfile(ms(41), ms(45)), instances=instances),),
            QueuePolicy.LATEST_PER_KEY, 2),
        'alone': Model('alone', Criticality.HIGH, contract, (Variant(
            'main', 'own', RuntimeProfile(ms(21), ms(25)), instances=instances),))}, slots=2)


@contextmanager
def governed(server, system, frames):
    """Run the core between a real backend and these frames."""
    backend, clock = TritonBackend(server.grpc_endpoint), SteadyClock()
    backend.connect(timeout_s=5)
    for camera in CAMERAS:
        backend.open_stream(camera, slots=4, transport='copy')
    dispatcher = Dispatcher(backend, dict.fromkeys(CAMERAS, frames))
    actor = Actor(Scheduler(system, origin_ns=clock.now_ns()), clock=clock, sending=dispatcher,
                  sink=frames)
    dispatcher.start(actor.post)
    actor.start()
    try:
        yield actor, clock
        assert actor.drain(deadline_s=10)
    finally:
        dispatcher.close()
        backend.close()


def play(server, instances):
    """Let the cameras send; gives the ends of each, the first two rounds left out."""
    frames, pause, number = Frames(), threading.Event(), 0
    with governed(server, make(instances), frames) as (actor, clock):
        for _ in range(ROUNDS):
            for camera in CAMERAS:
                number += 1
                model = 'alone' if camera == 'third' else 'pair'
                actor.post(RequestArrived(number, model, camera, camera, clock.now_ns()),
                           Payload(camera, number))
                pause.wait(0.005)
            pause.wait(0.085)
    return {camera: ends[2:] for camera, ends in frames.ends.items()}


def medians_ms(ends):
    """Give the median age of each camera's results, in milliseconds."""
    return {camera: median(one.age_ns for one in each if one.reason is Reason.COMPLETED)
            / NS_PER_MS for camera, each in ends.items()}


def test_a_camera_no_longer_waits_for_a_slot_that_is_taken_for_nothing(server):
    without, with_limit = play(server, None), play(server, 1)
    before, after = medians_ms(without), medians_ms(with_limit)
    print(f'median age in ms: without the limit {before}, with it {after}')
    assert before['third'] > 45, 'it waits until the left frame has ended at 40'
    assert after['third'] < 35, 'it starts on arrival'
    assert after['right'] == pytest.approx(before['right'], abs=12)
    at_server = {name: median(one.backend_ns for one in ends['right']) / NS_PER_MS
                 for name, ends in (('without', without), ('with', with_limit))}
    print(f'right at the server for {at_server} ms')
    assert at_server['without'] > 65 and at_server['with'] < 55


def test_the_node_can_tell_that_the_file_lacks_the_limit(server):
    backend = TritonBackend(server.grpc_endpoint)
    try:
        backend.connect(timeout_s=5)
        capacities = {name: backend.inspect(name, may_stream=False, timeout_s=5).capacity
                      for name in ('shared', 'own')}
    finally:
        backend.close()
    assert [one.variant for one in disagreements(make(None).models, 2, capacities)] == [
        'shared', 'own']
    assert not list(disagreements(make(1).models, 2, capacities))
