"""The real process: it ends when it is told to, cleanly, and nobody is left without a status."""

import os
import signal
import subprocess
import sys
import time

import pytest

from stage import config_text, image, model_text, Reader, stream_text

from vig.msg import GovernorStatus, RequestStatus

from waiting import wait_until


@pytest.fixture
def process(stage):
    """Start the governor as its own process, autostarted, with one slow model."""
    path = stage.write(config_text(
        stage.endpoint,
        models=[model_text('detector', 'slow', runtime_ms=310, policy='fifo', capacity=4)],
        streams=[stream_text('front', '/cam', 'detector')]))
    stage.status = Reader(stage.client, GovernorStatus, '/governor/status')
    log = stage.folder / 'log'
    with open(log, 'wb') as output:
        started = subprocess.Popen(
            [sys.executable, '-m', 'vig_governor.node', '--ros-args', '-p', f'config:={path}',
             '-p', 'autostart:=true', '-p', 'diagnostics_period_s:=0.1',
             # Discovery is not symmetric: without this the first frame may be lost.
             '-p', 'qos_overrides./cam.subscription.reliability:=reliable',
             '-p', 'qos_overrides./cam.subscription.depth:=10'],
            stdout=output, stderr=subprocess.STDOUT, env=os.environ.copy())
    started.said = log.read_text
    wait_until(lambda: 'active with' in started.said(), 60, started.said)
    yield started
    if started.poll() is None:
        started.kill()
    started.wait(10)


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
    triton.pause()
    try:
        send(stage, process, 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0, process.said()
    finally:
        triton.resume()
    statuses.wait_for(3)
    assert {status.reason for status in statuses.messages} == {RequestStatus.CANCELLED}
    assert 'Traceback' not in process.said()


def test_a_second_signal_ends_at_once(stage, process, triton):
    stage.camera(reliable=True)
    triton.pause()
    try:
        send(stage, process, 1)
        process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.6)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 128 + signal.SIGTERM
        assert time.monotonic() - begin < 1.5
    finally:
        triton.resume()


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
