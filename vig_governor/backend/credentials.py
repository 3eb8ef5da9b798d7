"""
What the governor shows to the server and demands of it: certificates and a token.

Everything is read once, when the node is configured, and checked as far as one side can. The
token is in no sentence, no log line and no ``repr``.
"""

from dataclasses import dataclass, field
import os
from pathlib import Path
import re
import ssl

from vig_core.errors import VigError

from vig_governor.config.options import SecurityOptions

MAX_TOKEN_BYTES = 16_384
_TOKEN = re.compile(r'[\x21-\x7e]+\Z')


class UnusableCredentials(VigError):
    """A certificate, key or token that cannot be used; says which file or variable and why."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """
    Checked credentials.

    :ivar authorization: value of the header of the same name; empty without a token.
    """

    uses_tls: bool = False
    root_certificates: str | None = None
    private_key: str | None = None
    certificate_chain: str | None = None
    authorization: str = field(default='', repr=False)


def load_credentials(options: SecurityOptions) -> Credentials:
    """
    Read and check what the file names.

    :raises UnusableCredentials: a file that cannot be read or is no PEM, a key that does not
        belong to its certificate, or a token that no header can carry.
    """
    if options.root_certificates is not None:
        _check('root_certificates', options.root_certificates, lambda context, path:
               context.load_verify_locations(path))
    if options.certificate_chain is not None:
        # A passphrase would be asked for on the terminal, and gRPC takes none.
        _check('certificate_chain', options.certificate_chain, lambda context, path:
               context.load_cert_chain(path, options.private_key, password=lambda: ''))
    return Credentials(options.uses_tls, options.root_certificates, options.private_key,
                       options.certificate_chain, _authorization(options))


def remedy(words: str, credentials: Credentials) -> str:
    """
    Say what a failed connection asks for.

    :param words: of the client library, the status code in front.
    """
    words = words.lower()
    if 'statuscode.unauthenticated' in words or 'statuscode.permission_denied' in words:
        return ('the server refuses the token' if credentials.authorization else
                'the server wants a token: set backend.security.token_file')
    if 'certificate_verify_failed' in words:
        return ("the server's certificate is not signed by one of "
                'backend.security.root_certificates, or not valid now')
    if 'hostname verification' in words or 'peer name' in words:
        return ("the server's certificate is not made out to the host of "
                'backend.grpc_endpoint')
    if 'wrong_version_number' in words:
        return 'the server speaks without TLS: remove the certificates of backend.security'
    was_refused = 'socket closed' in words or 'handshake' in words
    if credentials.uses_tls and was_refused:
        return ('the server ended the TLS handshake: one that checks its clients wants '
                'backend.security.private_key and certificate_chain of its own authority')
    if was_refused:
        return ('if the server speaks TLS, set backend.security.root_certificates; else start '
                'the server, or correct backend.grpc_endpoint')
    return 'start the server, or correct backend.grpc_endpoint'


def _check(key: str, path: str, load: object) -> None:
    assert callable(load)
    try:
        load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), path)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace('_', ' ').lower()
        cure = ('the key and the certificate belong together and carry no passphrase'
                if key == 'certificate_chain' else 'a PEM file with certificates is needed')
        raise UnusableCredentials(
            f'backend.security.{key}: {path} cannot be used ({reason}): {cure}') from None
    except (OSError, ValueError) as error:
        raise UnusableCredentials(f'backend.security.{key}: {path} cannot be read: '
                                  f'{getattr(error, "strerror", None) or error}') from None


def _authorization(options: SecurityOptions) -> str:
    if options.token_file is not None:
        where = f'backend.security.token_file: {options.token_file}'
        try:
            with Path(options.token_file).open('rb') as file:
                raw = file.read(MAX_TOKEN_BYTES + 1)
        except (OSError, ValueError) as error:
            raise UnusableCredentials(f'{where} cannot be read: '
                                      f'{getattr(error, "strerror", None) or error}') from None
    elif options.token_variable is not None:
        where = f'backend.security.token_variable: {options.token_variable}'
        raw = os.environb.get(options.token_variable.encode(), b'')
    else:
        return ''
    text = raw.decode('latin-1').strip()
    if not text:
        raise UnusableCredentials(f'{where} holds no token')
    if len(raw) > MAX_TOKEN_BYTES or not _TOKEN.match(text):
        raise UnusableCredentials(
            f'{where} is no token: one word of printable ASCII is needed, without "Bearer" '
            f'before it, at most {MAX_TOKEN_BYTES // 1024} KiB')
    return f'Bearer {text}'
