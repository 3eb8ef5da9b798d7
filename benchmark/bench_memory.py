"""
Resident memory of the node under four 1080p streams: how it grows over some minutes.

The real node process between a real Triton (the 10 ms model) and one process that publishes four
rgb8 streams of 6.2 MB frames. The first two streams share a model whose queue keeps the newest
frame, so frames are superseded as well as answered. Every second: resident memory, threads and
open files of the node, and number and size of what lies in /dev/shm. The first fifth counts as
filling up (regions, allocator, DDS); a line through the rest gives the slope. Prints it, writes
``result.json`` and ``memory.png``; the exit code is 0 wherever the measurement itself succeeded.
The share of a core that the node takes is given too; other streams than these are options.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
import json
import os
from pathlib import Path
import sys
import time
from typing import Any

from common import conditions, config_text, isolate, MODELS, ROOT, told

import matplotlib

import numpy as np

import psutil

import rclpy
from rclpy.qos import QoSProfile

from vig.msg import RequestStatus

from vig_governor.demo.processes import Processes
from vig_governor.triton_server import TritonServer

matplotlib.use('Agg')
from matplotlib import pyplot  # noqa: E402, I100, I202 (the backend comes first)

RUNTIME_MS = 10.0
MIB = 1024 * 1024
FLAT_MIB = 2.0
"""Growth after the first fifth that still counts as flat: a third of one frame."""

REASONS = {value: name.lower() for name, value in vars(RequestStatus).items()
           if name.isupper() and isinstance(value, int)}


class Ends:
    """Counts how requests end."""

    def __init__(self, node: Any, topics: Sequence[str]) -> None:
        """Subscribe to the statuses of all streams."""
        self.count: Counter[str] = Counter()
        for topic in topics:
            node.create_subscription(RequestStatus, f'{topic}/vig/status', self._take,
                                     QoSProfile(depth=100))

    def _take(self, status: RequestStatus) -> None:
        self.count[REASONS.get(status.reason, str(status.reason))] += 1


def sample(process: psutil.Process, begin_s: float) -> dict[str, float]:
    """Look at the node and at /dev/shm once."""
    with process.oneshot():
        cpu = process.cpu_times()
        seen: dict[str, float] = {
            't_s': round(time.monotonic() - begin_s, 3),
            'rss_mib': process.memory_info().rss / MIB,
            'threads': process.num_threads(),
            'cpu_s': cpu.user + cpu.system}
    seen['files'] = process.num_fds()
    sizes = []
    for entry in Path('/dev/shm').iterdir():
        try:
            sizes.append(entry.stat().st_size)
        except OSError:
            continue
    seen['shm_entries'] = len(sizes)
    seen['shm_mib'] = sum(sizes) / MIB
    return seen


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run the load and give the samples, one a second."""
    environment = isolate()
    streams = [(f'camera_{number}', f'/bench/camera_{number}', f'model_{max(number, 1)}')
               for number in range(options.streams)]
    topics = [topic for _, topic, _ in streams]
    samples: list[dict[str, float]] = []
    rclpy.init(args=[])
    node = rclpy.create_node('bench_memory')
    ends = Ends(node, topics)
    try:
        with (TritonServer(MODELS, grpc_port=options.grpc_port,
                           log=folder / 'triton.log') as server,
              Processes(folder, environment) as processes):
            config = folder / 'vig.yaml'
            config.write_text(config_text(server.grpc_endpoint, streams, runtime_ms=RUNTIME_MS))
            governor = processes.start('governor', [
                sys.executable, '-m', 'vig_governor.node', '--ros-args',
                '-p', f'config:={config}', '-p', 'autostart:=true'])
            processes.start('cameras', [
                sys.executable, str(ROOT / 'benchmark' / 'frame_source.py'),
                *topics, '--rate', str(options.rate), '--width', str(options.width),
                '--height', str(options.height)])
            process = psutil.Process(governor.pid)
            spin_until(node, lambda: bool(ends.count['completed']), processes, 30.0)
            begin_s = time.monotonic()
            while len(samples) < options.seconds:
                samples.append(sample(process, begin_s))
                next_s = begin_s + len(samples)
                spin_until(node, lambda: time.monotonic() >= next_s, processes, 5.0)
    finally:
        node.destroy_node()
        rclpy.shutdown()
    return {'samples': samples, 'ends': dict(ends.count)}


def spin_until(node: Any, condition: Any, processes: Processes, timeout_s: float) -> None:
    """Spin until the condition holds and all processes live; raises after the time."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        rclpy.spin_once(node, timeout_sec=0.05)
        processes.check()
        if time.monotonic() > end_s:
            raise RuntimeError('no frame was answered; see governor.log')


def fit(samples: Sequence[dict[str, float]]) -> dict[str, float]:
    """Lay a line through the samples after the first fifth."""
    rest = samples[len(samples) // 5:]
    times_s = np.array([each['t_s'] for each in rest])
    rss_mib = np.array([each['rss_mib'] for each in rest])
    slope, _ = np.polyfit(times_s, rss_mib, 1)
    whole = samples[-1]['t_s'] - samples[0]['t_s']
    return {
        'slope_mib_per_min': float(slope) * 60,
        'growth_mib': float(slope) * (rest[-1]['t_s'] - rest[0]['t_s']),
        'rss_mib_first': samples[0]['rss_mib'], 'rss_mib_last': samples[-1]['rss_mib'],
        'rss_mib_min': float(rss_mib.min()), 'rss_mib_max': float(rss_mib.max()),
        'cpu_percent': 100 * (samples[-1]['cpu_s'] - samples[0]['cpu_s']) / whole,
        **{f'{key}_{name}': pick(each[key] for each in rest)
           for key in ('threads', 'files', 'shm_entries', 'shm_mib')
           for name, pick in (('min', min), ('max', max))}}


def draw(samples: Sequence[dict[str, float]], path: Path) -> None:
    """Draw memory over time, and below it threads, files and regions."""
    times_s = [each['t_s'] for each in samples]
    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(9, 6))
    above.plot(times_s, [each['rss_mib'] for each in samples])
    above.axvspan(0, times_s[len(samples) // 5], alpha=0.1, label='filling up')
    above.set_ylabel('resident memory, MiB')
    above.set_ylim(bottom=0)
    above.legend(loc='lower right')
    for key, label in (('threads', 'threads'), ('files', 'open files'),
                       ('shm_entries', 'entries in /dev/shm')):
        below.plot(times_s, [each[key] for each in samples], label=label)
    below.set_xlabel('seconds')
    below.set_ylim(bottom=0)
    below.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog='bench_memory', description='See the module.')
    parser.add_argument('--seconds', type=int,
                        default=60 if os.environ.get('QUICK') else 300,
                        help='300; 60 with QUICK=1 in the environment')
    parser.add_argument('--rate', type=float, default=5.0, help='frames per second and stream')
    parser.add_argument('--streams', type=int, default=4)
    parser.add_argument('--width', type=int, default=1920)
    parser.add_argument('--height', type=int, default=1080)
    parser.add_argument('--grpc-port', type=int, default=0)
    parser.add_argument('--output', type=Path, default=Path('build/bench-memory'))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    facts = conditions()
    measured = measure(options, options.output)
    facts['load_1min_after'] = conditions()['load_1min']
    fitted = fit(measured['samples'])
    is_flat = fitted['growth_mib'] <= FLAT_MIB
    (options.output / 'result.json').write_text(json.dumps(
        {'conditions': facts, 'seconds': options.seconds, 'rate_hz': options.rate,
         'streams': options.streams, 'size': [options.width, options.height],
         'flat_mib': FLAT_MIB, 'is_flat': is_flat, **fitted, **measured}, indent=1) + '\n')
    draw(measured['samples'], options.output / 'memory.png')
    ends = ', '.join(f'{count} {reason}' for reason, count in sorted(measured['ends'].items()))
    print(f'{options.streams} streams of {options.width}x{options.height} rgb8 at '
          f'{options.rate:g} Hz: {ends}')
    print(f'resident {fitted["rss_mib_min"]:.1f} to {fitted["rss_mib_max"]:.1f} MiB, threads '
          f'{fitted["threads_min"]} to {fitted["threads_max"]}, open files '
          f'{fitted["files_min"]} to {fitted["files_max"]}, /dev/shm '
          f'{fitted["shm_entries_min"]} to {fitted["shm_entries_max"]} entries of all users, '
          f'node {fitted["cpu_percent"]:.0f} % of a core')
    print(f'{told(facts)} before and {facts["load_1min_after"]} after; details in '
          f'{options.output / "result.json"}, picture in {options.output / "memory.png"}')
    print(f'resident memory grows {fitted["slope_mib_per_min"]:+.2f} MiB per minute after the '
          f'first fifth of {options.seconds} s, {fitted["growth_mib"]:+.2f} MiB in all (flat is '
          f'<= {FLAT_MIB:g}): {"flat" if is_flat else "GROWS"}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
