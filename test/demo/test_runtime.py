"""Runtimes are measured in independent runs, one request at a time."""

import numpy as np
import pytest

from vig_governor.backend.base import Answered, Failed
from vig_governor.measure.runtime import (
    measure_in_turn, MeasurementFailed, quantile, RuntimeSamples)

FRAMES = [np.full((2, 3, 3), value, np.uint8) for value in (1, 2)]


class Slot:
    def allocate(self, name, shape, datatype):
        assert (name, datatype) == ('IMAGE', 'UINT8')
        self.array = np.zeros(shape, np.uint8)
        return self.array


class FakeBackend:
    """Answers at once, or as ``outcome`` says; remembers what was sent."""

    def __init__(self, outcome=Answered(())):
        self.outcome = outcome
        self.sent, self.taken = [], set()

    def open_stream(self, stream, *, slots, transport):
        assert slots == 1

    def acquire(self, stream, request_id):
        assert not self.taken, 'one request at a time'
        self.taken.add(request_id)
        return Slot()

    def release(self, request_id):
        self.taken.discard(request_id)

    def infer(self, request_id, backend_model, slot, on_end):
        self.sent.append((backend_model, int(slot.array[0, 0, 0])))
        if self.outcome is not None:
            on_end(self.outcome)


def test_warm_up_is_run_but_not_counted_and_frames_are_used_in_turn():
    backend = FakeBackend()
    made = measure_in_turn(backend, 'IMAGE', {'model': FRAMES}, runs=2, samples=3, warmup=1)
    assert backend.sent == [('model', 1), ('model', 2)] * 3 + [('model', 1)]
    assert [len(run) for run in made['model'].runs_ns] == [3, 3]
    assert made['model'].count == 6


def test_models_take_turns_so_that_each_finds_the_caches_as_in_operation():
    backend = FakeBackend()
    made = measure_in_turn(backend, 'IMAGE', {'a': FRAMES, 'b': FRAMES[:1]}, runs=1, samples=2,
                           warmup=0)
    assert backend.sent == [('a', 1), ('b', 1), ('a', 2), ('b', 1)]
    assert {name: samples.count for name, samples in made.items()} == {'a': 2, 'b': 2}


def test_a_failure_is_told_with_the_servers_reason():
    with pytest.raises(MeasurementFailed, match='model failed: out of memory'):
        measure_in_turn(FakeBackend(Failed('out of memory', True)), 'IMAGE', {'model': FRAMES})


def test_a_model_that_never_answers_is_given_up_in_time():
    with pytest.raises(MeasurementFailed, match='did not answer within 0.05 s'):
        measure_in_turn(FakeBackend(None), 'IMAGE', {'model': FRAMES}, timeout_s=0.05)


def test_one_disturbed_run_does_not_move_the_profile():
    samples = RuntimeSamples('model', ((10, 11, 12), (10, 11, 500), (10, 11, 13)))
    assert samples.quantile_ns(99) == 13
    assert samples.quantile_ns(50) == 11


@pytest.mark.parametrize('percent, expected', [(0, 1), (50, 2), (51, 3), (75, 3), (99, 4)])
def test_a_quantile_is_the_smallest_value_that_covers_its_share(percent, expected):
    assert quantile([4, 1, 3, 2], percent) == expected


def test_no_values_have_no_quantile():
    with pytest.raises(ValueError, match='no values'):
        quantile([], 50)
