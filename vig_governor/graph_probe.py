"""
What the ROS graph says about the streams of a file; asked by ``vig doctor`` and nobody else.

A node of our own listens for a moment with the QoS that the governor will use. Its clock is the
system's, as the governor's is without ``use_sim_time``.
"""

from collections.abc import Iterable
import time
from typing import Any

from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_check_compatible, QoSCompatibility, QoSProfile

from vig_core.errors import VigError

from vig_governor import messages, qos
from vig_governor.clock import stamp_to_ns
from vig_governor.config import StreamBinding
from vig_governor.doctor.context import GraphView, Heard, Publisher
from vig_governor.joining import listening

GOVERNOR_STATUS = 'vig/msg/GovernorStatus'
DISCOVERY_S = 3.0


def probe(bindings: tuple[StreamBinding, ...], listen_s: float) -> GraphView:
    """
    Listen to every stream.

    :param listen_s: seconds, after as long as discovery may take.
    :raises VigError: ROS cannot be used here; says why.
    """
    with listening('vig_doctor') as (node, executor):
        return _listen(node, executor, bindings, listen_s)


class _Ear:
    """Collects what one subscription hears."""

    def __init__(self, node: Node, binding: StreamBinding) -> None:
        self._node = node
        self._uses_stamp = binding.time_source == 'stamp'
        self.arrivals_ns: list[int] = []
        self.ages_ns: list[int] = []
        self.zero_stamps = 0
        self.largest_bytes = 0

    def __call__(self, message: Any) -> None:
        """Note one message."""
        self.arrivals_ns.append(time.monotonic_ns())
        self.largest_bytes = max(self.largest_bytes, messages.payload_bytes(message))
        if self._uses_stamp:
            stamp_ns = stamp_to_ns(message.header.stamp)
            if stamp_ns:
                self.ages_ns.append(self._node.get_clock().now().nanoseconds - stamp_ns)
            else:
                self.zero_stamps += 1


def _listen(node: Node, executor: SingleThreadedExecutor, bindings: tuple[StreamBinding, ...],
            listen_s: float) -> GraphView:
    ears: dict[str, _Ear] = {}
    for binding in bindings:
        ear = ears[binding.name] = _Ear(node, binding)
        try:
            kind = messages.message_class(binding)
        except VigError:
            continue  # the type is not installed here; publishers are named all the same
        node.create_subscription(kind, binding.topic, ear, qos.input_qos())
    wanted = [node.resolve_topic_name(binding.topic) for binding in bindings]
    end_s = time.monotonic() + DISCOVERY_S
    while time.monotonic() < end_s and not all(map(node.count_publishers, wanted)):
        executor.spin_once(timeout_sec=0.05)
    end_s = time.monotonic() + listen_s
    while time.monotonic() < end_s:
        executor.spin_once(timeout_sec=0.05)
    streams = {}
    for binding, topic in zip(bindings, wanted):
        ear = ears[binding.name]
        streams[binding.name] = Heard(
            topic=topic, publishers=tuple(_publishers(node, topic)),
            arrivals_ns=tuple(ear.arrivals_ns), ages_ns=tuple(ear.ages_ns),
            zero_stamps=ear.zero_stamps, largest_bytes=ear.largest_bytes)
    return GraphView(streams, tuple(_governors(node)), listen_s)


def _publishers(node: Node, topic: str) -> Iterable[Publisher]:
    ours = _governors_qos(node, topic)
    for info in node.get_publishers_info_by_topic(topic):
        verdict, reason = qos_check_compatible(info.qos_profile, ours)
        yield Publisher(f'{info.node_namespace.rstrip("/")}/{info.node_name}', info.topic_type,
                        str(reason) if verdict == QoSCompatibility.ERROR else '')


def _governors_qos(node: Node, topic: str) -> QoSProfile:
    """Give the QoS of a governor that already listens, else the one it would begin with."""
    governors = set(_governors(node))
    for info in node.get_subscriptions_info_by_topic(topic):
        if f'{info.node_namespace.rstrip("/")}/{info.node_name}' in governors:
            return info.qos_profile
    return qos.input_qos()


def _governors(node: Node) -> Iterable[str]:
    for topic, types in node.get_topic_names_and_types():
        if GOVERNOR_STATUS in types:
            for info in node.get_publishers_info_by_topic(topic):
                yield f'{info.node_namespace.rstrip("/")}/{info.node_name}'
