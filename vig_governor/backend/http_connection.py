"""
Connections to an HTTP/1.1 server that stay open from one request to the next.

What the answer says is httptools' business (the parser of Node.js). What an end of a connection
proves is ours: nothing, unless not a byte of the request was sent.
"""

from collections.abc import Sequence
import contextlib
from dataclasses import dataclass
import select
import socket
import threading
import time

import httptools

_RECEIVE_BYTES = 256 * 1024
_CONNECT_TIMEOUT_S = 1.0
_FINAL = 200


class NeverSent(Exception):
    """No connection came about, or it was lost before anything was sent."""


class Broken(Exception):
    """The connection was lost, or time was up, after something may have arrived."""


@dataclass(frozen=True, slots=True)
class Answer:
    """
    A whole answer.

    :ivar headers: by lower-case name; the last of equal names.
    """

    status: int
    headers: dict[str, str]
    body: bytes


class HttpConnections:
    """
    As many connections as there are requests at one time; idle ones wait for the next.

    All methods may be called from any thread; a request keeps its thread until it is answered.

    :param endpoint: ``host:port``; a host of IPv6 in brackets.
    :param authorization: value of the header of the same name; none if empty.
    """

    def __init__(self, endpoint: str, authorization: str = '') -> None:
        host, _, port = endpoint.rpartition(':')
        self._address = (host.strip('[]'), int(port))
        self._endpoint = endpoint
        self._headers = f'Host: {endpoint}\r\n' + (
            f'Authorization: {authorization}\r\n' if authorization else '')
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._busy: set[socket.socket] = set()
        self._is_closed = False

    @property
    def idle(self) -> int:
        """How many connections wait for a request."""
        with self._lock:
            return len(self._idle)

    def request(self, method: str, path: str, body: Sequence[bytes | memoryview] = (), *,
                headers: str = '', timeout_s: float) -> Answer:
        """
        Send a request and wait for its answer.

        :param body: parts of it, sent one after the other without being joined.
        :param headers: further lines, each with its end.
        :param timeout_s: for all of it, once there is a connection.
        :raises NeverSent: the server has not seen the request.
        :raises Broken: nothing is known of the request, or the answer is no HTTP.
        """
        size = sum(len(part) for part in body)
        head = (f'{method} {path} HTTP/1.1\r\n{self._headers}{headers}'
                f'Content-Length: {size}\r\n\r\n').encode('latin-1')
        connection = self._take()
        may_stay = False
        try:
            end_s = time.monotonic() + timeout_s
            self._send(connection, (head, *body), end_s)
            answer, may_stay = self._receive(connection, end_s)
            return answer
        except TimeoutError:
            raise Broken(f'no answer within {timeout_s:g} s') from None
        except OSError as error:
            raise Broken(f'connection to {self._endpoint} lost: {error}') from None
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise Broken(f'the answer of {self._endpoint} is no HTTP: {error}') from None
        finally:
            self._give_back(connection, may_stay)

    def close(self) -> None:
        """End all connections; requests under way raise ``Broken``. Idempotent."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            for connection in self._busy:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for connection in idle:
            connection.close()

    def _take(self) -> socket.socket:
        while True:
            with self._lock:
                if self._is_closed:
                    raise NeverSent('the connection is closed')
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect()
            elif _was_ended(connection):
                connection.close()
                continue
            with self._lock:
                if not self._is_closed:
                    self._busy.add(connection)
                    return connection
            connection.close()

    def _connect(self) -> socket.socket:
        try:
            connection = socket.create_connection(self._address, _CONNECT_TIMEOUT_S)
        except OSError as error:
            raise NeverSent(f'failed to connect to {self._endpoint}: '
                            f'{error.strerror or error}') from None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _give_back(self, connection: socket.socket, may_stay: bool) -> None:
        with self._lock:
            self._busy.discard(connection)
            if may_stay and not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    @staticmethod
    def _send(connection: socket.socket, parts: Sequence[bytes | memoryview],
              end_s: float) -> None:
        for part in _small_ones_joined(parts):
            connection.settimeout(_left(end_s))
            connection.sendall(part)

    @staticmethod
    def _receive(connection: socket.socket, end_s: float) -> tuple[Answer, bool]:
        """Read one answer; says whether the connection may be used again."""
        parsed = _Parsed()
        while not parsed.is_whole:
            connection.settimeout(_left(end_s))
            received = connection.recv(_RECEIVE_BYTES)
            if not received:
                raise ConnectionError('the server ended it')
            parsed.parser.feed_data(received)
        status = parsed.parser.get_status_code()
        del parsed.parser  # which refers back: a cycle that would stay until it is collected
        body = parsed.parts[0] if len(parsed.parts) == 1 else b''.join(parsed.parts)
        return Answer(status, parsed.headers, body), parsed.may_stay


class _Parsed:
    """What httptools calls back with."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self.is_whole = False
        self.may_stay = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode('latin-1').lower()] = value.decode('latin-1')

    def on_body(self, part: bytes) -> None:
        self.parts.append(part)

    def on_message_complete(self) -> None:
        # Only here does the parser know, and an interim answer (100) is followed by the real one.
        if self.parser.get_status_code() >= _FINAL:
            self.is_whole = True
            self.may_stay = self.parser.should_keep_alive()


def _was_ended(connection: socket.socket) -> bool:
    """Whether the server closed an idle connection, or sent what nobody asked for."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _small_ones_joined(parts: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
    """Let a request without big parts be one packet."""
    if sum(len(part) for part in parts) <= _RECEIVE_BYTES:
        return (b''.join(parts),)
    return parts


def _left(end_s: float) -> float:
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
