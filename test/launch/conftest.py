"""Fixtures of the tests with real launch files; they skip, with the remedy, what is missing."""

from pathlib import Path
import shutil
import sys

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / 'test')]

GET_LAUNCH = ('launch and launch_ros are in no package registry: source a ROS 2 installation '
              '(Jazzy or Kilted) that has them')
GET_CLI = f'the command ros2 launch is not there: {GET_LAUNCH}'
GET_VIG = ('the ROS package vig is not installed: colcon build, source install/setup.bash, and '
           'run the tests again')


@pytest.fixture(scope='session')
def launch_packages():
    """Skip where launch files cannot even be loaded."""
    pytest.importorskip('launch', reason=GET_LAUNCH)
    pytest.importorskip('launch_ros.actions', reason=GET_LAUNCH)


@pytest.fixture(scope='session')
def installed(launch_packages):
    """Skip where ``ros2 launch`` could not start the governor."""
    if shutil.which('ros2') is None:
        pytest.skip(GET_CLI)
    pytest.importorskip('ros2launch', reason=GET_CLI)
    index = pytest.importorskip('ament_index_python.packages', reason=GET_VIG)
    try:
        prefix = Path(index.get_package_prefix('vig'))
    except index.PackageNotFoundError:
        pytest.skip(GET_VIG)
    if not (prefix / 'lib' / 'vig' / 'governor').exists():
        pytest.skip(GET_VIG)


@pytest.fixture
def launch(installed, tmp_path):
    """Give a function that runs ``ros2 launch``; whatever it started ends with the test."""
    from launched import Launched
    running = []

    def start(file, *arguments, **environment):
        running.append(Launched(file, arguments, environment,
                                log=tmp_path / f'launch_{len(running)}.log'))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture(scope='session')
def ros(installed):
    """Initialise ROS once."""
    rclpy = pytest.importorskip('rclpy', reason=GET_VIG)
    pytest.importorskip('vig.msg', reason=GET_VIG)
    rclpy.init()
    yield rclpy
    rclpy.try_shutdown()


@pytest.fixture
def client(ros):
    """Give a node that spins on a thread of its own and speaks to the governor."""
    from client import Client
    made = Client(ros)
    yield made
    made.close()


@pytest.fixture(scope='session')
def triton(installed, tmp_path_factory):
    """Give a real server with the quick test model ``echo``."""
    from triton_fixture import model_repository, require_triton
    from vig_governor.triton_server import TritonServer
    require_triton()
    folder = model_repository(tmp_path_factory.mktemp('models'), {'echo': ('echo', {})})
    with TritonServer(folder) as server:
        yield server


@pytest.fixture
def write_config(tmp_path):
    """Give a function that writes a vig.yaml with one camera for the server at an endpoint."""
    def write(endpoint):
        path = tmp_path / 'vig.yaml'
        path.write_text(f"""\
version: 1
backend: {{type: triton, grpc_endpoint: "{endpoint}", slots: 1}}
models:
  checksum:
    class: protected
    queue: {{policy: latest, capacity: 1}}
    contract: {{deadline_ms: 2000, max_age_ms: 4000}}
    variants:
      - id: only
        backend_model: echo
        quality: {{value: 1.0, source: user_declared}}
        profile: {{p50_us: 1000, p95_us: 2000, p99_us: 3000}}
streams:
  front:
    topic: front/image_raw
    type: sensor_msgs/msg/Image
    model: checksum
    input: {{tensor: IMAGE, encoder: image, layout: HWC, dtype: UINT8}}
""")
        return path
    return write
