"""
All cameras of a cell in one process: the same frames at the same instants in every arm.

Each frame is a camera's picture, made once; what an inference on it costs is written into its
first bytes just before it is published. The stamp is the instant of the capture, however late
this process wakes: what its lateness does to the ages is measured and told.
"""

from array import array
import heapq
import json
from pathlib import Path
import struct
import sys
import time
from typing import Any

from benchmark.live.worker import say, serve

import numpy as np

import rclpy
from rclpy.clock import ClockType
from rclpy.qos import qos_profile_sensor_data
from rclpy.time import Time

from sensor_msgs.msg import Image

MATCH_TIMEOUT_S = 20.0
WIDTH, HEIGHT = 640, 480


def picture(seed: int) -> Image:
    """Draw a frame: noise over a gradient, so that its blocks have different means."""
    rows = np.linspace(0, 200, HEIGHT)[:, None, None]
    noise = np.random.default_rng(seed).integers(0, 50, (HEIGHT, WIDTH, 3))
    image = Image(height=HEIGHT, width=WIDTH, encoding='rgb8', step=3 * WIDTH)
    image.data = array('B', (rows + noise).astype(np.uint8).tobytes())
    return image


def play(cell: dict[str, Any]) -> None:
    """Publish one cell; leaves ``[stamp, lateness of the publication]`` of each frame, ns."""
    node = rclpy.create_node('live_cameras')
    streams = cell['streams']
    publishers = [node.create_publisher(Image, stream['topic'], qos_profile_sensor_data)
                  for stream in streams]
    pictures = [picture(number) for number in range(len(streams))]
    end_s = time.monotonic() + MATCH_TIMEOUT_S
    while not all(publisher.get_subscription_count() for publisher in publishers):
        if time.monotonic() > end_s:
            say('unmatched')
            break
        time.sleep(0.01)
    say('ready')
    start_ns = int(sys.stdin.readline())
    # Stamps lie on the ROS clock, which is the system's here; both are read once.
    ros_ns = time.time_ns() - time.monotonic_ns()
    log: list[list[list[int]]] = [[] for _ in streams]
    due = heapq.merge(*([(arrival, number, capture, cost)
                         for capture, arrival, cost in stream['frames']]
                        for number, stream in enumerate(streams)))
    for arrival_ns, number, capture_ns, cost_ns in due:
        image = pictures[number]
        stamp_ns = start_ns + ros_ns + capture_ns
        image.data[:8] = array('B', struct.pack('<q', cost_ns))
        image.header.stamp = Time(
            nanoseconds=stamp_ns, clock_type=ClockType.ROS_TIME).to_msg()
        left_ns = start_ns + arrival_ns - time.monotonic_ns()
        if left_ns > 0:
            time.sleep(left_ns / 1e9)
        late_ns = time.monotonic_ns() - start_ns - arrival_ns
        publishers[number].publish(image)
        log[number].append([stamp_ns, late_ns])
    Path(cell['cameras_log']).write_text(json.dumps(log), encoding='utf-8')
    say('played')
    sys.stdin.readline()
    node.destroy_node()


if __name__ == '__main__':
    sys.exit(serve(play))
