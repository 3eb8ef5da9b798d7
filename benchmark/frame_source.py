"""
Publishes rgb8 frames on several topics at once, at a fixed rate, until it is told to stop.

As ``sensor_msgs/Image``, or with ``--lend`` as ``vig/TensorReference`` from shared memory.
"""

import argparse
from array import array
import sys
import time

import rclpy
from rclpy.signals import SignalHandlerOptions

from std_msgs.msg import Header

from vig_governor.demo.outlets import ImageOutlet, LendingOutlet, Outlet
from vig_governor.stopping import StopSignal


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog='frame_source', description='See the module.')
    parser.add_argument('topics', nargs='+')
    parser.add_argument('--rate', type=float, required=True, help='frames per second and topic')
    parser.add_argument('--width', type=int, required=True)
    parser.add_argument('--height', type=int, required=True)
    parser.add_argument('--lend', metavar='TENSOR', help='publish where the frames lie')
    options = parser.parse_args()
    stop = StopSignal()
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    shape = (options.height, options.width, 3)
    data = array('B', bytes(3 * options.height * options.width))
    nodes = [rclpy.create_node(f'frame_source_{number}') for number in range(len(options.topics))]
    outlets: list[Outlet] = [
        LendingOutlet(node, topic, options.lend, shape, ()) if options.lend
        else ImageOutlet(node, topic) for node, topic in zip(nodes, options.topics)]
    period_s = 1 / options.rate
    due_s = time.monotonic()
    while not stop.wait(max(0.0, due_s - time.monotonic())):
        for node, outlet in zip(nodes, outlets):
            outlet.prepare(data, shape, Header(stamp=node.get_clock().now().to_msg()))()
        due_s = max(due_s + period_s, time.monotonic())
    for node, outlet in zip(nodes, outlets):
        outlet.close()
        node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
