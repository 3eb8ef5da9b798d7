"""What a camera of the demo publishes: images, or where they lie."""

from array import array
from collections.abc import Callable, Sequence
import contextlib
import threading
from typing import Any, Protocol

import numpy as np
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from vig_governor.producer import TensorProducer

LAST_STATUSES_S = 2.0


class Outlet(Protocol):
    """Where a camera's frames go."""

    def prepare(self, data: 'array[int]', shape: Sequence[int],
                header: Header) -> Callable[[], object]:
        """Make a frame ready and give what publishes it; ``data`` is ``uint8[shape]``."""

    def close(self) -> dict[str, int]:
        """Publish no more; give what was counted."""


class ImageOutlet:
    """Publishes ``sensor_msgs/Image``."""

    def __init__(self, node: Node, topic: str) -> None:
        self._publisher = node.create_publisher(Image, topic, qos_profile_sensor_data)

    def prepare(self, data: 'array[int]', shape: Sequence[int],
                header: Header) -> Callable[[], object]:
        """Make the message; see ``Outlet``."""
        height, width, _ = shape
        image = Image(header=header, height=height, width=width, encoding='rgb8', step=3 * width,
                      data=data)
        return lambda: self._publisher.publish(image)

    def close(self) -> dict[str, int]:
        """Count nothing; see ``Outlet``."""
        return {}


class LendingOutlet:
    """Writes each frame into memory that the server reads, and publishes where it is."""

    def __init__(self, node: Node, topic: str, tensor: str, shape: Sequence[int],
                 statuses: Sequence[str]) -> None:
        self._producer = TensorProducer(node, topic, tensor=tensor, shape=shape,
                                        statuses=statuses)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(node)
        self._must_end = threading.Event()
        self._thread = threading.Thread(target=self._spin)
        self._thread.start()

    def prepare(self, data: 'array[int]', shape: Sequence[int],
                header: Header) -> Callable[[], object]:
        """Write the frame; see ``Outlet``."""
        with contextlib.ExitStack() as stack:
            pixels, own = stack.enter_context(self._producer.frame(stamp=header.stamp))
            own.frame_id = header.frame_id
            pixels[...] = np.frombuffer(data, np.uint8).reshape(shape)
            return stack.pop_all().close

    def close(self) -> dict[str, int]:
        """Wait for the last statuses, take the memory away, say what became; see ``Outlet``."""
        self._must_end.set()
        self._thread.join()
        producer = self._producer
        producer.close(timeout_s=LAST_STATUSES_S)
        counts: dict[str, Any] = {name: getattr(producer, name)
                                  for name in ('sent', 'dropped', 'unheard', 'given_up')}
        self._executor.shutdown()
        return counts

    def _spin(self) -> None:
        while not self._must_end.is_set():
            self._executor.spin_once(timeout_sec=0.1)
