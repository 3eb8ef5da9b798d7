"""
Keep freed memory in the process, so that a frame does not fault its pages in anew each time.

glibc may map every block of frame size afresh and unmap it when it is freed: then the middleware's
copy of a 900 KB frame and the message's cost 644 page faults, and on a virtual machine these were
2.6 of the 3.2 ms of processor time that it took to receive the frame (adr/0014).
"""

import ctypes
import os

MIB = 1024 * 1024
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_REUSED = 32 * MIB
"""The most that glibc lets M_MMAP_THRESHOLD be on 64 bits; five 1080p frames of rgb8."""
_KEPT = 128 * MIB
"""Free memory at the end of the heap beyond this goes back to the system."""


def keep_freed_memory() -> bool:
    """
    Set the allocator of this process; before its first frame.

    An operator's own settings in the environment (``MALLOC_*``, ``GLIBC_TUNABLES``) are left
    alone.

    :returns: whether it was set. False where the C library is not glibc.
    """
    if any(name in os.environ for name in ('MALLOC_MMAP_THRESHOLD_', 'MALLOC_TRIM_THRESHOLD_')) \
            or 'glibc.malloc' in os.environ.get('GLIBC_TUNABLES', ''):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_REUSED) and mallopt(_M_TRIM_THRESHOLD, _KEPT))
