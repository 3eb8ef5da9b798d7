"""
The nodes that most robots have: frames go straight to the server.

One process for each camera. It does what a careful but ungoverned inference node does: the frame
travels through shared memory, each request has a thread of its own, and at most ``--depth`` are
in flight. A frame that comes while all are taken is refused (status ``capacity``), or, with
``--keep-newest``, waits until one is free or a newer one takes its place (``superseded``). The
node publishes the same messages on the same topics as the governor, so that all are measured at
one boundary, and keeps freed memory as the governor does (adr/0014).
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
import itertools
import sys
import threading
from typing import Any

import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data, QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.time import Time
from sensor_msgs.msg import Image
from vig.msg import InferenceResult, RequestStatus, Tensor

from vig_governor.allocator import keep_freed_memory
from vig_governor.backend.base import Answered, Outcome
from vig_governor.backend.senders import Senders
from vig_governor.backend.triton import TritonBackend
from vig_governor.demo.spinning import spin
from vig_governor.stopping import StopSignal

STATUS_DEPTH = 100
CLOSE_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class DirectStream:
    """
    What one node does.

    :ivar model: backend model.
    :ivar depth: requests in flight at most.
    :ivar keeps_newest: let the newest frame wait instead of refusing it.
    """

    name: str
    topic: str
    model: str
    depth: int
    keeps_newest: bool = False


@dataclass(frozen=True, slots=True)
class _Frame:
    image: Image
    request_id: int
    arrived_ns: int


class DirectNode(Node):
    """Sends images to one backend model and publishes what comes back."""

    def __init__(self, stream: DirectStream, backend: Any) -> None:
        super().__init__(f'{stream.name}_direct')
        self._stream = stream
        self._backend = backend
        self._senders = Senders('direct')
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._in_flight = 0
        self._waiting: _Frame | None = None
        self._results = self.create_publisher(InferenceResult, stream.topic + '/vig/result', 1)
        self._statuses = self.create_publisher(RequestStatus, stream.topic + '/vig/status',
                                               QoSProfile(depth=STATUS_DEPTH))
        self.create_subscription(Image, stream.topic, self._on_image, qos_profile_sensor_data)

    def close(self) -> None:
        """Let what is in flight end; afterwards the node may be destroyed."""
        self._senders.close(timeout_s=CLOSE_TIMEOUT_S)

    def _on_image(self, image: Image) -> None:
        frame = _Frame(image, next(self._numbers), self.get_clock().now().nanoseconds)
        dropped: _Frame | None = frame
        with self._lock:
            is_free = self._in_flight < self._stream.depth
            self._in_flight += is_free
            if not is_free and self._stream.keeps_newest:
                dropped, self._waiting = self._waiting, frame
        if is_free:
            self._senders.submit(partial(self._carry, frame))
        elif dropped is not None:
            self._report(dropped, RequestStatus.SUPERSEDED if self._stream.keeps_newest
                         else RequestStatus.CAPACITY, None)

    def _carry(self, frame: _Frame | None) -> None:
        """Send a frame on this thread, and then whatever waits."""
        while frame is not None:
            self._send(frame)
            with self._lock:
                frame, self._waiting = self._waiting, None
                self._in_flight -= frame is None

    def _send(self, frame: _Frame) -> None:
        sent_ns = self.get_clock().now().nanoseconds
        slot = self._backend.acquire(self._stream.name, frame.request_id)
        shape = (frame.image.height, frame.image.width, 3)
        slot.allocate('IMAGE', shape, 'UINT8')[...] = np.frombuffer(
            frame.image.data, np.uint8).reshape(shape)
        self._backend.infer(frame.request_id, self._stream.model, slot,
                            partial(self._on_end, frame, sent_ns))

    def _on_end(self, frame: _Frame, sent_ns: int, outcome: Outcome) -> None:
        self._backend.release(frame.request_id)
        if not isinstance(outcome, Answered):
            self._report(frame, RequestStatus.BACKEND_FAILED, sent_ns)
            return
        header = frame.image.header
        now_ns = self.get_clock().now().nanoseconds
        self._results.publish(InferenceResult(
            header=header, stream=self._stream.name, model=self._stream.model,
            variant=self._stream.model, request_id=frame.request_id,
            age=duration(now_ns - Time.from_msg(header.stamp).nanoseconds),
            outputs=[Tensor(name=output.name, datatype=output.datatype,
                            shape=list(output.shape), data=output.data)
                     for output in outcome.outputs]))
        self._report(frame, RequestStatus.COMPLETED, sent_ns)

    def _report(self, frame: _Frame, reason: int, sent_ns: int | None) -> None:
        """Publish the status; ``sent_ns`` is missing for a frame that was never sent."""
        header, now_ns = frame.image.header, self.get_clock().now().nanoseconds
        self._statuses.publish(RequestStatus(
            header=header, stream=self._stream.name, model=self._stream.model,
            variant='' if sent_ns is None else self._stream.model,
            request_id=frame.request_id, reason=reason,
            queue_wait=duration((now_ns if sent_ns is None else sent_ns) - frame.arrived_ns),
            backend_time=duration(0 if sent_ns is None else now_ns - sent_ns),
            age=duration(now_ns - Time.from_msg(header.stamp).nanoseconds)))


def duration(nanoseconds: int) -> Any:
    """Make the message of a duration."""
    return rclpy.duration.Duration(nanoseconds=nanoseconds).to_msg()


def run_node(endpoint: str, stream: str, slots: int, make: Callable[[TritonBackend], Any]) -> int:
    """
    Connect to the server and run a node until SIGTERM or SIGINT; its ``close`` is called.

    :param slots: requests in flight at most.
    """
    stop = StopSignal()
    keep_freed_memory()
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    backend = TritonBackend(endpoint)
    backend.connect(timeout_s=5)
    backend.open_stream(stream, slots=slots, transport='auto')
    node = make(backend)
    spin(node, stop)
    node.close()
    backend.close()
    node.destroy_node()
    rclpy.shutdown()
    return 0


def main() -> int:
    """Run the command line until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog='python -m vig_governor.demo.direct',
                                     description='Send frames straight to the server.')
    parser.add_argument('--stream', required=True)
    parser.add_argument('--topic', required=True)
    parser.add_argument('--model', required=True, help='backend model')
    parser.add_argument('--endpoint', required=True, help='gRPC endpoint, host:port')
    parser.add_argument('--depth', type=int, default=8, help='requests in flight at most')
    parser.add_argument('--keep-newest', action='store_true',
                        help='let the newest frame wait while all are in flight')
    options = parser.parse_args()
    return run_node(options.endpoint, options.stream, options.depth, lambda backend: DirectNode(
        DirectStream(options.stream, options.topic, options.model, options.depth,
                     options.keep_newest), backend))


if __name__ == '__main__':
    sys.exit(main())
