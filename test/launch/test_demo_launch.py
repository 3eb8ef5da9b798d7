"""demo.launch.py: the same load as ``vig demo``, from processes that a launch file starts."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / 'launch' / 'demo.launch.py'
FETCHED = ROOT / '.vig' / 'models'


@pytest.fixture
def assets(tmp_path):
    """Give the files of the smaller demo, which measures fewer and quicker models."""
    from vig_governor.demo.assets import CARRIERS
    folder = tmp_path / 'assets'
    for asset in (asset for one in CARRIERS if one.is_default for asset in one.assets):
        if not (FETCHED / asset.path).is_file():
            pytest.skip("the demo's models are not there: run `make demo` once")
        (folder / asset.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / asset.path).symlink_to(FETCHED / asset.path)
    return folder


def test_the_demo_runs_server_governor_and_cameras_and_ends_by_itself(
        launch, client, assets, tmp_path):
    from triton_fixture import require_triton
    require_triton()
    statuses = client.statuses('/demo/face/image_raw')
    running = launch(DEMO, 'seconds:=5', f'assets:={assets}', f'out:={tmp_path}', 'dds:=keep')
    running.wait_for('/governor is active', timeout=80)
    assert running.wait_for_end() == 0
    assert len(statuses) > 10
    assert {status.model for status in statuses} == {'face'}
    assert 'the cameras are done' in running.output
    assert 'Traceback' not in running.output
    assert running.output.count('process has finished cleanly') == 3


@pytest.mark.parametrize('arguments, sentence', [
    (('seconds:=long',), 'seconds:=long is no number of seconds'),
    (('assets:=/none',), '/none/videos/carphone_pristine.mp4 is missing'),
])
def test_what_is_wrong_is_said_and_ends_the_launch(launch, tmp_path, arguments, sentence):
    running = launch(DEMO, f'out:={tmp_path}', *arguments)
    running.wait_for_end()
    assert sentence in running.output
    assert 'Traceback' not in running.output
    assert 'governor-2' not in running.output
