"""Where a server is, as far as its address says, and whether anybody listens there."""

from ipaddress import ip_address
import socket


def is_loopback(endpoint: str) -> bool:
    """Whether an endpoint names this host: both sides may see the same memory, no net between."""
    if endpoint.startswith('unix:'):
        return True
    host = endpoint.rpartition(':')[0].strip('[]').lower()
    if host == 'localhost':
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def nobody_listens(endpoint: str, *, timeout_s: float) -> bool:
    """
    Whether a new connection is refused, at every address that the endpoint's host has.

    Asked with a connection of its own: a gRPC channel repeats an older failure while it pauses.
    """
    host, _, port = endpoint.rpartition(':')
    try:
        socket.create_connection((host.strip('[]'), int(port)), timeout_s, all_errors=True).close()
    except ExceptionGroup as errors:
        return all(isinstance(each, ConnectionRefusedError) for each in errors.exceptions)
    except (OSError, ValueError):
        return False
    return False
