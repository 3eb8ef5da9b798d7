"""Certificates made on the spot, and a gate that demands a token."""

from concurrent import futures
from pathlib import Path
import subprocess

import grpc
import pytest


def openssl(folder: Path, *arguments: str) -> None:
    """Run one command of openssl in a folder."""
    subprocess.run(['openssl', *arguments], cwd=folder, check=True, capture_output=True)


def signed(folder: Path, name: str, host: str) -> None:
    """Make ``name.key`` and ``name.pem`` for a host, signed by ``ca``."""
    openssl(folder, 'req', '-newkey', 'rsa:2048', '-nodes', '-keyout', f'{name}.key',
            '-out', f'{name}.csr', '-subj', f'/CN={name}')
    (folder / f'{name}.ext').write_text(f'subjectAltName={host}')
    openssl(folder, 'x509', '-req', '-in', f'{name}.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key',
            '-CAcreateserial', '-out', f'{name}.pem', '-days', '2', '-extfile', f'{name}.ext')


def make_certificates(folder: Path) -> Path:
    """
    Make two authorities, and a server, a server of another name and a client of the first.

    Skips the test where openssl is not installed.
    """
    try:
        for name in ('ca', 'stranger'):
            openssl(folder, 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout',
                    f'{name}.key', '-out', f'{name}.pem', '-days', '2', '-subj', f'/CN={name}')
    except FileNotFoundError:
        pytest.skip('openssl is not installed: apt install openssl')
    signed(folder, 'server', 'IP:127.0.0.1')
    signed(folder, 'elsewhere', 'DNS:elsewhere.invalid')
    signed(folder, 'client', 'DNS:client.invalid')
    return folder


class TokenGate:
    """
    A fake front door to a real Triton: TLS, and only calls with the token pass.

    What passes goes on byte by byte; Triton itself checks no tokens. A context manager.

    :ivar endpoint: where clients connect.
    """

    def __init__(self, inner: str, folder: Path, token: str) -> None:
        """
        Open it before the server at ``inner``.

        :param folder: with ``server.key`` and ``server.pem``.
        """
        self._inner = grpc.insecure_channel(inner)
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((_Handler(self._inner, f'Bearer {token}'),))
        key, chain = ((folder / f'server.{kind}').read_bytes() for kind in ('key', 'pem'))
        port = self._server.add_secure_port(
            '127.0.0.1:0', grpc.ssl_server_credentials([(key, chain)]))
        self.endpoint = f'127.0.0.1:{port}'

    def __enter__(self) -> 'TokenGate':
        """Begin to let calls in."""
        self._server.start()
        return self

    def __exit__(self, *error: object) -> None:
        """End calls and connections."""
        self._server.stop(None).wait()
        self._inner.close()


class _Handler(grpc.GenericRpcHandler):

    def __init__(self, inner: grpc.Channel, authorization: str) -> None:
        self._inner = inner
        self._authorization = authorization

    def service(self, details):
        """Handle any method as one request with one answer."""
        given = dict(details.invocation_metadata).get('authorization')

        def pass_on(request, context):
            if given != self._authorization:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, 'no token, no entry')
            return self._inner.unary_unary(details.method)(request, timeout=5.0)
        return grpc.unary_unary_rpc_method_handler(pass_on)
