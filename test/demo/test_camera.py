"""The camera's timetable and its endless video."""

from itertools import islice
import subprocess
import sys

import av
import numpy as np
import pytest

from vig_governor.demo.camera import frames, NS_PER_MS, timetable

PERIOD_MS = 100


def captures(count, **changes):
    return list(islice(timetable(**{'start_ns': 0, 'rate_hz': 10.0, 'jitter_ms': 5.0,
                                    'transport_ms': 2.0, 'seed': 1, **changes}), count))


def test_equal_seeds_give_equal_captures_and_others_do_not():
    assert captures(20) == captures(20)
    assert captures(20) != captures(20, seed=2)


def test_jitter_stays_within_its_bound_and_does_not_add_up():
    offsets = [capture.captured_at_ns / NS_PER_MS - number * PERIOD_MS
               for number, capture in enumerate(captures(200))]
    assert max(map(abs, offsets)) <= 5
    assert max(offsets) - min(offsets) > 5


def test_publication_follows_the_capture_by_the_transport():
    assert {capture.published_at_ns - capture.captured_at_ns for capture in captures(20)} == {
        2 * NS_PER_MS}


def test_a_jitter_that_could_swap_two_captures_is_refused():
    with pytest.raises(ValueError, match='exceeds half the period'):
        captures(1, jitter_ms=50.0)


@pytest.fixture
def video(tmp_path):
    """Make a video of one dark and one light frame."""
    path = tmp_path / 'two.avi'
    with av.open(str(path), 'w') as container:
        stream = container.add_stream('mpeg4', rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, 'yuv420p'
        for grey in (20, 200):
            image = np.full((48, 64, 3), grey, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
        container.mux(stream.encode())
    return path


def test_the_video_starts_again_after_its_last_frame_in_the_size_asked_for(video):
    seen = list(islice(frames(video, (32, 16)), 5))
    assert [number for number, _ in seen] == [0, 1, 0, 1, 0]
    assert seen[0][1].shape == (16, 32, 3)
    assert seen[0][1].mean() < 60 < 160 < seen[1][1].mean()


@pytest.mark.ros
@pytest.mark.parametrize('kind', [(), ('--lend', 'IMAGE')])
def test_a_camera_whose_demo_has_gone_ends_instead_of_waiting_for_it(video, kind):
    camera = subprocess.Popen(
        [sys.executable, '-m', 'vig_governor.demo.camera', str(video), '--topic', '/orphan',
         '--width', '32', '--height', '16', '--wait', *kind],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert camera.stdout.readline() == 'ready\n'
        assert camera.communicate('', timeout=20)[0] == ''
        assert camera.returncode == 0
    finally:
        camera.kill()
