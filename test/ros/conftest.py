"""Fixtures of the tests with real ROS nodes: one context and one real Triton for all of them."""

from pathlib import Path
import sys

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / 'test')]


def pytest_collection_modifyitems(items):
    """Mark everything here as needing a server too, so that it can be left out."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.server)


@pytest.fixture(scope='session')
def triton(tmp_path_factory):
    """Give a real server with the test models and two sleepers of other speeds."""
    from triton_fixture import model_repository, require_triton
    from vig_governor.triton_server import TritonServer
    require_triton()
    folder = model_repository(tmp_path_factory.mktemp('models'), {
        'echo': ('echo', {}), 'failing': ('failing', {}), 'pair': ('pair', {}),
        'sized': ('sized', {}),
        'quick': ('sleeper', {'delay_ms': '20'}), 'slow': ('sleeper', {'delay_ms': '300'}),
        'counter': ('counter', {}), 'streaming': ('counter', {}),
        'slow_counter': ('counter', {'delay_ms': '60'}),
    })
    with open(folder / 'streaming' / 'config.pbtxt', 'a') as config:
        config.write('model_transaction_policy { decoupled: true }\n')
    with TritonServer(folder) as server:
        yield server


@pytest.fixture(scope='session')
def ros():
    """Initialise ROS once; skips where it is not installed."""
    rclpy = pytest.importorskip(
        'rclpy', reason='rclpy is not installed: run `make setup`, or source a ROS installation')
    pytest.importorskip(
        'vig.msg', reason='the interfaces are not built: run `make setup`, or colcon build')
    rclpy.init()
    yield rclpy
    rclpy.try_shutdown()


@pytest.fixture
def stage(ros, triton, tmp_path):
    """Give a fresh world: a client node, and a governor once the test asks for one."""
    from stage import Stage
    made = Stage(tmp_path, triton.grpc_endpoint)
    yield made
    made.close()
