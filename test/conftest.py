"""
What holds for every test: its own ROS domain, loopback only, and markers by folder.

It is set before anything imports rclpy: the middleware reads its environment only once.
"""

import os
from pathlib import Path

import pytest

TEST = Path(__file__).resolve().parent
FIRST_DOMAIN, LAST_DOMAIN = 40, 100
MARKERS = {'ros': ('ros',), 'server': ('server',), 'launch': ('launch', 'ros')}
"""Folder below test/ to the markers that its tests carry."""

# Two runs on one machine do not meet, and nothing leaves the host.
os.environ['ROS_DOMAIN_ID'] = str(FIRST_DOMAIN + os.getpid() % (LAST_DOMAIN - FIRST_DOMAIN + 1))
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
os.environ['FASTDDS_DEFAULT_PROFILES_FILE'] = str(TEST.parent / 'config' / 'fastdds_shm.xml')
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
