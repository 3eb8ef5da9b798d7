"""Inferences over HTTP: what a connection proves, and which server is at its other end."""

import contextlib
import socket
import threading
import time

import numpy as np
import pytest
from triton_fixture import Asker, connected_to, MODELS
from vig_core.reconcile import Ending
from vig_governor.backend.base import Answered, BackendUnavailable, Failed
from vig_governor.backend.credentials import load_credentials
from vig_governor.backend.http_connection import Broken, HttpConnections, NeverSent
from vig_governor.backend.triton import TritonBackend
from vig_governor.config.options import SecurityOptions
from vig_governor.triton_server import free_port, TritonServer
from waiting import wait_until

PIXEL = np.zeros((1, 1, 3), np.uint8)
OK = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi'


class FakeServer:
    """
    A fake: plays the faults of a server that no Triton can be made to show.

    :param answers: what is sent, piece by piece, for each request; ``None`` ends the connection.
    """

    def __init__(self, *answers):
        self._answers = list(answers)
        self._listening = socket.create_server(('127.0.0.1', 0))
        self.endpoint = f'127.0.0.1:{self._listening.getsockname()[1]}'
        self.accepted = 0
        self.requests = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._listening.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.accepted += 1
                with connection:
                    self._talk(connection)

    def _talk(self, connection):
        while request := connection.recv(65536):
            self.requests.append(request)
            for piece in self._answers.pop(0):
                if piece is None:
                    return
                connection.sendall(piece)
                time.sleep(0.01)


@pytest.fixture
def fake(request):
    """Give a function that makes a fake server and connections to it."""
    def make(*answers, authorization=''):
        server = FakeServer(*answers)
        connections = HttpConnections(server.endpoint, authorization)
        request.addfinalizer(server.close)
        request.addfinalizer(connections.close)
        return server, connections
    return make


def test_a_connection_is_used_again_and_one_that_the_server_ended_is_not(fake):
    server, connections = fake([OK], [OK, None], [OK])
    for turn in range(2):
        assert connections.request('GET', '/a', timeout_s=2.0).body == b'hi'
    assert server.accepted == 1
    time.sleep(0.1)
    # The server has ended it meanwhile: that is seen before anything is sent.
    assert connections.request('GET', '/a', timeout_s=2.0).status == 200
    assert server.accepted == 2 and connections.idle == 1


def test_an_answer_that_says_so_is_the_last_of_its_connection(fake):
    server, connections = fake([OK.replace(b'OK\r\n', b'OK\r\nConnection: close\r\n')], [OK])
    connections.request('GET', '/a', timeout_s=2.0)
    assert connections.idle == 0


@pytest.mark.parametrize('pieces', [
    [OK[:3], OK[3:40], OK[40:]],
    [b'HTTP/1.1 100 Continue\r\n\r\n' + OK],
    [b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n', b'1\r\ni\r\n0\r\n\r\n']])
def test_an_answer_may_come_in_pieces(fake, pieces):
    _, connections = fake(pieces)
    answer = connections.request('GET', '/a', timeout_s=2.0)
    assert (answer.status, answer.body) == (200, b'hi')


@pytest.mark.parametrize('pieces, words', [
    ([None], 'ended it'), ([OK[:-1], None], 'ended it'), ([b'SSH-2.0-OpenSSH\r\n'], 'no HTTP'),
    ([OK[:-1]], 'no answer within 0.3 s')])
def test_an_answer_that_is_not_whole_proves_nothing_and_ends_its_connection(fake, pieces, words):
    _, connections = fake(pieces)
    with pytest.raises(Broken, match=words):
        connections.request('GET', '/a', timeout_s=0.3)
    assert connections.idle == 0


def test_head_and_parts_arrive_in_their_order_with_the_token(fake):
    server, connections = fake([OK], authorization='Bearer secret')
    connections.request('POST', '/b', (b'one', memoryview(b'two')), headers='X: y\r\n',
                        timeout_s=2.0)
    assert server.requests == [
        f'POST /b HTTP/1.1\r\nHost: {server.endpoint}\r\nAuthorization: Bearer secret\r\n'
        'X: y\r\nContent-Length: 6\r\n\r\nonetwo'.encode()]


def test_without_a_listener_nothing_was_sent():
    connections = HttpConnections(f'127.0.0.1:{free_port()}')
    with pytest.raises(NeverSent, match='failed to connect to 127.0.0.1:.*refused'):
        connections.request('GET', '/a', timeout_s=1.0)


def test_closing_ends_what_is_under_way_and_takes_nothing_more(fake):
    _, connections = fake([OK[:-1]])
    caught = []

    def ask():
        with pytest.raises(Broken) as error:
            connections.request('GET', '/a', timeout_s=10.0)
        caught.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.2)
    connections.close()
    connections.close()
    asking.join(2.0)
    assert caught
    with pytest.raises(NeverSent, match='closed'):
        connections.request('GET', '/a', timeout_s=1.0)


@pytest.fixture
def backend(triton_server):
    made = connected_to(triton_server, 'http')
    made.open_stream('front', slots=2, transport='auto')
    yield made
    made.close()


def test_the_same_server_is_recognised_and_leaves_no_page_behind(triton_server, backend):
    before = set(backend.region_names())
    assert 'triton' in backend.connect(timeout_s=5.0)
    assert set(backend.region_names()) == before


def test_another_server_is_refused_by_name(triton_server):
    with TritonServer(MODELS, load=['echo']) as other:
        backend = TritonBackend(triton_server.grpc_endpoint, http_endpoint=other.http_endpoint)
        with pytest.raises(BackendUnavailable) as caught:
            backend.connect(timeout_s=5.0)
        backend.close()
    for words in (f'backend.http_endpoint {other.http_endpoint} is another server',
                  triton_server.grpc_endpoint, 'same server'):
        assert words in str(caught.value)


def test_a_service_that_is_not_there_is_said_with_what_to_do(triton_server):
    endpoint = f'127.0.0.1:{free_port()}'
    backend = TritonBackend(triton_server.grpc_endpoint, http_endpoint=endpoint)
    began_s = time.monotonic()
    with pytest.raises(BackendUnavailable, match=f'no HTTP service of Triton at {endpoint} .*'
                                                 'correct backend.http_endpoint'):
        backend.connect(timeout_s=0.5)
    assert time.monotonic() - began_s < 1.5
    backend.close()


def test_the_grpc_port_is_no_http_service(triton_server):
    backend = TritonBackend(triton_server.grpc_endpoint,
                            http_endpoint=triton_server.grpc_endpoint)
    with pytest.raises(BackendUnavailable, match='no HTTP service of Triton'):
        backend.connect(timeout_s=0.5)
    backend.close()


def test_an_error_answer_is_over_and_says_what_the_counter_makes_of_it(backend):
    def ended(model, image):
        outcome = Asker(backend).ask('front', model, IMAGE=image)
        assert isinstance(outcome, Failed) and outcome.is_over
        return outcome

    assert ended('nobody', PIXEL).ending is Ending.NOT_COUNTED
    assert ended('failing', PIXEL + np.uint8(254)).ending is Ending.COUNTED
    wrong = ended('echo', np.zeros((1, 1, 1, 1), np.uint8))
    assert wrong.ending is Ending.NOT_COUNTED and 'HTTP 400' in wrong.detail


def test_inferences_do_go_over_http_and_their_connection_stays(backend):
    for _ in range(5):
        assert isinstance(Asker(backend).ask('front', 'echo', IMAGE=PIXEL), Answered)
    assert backend._carriers._http._connections.idle == 1


def test_an_answer_that_is_none_of_an_inference_is_over(triton_server, fake):
    server, _ = fake([b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'])
    backend = TritonBackend(triton_server.grpc_endpoint, http_endpoint=server.endpoint)
    backend.open_stream('front', slots=1, transport='copy')
    outcome = Asker(backend).ask('front', 'echo', IMAGE=PIXEL)
    backend.close()
    assert outcome.is_over and outcome.ending is Ending.COUNTED
    assert 'the answer cannot be read' in outcome.detail


def test_the_token_travels_with_inferences(triton_server, fake, tmp_path):
    token = tmp_path / 'token'
    token.write_text('secret\n')
    server, _ = fake([b'HTTP/1.1 401 Unauthorized\r\nContent-Length: 18\r\n\r\n'
                      b'{"error":"no way"}'])
    backend = TritonBackend(triton_server.grpc_endpoint, http_endpoint=server.endpoint,
                            credentials=load_credentials(SecurityOptions(token_file=str(token))))
    backend.open_stream('front', slots=1, transport='copy')
    outcome = Asker(backend).ask('front', 'echo', IMAGE=PIXEL)
    backend.close()
    wait_until(lambda: server.requests)
    assert b'Authorization: Bearer secret\r\n' in server.requests[0]
    assert 'no way (HTTP 401)' in outcome.detail and 'secret' not in outcome.detail


def test_a_service_that_breaks_off_while_it_is_asked_is_said_in_words(triton_server, fake):
    server, _ = fake(*[[OK], [None]] * 50)
    backend = TritonBackend(triton_server.grpc_endpoint, http_endpoint=server.endpoint)
    before = set(backend.region_names())
    with pytest.raises(BackendUnavailable, match='no HTTP service of Triton at .* ended it'):
        backend.connect(timeout_s=0.5)
    assert set(backend.region_names()) == before
    backend.close()
