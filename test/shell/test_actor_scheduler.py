"""The actor, the dispatcher and the real scheduler together, between staged neighbours."""

from collections import Counter
import random
import threading

import pytest

from vig_core.contract import Contract, Criticality
from vig_core.events import RequestArrived
from vig_core.model import Model, QueuePolicy, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.units import ms
from vig_governor.actor import Actor
from vig_governor.backend.base import Answered, Failed, NoFreeSlot
from vig_governor.clock import SteadyClock
from vig_governor.dispatcher import Dispatcher
from vig_governor.encoders.base import EncodeError
from vig_governor.ports import Payload

from waiting import wait_until


class MoodyBackend:
    """Stands for a server: answers after a short while, sometimes badly, from other threads."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.taken = set()
        self.running = 0
        self.most = 0
        self.timers = []

    def acquire(self, stream, request_id):
        with self.lock:
            if self.random.random() < 0.05:
                raise NoFreeSlot('all slots are in use')
            self.taken.add(request_id)
        return {}

    def release(self, request_id):
        with self.lock:
            self.taken.discard(request_id)

    def infer(self, request_id, backend_model, slot, on_end):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
            mood = self.random.random()
            timer = threading.Timer(self.random.uniform(0, 0.02), self._end, (mood, on_end))
            self.timers.append(timer)
        timer.start()

    def _end(self, mood, on_end):
        with self.lock:
            self.running -= 1
        on_end(Failed('no', is_over=True) if mood < 0.2 else Answered(()))


class PickyEncoder:
    """Refuses some messages and stumbles over others."""

    def encode(self, message, slot):
        if message % 17 == 0:
            raise EncodeError('not this one')
        if message % 23 == 0:
            raise IndexError('a bug')


class Statuses:
    """Counts endings per request."""

    def __init__(self):
        self.reasons = {}
        self.count = Counter()

    def on_decided(self, action, payload):
        pass

    def on_terminated(self, action, payload, outputs):
        self.count[action.request_id] += 1
        self.reasons[action.request_id] = action.reason


def model(name, criticality, policy, capacity):
    return Model(name, criticality, Contract(deadline_ns=ms(40), max_age_ns=ms(80),
                                             period_ns=ms(5)),
                 (Variant('only', f'{name}_model', RuntimeProfile(ms(8), ms(20))),),
                 policy=policy, capacity=capacity)


@pytest.mark.parametrize('seed', range(3))
def test_whatever_the_server_and_the_encoders_do_every_request_ends_exactly_once(seed):
    models = {'a': model('a', Criticality.PROTECTED, QueuePolicy.LATEST, 1),
              'b': model('b', Criticality.NORMAL, QueuePolicy.FIFO, 3),
              'c': model('c', Criticality.BEST_EFFORT, QueuePolicy.NEVER_DROP, 2)}
    clock, statuses, backend = SteadyClock(), Statuses(), MoodyBackend(seed)
    dispatcher = Dispatcher(backend, dict.fromkeys(models, PickyEncoder()))
    actor = Actor(Scheduler(System(models, slots=2), origin_ns=clock.now_ns()), clock=clock,
                  sending=dispatcher, sink=statuses)
    dispatcher.start(actor.post)
    actor.start()
    chance = random.Random(seed)
    pause = threading.Event()
    for number in range(1, 301):
        name = chance.choice('abc')
        actor.post(RequestArrived(number, name, name, name, clock.now_ns() - ms(1)),
                   Payload(name, number))
        pause.wait(chance.choice((0, 0, 0.002, 0.01)))
    assert actor.drain(deadline_s=10)
    dispatcher.close()
    assert statuses.count == Counter(range(1, 301))
    assert Reason.COMPLETED in statuses.reasons.values()
    assert backend.most <= 2
    wait_until(lambda: not backend.running)
    for timer in backend.timers:
        timer.join()
    assert not backend.taken
