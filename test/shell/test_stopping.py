"""A process that is told to stop stops, however often and whenever it is told."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from vig_governor.stopping import in_one_piece, StopSignal

CHILD = """
import sys
from vig_governor.stopping import StopSignal
stop = StopSignal()
print('ready', flush=True)
while not stop.wait(0.0):
    pass
"""


def test_a_storm_of_signals_ends_the_process_and_does_not_block_it():
    for _ in range(5):
        child = subprocess.Popen([sys.executable, '-c', CHILD], stdout=subprocess.PIPE,
                                 env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
        assert child.stdout.readline() == b'ready\n'
        for number in (signal.SIGTERM, signal.SIGINT) * 10:
            child.send_signal(number)
        assert child.wait(20) in (0, -signal.SIGTERM, -signal.SIGINT)
        child.stdout.close()


def test_it_waits_no_longer_than_it_is_told_and_remembers_the_signal():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        stop = StopSignal()
        assert not stop.is_set() and not stop.wait(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5.0) and stop.is_set() and stop.wait(5.0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_step_is_done_to_its_end_before_ctrl_c_counts():
    done = []
    # What a shell starts in the background inherits that Ctrl-C is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def step():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        done.append(True)

    try:
        with pytest.raises(KeyboardInterrupt):
            in_one_piece(step)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == [True]


def test_a_step_on_another_thread_touches_no_handler():
    before = signal.getsignal(signal.SIGINT)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(
        in_one_piece(lambda: signal.getsignal(signal.SIGINT))))
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_step_gives_its_result_and_its_error():
    assert in_one_piece(lambda: 7) == 7
    with pytest.raises(FileNotFoundError):
        in_one_piece(lambda: open('/nothing/there'))
