"""Freed memory stays in the process: frames of one size cost page faults once."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from vig_governor.allocator import keep_freed_memory
print(keep_freed_memory())
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def take_frames():
    for _ in range(50):
        first, second = bytearray(900_000), bytearray(900_000)
        del first, second
take_frames()
before = faults()
take_frames()
print(faults() - before)
"""


def run(**environment):
    done = subprocess.run([sys.executable, '-c', PROGRAM], check=True, capture_output=True,
                          text=True, timeout=60, env={**os.environ, **environment})
    was_set, faults = done.stdout.split()
    return was_set == 'True', int(faults)


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='glibc only')
def test_frames_of_one_size_fault_their_pages_in_once():
    was_set, faults = run()
    if not was_set:
        pytest.skip('this C library has no mallopt')
    assert faults < 50


def test_settings_of_the_operator_are_left_alone():
    assert run(MALLOC_TRIM_THRESHOLD_='131072')[0] is False
    assert run(GLIBC_TUNABLES='glibc.malloc.trim_threshold=131072')[0] is False
