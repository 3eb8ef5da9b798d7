"""The dispatcher against a staged backend: every submitted request comes back exactly once."""

import threading

import numpy as np
import pytest

from vig_core.actions import Dispatch
from vig_core.events import BackendCompleted, BackendFailed, DispatchRefused
from vig_core.request import Reason
from vig_governor.backend.base import Answered, Failed, NoFreeSlot, OutputTensor
from vig_governor.dispatcher import Dispatcher
from vig_governor.encoders.base import EncodeError
from vig_governor.ports import Payload

from waiting import wait_until


class StagedBackend:
    """Answers at once with what the test has put on stage; stands for no real server."""

    def __init__(self):
        self.outcome = Answered((OutputTensor('sum', 'INT32', (1,), b'\x07\0\0\0'),))
        self.fault = None
        self.is_full = False
        self.inferred = []
        self.released = []

    def acquire(self, stream, request_id):
        if self.is_full:
            raise NoFreeSlot(f'all 4 input slots of stream {stream} are in use')
        return {}

    def infer(self, request_id, backend_model, slot, on_end):
        if self.fault is not None:
            raise self.fault
        self.inferred.append((request_id, backend_model, slot['image'].tolist()))
        on_end(self.outcome)

    def release(self, request_id):
        self.released.append(request_id)


class ListEncoder:
    """Encodes a list of numbers; a message that is an exception is raised instead."""

    def __init__(self):
        self.threads = set()

    def encode(self, message, slot):
        self.threads.add(threading.current_thread().name)
        if isinstance(message, Exception):
            raise message
        slot['image'] = np.array(message)


@pytest.fixture
def stage():
    class Stage:
        backend = StagedBackend()
        encoder = ListEncoder()
        posted = []
    made = Stage()
    made.posted = []
    made.dispatcher = Dispatcher(made.backend, {'front': made.encoder})
    made.dispatcher.start(lambda event, payload=None: made.posted.append((event, payload)))
    made.send = lambda message: made.dispatcher.submit(
        Dispatch(1, 'detector', 'large', 'detector_large', 10), Payload('front', message))
    yield made
    made.dispatcher.close()


def test_a_request_is_encoded_off_the_calling_thread_and_its_outputs_come_back(stage):
    stage.send([1, 2])
    wait_until(lambda: stage.posted)
    assert stage.posted == [(BackendCompleted(1), stage.backend.outcome.outputs)]
    assert stage.backend.inferred == [(1, 'detector_large', [1, 2])]
    assert threading.current_thread().name not in stage.encoder.threads


def test_no_free_slot_refuses_with_capacity(stage):
    stage.backend.is_full = True
    stage.send([1])
    wait_until(lambda: stage.posted)
    assert stage.posted == [(DispatchRefused(
        1, Reason.CAPACITY, 'all 4 input slots of stream front are in use'), None)]


def test_a_message_that_cannot_be_encoded_ends_with_the_sentence_of_the_encoder(stage):
    stage.send(EncodeError('encoding yuv9 is not supported; rgb8, bgr8 are'))
    wait_until(lambda: stage.posted)
    assert stage.posted == [(DispatchRefused(
        1, Reason.BACKEND_FAILED, 'encoding yuv9 is not supported; rgb8, bgr8 are'), None)]


def test_a_bug_in_an_encoder_is_logged_with_its_traceback_and_the_next_frame_runs(stage, caplog):
    stage.send(IndexError('a bug'))
    wait_until(lambda: stage.posted)
    stage.send([3])
    wait_until(lambda: len(stage.posted) == 2)
    assert isinstance(stage.posted[0][0], DispatchRefused)
    assert 'IndexError: a bug' in stage.posted[0][0].detail
    assert 'Traceback' in caplog.text
    assert stage.posted[1][0] == BackendCompleted(1)


@pytest.mark.parametrize('is_over', [True, False])
def test_a_failure_says_whether_the_end_is_proven(stage, is_over):
    stage.backend.outcome = Failed('no', is_over)
    stage.send([1])
    wait_until(lambda: stage.posted)
    assert stage.posted == [(BackendFailed(1, 'no', is_over), None)]


def test_a_backend_that_raises_while_sending_proves_nothing(stage):
    stage.backend.fault = RuntimeError('channel closed')
    stage.send([1])
    wait_until(lambda: stage.posted)
    event, _ = stage.posted[0]
    assert isinstance(event, BackendFailed) and not event.is_over
    assert 'channel closed' in event.detail
