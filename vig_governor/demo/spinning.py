"""How a process of the demo runs its node: until it is told to end."""

from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from vig_governor.stopping import StopSignal


def spin(node: Node, stop: StopSignal) -> None:
    """Print ``ready`` and serve the node's callbacks until ``stop`` is set."""
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    print('ready', flush=True)
    while not stop.is_set():
        executor.spin_once(timeout_sec=0.1)
