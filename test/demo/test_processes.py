"""Children are watched, ended, and never outlive us."""

import os
import signal
import subprocess
import sys

import pytest

from vig_governor.demo.processes import ChildDied, Processes
from waiting import wait_until


def python(code):
    return [sys.executable, '-c', code]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_said_by(child):
    lines = wait_until(lambda: child.new_lines(), 10, 'the child says its pid')
    return int(lines[0])


def test_a_child_that_dies_is_named_with_the_end_of_its_log(tmp_path):
    with Processes(tmp_path, {}) as processes:
        child = processes.start('camera', python('import sys; sys.exit("no such video")'))
        wait_until(lambda: child.returncode is not None, 10)
        with pytest.raises(ChildDied, match='camera ended with code 1;(.|\n)*no such video'):
            processes.check()


def test_a_child_that_may_end_is_well_with_code_zero_only(tmp_path):
    with Processes(tmp_path, {}) as processes:
        good = processes.start('good', python('pass'))
        bad = processes.start('bad', python('raise SystemExit(3)'))
        wait_until(lambda: good.returncode is not None and bad.returncode is not None, 10)
        with pytest.raises(ChildDied, match='bad ended with code 3'):
            processes.check(may_end=(good, bad))


def test_waiting_for_a_line_ends_when_any_child_dies(tmp_path):
    with Processes(tmp_path, {}) as processes:
        patient = processes.start('patient', python('import time; time.sleep(60)'))
        processes.start('weak', python('raise SystemExit(2)'))
        with pytest.raises(ChildDied, match='weak'):
            processes.wait_for_line(patient, 'ready', timeout_s=30)


def test_all_children_are_ended_on_the_way_out_even_one_that_ignores_the_signal(tmp_path):
    deaf = 'import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); '
    with Processes(tmp_path, {}) as processes:
        polite = processes.start('polite', python(
            'import os, time; print(os.getpid(), flush=True); time.sleep(60)'))
        stubborn = processes.start('stubborn', python(
            deaf + 'print(os.getpid(), flush=True); time.sleep(60)'))
        pids = [pid_said_by(polite), pid_said_by(stubborn)]
        processes.stop(timeout_s=0.5)
        assert not any(is_alive(pid) for pid in pids)


def test_a_child_that_waits_for_a_line_is_ended_at_once(tmp_path):
    """A camera that waits for the start only notes the signal, and goes on waiting."""
    with Processes(tmp_path, {}) as processes:
        child = processes.start('camera', python(
            'import signal, sys\n'
            'signal.signal(signal.SIGTERM, lambda *_: None)\n'
            'print("ready", flush=True)\n'
            'sys.exit(len(sys.stdin.readline()))'))
        processes.wait_for_line(child, 'ready', timeout_s=10)
    assert child.returncode == 0


def test_a_child_ends_when_its_owner_is_killed(tmp_path):
    owner = subprocess.Popen(python(
        'import sys, time\n'
        'from pathlib import Path\n'
        'from vig_governor.demo.processes import Processes\n'
        f'child = Processes(Path({str(tmp_path)!r}), {{}}).start("orphan", [sys.executable, "-c",'
        ' "import os, time; print(os.getpid(), flush=True); time.sleep(60)"])\n'
        'time.sleep(60)\n'))
    try:
        log = tmp_path / 'orphan.log'
        pid = int(wait_until(lambda: log.exists() and log.read_text().strip(), 20))
        assert is_alive(pid)
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    wait_until(lambda: not is_alive(pid), 10, 'the orphan ends')


# Presses Ctrl-C at the worst moment: the child runs, and nobody has noted it yet.
INTERRUPTED = """
import os, signal, subprocess, sys
from pathlib import Path
from vig_governor.demo.processes import Processes
signal.signal(signal.SIGINT, signal.default_int_handler)
start = subprocess.Popen

def start_and_interrupt(*arguments, **options):
    process = start(*arguments, **options)
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    return process

subprocess.Popen = start_and_interrupt
with Processes(Path(sys.argv[1]), {}) as processes:
    processes.start('child', [sys.executable, '-c', 'import time; time.sleep(60)'])
    print('went on')
"""


def test_a_child_that_is_started_while_ctrl_c_is_pressed_is_ended_too(tmp_path):
    owner = subprocess.run([*python(INTERRUPTED), str(tmp_path)], capture_output=True, text=True,
                           timeout=30)
    assert 'KeyboardInterrupt' in owner.stderr and 'went on' not in owner.stdout
    child, watcher = map(int, owner.stdout.split())
    wait_until(lambda: not is_alive(child) and not is_alive(watcher), 10, 'both end')


def test_a_child_hears_what_it_is_told(tmp_path):
    with Processes(tmp_path, {'GREETING': 'hello'}) as processes:
        child = processes.start('echo', python(
            'import os; print(os.environ["GREETING"], input(), flush=True)'))
        child.say('there')
        lines = wait_until(lambda: child.new_lines(), 10)
        assert lines == ['hello there']
