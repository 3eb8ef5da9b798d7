"""Clocks that stop, jump and disagree: frames are judged by them, the node never waits on them."""

import mmap
import os
from pathlib import Path
import shutil
import subprocess
import sys
import threading
import time

from hypothesis import given, settings, strategies as st

import pytest

from rclpy.parameter import Parameter

from rosgraph_msgs.msg import Clock

from stage import config_text, image, model_text, Reader, stream_text

from test_edges import intake, NOW, SetClock

from vig.msg import GovernorStatus, RequestStatus

from vig_core.contract import Contract, Criticality
from vig_core.events import BackendCompleted, Stamp
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.scheduler import Scheduler

from waiting import wait_until

SECOND = 10**9
DONE, SUPERSEDED = RequestStatus.COMPLETED, RequestStatus.SUPERSEDED


@pytest.fixture
def simulated(stage):
    """Give a function that shows the governor a simulated time in seconds."""
    stage.one_camera()
    stage.node.set_parameters([Parameter('use_sim_time', value=True)])
    stage.activate()
    publisher = stage.client.create_publisher(Clock, '/clock', 10)
    wait_until(lambda: publisher.get_subscription_count() >= 1)

    def show(seconds):
        message = Clock()
        message.clock.sec = seconds
        publisher.publish(message)
        wait_until(lambda: stage.node.get_clock().now().nanoseconds == seconds * SECOND)
    return show


def send(camera, statuses, stamps):
    """Publish frames of these stamps in seconds, each when the one before has ended."""
    before = len(statuses)
    for count, stamp in enumerate(stamps, start=1):
        camera.publish(image(stamp_ns=round(stamp * SECOND)))
        statuses.wait_for(before + count)
    return [status.reason for status in statuses.messages[before:]]


def test_after_a_jump_forward_the_first_frame_runs_and_an_older_one_does_not(stage, simulated):
    _, statuses = stage.outputs('/cam')
    camera = stage.camera()
    simulated(100)
    assert send(camera, statuses, [99.9]) == [DONE]
    simulated(5000)
    assert send(camera, statuses, [4999.9]) == [DONE]
    assert send(camera, statuses, [100.5]) == [SUPERSEDED]


def test_while_the_simulated_clock_stands_still_each_capture_runs_once(stage, simulated):
    _, statuses = stage.outputs('/cam')
    camera = stage.camera()
    simulated(100)
    assert send(camera, statuses, [100, 100, 100]) == [DONE, SUPERSEDED, SUPERSEDED]
    simulated(101)
    assert send(camera, statuses, [101]) == [DONE]


def test_switching_to_simulated_time_and_back_while_active_loses_nothing(stage):
    _, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    assert send(camera, statuses, [stage.node.get_clock().now().nanoseconds / SECOND]) == [DONE]
    stage.node.set_parameters([Parameter('use_sim_time', value=True)])
    assert send(camera, statuses, [7]) == [RequestStatus.INVALID_STAMP]
    assert 'nothing publishes /clock' in statuses.messages[-1].detail
    stage.node.set_parameters([Parameter('use_sim_time', value=False)])
    assert send(camera, statuses, [stage.node.get_clock().now().nanoseconds / SECOND]) == [DONE]


@pytest.mark.parametrize('other_s, reason', [
    (lambda now: 0, RequestStatus.INVALID_STAMP),
    (lambda now: now + 4, RequestStatus.INVALID_STAMP),
    (lambda now: 312.4, RequestStatus.STALE),
    (lambda now: now - 560_000, RequestStatus.STALE)],
    ids=['unstamped', 'ahead', 'boot time', 'another day'])
def test_a_second_sender_with_a_broken_clock_harms_no_frame_of_the_first(stage, other_s, reason):
    _, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    for _ in range(4):
        now = stage.node.get_clock().now().nanoseconds / SECOND
        broken, good = send(camera, statuses, [other_s(now), now])
        # Once a good frame has run, one that is clamped to an hour ago is older than that.
        assert broken in {reason, SUPERSEDED} and good == DONE


@settings(max_examples=150, deadline=None)
@given(frames=st.lists(st.tuples(
    st.integers(0, 50),
    st.sampled_from([0, -SECOND, 40_000_000, 4 * SECOND, -7200 * SECOND, None]),
    st.integers(0, 60)), min_size=1, max_size=30))
def test_whatever_two_senders_stamp_captures_run_in_order_and_each_frame_ends_once(frames):
    """Gap in ms, offset of the sender's clock or no stamp at all, age in ms of each frame."""
    model = Model('detector', Criticality.NORMAL, Contract(SECOND, max_age_ns=2 * SECOND),
                  (Variant('only', 'echo', RuntimeProfile(1000, 2000)),))
    clock, posted = SetClock(), []
    scheduler = Scheduler(System({'detector': model}, {'front': 'detector'}),
                          origin_ns=clock.at_ns)
    take = intake(posted, clock)
    stamps, ran, ended = {}, [], []
    for gap_ms, offset_ns, age_ms in frames:
        clock.at_ns += gap_ms * 1_000_000
        stamp_ns = (0 if offset_ns is None else
                    NOW + clock.at_ns - age_ms * 1_000_000 + offset_ns)
        take(image(stamp_ns=stamp_ns))
        event = posted[-1][0]
        stamps[event.request_id] = stamp_ns
        waiting = list(scheduler.handle(event, now_ns=clock.at_ns))
        while waiting:
            action = waiting.pop(0)
            if type(action).__name__ == 'Dispatch':
                ran.append(action.request_id)
                clock.at_ns += 1000
                waiting += scheduler.handle(BackendCompleted(action.request_id),
                                            now_ns=clock.at_ns)
            elif type(action).__name__ == 'Terminate':
                ended.append(action.request_id)
    assert sorted(ended) == sorted(stamps)
    in_order = [stamps[request] for request in ran]
    assert in_order == sorted(set(in_order))
    assert not set(ran) & {
        event.request_id for event, _ in posted if event.stamp is Stamp.INVALID}


@pytest.fixture
def moved_clock(tmp_path):
    """Give the environment of a process with a staged wall clock, and a function that sets it."""
    compiler = shutil.which('cc') or shutil.which('gcc')
    if compiler is None:
        pytest.skip('no C compiler for the shim of the wall clock: apt install gcc')
    library, file = tmp_path / 'wall_clock_shim.so', tmp_path / 'moved_ns'
    subprocess.run([compiler, '-shared', '-fPIC', '-o', library,
                    Path(__file__).with_name('wall_clock_shim.c'), '-ldl'], check=True)
    file.write_bytes(bytes(8))
    with open(file, 'r+b') as opened:
        shared = mmap.mmap(opened.fileno(), 8)

    def move(seconds):
        shared[:] = (seconds * SECOND).to_bytes(8, sys.byteorder, signed=True)
    return {**os.environ, 'LD_PRELOAD': str(library), 'VIG_TEST_WALL_CLOCK': str(file)}, move


def test_a_wall_clock_that_is_set_back_or_forward_stops_no_frame(stage, moved_clock):
    """
    C06: five seconds back, then ten forward: each frame ends in time, and the signal is obeyed.

    The shim moves what the process reads, not the kernel's own clock: a wait of the middleware
    that was turned into an absolute wall time lasts longer here by what the clock is ahead. That
    is what a kernel's clock does to a wait that began before it was set back, so timers are
    judged after the last move only: they must not last until the clock is where it was.
    """
    environment, move = moved_clock
    reports = Reader(stage.client, GovernorStatus, '/governor/status')
    path = stage.write(config_text(stage.endpoint, models=[model_text('detector', 'echo')],
                                   streams=[stream_text('front', '/cam', 'detector')]))
    _, statuses = stage.outputs('/cam')
    log = stage.folder / 'log'
    with open(log, 'wb') as output:
        process = subprocess.Popen(
            [sys.executable, '-m', 'vig_governor.node', '--ros-args', '-p', f'config:={path}',
             '-p', 'autostart:=true',
             '-p', 'qos_overrides./cam.subscription.reliability:=reliable'],
            stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        wait_until(lambda: 'active with' in log.read_text(), 60, log.read_text)
        camera = stage.camera(reliable=True)
        for moved_s in (0, -5, 5):
            move(moved_s)
            begin = time.monotonic()
            for _ in range(3):
                assert send(camera, statuses, [time.time() + moved_s]) == [DONE], log.read_text()
            assert time.monotonic() - begin < 4
        move(0)
        reports.wait_for(len(reports) + 2)
        move(60)
        threading.Event().wait(3.0)  # until each timer has begun a wait while it is ahead
        move(0)
        before = len(reports)
        reports.wait_for(before + 3, 8)
        assert 'the wall clock was set back by 60.0 s' in log.read_text()
        process.terminate()
        assert process.wait(15) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
