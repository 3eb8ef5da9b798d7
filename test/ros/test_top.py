"""``vig top`` on a live node, and how it draws what it reads."""

import json
import os
import subprocess
import sys

import pytest

from rich.console import Console
from stage import image

from vig.msg import GovernorStatus, StreamStatus

from vig_governor.top import as_json, picture


def run(*arguments, **environment):
    """Run the command in a process of its own, in this test's ROS domain."""
    return subprocess.run([sys.executable, '-m', 'vig_governor.cli', 'top', *arguments],
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})


def drawn(*statuses, seconds=1.0):
    """Give the text of a picture at 80 columns."""
    console = Console(width=80, record=True, file=open(os.devnull, 'w', encoding='utf-8'))
    console.print(picture(statuses[-1], statuses[0] if len(statuses) > 1 else None, seconds))
    return console.export_text()


def status(**fields):
    """Make the status of an active governor with one protected stream."""
    stream = StreamStatus(stream='front', model='detector', variant='large', **fields)
    return GovernorStatus(lifecycle_state='active', ready=True, slots_total=2, slots_busy=1,
                          streams=[stream])


def test_a_running_node_is_read_once_as_json(stage):
    _, statuses = stage.one_camera()
    stage.activate()
    stage.camera().publish(image())
    statuses.wait_for(1)
    done = run('--once', '--json')
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found['lifecycle'] == 'active' and found['ready']
    assert found['slots']['total'] == 1
    assert found['streams']['front']['completed'] == 1
    assert found['streams']['front']['class'] == 'normal'


def test_a_running_node_is_drawn_once(stage):
    stage.one_camera()
    stage.activate()
    done = run('--once')
    assert done.returncode == 0, done.stderr
    assert 'active' in done.stdout and 'front' in done.stdout and 'slots [.]' in done.stdout


def test_a_node_that_is_not_there_is_named(stage):
    done = run('--once', '--node', '/nobody')
    assert done.returncode == 1
    assert '/nobody/status: no status in 5 s' in done.stderr
    assert 'Traceback' not in done.stderr


@pytest.mark.parametrize('name', ['a b', ''])
def test_a_name_that_no_node_can_have_is_said(ros, name):
    done = run('--once', '--node', name)
    assert done.returncode == 1
    assert 'wants the full name of a node' in done.stderr
    assert 'Traceback' not in done.stderr


def test_an_environment_that_ros_refuses_is_said(ros):
    done = run('--once', ROS_DOMAIN_ID='abc')
    assert done.returncode == 1
    assert done.stderr.startswith('ROS cannot be used: ') and 'ROS_DOMAIN_ID' in done.stderr
    assert 'Traceback' not in done.stderr


def test_it_shows_what_happened_since_the_last_status():
    before = status(received=100, completed=90, superseded=10, cycles_total=100,
                    cycles_covered=50)
    after = status(received=130, completed=115, superseded=13, stale=2, cycles_total=130,
                   cycles_covered=80)
    text = drawn(before, after)
    assert '100%' in text and '25.0' in text
    assert 'sup 3' in text and 'stale 2' in text
    assert 'slots [#.]' in text


def test_a_generative_stream_is_shown_with_its_tokens_each_second():
    now = status(tokens=50, quanta=3)
    assert '20.0 tok' in drawn(status(tokens=10, quanta=1), now, seconds=2.0)
    assert as_json(now)['streams']['front']['tokens'] == 50


def test_a_governor_that_was_activated_anew_is_no_fall():
    text = drawn(status(received=100, completed=90), status(received=3, completed=2))
    assert '-88' not in text and '-' in text


def test_what_is_wrong_is_said():
    bad = status(weakly_hard_violated=True)
    bad.ready, bad.not_ready_reason = False, 'every slot is held by an unproven execution'
    bad.slots_busy = bad.slots_quarantined = 2
    bad.overload_state, bad.overload_detail = 2, '300 permille were bad'
    text = drawn(bad)
    assert 'NOT READY' in text and 'every slot is held' in text
    assert 'slots [!!]' in text and 'degraded' in text and '300 permille' in text
    assert 'BUDGET BROKEN' in text
    assert as_json(bad)['overload'] == 'degraded'


def test_the_contract_of_a_stream_is_in_the_picture_and_in_the_json():
    one = status(completed=9, cycles_total=100, cycles_covered=97, weakly_hard_window=100,
                 weakly_hard_misses=3, weakly_hard_misses_left=0, starved=2,
                 background_progress=0.02, background_progress_required_percent=5)
    one.streams[0].longest_gap.nanosec = 240_000_000
    text = drawn(one)
    for part in (' 97%', ' 240 ', 'miss 3/100', 'NONE LEFT', 'done 2% of 5%', 'STARVED 2'):
        assert part in ' '.join(text.split()) or part in text, part
    found = as_json(one)['streams']['front']
    assert found['weakly_hard']['misses_left'] == 0 and not found['weakly_hard']['violated']
    assert (found['longest_gap_ms'], found['starved']) == (240, 2)


def test_long_names_fit_into_eighty_columns():
    wide = status(received=9, superseded=123456, stale=99999, obsolete=9999, capacity=77777,
                  completed=9, cycles_total=9, weakly_hard_window=1000, starved=88888)
    wide.streams[0].longest_gap.sec = 99999
    wide.streams[0].age_p95.sec = 3599
    wide.streams[0].stream, wide.streams[0].variant = 'x' * 60, 'y' * 60
    assert max(map(len, drawn(wide).splitlines())) <= 80
