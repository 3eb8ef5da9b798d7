"""
Where the time goes between camera and consumer, and what of it the governor adds.

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

    path  = (frame in hand .. on the wire) - conversion + (answer in hand .. result published)
    added = path - what a direct caller takes from its frame in shared memory to the wire

*Direct* is the same tritonclient call with the same kind of region, by one thread without ROS.
``path`` contains the making of the request, which a direct caller also has to do; only this is
taken off for ``added``, as the median of the same block, so that a bad moment of the governor
stays one. The publication counts in full: the direct caller publishes nothing. The copy of the
frame into shared memory is given for both and counts for neither.

The *budget* is the whole way of the same frames over ROS: from the camera's stamp to the callback
of a consumer in another process than the node's, in six parts without a gap. The camera's own
call of ``publish`` and both transports by DDS are in it. Last, the share of a core that the node
takes under three cameras (see ``bench_share.py``).

A block is ``--frames`` governed and as many direct frames of one size; sizes take turns. A figure
is the median over the blocks of that quantile of a block; the quantile over all frames is given
beside it. The exit code is 0 wherever the measurement itself succeeded, aim met or missed.
"""

import argparse
import contextlib
import json
import os
from pathlib import Path
import sys
import time
from typing import Any

from bench_share import measure_share, share_table, verdict

from common import (conditions, config_text, isolate, MODEL, model_repository, ROOT, ros_node,
                    told)

import numpy as np

from path_report import AIM_P50_US, AIM_P99_US, budget_table, evaluate, Frame, SIZES, table

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data, QoSProfile

from sensor_msgs.msg import Image

import tritonclient.grpc as triton
from tritonclient.utils import shared_memory

from vig.msg import InferenceResult, RequestStatus

from vig_governor.clock import stamp_to_ns
from vig_governor.demo.processes import Processes
from vig_governor.triton_server import TritonServer

from wire import WireWatch

WARM_UP_FRAMES = 10
LOST_AFTER_S = 2.0
SHARE_RUNTIME_MS = 8.0


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
        self._consumed: dict[int, int] = {}
        self._publisher = node.create_publisher(Image, topic, qos_profile_sensor_data)
        node.create_subscription(RequestStatus, f'{topic}/vig/status', self._take,
                                 QoSProfile(depth=10))
        self._results = node.create_subscription(InferenceResult, f'{topic}/vig/result',
                                                 self._consume, QoSProfile(depth=1))

    @property
    def is_connected(self) -> bool:
        """Whether the governor is subscribed."""
        return bool(self._publisher.get_subscription_count())

    def frame(self) -> Frame | None:
        """Send a frame; ``None`` for one that was lost or did not complete."""
        now = self._node.get_clock().now()
        stamped_at_ns = time.monotonic_ns()
        self._image.header.stamp = now.to_msg()
        self._ended = None
        self._consumed.clear()
        self._publisher.publish(self._image)
        end_s = time.monotonic() + LOST_AFTER_S
        while not self._is_over(now.nanoseconds):
            if time.monotonic() > end_s:
                return None
            self._executor.spin_once(timeout_sec=0.1)
        consumed_at_ns = self._consumed.get(now.nanoseconds)
        if consumed_at_ns is None:
            return None
        return Frame(now.nanoseconds, stamped_at_ns, consumed_at_ns)

    def _is_over(self, stamp_ns: int) -> bool:
        """Whether the status is there, and the result where the status promises one."""
        status = self._ended
        return (status is not None and stamp_to_ns(status.header.stamp) == stamp_ns
                and (status.reason != RequestStatus.COMPLETED or stamp_ns in self._consumed))

    def _consume(self, result: InferenceResult) -> None:
        consumed_at_ns = time.monotonic_ns()
        self._consumed[stamp_to_ns(result.header.stamp)] = consumed_at_ns

    def _take(self, status: RequestStatus) -> None:
        self._ended = status


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run everything; give blocks of governed and direct frames by size."""
    environment = isolate()
    streams = [(name, f'/bench/{name}', f'{name}_model') for name, _, _ in SIZES]
    points = folder / 'points.json'
    points.unlink(missing_ok=True)
    with (TritonServer(model_repository(folder, options.runtime_ms), grpc_port=options.grpc_port,
                       log=folder / 'triton.log') as server,
          Processes(folder, environment) as processes,
          ros_node('bench_path') as (node, executor), contextlib.ExitStack() as made):
        config = folder / 'vig.yaml'
        config.write_text(config_text(server.grpc_endpoint, streams,
                                      runtime_ms=max(options.runtime_ms, 1.0),
                                      http_endpoint=server.http_endpoint if options.http else ''))
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
                block = [_pair(camera, direct, pixels, options.pause_ms / 1000)
                         for _ in range(frames)]
                if number >= 0:
                    blocks[name].append(block)
        governor.ask_to_stop()
        governor.reap(time.monotonic() + 15)
    log = json.loads(points.read_text())
    return {'blocks': blocks, 'log': log}


def _pair(camera: Camera, direct: Direct, pixels: np.ndarray,
          pause_s: float) -> tuple[Frame | None, dict[str, float]]:
    """Send one frame through the governor and one directly, with a pause after each."""
    governed = camera.frame()
    time.sleep(pause_s)
    parts = direct.frame(pixels)
    time.sleep(pause_s)
    return governed, parts


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog='bench_path', description='See the module.')
    quick = bool(os.environ.get('QUICK'))
    parser.add_argument('--frames', type=int, default=40 if quick else 100,
                        help='of each arm in one block')
    parser.add_argument('--blocks', type=int, default=2 if quick else 8, help='of each size')
    parser.add_argument('--share-rounds', type=int, default=1 if quick else 3,
                        help='runs of 20 s (QUICK: 10 s) with three cameras; 0 for none')
    parser.add_argument('--runtime-ms', type=float, default=10.0, help='of the model')
    parser.add_argument('--pause-ms', type=float, default=2.0, help='after every frame')
    parser.add_argument('--http', action='store_true',
                        help="the governor's inferences over HTTP; direct ones stay with gRPC")
    parser.add_argument('--grpc-port', type=int, default=0)
    parser.add_argument('--output', type=Path, default=Path('build/bench-path'))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    before = conditions()
    measured = measure(options, options.output)
    share = _share(options, 10.0 if quick else 20.0) if options.share_rounds else []
    facts = {**before, 'load_1min_after': conditions()['load_1min']}
    rows = evaluate(measured)
    result = {'conditions': facts, 'aim_p50_us': AIM_P50_US, 'aim_p99_us': AIM_P99_US,
              'blocks': options.blocks, 'frames_per_block': options.frames,
              'runtime_ms': options.runtime_ms,
              'inline_frames': measured['log']['inline'],
              'longest_gc_pause_us': max(measured['log']['gc_us'], default=0.0), 'rows': rows,
              'share': share, 'is_met': all(row['is_met'] for row in rows)}
    (options.output / 'result.json').write_text(json.dumps(result, indent=2) + '\n')
    print('\n'.join(table(rows)))
    print('\n'.join(budget_table(rows)))
    pauses_us = measured['log']['gc_us']
    print(f'garbage collector: {len(pauses_us)} pauses of the node, the longest '
          f'{max(pauses_us, default=0.0):.0f} us, {sum(pauses_us) / 1000:.1f} ms in all')
    print(f'microseconds; {told(facts)} before and {facts["load_1min_after"]} after; '
          f'{measured["log"]["inline"]} frames went inline while regions were being registered; '
          f'details in {options.output / "result.json"}')
    path, added = (', '.join(
        f'{row["bytes"] / 1e6:.2f} MB {row["governed"][key]["p50_us"]:.0f}/'
        f'{row["governed"][key]["p99_us"]:.0f}' for row in rows) for key in ('path', 'added'))
    print(f'path with the request itself, p50/p99 us: {path}')
    print(f'governor adds to a direct call, p50/p99 us: {added}: '
          f'aim {AIM_P50_US:.0f}/{AIM_P99_US:.0f} '
          f'{"met" if result["is_met"] else "missed"}')
    if share:
        print('\n'.join(share_table(share)))
        print(verdict(share))
    return 0


def _share(options: argparse.Namespace, seconds: float) -> list[dict[str, Any]]:
    """Measure the node's share of a core, with a model of 8 ms that three cameras do not fill."""
    rclpy.init(args=[])
    try:
        with TritonServer(model_repository(options.output, SHARE_RUNTIME_MS),
                          grpc_port=options.grpc_port,
                          log=options.output / 'triton_share.log') as server:
            runs = measure_share(server.grpc_endpoint, options.output, seconds=seconds,
                                 runtime_ms=SHARE_RUNTIME_MS, rounds=options.share_rounds,
                                 http_endpoint=server.http_endpoint)
    finally:
        rclpy.shutdown()
    return [run for each in runs.values() for run in each]


if __name__ == '__main__':
    sys.exit(main())
