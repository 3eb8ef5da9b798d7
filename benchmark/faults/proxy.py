"""A TCP relay on the loopback interface that can lose, hold and break what passes through it."""

import contextlib
import socket
import threading
import time


class Proxy:
    """
    Stands between the node and the real server; a context manager.

    :ivar holds: keep what the server sends until it is False again.
    :ivar delay_s: how long every piece waits before it is passed on.

    :param target: ``host:port`` of the server.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(':')
        self._target = (host, int(port))
        self.holds = False
        self.delay_s = 0.0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._port = 0

    @property
    def endpoint(self) -> str:
        """Where the node connects to."""
        return f'127.0.0.1:{self._port}'

    def __enter__(self) -> 'Proxy':
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def open(self) -> None:
        """Listen, at the same port as before."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(('127.0.0.1', self._port))
        listener.listen()
        self._port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Refuse new connections and break those that stand."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.reset()

    def reset(self) -> None:
        """Break every connection, at once and without a farewell."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    # Linger zero: the peer gets a reset and not an orderly end.
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection(self._target, 2.0)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                with self._lock:
                    self._pairs.append((client, server))
                for source, sink, is_answer in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._relay, args=(source, sink, is_answer),
                                     daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                while is_answer and self.holds:
                    time.sleep(0.01)
                time.sleep(self.delay_s)
                sink.sendall(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
