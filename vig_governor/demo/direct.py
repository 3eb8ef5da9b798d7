"""
The node that most robots have: every frame goes straight to the server.

One process for each camera. It does what a careful but ungoverned inference node does: the call
is asynchronous, the frame travels through shared memory, and at most ``--depth`` requests are in
flight; a frame that comes while all are taken is refused (status ``capacity``). It publishes the
same messages on the same topics as the governor, so that both are measured at one boundary.
"""

import argparse
import signal
import sys
import threading
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data, QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.time import Time
from sensor_msgs.msg import Image
from vig.msg import InferenceResult, RequestStatus, Tensor

from vig_governor.backend.base import Answered, Outcome
from vig_governor.backend.triton import TritonBackend

STATUS_DEPTH = 100


class DirectNode(Node):
    """Sends every image to one backend model and publishes what comes back."""

    def __init__(self, options: argparse.Namespace, backend: Any) -> None:
        super().__init__(f'{options.stream}_direct')
        self._options = options
        self._backend = backend
        self._lock = threading.Lock()
        self._next_id = 1
        self._in_flight = 0
        self._results = self.create_publisher(InferenceResult, options.topic + '/vig/result', 1)
        self._statuses = self.create_publisher(RequestStatus, options.topic + '/vig/status',
                                               QoSProfile(depth=STATUS_DEPTH))
        self.create_subscription(Image, options.topic, self._on_image, qos_profile_sensor_data)

    def _on_image(self, image: Image) -> None:
        arrived_ns = self.get_clock().now().nanoseconds
        with self._lock:
            request_id, self._next_id = self._next_id, self._next_id + 1
            is_full = self._in_flight >= self._options.depth
            self._in_flight += not is_full
        if is_full:
            self._report(image, request_id, RequestStatus.CAPACITY, arrived_ns)
            return
        slot = self._backend.acquire(self._options.stream, request_id)
        shape = (image.height, image.width, 3)
        slot.allocate('IMAGE', shape, 'UINT8')[...] = np.frombuffer(
            image.data, np.uint8).reshape(shape)
        self._backend.infer(request_id, self._options.model, slot,
                            lambda outcome: self._on_end(image, request_id, arrived_ns, outcome))

    def _on_end(self, image: Image, request_id: int, sent_ns: int, outcome: Outcome) -> None:
        self._backend.release(request_id)
        with self._lock:
            self._in_flight -= 1
        if not isinstance(outcome, Answered):
            self._report(image, request_id, RequestStatus.BACKEND_FAILED, sent_ns)
            return
        now_ns = self.get_clock().now().nanoseconds
        self._results.publish(InferenceResult(
            header=image.header, stream=self._options.stream, model=self._options.model,
            variant=self._options.model, request_id=request_id,
            age=_duration(now_ns - Time.from_msg(image.header.stamp).nanoseconds),
            outputs=[Tensor(name=output.name, datatype=output.datatype,
                            shape=list(output.shape), data=output.data)
                     for output in outcome.outputs]))
        self._report(image, request_id, RequestStatus.COMPLETED, sent_ns)

    def _report(self, image: Image, request_id: int, reason: int, sent_ns: int) -> None:
        now_ns = self.get_clock().now().nanoseconds
        self._statuses.publish(RequestStatus(
            header=image.header, stream=self._options.stream, model=self._options.model,
            variant='' if reason == RequestStatus.CAPACITY else self._options.model,
            request_id=request_id, reason=reason, backend_time=_duration(now_ns - sent_ns),
            age=_duration(now_ns - Time.from_msg(image.header.stamp).nanoseconds)))


def _duration(nanoseconds: int) -> Any:
    return rclpy.duration.Duration(nanoseconds=nanoseconds).to_msg()


def main() -> int:
    """Run the command line until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog='python -m vig_governor.demo.direct',
                                     description='Send every frame straight to the server.')
    parser.add_argument('--stream', required=True)
    parser.add_argument('--topic', required=True)
    parser.add_argument('--model', required=True, help='backend model')
    parser.add_argument('--endpoint', required=True, help='gRPC endpoint, host:port')
    parser.add_argument('--depth', type=int, default=8, help='requests in flight at most')
    options = parser.parse_args()
    stop = threading.Event()
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    executor = SingleThreadedExecutor()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    backend = TritonBackend(options.endpoint)
    backend.connect(timeout_s=5)
    backend.open_stream(options.stream, slots=options.depth, transport='auto')
    node = DirectNode(options, backend)
    executor.add_node(node)
    print('ready', flush=True)
    while not stop.is_set():
        executor.spin_once(timeout_sec=0.1)
    backend.close()
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
