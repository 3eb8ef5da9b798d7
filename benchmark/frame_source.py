"""Publishes rgb8 frames on several topics at once, at a fixed rate, until it is told to stop."""

import argparse
import sys
import time

import rclpy
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions

from sensor_msgs.msg import Image

from vig_governor.stopping import StopSignal


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog='frame_source', description='See the module.')
    parser.add_argument('topics', nargs='+')
    parser.add_argument('--rate', type=float, required=True, help='frames per second and topic')
    parser.add_argument('--width', type=int, required=True)
    parser.add_argument('--height', type=int, required=True)
    options = parser.parse_args()
    stop = StopSignal()
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node('frame_source')
    publishers = [node.create_publisher(Image, topic, qos_profile_sensor_data)
                  for topic in options.topics]
    image = Image(height=options.height, width=options.width, encoding='rgb8',
                  step=3 * options.width)
    image.data.frombytes(bytes(options.height * image.step))
    period_s = 1 / options.rate
    due_s = time.monotonic()
    while not stop.wait(max(0.0, due_s - time.monotonic())):
        for publisher in publishers:
            image.header.stamp = node.get_clock().now().to_msg()
            publisher.publish(image)
        due_s = max(due_s + period_s, time.monotonic())
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
