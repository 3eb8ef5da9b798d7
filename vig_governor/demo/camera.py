"""
A camera process: a real video, every frame stamped when it was captured.

Capture k is due at ``start + k / rate`` plus a seeded jitter; the header carries that capture's
time, and the image is published ``transport`` later, as a driver does. Frames are decoded ahead.
The process ends by itself after ``--seconds``, or on SIGTERM or SIGINT, and writes a log:
``[[stamp_ns, published_at_ns, frame of the video], ...]``. It publishes ``sensor_msgs/Image``, or
with ``--lend`` where each frame lies (``vig/msg/TensorReference``), and then it writes what became
of them to ``--counts``.
"""

import argparse
from array import array
from collections.abc import Iterator
import contextlib
from dataclasses import dataclass
from itertools import takewhile
import json
from pathlib import Path
import queue
from random import Random
import sys
import threading
import time
from typing import TypeAlias

import av
import cv2
import numpy as np
from numpy.typing import NDArray
import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.time import Time
from std_msgs.msg import Header

from vig_governor.demo.outlets import ImageOutlet, LendingOutlet, Outlet
from vig_governor.stopping import StopSignal

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
FRAMES_AHEAD = 8

Pixels: TypeAlias = 'array[int]'
"""Of type code ``B``: what rclpy takes without looking at every element."""


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture of the timetable, on the monotonic clock."""

    captured_at_ns: int
    published_at_ns: int


def timetable(*, start_ns: int, rate_hz: float, jitter_ms: float, transport_ms: float,
              seed: int) -> Iterator[Capture]:
    """
    Give the captures in order, without end; equal arguments give equal captures.

    :param jitter_ms: each capture is up to this much early or late, uniformly distributed.
    :raises ValueError: the jitter could turn the order of two captures around.
    """
    if 2 * jitter_ms >= 1000 / rate_hz:
        raise ValueError(f'a jitter of {jitter_ms} ms exceeds half the period at {rate_hz} Hz')
    random, number = Random(seed), 0
    while True:
        due_ns = start_ns + round(number * NS_PER_S / rate_hz)
        captured_ns = due_ns + round(random.uniform(-jitter_ms, jitter_ms) * NS_PER_MS)
        yield Capture(captured_ns, captured_ns + round(transport_ms * NS_PER_MS))
        number += 1


def frames(video: Path, size: tuple[int, int] | None) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """
    Decode a video over and over: number of the frame in the video, and ``uint8[h, w, 3]`` RGB.

    :param size: ``(width, height)`` in pixels, or ``None`` for the video's own.
    """
    while True:
        with av.open(str(video)) as container:
            for number, frame in enumerate(container.decode(video=0)):
                image = frame.to_ndarray(format='rgb24')
                yield number, image if size is None else cv2.resize(image, size)


class ReadAhead:
    """
    Decodes on its own thread so that pacing never waits for a decoder; a context manager.

    The thread is joined: the interpreter must not end while it is inside the decoder.
    """

    def __init__(self, video: Path, size: tuple[int, int] | None) -> None:
        self._ready: queue.Queue[tuple[int, tuple[int, ...], Pixels]] = queue.Queue(FRAMES_AHEAD)
        self._is_closed = False
        self._thread = threading.Thread(target=self._decode, args=(video, size))

    def _decode(self, video: Path, size: tuple[int, int] | None) -> None:
        for number, image in frames(video, size):
            if self._is_closed:
                return
            self._ready.put((number, image.shape, array('B', image.tobytes())))

    def next(self) -> tuple[int, tuple[int, ...], Pixels]:
        """
        Give the number, ``(height, width, 3)`` and row-major bytes of the next frame.

        :raises queue.Empty: the decoder gave nothing for ten seconds.
        """
        return self._ready.get(timeout=10)

    def __enter__(self) -> 'ReadAhead':
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        while self._thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self._ready.get(timeout=0.05)
        self._thread.join()


def publish(options: argparse.Namespace, source: ReadAhead,
            stop: threading.Event | StopSignal) -> tuple[
                list[tuple[int, int, int]], dict[str, int]]:
    """Run the camera until its time is over or ``stop`` is set; give log and counts."""
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(options.name)
    outlet: Outlet = ImageOutlet(node, options.topic) if not options.lend else LendingOutlet(
        node, options.topic, options.lend, (options.height, options.width, 3), options.statuses)
    log: list[tuple[int, int, int]] = []
    try:
        print('ready', flush=True)
        start_ns = _first_capture_ns() if options.wait else time.monotonic_ns()
        if start_ns is not None:
            log = _play(options, source, stop, node, outlet, start_ns)
    finally:
        counts = outlet.close()
        node.destroy_node()
        rclpy.shutdown()
    return log, counts


def _first_capture_ns() -> int | None:
    """Read when to begin; ``None`` if whoever would say so has gone."""
    line = sys.stdin.readline()
    return int(line) if line.strip() else None


def _play(options: argparse.Namespace, source: ReadAhead, stop: threading.Event | StopSignal,
          node: Node, outlet: Outlet, start_ns: int) -> list[tuple[int, int, int]]:
    captures = timetable(start_ns=start_ns, rate_hz=options.rate, seed=options.seed,
                         jitter_ms=options.jitter_ms, transport_ms=options.transport_ms)
    in_time = takewhile(
        lambda each: each.captured_at_ns < start_ns + options.seconds * NS_PER_S, captures)
    log: list[tuple[int, int, int]] = []
    for capture in in_time:
        number, shape, data = source.next()
        if _sleep_until(capture.captured_at_ns, stop):
            break
        # What the clock said at the capture, even where this process woke late.
        late_ns = time.monotonic_ns() - capture.captured_at_ns
        stamp_ns = node.get_clock().now().nanoseconds - late_ns
        send = outlet.prepare(data, shape, Header(
            stamp=Time(nanoseconds=stamp_ns).to_msg(), frame_id=options.frame_id))
        if _sleep_until(capture.published_at_ns, stop):
            break
        send()
        log.append((stamp_ns, node.get_clock().now().nanoseconds, number))
    return log


def _sleep_until(instant_ns: int, stop: threading.Event | StopSignal) -> bool:
    """Wait for an instant of the monotonic clock; tell whether to stop instead."""
    return stop.wait(max(instant_ns - time.monotonic_ns(), 0) / NS_PER_S)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog='python -m vig_governor.demo.camera',
                                     description='Publish a video as a camera would.')
    parser.add_argument('video', type=Path)
    parser.add_argument('--topic', required=True)
    parser.add_argument('--name', default='camera', help='name of the ROS node')
    parser.add_argument('--frame-id', default='camera')
    parser.add_argument('--rate', type=float, default=30.0, help='frames per second')
    parser.add_argument('--width', type=int, help='pixels; with --height')
    parser.add_argument('--height', type=int)
    parser.add_argument('--jitter-ms', type=float, default=0.0)
    parser.add_argument('--transport-ms', type=float, default=0.0)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--seconds', type=float, default=60.0)
    parser.add_argument('--wait', action='store_true',
                        help='read the first capture (monotonic clock, ns) from standard input')
    parser.add_argument('--log', type=Path)
    parser.add_argument('--lend', metavar='TENSOR',
                        help='publish where the frames lie, for this input of the model')
    parser.add_argument('--statuses', nargs='+', default=[],
                        help="with --lend: topics of the frames' statuses")
    parser.add_argument('--counts', type=Path,
                        help='with --lend: file that receives what became of the frames')
    options = parser.parse_args()
    if not options.video.is_file():
        parser.error(f'{options.video} is not a file')
    if (options.width is None) != (options.height is None):
        parser.error('--width and --height belong together')
    if options.lend and options.width is None:
        parser.error('--lend needs --width and --height')
    stop = StopSignal()
    with ReadAhead(options.video, (options.width, options.height) if options.width else None
                   ) as source:
        log, counts = publish(options, source, stop)
    if options.log is not None:
        options.log.write_text(json.dumps(log), encoding='utf-8')
    if options.counts is not None:
        options.counts.write_text(json.dumps(counts), encoding='utf-8')
    return 0


if __name__ == '__main__':
    sys.exit(main())
