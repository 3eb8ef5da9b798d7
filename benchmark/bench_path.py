"""
What the governor adds to a frame's way: governed against direct calls to the same model.

One real Triton, one model that takes 10 ms, three streams of rgb8 frames (150 KB, 1.2 MB,
6.2 MB) through shared memory. A driver process sends one frame at a time and waits for its end:
by turns one frame through the real node, in a process of its own, over DDS, and one by a direct
call. Both see the same disturbances of the machine. The points, all on CLOCK_MONOTONIC:

    frame in hand     the subscription callback begins, with the deserialised message
    on the wire       gRPC's core has taken the request (see ``wire.py``)
    answer in hand    tritonclient's ``infer`` has returned
    result published  ``publish`` of the result has returned
    conversion        from the begin to the end of the encoder; here: one copy of the frame
                      into shared memory

    added = (frame in hand .. on the wire) - conversion + (answer in hand .. result published)

Nothing that a direct caller also has to do is taken off: ``added`` contains the making of the
request and the publication. *Direct* is the same tritonclient call with the same kind of region,
by one thread without ROS; its copy into shared memory and its sending are given beside it, and
``over direct`` is ``added`` without that sending.

A block is ``--frames`` governed and as many direct frames of one size; sizes take turns. A figure
is the median over the blocks of that quantile of a block; the quantile over all frames is given
beside it. The exit code is 0 wherever the measurement itself succeeded, aim met or missed.
"""

import argparse
from collections.abc import Iterator
import contextlib
import json
from pathlib import Path
import statistics
import sys
import time
from typing import Any

from common import (conditions, config_text, isolate, median_of_blocks, MODEL, MODELS, quantile,
                    ROOT, told)

import numpy as np

from probed_node import Point

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data, QoSProfile

from sensor_msgs.msg import Image

import tritonclient.grpc as triton
from tritonclient.utils import shared_memory

from vig.msg import InferenceResult, RequestStatus

from vig_governor.demo.processes import Processes
from vig_governor.triton_server import TritonServer

from wire import WireWatch

SIZES = (('small', 224, 224), ('medium', 640, 640), ('large', 1920, 1080))
RUNTIME_MS = 10.0
AIM_P50_US = 300.0
AIM_P99_US = 1000.0
WARM_UP_FRAMES = 10
LOST_AFTER_S = 2.0
PAUSE_S = 0.002
PARTS = {
    'callback': (Point.FRAME_IN_HAND, Point.CALLBACK_OVER),
    'to conversion': (Point.CALLBACK_OVER, Point.CONVERSION_BEGINS),
    'conversion': (Point.CONVERSION_BEGINS, Point.CONVERSION_ENDS),
    'send': (Point.CONVERSION_ENDS, Point.ON_THE_WIRE),
    'server': (Point.ON_THE_WIRE, Point.ANSWER_IN_HAND),
    'to publication': (Point.ANSWER_IN_HAND, Point.PUBLISH_BEGINS),
    'publish': (Point.PUBLISH_BEGINS, Point.PUBLISHED),
}
NOT_ADDED = ('conversion', 'server')


class Direct:
    """The bare minimum: copy into shared memory, one blocking call."""

    def __init__(self, endpoint: str, name: str, byte_size: int) -> None:
        """Make one region and register it."""
        self._client = triton.InferenceServerClient(endpoint)
        self._wire = WireWatch(self._client)
        self._name = f'direct_{name}'
        self._region = shared_memory.create_shared_memory_region(
            self._name, f'/vig_bench_{name}', byte_size)
        self._client.register_system_shared_memory(self._name, f'/vig_bench_{name}', byte_size)

    def frame(self, pixels: np.ndarray) -> dict[str, float]:
        """Send ``uint8[height, width, 3]``; give the duration of each part in ns."""
        in_hand_ns = time.monotonic_ns()
        shared_memory.set_shared_memory_region(self._region, [pixels])
        copied_ns = time.monotonic_ns()
        wire = triton.InferInput('IMAGE', list(pixels.shape), 'UINT8')
        wire.set_shared_memory(self._name, pixels.nbytes)
        self._client.infer(MODEL, [wire], client_timeout=LOST_AFTER_S)
        answered_ns = time.monotonic_ns()
        sent_ns = self._wire.take()
        return {'conversion': copied_ns - in_hand_ns, 'send': sent_ns - copied_ns,
                'server': answered_ns - sent_ns}

    def close(self) -> None:
        """Give the region back."""
        self._client.unregister_system_shared_memory(self._name)
        shared_memory.destroy_shared_memory_region(self._region)
        self._client.close()


class Camera:
    """Publishes one frame at a time and waits until the governor says how it ended."""

    def __init__(self, node: Any, executor: SingleThreadedExecutor, topic: str,
                 pixels: np.ndarray) -> None:
        """Open the three topics of one stream."""
        self._node = node
        self._executor = executor
        self._image = Image(height=pixels.shape[0], width=pixels.shape[1], encoding='rgb8',
                            step=3 * pixels.shape[1])
        self._image.data.frombytes(pixels.tobytes())
        self._ended: RequestStatus | None = None
        self._publisher = node.create_publisher(Image, topic, qos_profile_sensor_data)
        node.create_subscription(RequestStatus, f'{topic}/vig/status', self._take,
                                 QoSProfile(depth=10))
        self._results = node.create_subscription(InferenceResult, f'{topic}/vig/result',
                                                 lambda message: None, QoSProfile(depth=1))

    @property
    def is_connected(self) -> bool:
        """Whether the governor is subscribed."""
        return bool(self._publisher.get_subscription_count())

    def frame(self) -> int | None:
        """Give the stamp in ns of a frame that completed, or ``None`` for one that was lost."""
        now = self._node.get_clock().now()
        self._image.header.stamp = now.to_msg()
        self._ended = None
        self._publisher.publish(self._image)
        end_s = time.monotonic() + LOST_AFTER_S
        while self._ended is None or self._ended.header.stamp != self._image.header.stamp:
            if time.monotonic() > end_s:
                return None
            self._executor.spin_once(timeout_sec=0.1)
        is_completed = self._ended.reason == RequestStatus.COMPLETED
        return int(now.nanoseconds) if is_completed else None

    def _take(self, status: RequestStatus) -> None:
        self._ended = status


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run everything; give blocks of governed and direct frames by size."""
    environment = isolate()
    streams = [(name, f'/bench/{name}') for name, _, _ in SIZES]
    points = folder / 'points.json'
    points.unlink(missing_ok=True)
    with (TritonServer(MODELS, grpc_port=options.grpc_port, log=folder / 'triton.log') as server,
          Processes(folder, environment) as processes,
          _ros() as (node, executor), contextlib.ExitStack() as made):
        config = folder / 'vig.yaml'
        config.write_text(config_text(server.grpc_endpoint, streams, runtime_ms=RUNTIME_MS))
        governor = processes.start('governor', [
            sys.executable, str(ROOT / 'benchmark' / 'probed_node.py'), str(points),
            '--ros-args', '-p', f'config:={config}', '-p', 'autostart:=true'])
        arms = []
        for name, width, height in SIZES:
            pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
            direct = Direct(server.grpc_endpoint, name, pixels.nbytes)
            made.callback(direct.close)
            arms.append((name, pixels, Camera(node, executor, f'/bench/{name}', pixels), direct))
        end_s = time.monotonic() + 30
        while not all(camera.is_connected for _, _, camera, _ in arms):
            processes.check()
            if time.monotonic() > end_s:
                raise RuntimeError(f'the governor did not become active; see {folder}')
            executor.spin_once(timeout_sec=0.05)
        blocks: dict[str, list[Any]] = {name: [] for name, _, _ in SIZES}
        for number in range(-1, options.blocks):
            for name, pixels, camera, direct in arms:
                frames = options.frames if number >= 0 else WARM_UP_FRAMES
                block = [_pair(camera, direct, pixels) for _ in range(frames)]
                if number >= 0:
                    blocks[name].append(block)
        governor.ask_to_stop()
        governor.reap(time.monotonic() + 15)
    log = json.loads(points.read_text())
    return {'blocks': blocks, 'log': log}


def _pair(camera: Camera, direct: Direct,
          pixels: np.ndarray) -> tuple[int | None, dict[str, float]]:
    """Send one frame through the governor and one directly, with a pause after each."""
    stamp_ns = camera.frame()
    time.sleep(PAUSE_S)
    parts = direct.frame(pixels)
    time.sleep(PAUSE_S)
    return stamp_ns, parts


@contextlib.contextmanager
def _ros() -> Iterator[tuple[Any, SingleThreadedExecutor]]:
    rclpy.init(args=[])
    node = rclpy.create_node('bench_path')
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        yield node, executor
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown()


def evaluate(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Give one row per size, durations in microseconds."""
    frames = measured['log']['frames']
    rows = []
    for name, width, height in SIZES:
        governed: dict[str, list[list[float]]] = {}
        direct: dict[str, list[list[float]]] = {}
        lost = 0
        for block in measured['blocks'][name]:
            stamps = [stamp for stamp, _ in block if stamp is not None]
            lost += len(block) - len(stamps)
            samples = [_parts_us(frames[str(stamp)]) for stamp in stamps]
            for key in samples[0]:
                governed.setdefault(key, []).append([sample[key] for sample in samples])
            calls = [{key: value / 1000 for key, value in parts.items()} for _, parts in block]
            for call in calls:
                call['whole'] = sum(call.values())
            for key in calls[0]:
                direct.setdefault(key, []).append([call[key] for call in calls])
        row = {'size': name, 'bytes': 3 * width * height, 'lost': lost,
               'frames': sum(len(block) for block in governed['added']),
               'governed': _quantiles(governed), 'direct': _quantiles(direct)}
        row['over_direct_p50_us'] = (row['governed']['added']['p50_us']
                                     - row['direct']['send']['p50_us'])
        row['ratio_of_whole_p50'] = (row['governed']['whole']['p50_us']
                                     / row['direct']['whole']['p50_us'])
        row['is_met'] = (row['governed']['added']['p50_us'] <= AIM_P50_US
                         and row['governed']['added']['p99_us'] <= AIM_P99_US)
        rows.append(row)
    return rows


def _parts_us(points: list[int]) -> dict[str, float]:
    parts = {name: (points[end] - points[begin]) / 1000 for name, (begin, end) in PARTS.items()}
    parts['added'] = sum(value for name, value in parts.items() if name not in NOT_ADDED)
    parts['whole'] = (points[Point.PUBLISHED] - points[Point.FRAME_IN_HAND]) / 1000
    return parts


def _quantiles(blocks: dict[str, list[list[float]]]) -> dict[str, dict[str, float]]:
    return {key: {
        'p50_us': round(median_of_blocks(each, 50), 1),
        'p99_us': round(median_of_blocks(each, 99), 1),
        'all_p99_us': round(quantile([value for block in each for value in block], 99), 1),
        'max_us': round(max(max(block) for block in each), 1),
        'block_p50_us': [round(statistics.median(block), 1) for block in each]}
        for key, each in blocks.items()}


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Write what was measured, one line per size and part."""
    for row in rows:
        governed, direct = row['governed'], row['direct']
        yield f'{row["bytes"] / 1e6:.2f} MB ({row["frames"]} frames, {row["lost"]} lost)'
        yield '  part                governed p50      p99  all p99      max    direct p50      p99'
        for part, values in governed.items():
            beside = direct.get(part)
            yield (f'  {part:16s} {values["p50_us"]:15.0f} {values["p99_us"]:8.0f} '
                   f'{values["all_p99_us"]:8.0f} {values["max_us"]:8.0f}'
                   + (f' {beside["p50_us"]:13.0f} {beside["p99_us"]:8.0f}' if beside else ''))
        yield (f'  added over a direct call p50 {row["over_direct_p50_us"]:.0f} us; whole way '
               f'{row["ratio_of_whole_p50"]:.3f} times the direct one')


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog='bench_path', description='See the module.')
    parser.add_argument('--frames', type=int, default=100, help='of each arm in one block')
    parser.add_argument('--blocks', type=int, default=8, help='of each size')
    parser.add_argument('--grpc-port', type=int, default=0)
    parser.add_argument('--output', type=Path, default=Path('build/bench-path'))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    before = conditions()
    measured = measure(options, options.output)
    facts = {**before, 'load_1min_after': conditions()['load_1min']}
    rows = evaluate(measured)
    result = {'conditions': facts, 'aim_p50_us': AIM_P50_US, 'aim_p99_us': AIM_P99_US,
              'blocks': options.blocks, 'frames_per_block': options.frames,
              'inline_frames': measured['log']['inline'], 'rows': rows,
              'is_met': all(row['is_met'] for row in rows)}
    (options.output / 'result.json').write_text(json.dumps(result, indent=2) + '\n')
    print('\n'.join(table(rows)))
    print(f'microseconds; {told(facts)} before and {facts["load_1min_after"]} after; '
          f'{measured["log"]["inline"]} frames went inline while regions were being registered; '
          f'details in {options.output / "result.json"}')
    figures = ', '.join(f'{row["bytes"] / 1e6:.2f} MB {row["governed"]["added"]["p50_us"]:.0f}/'
                        f'{row["governed"]["added"]["p99_us"]:.0f}' for row in rows)
    print(f'governor adds p50/p99 us: {figures}: aim {AIM_P50_US:.0f}/{AIM_P99_US:.0f} '
          f'{"met" if result["is_met"] else "missed"}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
