"""One short cell with real ROS, real Triton and all processes, in two arms."""

import os

from benchmark.live import workloads
from benchmark.live.accelerator import Accelerator
from benchmark.live.calibration import calibrate
from benchmark.live.stage import Arm, Cell, Stage
import pytest
from triton_fixture import require_triton

from vig_core.units import NS_PER_MS

from vig_governor.demo.arms import graph_environment

pytestmark = [pytest.mark.ros, pytest.mark.server]
SECONDS = 1.0


@pytest.fixture(scope='module')
def played(tmp_path_factory, request):
    """Play four cameras at half of the accelerator's time, in two arms."""
    require_triton()
    pytest.importorskip('vig.msg', reason='the interfaces are not built: run `make setup`')
    folder, root = tmp_path_factory.mktemp('live'), request.config.rootpath
    scenario = workloads.scenarios()['four-cameras']
    environment = {**graph_environment(root / 'config', 60 + os.getpid() % 40),
                   'PYTHONPATH': os.pathsep.join([str(root), os.environ.get('PYTHONPATH', '')])}
    found, lines = {}, []
    with Accelerator(folder, list(scenario.system.models.values())) as accelerator:
        measured = calibrate(accelerator, list(scenario.system.models.values()), lines.append,
                             samples=5)
        point = workloads.point_at(scenario, 500, measured.measured,
                                   measured.turnaround_ns)
        with Stage(folder, accelerator, environment, streams=4, seconds=SECONDS) as stage:
            for arm in (Arm.NEWEST, Arm.GOVERNOR):
                found[arm] = stage.play(Cell(point, arm, 1))
    return found


def test_every_camera_is_answered_in_both_arms(played):
    for result in played.values():
        assert set(result['streams']) == {'front', 'left', 'right', 'rear'}
        for stream in result['streams'].values():
            assert stream['ends']['completed'] and stream['age_p50_ms'] > 0
            assert stream['frames'] == pytest.approx(SECONDS * 1000 / 33, abs=2)


def test_the_accelerator_runs_one_thing_at_a_time(played):
    for result in played.values():
        executions = sorted(result['raw']['executions'])
        assert len(executions) > 20
        assert all(before[1] <= after[0] for before, after in zip(executions, executions[1:]))


def test_the_governor_tells_what_it_measured_of_itself(played):
    assert played[Arm.GOVERNOR]['node']['decision_p50_us'] > 0
    assert played[Arm.GOVERNOR]['between_percent'] > 0
    assert played[Arm.NEWEST]['node'] == {}


def test_both_arms_get_the_same_frames(played):
    captures = [{round((status[0] - result['raw']['zero_ns']) / NS_PER_MS)
                 for stream in result['raw']['streams'].values() for status in stream['statuses']}
                for result in played.values()]
    assert len(captures[0] & captures[1]) > 0.8 * max(map(len, captures))
