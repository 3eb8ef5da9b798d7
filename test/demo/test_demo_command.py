"""The whole demo as a user runs it: exit codes, what it leaves behind, and what it does not."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import cv2
import psutil
import pytest
from triton_fixture import require_triton

from vig_governor.config import load_config
from vig_governor.demo.assets import AssetStore, DEFAULT_FOLDER
from vig_governor.demo.language_files import is_converted
from waiting import wait_until

pytestmark = [pytest.mark.server, pytest.mark.ros]

LONGEST_S = 170
QUICK = ('--profile-samples', '1', '--scene', 'cameras')


@pytest.fixture(scope='module', autouse=True)
def _needs():
    require_triton()
    if not AssetStore(DEFAULT_FOLDER).has('videos/carphone_pristine.mp4'):
        pytest.skip('no videos: python -m vig_governor.demo.assets prepare')


@pytest.fixture
def started():
    """Keep the children of a demo that must all have ended, to end them where they have not."""
    return []


@pytest.fixture
def start(tmp_path, started):
    demos = []

    def start(*arguments):
        demos.append(subprocess.Popen(
            [sys.executable, '-m', 'vig_governor.cli', 'demo', '--out', str(tmp_path), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
            # What a shell starts in the background inherits that Ctrl-C is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)))
        return demos[-1]

    yield start
    for demo in demos:
        if demo.poll() is None:
            demo.terminate()
            demo.communicate(timeout=30)
    # A test that found a survivor fails; later ones shall not meet it in their ROS domain.
    for process in started:
        with contextlib.suppress(psutil.Error):
            process.kill()


def end(demo):
    """Give the exit code and everything that was printed."""
    said = demo.communicate(timeout=LONGEST_S)[0]
    return demo.returncode, said


def children_of(demo):
    return psutil.Process(demo.pid).children(recursive=True)


def cameras_of(demo):
    cameras = []
    for process in children_of(demo):
        with contextlib.suppress(psutil.Error):
            if 'vig_governor.demo.camera' in process.cmdline():
                cameras.append(process)
    return cameras


def test_both_runs_end_with_a_verdict_pictures_and_figures(start, tmp_path):
    code, said = end(start('--scene', 'cameras', '--seconds', '5', '--profile-samples', '5'))
    assert code == 0, said
    assert 'face (protected): without a usable result' in said
    summary = json.loads((tmp_path / 'summary.json').read_text())
    assert f'all ask for {summary["load"]:.1f} of what the slot can do' in said
    for arm in ('direct', 'governed'):
        face = summary[arm]['face']
        assert 0.8 < face['frames'] / (4 * summary['rates_hz']['face']) < 1.05
        assert 0 < face['results'] <= face['frames']
        # Images travel best effort: a busy machine may lose some on the way.
        assert face['results'] <= sum(face['ends'].values()) <= face['frames']
    assert len(summary['profiles_ms']) >= 4
    for name in ('result.png', 'timeline.png'):
        height, width = cv2.imread(str(tmp_path / name)).shape[:2]
        assert height > 500 and width > 1000
    assert load_config(tmp_path / 'vig.yaml').system.slots == 1


def require_language_model():
    if not is_converted(AssetStore(DEFAULT_FOLDER)):
        pytest.skip('no converted language model: make setup')


def test_a_language_model_writes_beside_a_camera_in_both_runs(start, tmp_path):
    require_language_model()
    code, said = end(start('--scene', 'text', '--text-rate', '5', '--seconds', '6',
                           '--profile-samples', '5'))
    assert code == 0, said
    for words in ('Between two frames of face at 5 Hz',
                  'With the governor: pieces of text between',
                  'face (protected): without a usable result', 'Written between the frames:'):
        assert words in said
    summary = json.loads((tmp_path / 'text' / 'summary.json').read_text())
    for arm in ('direct', 'governed'):
        camera, text = summary[arm]['camera'], summary[arm]['text']
        assert 20 <= camera['frames'] <= 26 and camera['results'] > 0
        assert text['answers'] > 0 and text['tokens'] > 3 * text['answers']
        whole = [each for each in summary[arm]['answers'] if each['reason'] == 'completed']
        assert len(whole) >= text['answers'] and all(each['text'] for each in whole)
    assert summary['direct']['text']['requests'] == summary['direct']['text']['answers']
    assert summary['governed']['text']['requests'] > summary['governed']['text']['answers']
    # The same questions, and the same words in whatever pieces.
    first = [summary[arm]['answers'][0] for arm in ('direct', 'governed')]
    assert first[0] == first[1]
    height, width = cv2.imread(str(tmp_path / 'text' / 'timeline.png')).shape[:2]
    assert height > 500 and width > 1000
    assert load_config(tmp_path / 'text' / 'vig.yaml').generative


def test_without_the_language_model_its_scene_alone_is_refused_with_the_command(start, tmp_path):
    assets = tmp_path / 'assets'
    assets.mkdir()
    for name in ('videos', 'weights'):
        (assets / name).symlink_to((DEFAULT_FOLDER / name).resolve())
    code, said = end(start('--scene', 'text', '--assets', str(assets)))
    assert code == 1
    assert 'the language model is not there; run: make setup' in ' '.join(said.split())
    assert 'Traceback' not in said


@pytest.mark.parametrize('number, moment, scene', [
    (signal.SIGINT, cameras_of, 'cameras'), (signal.SIGTERM, children_of, 'cameras'),
    (signal.SIGINT, cameras_of, 'text')])
def test_a_signal_ends_every_process(start, started, number, moment, scene):
    if scene == 'text':
        require_language_model()
    demo = start('--seconds', '60', '--no-direct-arm', *QUICK, '--scene', scene)
    wait_until(lambda: moment(demo), 120, 'the processes run')
    children = started[:] = children_of(demo)
    demo.send_signal(number)
    code, said = end(demo)
    assert code == 130, said
    assert 'interrupted' in said
    assert psutil.wait_procs(children, timeout=10)[1] == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason='needs two processor cores')
def test_the_models_share_one_core_that_nothing_else_of_the_demo_uses(start):
    demo = start('--seconds', '60', '--no-governor-arm', *QUICK)
    wait_until(lambda: cameras_of(demo), 120, 'the cameras run')
    models, others = [], []
    for process in children_of(demo):
        with contextlib.suppress(psutil.Error):
            is_model = process.name() == 'triton_python_backend_stub'
            (models if is_model else others).append(set(process.cpu_affinity()))
    assert len(models) >= 4
    assert all(cores == models[0] and len(cores) == 1 for cores in models)
    assert not any(cores & models[0] for cores in others)


def test_a_child_that_dies_is_named_and_fails_the_demo(start, started):
    demo = start('--seconds', '60', '--no-direct-arm', *QUICK)
    camera = wait_until(lambda: cameras_of(demo), 120, 'the cameras run')[0]
    children = started[:] = children_of(demo)
    os.kill(camera.pid, signal.SIGKILL)
    code, said = end(demo)
    assert code == 1, said
    assert 'camera_' in said and 'ended with code -9' in said
    assert 'Traceback' not in said
    assert psutil.wait_procs(children, timeout=10)[1] == []


def test_missing_files_are_one_sentence_with_the_command(start, tmp_path):
    code, said = end(start('--assets', str(tmp_path / 'nothing')))
    assert code == 1
    assert 'is missing; run: python -m vig_governor.demo.assets prepare' in ' '.join(said.split())
    assert 'Traceback' not in said


@pytest.mark.parametrize('option, value, possible', [
    ('--seconds', '1', '5 s and 600 s'), ('--load', '9', '0.2 and 5'),
    ('--direct-depth', '0', '1 and 64'), ('--profile-samples', '0', '1 and 1000'),
    ('--domain-id', '999', '0 and 232'), ('--grpc-port', '70000', '0 and 65535')])
def test_a_number_out_of_range_is_refused_with_the_range(start, option, value, possible):
    code, said = end(start(option, value))
    assert code == 1
    assert f'{option} {value}: between {possible} are possible' in said


def test_an_output_that_is_a_file_is_refused(start, tmp_path):
    (tmp_path / 'file').touch()
    code, said = end(start('--out', str(tmp_path / 'file')))
    assert code == 1 and 'this is a file; name a folder' in ' '.join(said.split())
