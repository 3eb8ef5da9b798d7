"""A full ``vig/msg/InferenceResult`` through the middleware, from one process to another."""

from pathlib import Path
import subprocess
import sys

import pytest

from waiting import wait_until

pytest.importorskip('rclpy', reason='rclpy is not installed; `make setup` installs it')
pytest.importorskip('vig.msg', reason='the interfaces are not built; `make setup` builds them')

PEER = Path(__file__).with_name('echo_peer.py')
RELIABLE_DEPTH = 10


@pytest.fixture
def node():
    import rclpy
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node('round_trip', context=context)
    yield node
    node.destroy_node()
    rclpy.shutdown(context=context)


@pytest.fixture
def peer():
    process = subprocess.Popen([sys.executable, str(PEER)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    yield process
    process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def full_result():
    """Fill every field with a value that is not its default."""
    from builtin_interfaces.msg import Duration, Time
    from std_msgs.msg import Header
    from vig.msg import InferenceResult, Tensor
    boxes = Tensor(name='boxes', datatype='FP32', shape=[1, 2, 4], data=bytes(range(32)))
    label = Tensor(name='label', datatype='BYTES', shape=[1], data=b'\x03\x00\x00\x00cup')
    return InferenceResult(
        header=Header(stamp=Time(sec=1_789_000_000, nanosec=999_999_999), frame_id='front'),
        stream='front', model='detector', variant='large', quality=0.93,
        request_id=2 ** 64 - 1, age=Duration(sec=0, nanosec=41_250_000), obsolete=True,
        outputs=[boxes, label])


def test_every_field_of_a_result_survives_the_way_to_another_process_and_back(node, peer):
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from vig.msg import InferenceResult
    received = []
    node.create_subscription(InferenceResult, 'answer', received.append, RELIABLE_DEPTH)
    publisher = node.create_publisher(InferenceResult, 'question', RELIABLE_DEPTH)
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)

    def spun(condition):
        executor.spin_once(timeout_sec=0.01)
        assert peer.poll() is None, f'the peer ended: {peer.stdout.read()}'
        return condition()

    wait_until(lambda: spun(lambda: publisher.get_subscription_count() == 1
                            and node.count_publishers('answer') == 1), 20.0)
    sent = full_result()
    publisher.publish(sent)
    wait_until(lambda: spun(lambda: received), 10.0)
    assert received[0] == sent
    assert bytes(received[0].outputs[0].data) == bytes(range(32))
    executor.shutdown()
    assert rclpy.ok(context=node.context)
