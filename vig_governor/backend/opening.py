"""A connection as a configuration file asks for it."""

from vig_governor.backend.credentials import load_credentials
from vig_governor.backend.triton import TritonBackend
from vig_governor.config.options import BackendOptions


def open_backend(options: BackendOptions) -> TritonBackend:
    """
    Make the connection to the server; nothing is sent yet.

    :raises UnusableCredentials: a certificate, key or token cannot be used.
    """
    return TritonBackend(options.endpoint, http_endpoint=options.http_endpoint,
                         key_prefix=options.shm_key_prefix, max_regions=options.max_shm_regions,
                         owners=options.shm_owner_uids,
                         credentials=load_credentials(options.security))
