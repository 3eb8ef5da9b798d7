"""The other process of the round trip: sends each result back until its standard input closes."""

import sys
import threading

import rclpy
from rclpy.executors import ExternalShutdownException

from vig.msg import InferenceResult


def main():
    """Echo ``question`` on ``answer``."""
    rclpy.init()
    node = rclpy.create_node('echo_peer')
    publisher = node.create_publisher(InferenceResult, 'answer', 10)
    node.create_subscription(InferenceResult, 'question', publisher.publish, 10)

    def stop_with_input():
        sys.stdin.read()
        rclpy.try_shutdown()

    threading.Thread(target=stop_with_input, daemon=True).start()
    try:
        rclpy.spin(node)
    except ExternalShutdownException:
        pass


if __name__ == '__main__':
    main()
