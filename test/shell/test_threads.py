"""Threads tell their names to the system."""

from pathlib import Path
import sys
import threading

import pytest

from vig_governor.threads import NamedThread


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='/proc is of Linux')
def test_the_system_knows_a_thread_by_the_first_fifteen_bytes_of_its_name():
    seen = []

    def look():
        own = threading.get_native_id()
        seen.append(Path(f'/proc/self/task/{own}/comm').read_text().strip())
    thread = NamedThread(look, 'vig-dispatch-number-7')
    thread.start()
    thread.join()
    assert thread.daemon
    assert seen == ['vig-dispatch-nu']
