"""When a request is on the wire: the instant at which gRPC's core or the kernel has taken it."""

import threading
import time
from typing import Any

from vig_governor.backend.http_connection import HttpConnections


class _Watch:
    """Remembers an instant for each thread."""

    def __init__(self) -> None:
        self._here = threading.local()

    def _note(self) -> None:
        self._here.sent_at_ns = time.monotonic_ns()

    def take(self) -> int:
        """
        Give the instant of this thread's last request and forget it.

        :raises AttributeError: none went through here since.
        """
        sent_at_ns: int = self._here.sent_at_ns
        del self._here.sent_at_ns
        return sent_at_ns


class WireWatch(_Watch):
    """
    Stands between tritonclient's blocking ``infer`` and the gRPC channel below it.

    ``infer`` returns with the answer only, so its middle is looked at from inside: the channel's
    ``segregated_call`` starts the call and returns at once. (gRPC 1.85; another version may need
    another place, and then the benchmark fails rather than giving a figure.)
    """

    def __init__(self, client: Any) -> None:
        """Watch every ``infer`` of one ``InferenceServerClient``."""
        super().__init__()
        call = client._client_stub.ModelInfer
        self._channel = call._channel
        call._channel = self

    def segregated_call(self, *args: Any, **kwargs: Any) -> Any:
        """Pass the call on, then read the clock."""
        call = self._channel.segregated_call(*args, **kwargs)
        self._note()
        return call


class HttpWatch(_Watch):
    """The same for inferences over HTTP: the answer is waited for when all was sent."""

    def __init__(self) -> None:
        """Watch every ``HttpConnections`` of this process."""
        super().__init__()
        inner = HttpConnections._receive

        def receive(*args: Any) -> Any:
            self._note()
            return inner(*args)

        HttpConnections._receive = staticmethod(receive)  # type: ignore[method-assign]
