"""The block ``backend.security``: what may be shown to the server, and to whom."""

from collections.abc import Mapping
import os
import stat

from vig_governor.config.options import SecurityOptions
from vig_governor.config.problems import Findings, Path
from vig_governor.config.schema import Security
from vig_governor.endpoints import is_loopback


def resolve_security(security: Security | None, endpoint: str, folder: str, findings: Findings, *,
                     must_exist: bool) -> SecurityOptions:
    """
    Resolve certificates and token.

    :param folder: relative paths of the file start here.
    :param must_exist: whether what is named must be there now.
    """
    at: Path = ('backend', 'security')
    paths: dict[str, str | None] = {}
    for key in ('root_certificates', 'private_key', 'certificate_chain', 'token_file'):
        value = getattr(security, key) if security else None
        paths[key] = None if value is None else os.path.join(folder, os.path.expanduser(value))
        if must_exist and value is not None and not os.path.isfile(paths[key] or ''):
            findings.refuse((*at, key), 'there is no such file; relative paths start at the '
                            'folder of this configuration')
    for one, other in (('private_key', 'certificate_chain'), ('certificate_chain', 'private_key')):
        if paths[one] is not None and paths[other] is None:
            findings.refuse((*at, one), f'needs {other} beside it: a key and its certificate '
                                        'belong together')
    variable = security.token_variable if security else None
    options = SecurityOptions(**paths, token_variable=variable)
    _check_token(options, endpoint, at, findings, must_exist=must_exist)
    _notice_modes(paths, at, findings)
    return options


def _check_token(options: SecurityOptions, endpoint: str, at: Path, findings: Findings, *,
                 must_exist: bool) -> None:
    """Refuse a token that is given twice, is not there, or would be shown to the network."""
    key = 'token_file' if options.token_file is not None else 'token_variable'
    if not options.has_token:
        return
    if options.token_file is not None and options.token_variable is not None:
        findings.refuse((*at, 'token_variable'), 'stands beside token_file; keep one of them')
    if key == 'token_variable' and must_exist and options.token_variable not in os.environ:
        findings.refuse((*at, key), 'there is no such environment variable')
    if not options.uses_tls:
        if is_loopback(endpoint):
            findings.notice((*at, key), 'the token travels unencrypted without '
                            'root_certificates, though only within this host')
        else:
            findings.refuse((*at, key), 'the token would travel unencrypted to another host; '
                            'set root_certificates')


def _notice_modes(paths: Mapping[str, str | None], at: Path, findings: Findings) -> None:
    """Say which secret other users of this machine can read."""
    for key in ('private_key', 'token_file'):
        path = paths[key]
        if path is not None and os.path.isfile(path):
            mode = stat.S_IMODE(os.stat(path).st_mode)
            if mode & 0o077:
                findings.notice((*at, key), f'other users can reach this secret (mode {mode:04o})'
                                '; chmod 600')
