"""Where a server is, as far as its address says."""

from ipaddress import ip_address


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
