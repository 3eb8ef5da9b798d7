"""The connection to Triton: channel options, certificates, and the token in every call."""

from typing import Any

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


class _Bearer(triton.InferenceServerClientPlugin):  # type: ignore[misc]
    """Puts the token into every call of the client."""

    def __init__(self, authorization: str) -> None:
        self._authorization = authorization

    def __call__(self, request: Any) -> None:
        """Add the header in place."""
        request.headers = {**(request.headers or {}), 'authorization': self._authorization}
