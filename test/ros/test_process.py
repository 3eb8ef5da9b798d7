"""The real process: it ends when it is told to, cleanly, and nobody is left without a status."""

from contextlib import contextmanager
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from lifecycle_msgs.srv import ChangeState

import pytest

from stage import config_text, image, model_text, Reader, SHUTDOWN, stream_text, TRANSITIONS

from vig.msg import GovernorStatus, RequestStatus

from waiting import wait_until


SOON_S = 1.5
"""How long a second signal may take; drains and configure last longer in these tests."""


@contextmanager
def governor(stage, path, *, autostart=False):
    """Run the governor as its own process; it is killed at the end if it still runs."""
    log = stage.folder / 'log'
    with open(log, 'wb') as output:
        started = subprocess.Popen(
            [sys.executable, '-m', 'vig_governor.start', '--ros-args', '-p', f'config:={path}',
             '-p', f'autostart:={str(autostart).lower()}', '-p', 'diagnostics_period_s:=0.1',
             # Discovery is not symmetric: without this the first frame may be lost.
             '-p', 'qos_overrides./cam.subscription.reliability:=reliable',
             '-p', 'qos_overrides./cam.subscription.depth:=10'],
            stdout=output, stderr=subprocess.STDOUT, env=os.environ.copy())
    started.said = log.read_text
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait(10)


def write_slow(stage, endpoint='', *, drain_s=2):
    """Write the configuration of one stream with a slow model; give its path."""
    return stage.write(config_text(
        endpoint or stage.endpoint,
        models=[model_text('detector', 'slow', runtime_ms=310, policy='fifo', capacity=4)],
        streams=[stream_text('front', '/cam', 'detector')],
    ).replace('drain_deadline_s: 2', f'drain_deadline_s: {drain_s}'))


@contextmanager
def active(stage, *, drain_s=2):
    """Run the governor until it is active with one slow model."""
    stage.status = Reader(stage.client, GovernorStatus, '/governor/status')
    with governor(stage, write_slow(stage, drain_s=drain_s), autostart=True) as started:
        wait_until(lambda: 'active with' in started.said(), 60, started.said)
        yield started


@pytest.fixture
def process(stage):
    """Start the governor as its own process, autostarted, with one slow model."""
    with active(stage) as started:
        yield started


@contextmanager
def frozen(server):
    """Let the server stand still."""
    server.pause()
    try:
        yield
    finally:
        server.resume()


@pytest.fixture
def mute():
    """Give the address of something that accepts connections and says nothing, and its socket."""
    with socket.create_server(('127.0.0.1', 0)) as listener:
        listener.settimeout(60)
        yield f'127.0.0.1:{listener.getsockname()[1]}', listener


def ask_for(stage, transition, state='unconfigured'):
    """Ask for a transition out of ``state``; gives what will hold the answer."""
    client = stage.client.create_client(ChangeState, '/governor/change_state')
    assert client.wait_for_service(30)
    request = ChangeState.Request()
    request.transition.id = SHUTDOWN[state] if transition == 'shutdown' else (
        TRANSITIONS[transition])
    return client.call_async(request)


def change(stage, process, *transitions, state='unconfigured'):
    """Ask for transitions one after the other and wait for each."""
    for transition in transitions:
        asked = ask_for(stage, transition, state)
        wait_until(asked.done, 20, process.said)
        assert asked.result().success, process.said()
        state = {'configure': 'inactive', 'activate': 'active', 'deactivate': 'inactive',
                 'cleanup': 'unconfigured'}[transition]


def two_signals(process, first, second):
    """Send a second signal while the first one is worked on; give the seconds until the end."""
    process.send_signal(first)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.6)
    begin = time.monotonic()
    process.send_signal(second)
    assert process.wait(10) == 128 + second, process.said()
    assert 'Traceback' not in process.said() and 'a second signal' in process.said()
    return time.monotonic() - begin


def send(stage, process, frames):
    """Publish frames when the process is active, one by one as they are received."""
    camera = stage.camera(reliable=True)
    for count in range(1, frames + 1):
        camera.publish(image())
        wait_until(lambda: any(status.streams and status.streams[0].received == count
                               for status in stage.status.messages[-3:]), 10, process.said)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_answers_what_is_accepted_and_ends_with_code_zero(stage, process, number):
    """L07: one in flight, two pending: three statuses, no traceback."""
    _, statuses = stage.outputs('/cam')
    send(stage, process, 3)
    begin = time.monotonic()
    process.send_signal(number)
    assert process.wait(10) == 0, process.said()
    assert time.monotonic() - begin < 5
    statuses.wait_for(3)
    assert {status.reason for status in statuses.messages} == {RequestStatus.COMPLETED}
    assert 'Traceback' not in process.said()


def test_what_cannot_end_in_time_is_cancelled_with_a_status(stage, process, triton):
    """L07: the server stands still; drain_deadline_s is 2."""
    _, statuses = stage.outputs('/cam')
    stage.camera(reliable=True)
    with frozen(triton):
        send(stage, process, 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0, process.said()
    statuses.wait_for(3)
    assert {status.reason for status in statuses.messages} == {RequestStatus.CANCELLED}
    assert 'Traceback' not in process.said()


@pytest.mark.parametrize('first, second', [
    (signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT),
    (signal.SIGTERM, signal.SIGINT)])
def test_a_second_signal_ends_at_once(stage, process, triton, first, second):
    stage.camera(reliable=True)
    with frozen(triton):
        send(stage, process, 1)
        assert two_signals(process, first, second) < SOON_S


@contextmanager
def in_configure(stage, mute, way):
    """Give a node that waits for a server without answers; with autostart it is still made."""
    address, listener = mute
    with governor(stage, write_slow(stage, address), autostart=way == 'autostart') as process:
        if way == 'service':
            ask_for(stage, 'configure')
        connection, _ = listener.accept()
        with connection:
            yield process


@pytest.mark.parametrize('way, number', [('autostart', signal.SIGTERM),
                                         ('service', signal.SIGINT)])
def test_a_second_signal_ends_a_configure_that_gets_no_answer(stage, mute, way, number):
    with in_configure(stage, mute, way) as process:
        assert two_signals(process, number, number) < SOON_S


@pytest.mark.parametrize('way', ['autostart', 'service'])
def test_one_signal_ends_a_configure_that_gets_no_answer_with_code_zero(stage, mute, way):
    with in_configure(stage, mute, way) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0, process.said()
        assert 'Traceback' not in process.said()


@pytest.mark.parametrize('transition, second', [('deactivate', signal.SIGTERM),
                                                ('shutdown', signal.SIGINT)])
def test_a_second_signal_ends_the_drain_of_a_transition(stage, triton, transition, second):
    with active(stage, drain_s=20) as process:
        stage.camera(reliable=True)
        with frozen(triton):
            send(stage, process, 1)
            ask_for(stage, transition, 'active')
            assert two_signals(process, signal.SIGTERM, second) < SOON_S


@pytest.mark.parametrize('first, second, pause_s', [
    (signal.SIGTERM, signal.SIGTERM, 0.0), (signal.SIGINT, signal.SIGINT, 0.05),
    (signal.SIGTERM, signal.SIGINT, 0.3)])
def test_two_signals_before_anything_is_configured_end_with_code_zero(
        stage, first, second, pause_s):
    """Also where the second one arrives while the process already ends."""
    status = Reader(stage.client, GovernorStatus, '/governor/status')
    with governor(stage, write_slow(stage)) as process:
        status.wait_for(1, 60)
        process.send_signal(first)
        threading.Event().wait(pause_s)
        process.send_signal(second)
        assert process.wait(10) == 0, process.said()
        assert 'Traceback' not in process.said()


@pytest.mark.parametrize('transitions', [('configure',), ('configure', 'activate', 'deactivate')])
def test_two_signals_while_it_is_inactive_end_with_code_zero(stage, transitions):
    with governor(stage, write_slow(stage)) as process:
        change(stage, process, *transitions)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        assert process.wait(10) == 0, process.said()
        assert time.monotonic() - begin < 3 and 'Traceback' not in process.said()


@pytest.mark.parametrize('transitions', [(), ('cleanup',)])
def test_signals_end_what_still_waits_for_the_proof_of_an_execution(stage, triton, transitions):
    """The connection is kept over cleanup (adr/0024), and the server stands still."""
    with active(stage) as process:
        stage.camera(reliable=True)
        with frozen(triton):
            send(stage, process, 1)
            change(stage, process, 'deactivate', *transitions, state='active')
            process.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            assert process.wait(10) == 0, process.said()
            assert time.monotonic() - begin < 3 and 'Traceback' not in process.said()


def test_a_process_without_a_configuration_waits_and_ends_cleanly(stage, ros):
    started = subprocess.Popen([sys.executable, '-m', 'vig_governor.start'],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        status = Reader(stage.client, GovernorStatus, '/governor/status')
        status.wait_for(1, 60)
        assert status.messages[0].lifecycle_state == 'unconfigured'
        started.send_signal(signal.SIGINT)
        said, _ = started.communicate(timeout=10)
    finally:
        started.kill()
    assert started.returncode == 0 and 'Traceback' not in said, said


@pytest.mark.parametrize('delay_s', [0.0, 0.3, 0.8])
def test_a_signal_while_the_process_starts_leaves_no_traceback(ros, delay_s):
    started = subprocess.Popen([sys.executable, '-m', 'vig_governor.start'],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        started.wait(delay_s)
    except subprocess.TimeoutExpired:
        pass
    try:
        started.send_signal(signal.SIGTERM if delay_s == 0.0 else signal.SIGINT)
        said, _ = started.communicate(timeout=30)
    finally:
        started.kill()
    assert 'Traceback' not in said, said


def test_a_broken_parameter_file_is_one_sentence(ros, tmp_path):
    broken = tmp_path / 'params.yaml'
    broken.write_text('a: [1\n')
    done = subprocess.run([sys.executable, '-m', 'vig_governor.start', '--ros-args',
                           '--params-file', str(broken)], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 2 and 'Traceback' not in done.stderr
    assert 'governor: the ROS arguments are not usable' in done.stderr
    assert str(broken) in done.stderr and 'line 1' in done.stderr


@pytest.mark.parametrize('rule, names', [
    ('config:=12', "'config'"), ('autostart:=maybe', "'autostart'"),
    ('diagnostics_period_s:=0.0', 'out of range Min: 0.1'),
])
def test_a_parameter_of_the_wrong_kind_is_one_sentence(ros, rule, names):
    done = start_and_end('--ros-args', '-p', rule)
    assert done.returncode == 2 and 'Traceback' not in done.stderr
    assert 'governor: a parameter is not usable' in done.stderr and names in done.stderr


def test_an_argument_that_is_none_of_ros_is_refused_with_the_usage(ros):
    done = start_and_end('--config', 'vig.yaml')
    assert done.returncode == 2
    assert 'unknown arguments: --config vig.yaml\nusage: governor --ros-args' in done.stderr


def test_help_says_how_to_start_it():
    done = start_and_end('--help')
    assert done.returncode == 0 and done.stdout.startswith('usage: governor --ros-args')


def test_security_that_cannot_be_enforced_is_a_sentence(ros, tmp_path):
    done = start_and_end('--ros-args', '--enclave', '/governor', ROS_SECURITY_ENABLE='true',
                         ROS_SECURITY_STRATEGY='Enforce', ROS_SECURITY_KEYSTORE=str(tmp_path))
    assert done.returncode == 2 and 'governor: ' in done.stderr
    assert 'Traceback' not in done.stderr


def start_and_end(*arguments, **variables):
    return subprocess.run([sys.executable, '-m', 'vig_governor.start', *arguments],
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, **variables})
