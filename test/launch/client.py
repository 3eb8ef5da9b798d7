"""What a robot does around the governor: publish a camera, read results, ask for the state."""

from array import array
import threading

from lifecycle_msgs.srv import GetState
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image
from vig.msg import InferenceResult, RequestStatus
from waiting import wait_until

WIDTH, HEIGHT = 64, 48


class Client:
    """One node on one thread."""

    def __init__(self, ros):
        self._node = ros.create_node('launch_test_client')
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self):
        try:
            self._executor.spin()
        except ExternalShutdownException:
            pass

    def state(self, node):
        """Give the label of a lifecycle node's state."""
        service = self._node.create_client(GetState, f'{node}/get_state')
        try:
            assert service.wait_for_service(20.0), f'{node}/get_state is not there'
            future = service.call_async(GetState.Request())
            wait_until(future.done, 10.0, f'an answer of {node}/get_state')
            return future.result().current_state.label
        finally:
            self._node.destroy_client(service)

    def first_result(self, topic, *, timeout=20.0):
        """Publish a camera at 20 Hz on ``topic`` until a result comes; give it."""
        results = []
        publisher = self._node.create_publisher(Image, topic, qos_profile_sensor_data)
        subscription = self._node.create_subscription(
            InferenceResult, f'{topic}/vig/result', results.append, 1)
        timer = self._node.create_timer(0.05, lambda: publisher.publish(self._image()))
        try:
            return wait_until(lambda: results and results[0], timeout,
                              f'a result on {topic}/vig/result')
        finally:
            self._node.destroy_timer(timer)
            self._node.destroy_subscription(subscription)
            self._node.destroy_publisher(publisher)

    def statuses(self, topic):
        """Give the list that from now on grows by every status of a stream."""
        received = []
        self._node.create_subscription(RequestStatus, f'{topic}/vig/status', received.append, 100)
        return received

    def topics(self):
        """Name the topics that exist."""
        return {name for name, _ in self._node.get_topic_names_and_types()}

    def close(self):
        """End the thread, then the node."""
        self._executor.shutdown()
        self._thread.join(5.0)
        self._node.destroy_node()

    def _image(self):
        image = Image(height=HEIGHT, width=WIDTH, encoding='rgb8', step=3 * WIDTH,
                      data=array('B', bytes(3 * WIDTH * HEIGHT)))
        image.header.stamp = self._node.get_clock().now().to_msg()
        image.header.frame_id = 'front_camera'
        return image
