"""
From the stamp to the wire, by size of the frame: images beside references.

One real Triton, one model that sleeps, one governor in a process of its own; for each size (150
KB, 1.2 MB, 6.2 MB) one stream of ``sensor_msgs/Image`` and one of ``vig/msg/TensorReference``
from ``vig_governor.producer``. A driver sends one frame at a time and waits for its end. A round
has one short block of each size and kind, another one first each time, so that all see the same
disturbances of the machine; within a block there is only one kind, because a big image leaves
caches and allocator in another state.

The stamp is taken when the frame is in the driver's message or in its shared memory: filling
either is the driver's own work and is given as ``fill``. From there on, all on CLOCK_MONOTONIC:

    receipt   stamp to the begin of the subscription callback, with the message deserialised
    decision  from there to the begin of the encoder
    encoder   an image is copied into memory that the server reads; a reference is checked
    send      from there until gRPC's core has taken the request
    wire      all of it: stamp to wire

A figure is the median over the blocks of that quantile of a block. A path counts as *flat within
noise* if neither of the bigger sizes takes longer than the smallest one of the same round in three
rounds out of four: the lower quartile of these differences is not above zero. ``QUICK=1`` takes 4
rounds.
"""

import argparse
import contextlib
import json
import os
from pathlib import Path
import statistics
import sys
import time
from typing import Any

from common import (conditions, config_text, isolate, median_of_blocks, MODEL, model_repository,
                    ROOT, ros_node, told)

import numpy as np

from path_report import SIZES

from probed_node import Point

from rclpy.qos import qos_profile_sensor_data, QoSProfile

from sensor_msgs.msg import Image

from vig.msg import RequestStatus

from vig_governor.clock import stamp_to_ns
from vig_governor.demo.processes import Processes
from vig_governor.producer import TensorProducer
from vig_governor.triton_server import TritonServer

WARM_UP_FRAMES = 10
LOST_AFTER_S = 2.0
PATHS = ('image', 'reference')
PARTS = ('fill', 'receipt', 'decision', 'encoder', 'send', 'wire')


class Sender:
    """Sends one frame at a time and waits for its status; base of both kinds."""

    def __init__(self, node: Any, executor: Any, topic: str) -> None:
        """Listen to the statuses of one stream."""
        self._executor = executor
        self._ended: RequestStatus | None = None
        node.create_subscription(RequestStatus, f'{topic}/vig/status', self._take,
                                 QoSProfile(depth=10))

    def frame(self, pixels: np.ndarray) -> tuple[int, int, int] | None:
        """Give stamp (ROS), stamp (monotonic) and fill time in ns, or ``None`` if it was lost."""
        begin_ns = time.monotonic_ns()
        self._ended = None
        stamp, stamped_ns = self.send(pixels)
        end_s = time.monotonic() + LOST_AFTER_S
        while self._ended is None or self._ended.header.stamp != stamp:
            if time.monotonic() > end_s:
                return None
            self._executor.spin_once(timeout_sec=0.1)
        if self._ended.reason != RequestStatus.COMPLETED:
            return None
        return stamp_to_ns(stamp), stamped_ns, stamped_ns - begin_ns

    def send(self, pixels: np.ndarray) -> tuple[Any, int]:
        """Fill, stamp and publish; give the stamp and its monotonic instant."""
        raise NotImplementedError

    @property
    def is_connected(self) -> bool:
        """Whether the governor is subscribed."""
        raise NotImplementedError

    def _take(self, status: RequestStatus) -> None:
        self._ended = status


class ImageSender(Sender):
    """Publishes the frame itself."""

    def __init__(self, node: Any, executor: Any, topic: str, shape: tuple[int, ...]) -> None:
        """Open the topics."""
        super().__init__(node, executor, topic)
        self._node = node
        self._image = Image(height=shape[0], width=shape[1], encoding='rgb8', step=3 * shape[1])
        self._image.data.frombytes(bytes(shape[0] * shape[1] * 3))
        self._publisher = node.create_publisher(Image, topic, qos_profile_sensor_data)

    def send(self, pixels: np.ndarray) -> tuple[Any, int]:
        """Copy into the message, stamp, publish."""
        np.frombuffer(self._image.data, np.uint8)[...] = pixels.reshape(-1)
        stamped_ns = time.monotonic_ns()
        self._image.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(self._image)
        return self._image.header.stamp, stamped_ns

    @property
    def is_connected(self) -> bool:
        """Whether the governor is subscribed."""
        return bool(self._publisher.get_subscription_count())


class ReferenceSender(Sender):
    """Publishes where the frame lies."""

    def __init__(self, node: Any, executor: Any, topic: str, shape: tuple[int, ...]) -> None:
        """Open the topics and make the memory."""
        super().__init__(node, executor, topic)
        self._node = node
        self.producer = TensorProducer(node, topic, tensor='IMAGE', shape=shape)

    def send(self, pixels: np.ndarray) -> tuple[Any, int]:
        """Copy into the shared memory, stamp, publish."""
        with self.producer.frame() as (array, header):
            array[...] = pixels
            stamped_ns = time.monotonic_ns()
            header.stamp = self._node.get_clock().now().to_msg()
        return header.stamp, stamped_ns

    @property
    def is_connected(self) -> bool:
        """Whether the governor is subscribed."""
        return self.producer.is_heard


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run everything; give the samples of each path, size and block."""
    environment = isolate()
    topics = {(path, name): f'/bench/{name}/{path}' for name, _, _ in SIZES for path in PATHS}
    points = folder / 'reference_points.json'
    points.unlink(missing_ok=True)
    sent: dict[tuple[str, str], list[list[tuple[int, int, int] | None]]] = {
        key: [] for key in topics}
    with (TritonServer(model_repository(folder, options.runtime_ms), grpc_port=options.grpc_port,
                       log=folder / 'triton.log') as server,
          Processes(folder, environment) as processes,
          ros_node('bench_references') as (node, executor), contextlib.ExitStack() as made):
        config = folder / 'vig_references.yaml'
        config.write_text(_config(server.grpc_endpoint, topics, options.runtime_ms))
        governor = processes.start('governor_references', [
            sys.executable, str(ROOT / 'benchmark' / 'probed_node.py'), str(points),
            '--ros-args', '-p', f'config:={config}', '-p', 'autostart:=true'])
        senders: dict[tuple[str, str], Sender] = {}
        for name, width, height in SIZES:
            shape = (height, width, 3)
            senders['image', name] = ImageSender(node, executor, topics['image', name], shape)
            lender = ReferenceSender(node, executor, topics['reference', name], shape)
            made.callback(lender.producer.close)
            senders['reference', name] = lender
        end_s = time.monotonic() + 30
        while not all(sender.is_connected for sender in senders.values()):
            processes.check()
            if time.monotonic() > end_s:
                raise RuntimeError(f'the governor did not become active; see {folder}')
            executor.spin_once(timeout_sec=0.05)
        pictures = {name: np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
                    for name, width, height in SIZES}
        kinds = list(topics)
        for number in range(-1, options.blocks):
            first = number % len(kinds)
            for path, name in kinds[first:] + kinds[:first]:
                block = []
                for _ in range(options.frames if number >= 0 else WARM_UP_FRAMES):
                    block.append(senders[path, name].frame(pictures[name]))
                    time.sleep(options.pause_ms / 1000)
                if number >= 0:
                    sent[path, name].append(block)
        governor.ask_to_stop()
        governor.reap(time.monotonic() + 15)
    log = json.loads(points.read_text())
    return {'sent': sent, 'frames': log['frames']}


def _config(endpoint: str, topics: dict[tuple[str, str], str], runtime_ms: float) -> str:
    """Write the vig.yaml: a model and a stream for each path and size."""
    text = config_text(endpoint, [(f'{name}_{path}', topic, f'{name}_{path}_model')
                                  for (path, name), topic in topics.items()],
                       runtime_ms=max(runtime_ms, 1.0))
    image = ('    type: sensor_msgs/msg/Image\n    model: {model}\n'
             '    input: {{tensor: IMAGE, encoder: image, dtype: UINT8, layout: HWC}}\n')
    reference = ('    type: vig/msg/TensorReference\n    model: {model}\n'
                 '    input: {{tensor: IMAGE, encoder: reference}}\n')
    for path, name in topics:
        if path == 'reference':
            model = f'{name}_reference_model'
            before = image.format(model=model)
            assert before in text
            text = text.replace(before, reference.format(model=model))
    return text


def evaluate(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Give one row for each path and size, durations in microseconds."""
    frames = measured['frames']
    rows = []
    for (path, name), blocks in measured['sent'].items():
        parts: dict[str, list[list[float]]] = {part: [] for part in PARTS}
        for block in blocks:
            samples = [_parts_us(frames[str(sample[0])], sample) for sample in block
                       if sample is not None]
            for part in PARTS:
                parts[part].append([sample[part] for sample in samples])
        sizes = {size: 3 * width * height for size, width, height in SIZES}
        rows.append({
            'path': path, 'size': name, 'bytes': sizes[name],
            'lost': sum(sample is None for block in blocks for sample in block),
            'parts': {part: {
                'p50_us': round(median_of_blocks(each, 50), 1),
                'p99_us': round(median_of_blocks(each, 99), 1),
                'block_p50_us': [round(statistics.median(block), 1) if block else None
                                 for block in each]}
                      for part, each in parts.items()}})
    return rows


def _parts_us(points: list[int], sample: tuple[int, int, int]) -> dict[str, float]:
    _, stamped_ns, fill_ns = sample
    bounds = [stamped_ns, points[Point.FRAME_IN_HAND], points[Point.CONVERSION_BEGINS],
              points[Point.CONVERSION_ENDS], points[Point.ON_THE_WIRE]]
    steps = [(end - begin) / 1000 for begin, end in zip(bounds, bounds[1:])]
    return dict(zip(PARTS, [fill_ns / 1000, *steps, (bounds[-1] - bounds[0]) / 1000]))


def growth_us(smaller: dict[str, Any], bigger: dict[str, Any], part: str = 'wire'
              ) -> tuple[float, float, float]:
    """Give the quartiles of what the bigger frame takes longer in the same round."""
    pairs = zip(*(row['parts'][part]['block_p50_us'] for row in (smaller, bigger)))
    low, middle, high = statistics.quantiles(
        [after - before for before, after in pairs if before is not None and after is not None],
        n=4, method='inclusive')
    return low, middle, high


def is_flat(rows: list[dict[str, Any]], path: str) -> bool:
    """Whether no size takes longer than the smallest, but for what rounds differ by themselves."""
    smallest, *bigger = (row for row in rows if row['path'] == path)
    return all(growth_us(smallest, each)[0] <= 0 for each in bigger)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog='bench_references', description='See the module.')
    quick = os.environ.get('QUICK', '') not in ('', '0')
    parser.add_argument('--frames', type=int, default=20 if quick else 40,
                        help='of one size and kind in a round (default: %(default)s)')
    parser.add_argument('--blocks', type=int, default=4 if quick else 16,
                        help='rounds, at least 2 (default: %(default)s)')
    parser.add_argument('--runtime-ms', type=float, default=10.0, help='of the model')
    parser.add_argument('--pause-ms', type=float, default=2.0, help='after every frame')
    parser.add_argument('--grpc-port', type=int, default=0)
    parser.add_argument('--output', type=Path, default=Path('build/bench-path'))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    before = conditions()
    rows = evaluate(measure(options, options.output))
    facts = {**before, 'load_1min_after': conditions()['load_1min'], 'model': MODEL}
    flat = {path: is_flat(rows, path) for path in PATHS}
    (options.output / 'references.json').write_text(json.dumps(
        {'conditions': facts, 'rows': rows, 'is_flat': flat}, indent=2) + '\n')
    print('stamp to wire, microseconds p50/p99'.ljust(40)
          + ''.join(f'{part:>14s}' for part in PARTS))
    for row in rows:
        print(f'{row["path"]:10s} {row["bytes"] / 1e6:5.2f} MB, {row["lost"]:3d} lost'.ljust(40)
              + ''.join(f'{row["parts"][part]["p50_us"]:8.0f}/{row["parts"][part]["p99_us"]:<5.0f}'
                        for part in PARTS))
    print(f'{told(facts)} before and {facts["load_1min_after"]} after; details in '
          f'{options.output / "references.json"}')
    for path in PATHS:
        of_path = [row for row in rows if row['path'] == path]
        medians = ', '.join(f'{row["parts"]["wire"]["p50_us"]:.0f}' for row in of_path)
        low, middle, high = growth_us(of_path[0], of_path[-1])
        print(f'{path}: stamp to wire p50 {medians} us for 0.15, 1.23 and 6.22 MB; from the '
              f'smallest to the biggest {middle:+.0f} us (quartiles {low:+.0f} to {high:+.0f}): '
              f'{"flat within noise" if flat[path] else "not flat"}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
