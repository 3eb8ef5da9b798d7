"""``vig explain`` on a running node: what an operator reads over ssh."""

import os
import subprocess
import sys

import pytest

from stage import feed


def explain(*arguments, **environment):
    """Run the command in a process of its own, in this test's ROS domain."""
    return subprocess.run([sys.executable, '-m', 'vig_governor.cli', 'explain', *arguments],
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})


def test_a_frame_is_explained_by_its_number_by_its_stamp_and_among_the_last(stage):
    _, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    feed(camera, statuses, 2)
    newest = statuses.messages[-1]
    by_number = explain('front', '--request', str(newest.request_id))
    assert by_number.returncode == 0, by_number.stderr
    sent, ended = by_number.stdout.splitlines()
    assert sent.startswith(f'request {newest.request_id} was sent to echo as variant only')
    assert ended.endswith(newest.detail)
    stamp = newest.header.stamp
    assert explain('front', '--stamp', f'{stamp.sec}.{stamp.nanosec:09d}').stdout == (
        by_number.stdout)
    assert explain('front', '--last', '1').stdout == by_number.stdout
    unknown = explain('rear')
    assert unknown.returncode == 1
    assert unknown.stderr.strip() == "there is no stream 'rear'; there are front"


@pytest.mark.parametrize('arguments, words', [
    (('front', '--node', '/nobody'), '/nobody/explain: no such service in 5 s'),
    (('front', '--node', 'a b'), '/a b/explain is no name of ROS')])
def test_a_node_that_is_not_there_is_said(arguments, words):
    done = explain(*arguments, ROS_DOMAIN_ID='47')
    assert done.returncode == 1 and words in done.stderr and 'Traceback' not in done.stderr
