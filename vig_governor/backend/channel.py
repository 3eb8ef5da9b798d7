"""The connection to Triton: channel options, certificates, and the token in every call."""

from pathlib import Path
from typing import Any

import grpc
import tritonclient.grpc as triton

from vig_governor.backend.credentials import Credentials

_CHANNEL = [
    ('grpc.max_send_message_length', -1),
    ('grpc.max_receive_message_length', -1),
    # A robot's server is never behind a web proxy, but a developer's environment names one.
    ('grpc.enable_http_proxy', 0),
    # gRPC waits up to two minutes between attempts by default; a restarted server is back sooner.
    ('grpc.initial_reconnect_backoff_ms', 100),
    ('grpc.min_reconnect_backoff_ms', 500),
    ('grpc.max_reconnect_backoff_ms', 1000),
]


def make_client(endpoint: str, credentials: Credentials) -> triton.InferenceServerClient:
    """Make a client that connects when it is first used."""
    client = triton.InferenceServerClient(
        endpoint, channel_args=list(_CHANNEL), ssl=credentials.uses_tls,
        root_certificates=credentials.root_certificates,
        private_key=credentials.private_key, certificate_chain=credentials.certificate_chain)
    if credentials.authorization:
        client.register_plugin(_Bearer(credentials.authorization))
    return client


def make_channel(endpoint: str, credentials: Credentials) -> grpc.Channel:
    """Make a channel of our own for the calls that the client library wraps in threads."""
    options = list(_CHANNEL)
    if not credentials.uses_tls:
        return grpc.insecure_channel(endpoint, options)

    def content(path: str | None) -> bytes | None:
        return None if path is None else Path(path).read_bytes()

    return grpc.secure_channel(endpoint, grpc.ssl_channel_credentials(
        content(credentials.root_certificates), content(credentials.private_key),
        content(credentials.certificate_chain)), options)


class _Bearer(triton.InferenceServerClientPlugin):  # type: ignore[misc]
    """Puts the token into every call of the client."""

    def __init__(self, authorization: str) -> None:
        self._authorization = authorization

    def __call__(self, request: Any) -> None:
        """Add the header in place."""
        request.headers = {**(request.headers or {}), 'authorization': self._authorization}
