"""Memory of producers at a real server: registered once, renewed, replaced, never left behind."""

import itertools
import os
import threading
import zlib

import numpy as np
import pytest
from triton_fixture import Asked, CARRIERS, connected_to, MODELS, output, require_triton
from vig_governor.backend.base import Answered, BackendUnavailable, Failed, ReferenceRefused
from vig_governor.backend.triton import TritonBackend
from vig_governor.triton_server import TritonServer
from waiting import wait_until

KEY = f'/vig_lent_at_server_{os.getpid()}'
DATA = np.random.default_rng(0).integers(0, 256, 200_000, np.uint8)
SHAPE = (30, 40, 3)
SIZE = 3600


@pytest.fixture(scope='module')
def mortal_server():
    """Give a server that the tests of this module may stop."""
    require_triton()
    with TritonServer(MODELS, load=['echo', 'sleeper']) as server:
        yield server


class Lender:
    """Asks about memory that this test lends, as a stream of references would."""

    def __init__(self, backend):
        self.backend = backend
        self._numbers = itertools.count(1)

    def send(self, model='echo', *, key=KEY, offset=0, delay_ms=None, shape=SHAPE):
        asked = Asked(next(self._numbers))
        slot = self.backend.acquire('front', asked.request_id)
        try:
            slot.refer('IMAGE', shape, 'UINT8', key, offset, int(np.prod(shape)))
        except ReferenceRefused:
            self.backend.release(asked.request_id)
            raise
        if delay_ms is not None:
            slot.allocate('DELAY_MS', (1,), 'FP32')[...] = delay_ms
        self.backend.infer(asked.request_id, model, slot, asked.receive)
        return asked

    def ask(self, **what):
        asked = self.send(**what)
        outcome = asked.wait()
        self.backend.release(asked.request_id)
        return outcome

    def checksum(self, **what):
        return output(self.ask(**what), 'CHECKSUM')[0]

    @property
    def regions(self):
        """Name every region that the server has registered."""
        status = self.backend._client.get_system_shared_memory_status()
        return sorted(status.regions)


@pytest.fixture(params=CARRIERS)
def lender(mortal_server, request):
    if not mortal_server.is_running:
        mortal_server.start()
    backend = connected_to(mortal_server, request.param)
    backend.connect(timeout_s=5.0)
    backend.open_stream('front', slots=3, transport='refer')
    made = Lender(backend)
    assert not made.regions
    write()
    yield made
    if os.path.exists(f'/dev/shm{KEY}'):
        os.unlink(f'/dev/shm{KEY}')
    backend.close()
    assert not [name for name in os.listdir('/dev/shm') if name.startswith(f'vig_{os.getpid()}_')]


def write(data=DATA, key=KEY):
    file = os.open(f'/dev/shm{key}', os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.write(file, data)
    os.close(file)


def test_the_server_reads_the_very_bytes_at_every_offset(lender):
    for offset in (0, 64, 777, DATA.size - SIZE):
        assert lender.checksum(offset=offset) == zlib.crc32(DATA[offset:offset + SIZE])
    assert len(lender.regions) == 1
    assert lender.backend.sent_by_reference == 4 and lender.backend.sent_inline == 0


def test_what_the_producer_writes_afterwards_is_what_the_next_frame_shows(lender):
    lender.checksum()
    with open(f'/dev/shm{KEY}', 'r+b') as region:
        region.write(bytes(SIZE))
    assert lender.checksum() == zlib.crc32(bytes(SIZE))


def test_a_restarted_server_is_told_again_and_no_frame_is_lost(lender, mortal_server):
    before = lender.checksum()
    mortal_server.stop()
    mortal_server.start()
    wait_until(lender.backend.is_live)
    assert lender.checksum() == before
    assert len(lender.regions) == 1


def test_a_region_gone_when_the_server_comes_back_fails_its_frame_alone(lender, mortal_server):
    lender.checksum()
    mortal_server.stop()
    mortal_server.start()
    wait_until(lender.backend.is_live)
    real, calls = lender.backend._carriers.send, []

    def vanish(*arguments, **options):
        if not calls:
            os.unlink(f'/dev/shm{KEY}')
        calls.append(1)
        return real(*arguments, **options)

    lender.backend._carriers.send = vanish
    outcome = lender.ask()
    assert isinstance(outcome, Failed) and outcome.is_over
    assert 'is not there' in outcome.detail and len(calls) == 1
    write(DATA[::-1].copy())
    assert lender.checksum() == zlib.crc32(DATA[::-1][:SIZE].copy())


def test_a_replaced_region_is_never_mistaken_for_the_old_one(lender):
    # Seen on 2.51: the server refuses a key with which any region is registered already.
    assert lender.checksum() == zlib.crc32(DATA[:SIZE])
    os.unlink(f'/dev/shm{KEY}')
    write(DATA[::-1].copy())
    assert lender.checksum() == zlib.crc32(DATA[::-1][:SIZE].copy())
    wait_until(lambda: len(lender.regions) == 1, what='the end of the old registration')


def test_a_vanished_region_is_said_and_unregistered(lender):
    lender.checksum()
    os.unlink(f'/dev/shm{KEY}')
    with pytest.raises(ReferenceRefused, match='is not there'):
        lender.send()
    wait_until(lambda: not lender.regions)


def test_a_region_that_vanishes_under_an_execution_is_read_to_the_end(lender):
    asked = lender.send('sleeper', delay_ms=700)
    wait_until(lambda: lender.regions)
    os.unlink(f'/dev/shm{KEY}')
    assert isinstance(asked.wait(), Answered)
    assert lender.regions, 'its end was reported, but not yet taken note of'
    lender.backend.release(asked.request_id)
    wait_until(lambda: not lender.regions)


def test_a_tensor_of_the_wrong_size_is_refused_before_it_is_sent(lender):
    with pytest.raises(ReferenceRefused, match='holds 200000 bytes'):
        lender.send(offset=DATA.size - SIZE + 1)
    assert not lender.regions


def test_what_the_server_thinks_of_a_wrong_shape_ends_its_frame(lender):
    outcome = lender.ask(shape=(60, 60))
    assert isinstance(outcome, Failed) and outcome.is_over and 'unexpected shape' in outcome.detail


def test_two_first_frames_of_one_region_at_once_register_it_once(lender):
    gate = threading.Barrier(2)
    sums = []

    def ask(offset):
        gate.wait()
        sums.append(lender.checksum(offset=offset) == zlib.crc32(DATA[offset:offset + SIZE]))

    threads = [threading.Thread(target=ask, args=(offset,)) for offset in (0, 5000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [True, True] and len(lender.regions) == 1


def test_many_regions_stay_within_the_limit_and_leave_nothing(mortal_server):
    if not mortal_server.is_running:
        mortal_server.start()
    backend = TritonBackend(mortal_server.grpc_endpoint, max_regions=3)
    backend.open_stream('front', slots=2, transport='refer')
    lender = Lender(backend)
    keys = [f'{KEY}_{number}' for number in range(12)]
    for key in keys:
        write(key=key)
    try:
        for key in keys * 2:
            assert lender.checksum(key=key) == zlib.crc32(DATA[:SIZE])
            assert len(lender.regions) <= 3
    finally:
        for key in keys:
            os.unlink(f'/dev/shm{key}')
    backend.close()
    with TritonBackendLook(mortal_server) as regions:
        assert not regions()


def test_our_own_regions_keep_to_the_limit_too_and_frames_beyond_travel_inline(mortal_server,
                                                                               caplog):
    if not mortal_server.is_running:
        mortal_server.start()
    backend = TritonBackend(mortal_server.grpc_endpoint, max_regions=1)
    for stream in ('one', 'two'):
        backend.open_stream(stream, slots=1, transport='shm')
    image = DATA[:SIZE].reshape(SHAPE)
    number = 0

    def ask(stream):
        nonlocal number
        number += 1
        asked = Asked(number)
        slot = backend.acquire(stream, number)
        slot.allocate('IMAGE', SHAPE, 'UINT8')[...] = image
        backend.infer(number, 'echo', slot, asked.receive)
        assert output(asked.wait(), 'CHECKSUM')[0] == zlib.crc32(image)
        backend.release(number)

    with TritonBackendLook(mortal_server) as regions:
        def is_by_reference():
            ask('one')
            return backend.sent_by_reference

        wait_until(is_by_reference)
        ask('two')
        ask('two')
        assert len(regions()) == 1
        backend.close()
        assert not regions()
    assert caplog.text.count('as many as backend.security.max_shm_regions allows') == 1


class TritonBackendLook:
    """Looks at a server's registered regions from outside."""

    def __init__(self, server):
        self._backend = TritonBackend(server.grpc_endpoint)

    def __enter__(self):
        return lambda: sorted(self._backend._client.get_system_shared_memory_status().regions)

    def __exit__(self, *_):
        self._backend.close()


def test_a_server_that_is_not_there_is_refused_for_references_with_a_remedy():
    backend = TritonBackend('127.0.0.1:9')
    with pytest.raises(BackendUnavailable, match='did not answer about shared memory'):
        backend.open_stream('front', slots=1, transport='refer')
    backend.close()
