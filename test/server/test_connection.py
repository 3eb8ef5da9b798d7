"""A network between the governor and the server, staged: a relay that can cut connections."""

import contextlib
import socket
import struct
import threading
import time

import numpy as np
import pytest
from triton_fixture import Asker
from vig_governor.backend.base import Answered, Failed
from vig_governor.backend.triton import TritonBackend
from waiting import wait_until


class Relay:
    """A fake network: passes bytes on to the server, and resets every connection when told."""

    def __init__(self, endpoint):
        host, port = endpoint.split(':')
        self._target = host, int(port)
        self._listening = socket.create_server(('127.0.0.1', 0))
        self.endpoint = f'127.0.0.1:{self._listening.getsockname()[1]}'
        self._open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self):
        """End every connection with a RST, in the middle of whatever it carries."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                one.shutdown(socket.SHUT_RDWR)
                one.close()
        self._open = []

    def close(self):
        self._listening.close()
        self.reset()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listening.accept()
                theirs = socket.create_connection(self._target)
                self._open += [ours, theirs]
                for one, other in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    @staticmethod
    def _pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)


@pytest.fixture
def relayed(triton_server):
    """Give a relay and a backend whose inferences go through it."""
    made = Relay(triton_server.grpc_endpoint)
    yield made, TritonBackend(made.endpoint)
    made.close()


@pytest.fixture
def relayed_over_http(triton_server):
    made = Relay(triton_server.http_endpoint)
    yield made, TritonBackend(triton_server.grpc_endpoint, http_endpoint=made.endpoint)
    made.close()


@pytest.mark.parametrize('carrier', ['relayed', 'relayed_over_http'])
def test_a_connection_that_is_reset_ends_its_frame_and_the_next_runs_within_a_second(
        carrier, request):
    """T19: reset at frame 5 of 10; that one fails without proof, the others run."""
    relay, backend = request.getfixturevalue(carrier)
    backend.open_stream('front', slots=2, transport='copy')
    asker = Asker(backend)
    image = np.zeros((8, 8, 3), np.uint8)
    for frame in range(1, 11):
        if frame == 5:
            delay = np.array([2000], np.float32)
            asked = asker.send('front', 'sleeper', IMAGE=image, DELAY_MS=delay)
            with pytest.raises(AssertionError):
                asked.wait(0.3)
            relay.reset()
            cut_at = time.monotonic()
            outcome = asked.wait(2.0)
            assert isinstance(outcome, Failed) and not outcome.is_over
            backend.release(asked.request_id)
            wait_until(lambda: isinstance(asker.ask('front', 'echo', IMAGE=image), Answered), 5.0)
            assert time.monotonic() - cut_at < 2.0, 'one second, and a busy machine'
        else:
            assert isinstance(asker.ask('front', 'echo', IMAGE=image), Answered)
    begin = time.monotonic()
    backend.close()
    assert time.monotonic() - begin < 3.0
