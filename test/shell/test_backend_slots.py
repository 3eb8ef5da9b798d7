"""Input slots and their registration, against a server of a few lines: staged, not real."""

import gc
import os
from pathlib import Path
import subprocess
import sys
import threading

import numpy as np
import pytest

from vig_governor.backend.base import NoFreeSlot
from vig_governor.backend.segments import (Knowledge, private_segment, Refused, Registrar,
                                           Unreachable)
from vig_governor.backend.senders import Senders
from vig_governor.backend.shared_memory import SharedRegion, sweep
from vig_governor.backend.slots import ALIGNMENT, Slot, SlotPool
from waiting import wait_until


class StagedServer:
    """Knows the regions that were registered; fails the next calls as told."""

    def __init__(self):
        self.regions = {}
        self.failures = []

    def register(self, name, key, byte_size):
        if self.failures:
            raise self.failures.pop(0)
        assert os.stat(f'/dev/shm{key}').st_size == byte_size
        self.regions[name] = byte_size

    def unregister(self, name):
        del self.regions[name]


@pytest.fixture
def server():
    return StagedServer()


@pytest.fixture
def registrar(server):
    registrar = Registrar(server.register, server.unregister, endpoint='staged:1',
                          key_prefix='/vig_test_')
    yield registrar
    registrar.close(timeout_s=2.0)
    assert not [name for name in os.listdir('/dev/shm') if name.startswith('vig_test_')]


@pytest.fixture
def slot(registrar):
    return Slot(registrar.segment, registrar.discard)


def known(segment, knowledge):
    wait_until(lambda: segment.knowledge is knowledge, what=f'{knowledge} of a segment')


def test_the_encoder_writes_into_the_shared_mapping_itself(slot):
    array = slot.allocate('image', (4, 5, 3), 'FP32')
    array[...] = 7.0
    memory = slot.segments[0].memory
    assert np.all(np.frombuffer(memory, np.float32, 60) == 7.0)
    assert array.flags.c_contiguous and array.flags.writeable


def test_tensors_of_one_slot_start_at_cache_lines(slot):
    slot.allocate('mask', (7,), 'UINT8')
    slot.allocate('image', (3,), 'FP64')
    assert slot.tensors['mask'].segment is slot.tensors['image'].segment
    assert slot.tensors['image'].offset == ALIGNMENT


def test_a_name_lives_only_until_the_server_has_opened_it(slot, server):
    slot.allocate('image', (10,), 'UINT8')
    segment, = slot.segments
    known(segment, Knowledge.SHARED)
    assert server.regions == {segment.region.name: segment.byte_size}
    wait_until(lambda: not os.path.exists(f'/dev/shm{segment.region.key}'))


def test_memory_is_exchanged_between_two_requests_never_within_one(slot, registrar, server):
    small = slot.allocate('image', (1000,), 'UINT8')
    big = slot.allocate('more', (100_000,), 'UINT8')
    small[...], big[...] = 1, 2
    assert len(slot.segments) == 2 and small[0] == 1
    for segment in slot.segments:
        known(segment, Knowledge.SHARED)
    slot.begin()
    slot.allocate('image', (1000,), 'UINT8')
    slot.allocate('more', (100_000,), 'UINT8')
    assert len(slot.segments) == 1
    known(slot.segments[0], Knowledge.SHARED)
    wait_until(lambda: len(server.regions) == 1)
    assert small[0] == 1 and big[0] == 2, 'arrays outlive the slot that lent them'


def test_bytes_of_any_length_are_kept_as_they_are(slot):
    slot.put_bytes('text', (1, 2), [b'a', b'a longer one'])
    assert slot.tensors['text'].array.tolist() == [[b'a', b'a longer one']]
    assert slot.tensors['text'].segment is None
    with pytest.raises(ValueError, match='does not hold 1 elements'):
        slot.put_bytes('text', (2,), [b'a'])


@pytest.mark.parametrize('shape, datatype', [((2,), 'BYTES'), ((-1, 3), 'UINT8')])
def test_what_has_no_fixed_size_cannot_be_allocated(slot, shape, datatype):
    with pytest.raises(ValueError):
        slot.allocate('x', shape, datatype)


def test_an_empty_tensor_needs_no_memory(slot):
    assert slot.allocate('boxes', (0, 4), 'FP32').shape == (0, 4)
    assert slot.segments == ()


def test_a_server_that_was_restarted_gets_new_regions_without_a_lost_frame(slot, registrar):
    slot.allocate('image', (10,), 'UINT8')
    before, = slot.segments
    known(before, Knowledge.SHARED)
    assert registrar.may_refer_to(before)
    registrar.start_epoch()
    assert not registrar.may_refer_to(before)
    slot.begin()
    slot.allocate('image', (10,), 'UINT8')
    after, = slot.segments
    assert after is not before
    known(after, Knowledge.SHARED)
    assert registrar.may_refer_to(after)


def test_a_refusal_is_said_once_and_asked_again_in_the_next_epoch(slot, server, registrar,
                                                                  caplog):
    server.failures = [Refused('no'), Refused('no')]
    for _ in range(3):
        slot.begin()
        slot.clear()
        slot.allocate('image', (10,), 'UINT8')
        segment, = slot.segments
        wait_until(lambda: segment.knowledge in (Knowledge.REFUSED, Knowledge.PRIVATE))
    assert [record.levelname for record in caplog.records] == ['WARNING']
    assert 'staged:1' in caplog.text
    server.failures.clear()
    registrar.start_epoch()
    slot.clear()
    slot.allocate('image', (10,), 'UINT8')
    known(slot.segments[0], Knowledge.SHARED)


def test_a_server_that_does_not_answer_is_asked_again_later(slot, server, registrar):
    server.failures = [Unreachable('down'), Unreachable('down')]
    slot.allocate('image', (10,), 'UINT8')
    segment, = slot.segments
    wait_until(lambda: registrar.may_refer_to(segment))


def test_slots_are_lent_to_one_request_each_and_the_warmest_goes_first(registrar):
    pool = SlotPool('front', 2, lambda: Slot(private_segment, registrar.discard))
    first = pool.acquire(1)
    second = pool.acquire(2)
    with pytest.raises(NoFreeSlot, match="all 2 input slots of stream 'front'.*: 1, 2"):
        pool.acquire(3)
    with pytest.raises(ValueError, match='already holds'):
        pool.acquire(2)
    assert pool.release(1) and not pool.release(1)
    assert pool.acquire(4) is first is not second


def test_a_retired_pool_frees_what_is_in_use_only_when_it_is_released(registrar, server):
    pool = SlotPool('front', 2, lambda: Slot(registrar.segment, registrar.discard))
    slots = pool.acquire(1), pool.acquire(2)
    for slot in slots:
        slot.allocate('image', (10,), 'UINT8')
        known(slot.segments[0], Knowledge.SHARED)
    pool.release(1)
    in_use = pool.retire()
    assert in_use == slots[1].segments
    wait_until(lambda: len(server.regions) == 1)
    pool.release(2)
    wait_until(lambda: not server.regions)


def test_mappings_end_with_the_last_array_that_looks_into_them(slot):
    def mapped():
        with open('/proc/self/maps') as file:
            return file.read().count('/dev/shm/vig_test_')
    array = slot.allocate('image', (10,), 'UINT8')
    slot.clear()
    gc.collect()
    assert mapped() == 1 and array[0] in range(256)
    del array
    gc.collect()
    wait_until(lambda: gc.collect() is not None and mapped() == 0)


def test_what_a_killed_process_left_is_swept_up_and_nothing_else():
    child = ('import os; from vig_governor.backend.shared_memory import SharedRegion as R; '
             'r = R(1, "/vig_test_"); print(r.key, flush=True); os._exit(1)')
    left = subprocess.run([sys.executable, '-c', child], capture_output=True, text=True,
                          cwd=Path(__file__).parents[2]).stdout.strip()
    ours = SharedRegion(1, '/vig_test_')
    foreign = Path('/dev/shm/vig_test_readme')
    foreign.touch()
    assert sweep('/vig_test_') == [], 'a young name may be on its way to the server'
    assert sweep('/vig_test_', older_than_s=0.0) == [left]
    assert Path(f'/dev/shm{ours.key}').exists() and foreign.exists()
    ours.unlink()
    foreign.unlink()


def test_every_job_has_a_thread_and_threads_are_used_again():
    senders = Senders()
    gate = threading.Event()
    arrived = threading.Semaphore(0)

    def wait():
        arrived.release()
        gate.wait(5.0)

    for _ in range(5):
        senders.submit(wait)
    for _ in range(5):
        assert arrived.acquire(timeout=2.0), 'a job waited for another one'
    gate.set()
    wait_until(lambda: senders._idle == 5)
    for _ in range(5):
        senders.submit(lambda: None)
        wait_until(lambda: senders._idle == 5)
    assert senders.threads == 5
    senders.close(timeout_s=2.0)
    with pytest.raises(RuntimeError, match='closed'):
        senders.submit(wait)
