"""
The node's share of a core under three cameras of 640x480 at 30 Hz, by thread.

The real node process between a real Triton, whose model sleeps, and one process that publishes
the frames; with ``--lend`` where they lie. Statuses and results have one reader each. Processor
time comes from ``/proc/<pid>/task/*/schedstat``, so other programs on the machine disturb it less
than they disturb latencies. With ``--against FOLDER`` the node of another checkout runs the same
load by turns. The exit code is 0 wherever the measurement succeeded.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
import json
import os
from pathlib import Path
import re
import statistics
import sys
import time
from typing import Any

from bench_memory import Ends, spin_until

from common import (conditions, config_text, IMAGES, isolate, model_repository, REFERENCES, ROOT,
                    told)

import rclpy

from vig.msg import InferenceResult

from vig_governor.demo.processes import Processes
from vig_governor.triton_server import TritonServer

AIM_PERCENT = 15.0
SETTLING_S = 3.0
KINDS = (('vig-actor', 'actor: decisions, messages, publishing'),
         ('vig-dispatch', 'senders: copy to shared memory, call'),
         ('dds', 'middleware'))
OTHERS = 'gRPC and others'


def cpu_by_thread(pid: int) -> Counter[str]:
    """Give the processor time in s that each kind of thread of a process has used."""
    used: Counter[str] = Counter()
    for task in Path(f'/proc/{pid}/task').iterdir():
        try:
            name = (task / 'comm').read_text(encoding='utf-8').strip()
            spent_s = int((task / 'schedstat').read_text(encoding='utf-8').split()[0]) / 1e9
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if int(task.name) == pid:
            kind = 'executor: taking messages, callbacks'
        else:
            kind = next((text for start, text in KINDS if name.startswith(start)), OTHERS)
        used[kind] += spent_s
    return used


def faults_of(pid: int) -> int:
    """Count the page faults of a process that needed no disk."""
    stat = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8')
    return int(stat.rpartition(')')[2].split()[7])


def measure_share(endpoint: str, folder: Path, *, seconds: float, runtime_ms: float,
                  rate_hz: float = 30.0, size: tuple[int, int] = (640, 480),
                  checkouts: Sequence[Path] = (ROOT,), rounds: int = 1, lends: bool = False,
                  http_endpoint: str = '') -> dict[str, list[dict[str, Any]]]:
    """
    Run the load ``rounds`` times for each checkout, by turns; rclpy must be initialised.

    :param http_endpoint: over which inferences travel; empty for gRPC.
    """
    seen: dict[str, list[dict[str, Any]]] = {str(each): [] for each in checkouts}
    for number in range(rounds):
        for checkout in checkouts if number % 2 == 0 else checkouts[::-1]:
            seen[str(checkout)].append(_run(endpoint, folder, checkout, seconds, runtime_ms,
                                            rate_hz, size, lends, http_endpoint))
    return seen


def _run(endpoint: str, folder: Path, checkout: Path, seconds: float, runtime_ms: float,
         rate_hz: float, size: tuple[int, int], lends: bool,
         http_endpoint: str) -> dict[str, Any]:
    streams = [(f'camera_{number}', f'/share/camera_{number}', f'model_{number}')
               for number in range(3)]
    topics = [topic for _, topic, _ in streams]
    node = rclpy.create_node('bench_share')
    ends = Ends(node, topics)
    for topic in topics:
        node.create_subscription(InferenceResult, f'{topic}/vig/result', lambda _: None, 1)
    config = folder / 'share.yaml'
    config.write_text(config_text(endpoint, streams, runtime_ms=runtime_ms,
                                  kind=REFERENCES if lends else IMAGES,
                                  http_endpoint=http_endpoint))
    path = os.pathsep.join([str(checkout), os.environ.get('PYTHONPATH', '')])
    try:
        with Processes(folder, {'PYTHONPATH': path, 'PYTHONSAFEPATH': '1'}) as processes:
            governor = processes.start('governor_share', [
                sys.executable, '-m', 'vig_governor.node', '--ros-args',
                '-p', f'config:={config}', '-p', 'autostart:=true'])
            processes.start('cameras_share', [
                sys.executable, str(ROOT / 'benchmark' / 'frame_source.py'),
                *topics, '--rate', str(rate_hz), '--width', str(size[0]),
                '--height', str(size[1]), *(['--lend', 'IMAGE'] if lends else [])])
            pid = governor.pid
            spin_until(node, lambda: bool(ends.count['completed']), processes, 30.0)
            _spin_for(node, processes, SETTLING_S)
            before, faults, ended = cpu_by_thread(pid), faults_of(pid), Counter(ends.count)
            began_s = time.monotonic()
            _spin_for(node, processes, seconds)
            lasted_s = time.monotonic() - began_s
            used = cpu_by_thread(pid)
            used.subtract(before)
            ends.count.subtract(ended)
            answered = max(1, ends.count['completed'])
            return {
                'percent': {kind: 100 * spent_s / lasted_s for kind, spent_s in used.items()},
                'total_percent': 100 * sum(used.values()) / lasted_s,
                'us_per_answer': 1e6 * sum(used.values()) / answered,
                'faults_per_answer': (faults_of(pid) - faults) / answered,
                'rss_mib': _resident_mib(pid),
                'ends_per_s': {reason: count / lasted_s for reason, count in ends.count.items()
                               if count}}
    finally:
        node.destroy_node()


def _spin_for(node: Any, processes: Processes, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    spin_until(node, lambda: time.monotonic() >= end_s, processes, seconds + 5)


def _resident_mib(pid: int) -> float:
    status = Path(f'/proc/{pid}/status').read_text(encoding='utf-8')
    found = re.search(r'VmRSS:\s+(\d+) kB', status)
    return int(found[1]) / 1024 if found else 0.0


def share_table(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Write the median over the runs, one line for each kind of thread."""
    kinds = sorted({kind for run in runs for kind in run['percent']},
                   key=lambda kind: (kind == OTHERS, kind))
    for kind in kinds:
        yield (f'  {kind:40s} '
               f'{statistics.median(run["percent"].get(kind, 0.0) for run in runs):6.1f} %')
    ends = ', '.join(
        f'{statistics.median(run["ends_per_s"].get(reason, 0.0) for run in runs):.1f} {reason}'
        for reason in sorted({reason for run in runs for reason in run['ends_per_s']}))
    for name, key, unit in (('all threads', 'total_percent', '% of one core'),
                            ('for each answered frame', 'us_per_answer', 'us'),
                            ('page faults for each', 'faults_per_answer', ''),
                            ('resident memory', 'rss_mib', 'MiB')):
        values = sorted(run[key] for run in runs)
        yield (f'  {name:40s} {statistics.median(values):6.1f} {unit} '
               f'({values[0]:.1f} to {values[-1]:.1f})')
    yield f'  requests per second: {ends}'


def verdict(runs: Sequence[dict[str, Any]]) -> str:
    """Say whether the aim was met."""
    percent = statistics.median(run['total_percent'] for run in runs)
    return (f'the node takes {percent:.1f} % of one core for three 30 Hz streams of 640x480: aim '
            f'below {AIM_PERCENT:g} % {"met" if percent < AIM_PERCENT else "missed"}')


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog='bench_share', description='See the module.')
    quick = bool(os.environ.get('QUICK'))
    parser.add_argument('--seconds', type=float, default=10.0 if quick else 20.0)
    parser.add_argument('--rounds', type=int, default=1 if quick else 3)
    parser.add_argument('--runtime-ms', type=float, default=8.0, help='of the model')
    parser.add_argument('--rate', type=float, default=30.0)
    parser.add_argument('--size', type=int, nargs=2, default=(640, 480))
    parser.add_argument('--lend', action='store_true',
                        help='cameras that publish where their frames lie')
    parser.add_argument('--grpc', action='store_true',
                        help='inferences over gRPC instead of HTTP')
    parser.add_argument('--against', type=Path, action='append', default=[],
                        help='another checkout, by turns')
    parser.add_argument('--grpc-port', type=int, default=0)
    parser.add_argument('--output', type=Path, default=Path('build/bench-path'))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    isolate()
    facts = conditions()
    rclpy.init(args=[])
    try:
        with TritonServer(model_repository(options.output, options.runtime_ms),
                          grpc_port=options.grpc_port,
                          log=options.output / 'triton.log') as server:
            seen = measure_share(
                server.grpc_endpoint, options.output, seconds=options.seconds,
                runtime_ms=options.runtime_ms, rate_hz=options.rate, rounds=options.rounds,
                size=tuple(options.size), lends=options.lend,
                http_endpoint='' if options.grpc else server.http_endpoint,
                checkouts=[ROOT, *(each.resolve() for each in options.against)])
    finally:
        rclpy.shutdown()
    (options.output / ('share_lent.json' if options.lend else 'share.json')).write_text(json.dumps(
        {'conditions': facts, 'runs': seen}, indent=1) + '\n')
    for checkout, runs in seen.items():
        print(checkout)
        print('\n'.join(share_table(runs)))
    print(f'{told(facts)} before and {conditions()["load_1min"]} after')
    print(verdict(seen[str(ROOT)]))
    return 0


if __name__ == '__main__':
    sys.exit(main())
