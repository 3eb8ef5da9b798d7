"""Shared memory between us and a real server: refused, forgotten, outgrown, and never leaked."""

import logging
import os
import shutil
import subprocess
import zlib

import numpy as np
import pytest
from triton_fixture import Asker, MODELS, output, require_triton
from vig_governor.backend.base import BackendUnavailable
from vig_governor.backend.shared_memory import SharedRegion
from vig_governor.backend.triton import TritonBackend
from vig_governor.triton_server import TritonServer
from waiting import wait_until

OWN_SHARED_MEMORY = ('unshare', '--mount', 'sh', '-c',
                     'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"')
CYCLES = int(os.environ.get('VIG_TEST_CYCLES', '2000'))


def own_regions():
    return [name for name in os.listdir('/dev/shm') if name.startswith(f'vig_{os.getpid()}_')]


def resident_bytes(pid):
    with open(f'/proc/{pid}/statm') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGESIZE')


def can_have_its_own_shared_memory():
    if shutil.which('unshare') is None:
        return False
    return subprocess.run([*OWN_SHARED_MEMORY, 'true'], capture_output=True).returncode == 0


@pytest.fixture(scope='module')
def walled_server():
    """Give a server whose /dev/shm is not ours, as in a container without --ipc=host."""
    require_triton()
    if not can_have_its_own_shared_memory():
        pytest.skip('a mount namespace needs root; run the tests as root to see a refusal')
    with TritonServer(MODELS, load=['echo'], wrapper=OWN_SHARED_MEMORY) as server:
        yield server


def test_frames_still_run_where_the_server_refuses_shared_memory(walled_server, caplog):
    # Field case T13.
    image = np.arange(1200, dtype=np.uint8).reshape(20, 20, 3)
    backend = TritonBackend(walled_server.grpc_endpoint)
    with caplog.at_level(logging.WARNING, logger='vig.backend'):
        backend.open_stream('front', slots=2, transport='auto')
        asker = Asker(backend)
        for _ in range(10):
            assert output(asker.ask('front', 'echo', IMAGE=image),
                          'CHECKSUM')[0] == zlib.crc32(image)
    assert backend.sent_by_reference == 0 and backend.sent_inline == 10
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert "stream 'front'" in warnings[0] and walled_server.grpc_endpoint in warnings[0]
    assert not own_regions()
    backend.close()


def test_demanding_shared_memory_from_such_a_server_is_refused_with_the_remedy(walled_server):
    backend = TritonBackend(walled_server.grpc_endpoint)
    with pytest.raises(BackendUnavailable, match='refuses shared memory.*transport: copy'):
        backend.open_stream('front', slots=2, transport='shm')
    backend.open_stream('front', slots=2, transport='copy')
    backend.close()


def test_memory_stays_flat_over_registering_and_unregistering(triton_server):
    # Field case T11: 10,000 cycles, +5 MB at most; VIG_TEST_CYCLES=10000 runs them all.
    import tritonclient.grpc
    with tritonclient.grpc.InferenceServerClient(triton_server.grpc_endpoint) as client:
        def cycle(count):
            for _ in range(count):
                region = SharedRegion(100_000)
                client.register_system_shared_memory(region.name, region.key, region.byte_size)
                region.unlink()
                np.ndarray((100_000,), np.uint8, region.memory)[:] = 1
                client.unregister_system_shared_memory(region.name)

        cycle(200)
        before = resident_bytes(os.getpid()), resident_bytes(triton_server.pid)
        cycle(CYCLES)
        after = resident_bytes(os.getpid()), resident_bytes(triton_server.pid)
        assert not client.get_system_shared_memory_status().regions
    assert after[0] - before[0] < 5_000_000
    assert after[1] - before[1] < 5_000_000
    assert not own_regions()


def test_a_stream_whose_frames_grow_leaves_one_region_per_slot_at_the_server(asker,
                                                                             triton_server):
    import tritonclient.grpc

    for side in range(10, 210, 10):
        image = np.full((side, side, 3), side, np.uint8)
        assert output(asker.ask('shared', 'echo', IMAGE=image),
                      'CHECKSUM')[0] == zlib.crc32(image)
    with tritonclient.grpc.InferenceServerClient(triton_server.grpc_endpoint) as client:
        def regions():
            return client.get_system_shared_memory_status().regions
        wait_until(lambda: len(regions()) == 1, what='one region at the server')
        asker.backend.close()
        assert not regions()


def test_a_request_in_flight_keeps_its_region_when_the_backend_closes(triton_server):
    import tritonclient.grpc

    backend = TritonBackend(triton_server.grpc_endpoint)
    backend.open_stream('front', slots=2, transport='shm')
    asker = Asker(backend)
    image = np.zeros((50, 50, 3), np.uint8)

    def is_by_reference():
        asker.ask('front', 'echo', IMAGE=image)
        return backend.sent_by_reference > 0

    wait_until(is_by_reference)
    before = backend.statistics('sleeper').finished
    asked = asker.send('front', 'sleeper', IMAGE=image, DELAY_MS=np.array([600], np.float32))
    with pytest.raises(AssertionError):
        asked.wait(0.2)
    backend.close()
    backend.close()
    assert not own_regions(), 'only names are leaked for ever; this one was gone already'
    assert not asked.wait(1.0).is_over
    with tritonclient.grpc.InferenceServerClient(triton_server.grpc_endpoint) as client:
        def has_finished():
            counts = client.get_inference_statistics('sleeper').model_stats[0].inference_stats
            return counts.success.count + counts.fail.count > before

        wait_until(has_finished, what='the end of the execution nobody waits for')
        assert len(client.get_system_shared_memory_status().regions) >= 1
        client.unregister_system_shared_memory()
    with pytest.raises(BackendUnavailable, match='is closed'):
        backend.acquire('front', 9)


def test_a_full_shared_memory_means_copies_and_a_warning_not_a_crash(asker, caplog, monkeypatch):
    def no_space(file, offset, length):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, 'posix_fallocate', no_space)
    image = np.arange(1200, dtype=np.uint8).reshape(20, 20, 3)
    for _ in range(3):
        assert output(asker.ask('shared', 'echo', IMAGE=image),
                      'CHECKSUM')[0] == zlib.crc32(image)
    assert [record.levelname for record in caplog.records] == ['WARNING']
    assert 'No space left' in caplog.text
    assert not own_regions()
