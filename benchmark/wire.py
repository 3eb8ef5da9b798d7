"""When a request is on the wire: the instant at which gRPC's core has taken it."""

import threading
import time
from typing import Any


class WireWatch:
    """
    Stands between tritonclient's blocking ``infer`` and the gRPC channel below it.

    ``infer`` returns with the answer only, so its middle is looked at from inside: the channel's
    ``segregated_call`` starts the call and returns at once. (gRPC 1.85; another version may need
    another place, and then the benchmark fails rather than giving a figure.)
    """

    def __init__(self, client: Any) -> None:
        """Watch every ``infer`` of one ``InferenceServerClient``."""
        call = client._client_stub.ModelInfer
        self._channel = call._channel
        self._here = threading.local()
        call._channel = self

    def segregated_call(self, *args: Any, **kwargs: Any) -> Any:
        """Pass the call on, then read the clock."""
        call = self._channel.segregated_call(*args, **kwargs)
        self._here.sent_at_ns = time.monotonic_ns()
        return call

    def take(self) -> int:
        """
        Give the instant of this thread's last call and forget it.

        :raises AttributeError: no call went through here since.
        """
        sent_at_ns: int = self._here.sent_at_ns
        del self._here.sent_at_ns
        return sent_at_ns
