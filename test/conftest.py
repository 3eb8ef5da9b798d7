"""
What holds for every test: its own ROS domain, loopback only, and markers by folder.

It is set before anything imports rclpy: the middleware reads its environment only once.
"""

import fcntl
import os
from pathlib import Path
import tempfile

import pytest

TEST = Path(__file__).resolve().parent
FIRST_DOMAIN, LAST_DOMAIN = 40, 100
MARKERS = {'ros': ('ros',), 'server': ('server',), 'launch': ('launch', 'ros'),
           'faults': ('ros', 'server')}
"""Folder below test/ to the markers that its tests carry."""

_locks = []


def free_domain() -> int:
    """Find a ROS domain that no other test run on this machine holds; kept until we end."""
    count = LAST_DOMAIN - FIRST_DOMAIN + 1
    for offset in range(count):
        domain = FIRST_DOMAIN + (os.getpid() + offset) % count
        lock = open(Path(tempfile.gettempdir()) / f'vig-test-domain-{domain}.lock', 'a')
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        _locks.append(lock)
        return domain
    raise RuntimeError(f'all ROS domains from {FIRST_DOMAIN} to {LAST_DOMAIN} are in use')


# Two runs on one machine do not meet, and nothing leaves the host.
os.environ['ROS_DOMAIN_ID'] = str(free_domain())
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
# Jazzy's Fast DDS reads only the older of the two names; Kilted's warns where that one is set.
os.environ['FASTRTPS_DEFAULT_PROFILES_FILE' if os.environ.get('ROS_DISTRO') == 'jazzy'
           else 'FASTDDS_DEFAULT_PROFILES_FILE'] = str(TEST.parent / 'config/fastdds_shm.xml')
os.environ.setdefault('ROS_LOG_DIR', str(TEST.parent / 'build' / 'ros_log'))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the folder they lie in, so that ``-m "not server"`` leaves them out."""
    for item in items:
        if TEST in item.path.parents:
            for marker in MARKERS.get(item.path.relative_to(TEST).parts[0], ()):
                item.add_marker(marker)


def pytest_report_header() -> str:
    """Say how this run talks DDS."""
    return f'ROS domain {os.environ["ROS_DOMAIN_ID"]}, shared memory only'
