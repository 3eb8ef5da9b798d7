"""
See in half an hour of a hard life whether anything grows.

A real server with three models on one slot that is offered 90 % of what it can do, and 150 % for
ten seconds of every minute; every fifth minute the server is restarted, by turns with a farewell
and without. Each second: resident memory, threads, open files and names in /dev/shm of the node,
regions registered at the server, safety margins, and how requests ended.

Passes if every frame got exactly one status and nothing has grown after the first fifth of the
time: the medians of the second and of the last fifth are compared. Draws everything to
``build/soak/soak.png`` and writes ``result.json``. ``SOAK_MINUTES`` in the environment shortens or
prolongs it; the restarts keep their share of the time, thirty minutes have six periods.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
import json
import os
from pathlib import Path
import signal
import statistics
import sys
import threading
import time
from typing import Any

from benchmark.common import conditions, isolate, ROOT, told

import matplotlib

isolate()
matplotlib.use('Agg')
from benchmark.faults.runner import plain_ends  # noqa: E402, I100 (the environment comes first)
from benchmark.faults.staging import Footprint  # noqa: E402
from benchmark.faults.world import World  # noqa: E402
from matplotlib import pyplot  # noqa: E402, I100, I202
import tritonclient.grpc as triton  # noqa: E402

STREAMS = {'fast': ('sleeper', 38), 'middle': ('sleeper', 95), 'heavy': ('sleeper', 195)}
RATES_HZ = {'fast': 10.0, 'middle': 3.0, 'heavy': 1.1}
BURST = 150 / 90
BURST_S, BURST_EVERY_S = 10.0, 60.0
PERIODS = 6
SIZE = {'width': 320, 'height': 240}
MIB_MORE, THREADS_MORE, FILES_MORE, POINTS_MORE = 6.0, 2, 3, 25.0


class Cameras:
    """Publishes all streams at their rates on one thread, until ``stop``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stop = threading.Event()
        self.is_bursting = False
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Publish nothing more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        begin_s = time.monotonic()
        due_s = dict.fromkeys(RATES_HZ, begin_s)
        while not self._stop.is_set():
            now_s = time.monotonic()
            self.is_bursting = (now_s - begin_s) % BURST_EVERY_S >= BURST_EVERY_S - BURST_S
            for stream, rate_hz in RATES_HZ.items():
                if now_s >= due_s[stream]:
                    self._world.publish(stream, **SIZE)
                    period_s = 1 / (rate_hz * (BURST if self.is_bursting else 1.0))
                    due_s[stream] = max(due_s[stream] + period_s, now_s)
            self._stop.wait(max(0.0, min(due_s.values()) - time.monotonic()))


def sample(world: World, client: Any, begin_s: float) -> dict[str, float]:
    """Look at everything once."""
    seen = Footprint(world.pid)
    found: dict[str, float] = {
        't_s': round(time.monotonic() - begin_s, 2), 'rss_mib': round(seen.rss_mib, 3),
        'threads': seen.threads, 'files': seen.files, 'names': seen.names,
        'ready': float(world.is_ready)}
    try:
        found['regions'] = len(client.get_system_shared_memory_status(client_timeout=0.5).regions)
    except triton.InferenceServerException:
        pass  # it is being restarted
    for stream, margin in world.margins.items():
        found[f'margin_{stream}'] = margin
    return found


def restart(world: World, number: int) -> None:
    """Restart the server, by turns with a farewell and without."""
    if number % 2:
        world.server.kill()
    else:
        world.server.stop()
    world.server.start()


def live(world: World, seconds: float) -> list[dict[str, float]]:
    """Let it live and give one sample a second."""
    samples: list[dict[str, float]] = []
    client = triton.InferenceServerClient(world.endpoint)
    cameras = Cameras(world)
    begin_s = time.monotonic()
    restarts: list[threading.Thread] = []
    cameras.start()
    try:
        while (now_s := time.monotonic() - begin_s) < seconds:
            if now_s >= (len(restarts) + 1) * seconds / PERIODS:
                restarts.append(threading.Thread(target=restart, args=(world, len(restarts))))
                restarts[-1].start()
            samples.append(sample(world, client, begin_s))
            time.sleep(max(0.0, begin_s + len(samples) - time.monotonic()))
    finally:
        cameras.stop()
        for thread in restarts:
            thread.join()
        client.close()
    return samples


def fifths(samples: Sequence[dict[str, float]], key: str) -> tuple[float, float]:
    """Give the medians of the second and of the last fifth of the time."""
    size = len(samples) // 5
    parts = (samples[size:2 * size], samples[-size:])
    second, last = (statistics.median(each[key] for each in part if key in each)
                    for part in parts)
    return second, last


def judge(samples: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Compare the fifths; ``growing`` names what is not flat."""
    limits = {'rss_mib': MIB_MORE, 'threads': THREADS_MORE, 'files': FILES_MORE, 'names': 0,
              'regions': 0, **{key: POINTS_MORE for key in samples[-1]
                               if key.startswith('margin_')}}
    found: dict[str, Any] = {'growing': []}
    for key, limit in limits.items():
        second, last = fifths(samples, key)
        found[key] = {'second_fifth': second, 'last_fifth': last, 'may_grow_by': limit}
        if last - second > limit:
            found['growing'].append(key)
    return found


def draw(samples: Sequence[dict[str, float]], path: Path) -> None:
    """Draw memory, counts and margins over time; where the node was not ready is shaded."""
    times = [each['t_s'] / 60 for each in samples]
    figure, (memory, counts, margins) = pyplot.subplots(3, 1, sharex=True, figsize=(10, 9))
    memory.plot(times, [each['rss_mib'] for each in samples])
    memory.set_ylabel('resident memory, MiB')
    memory.set_ylim(bottom=0)
    for key, label in (('threads', 'threads'), ('files', 'open files'),
                       ('names', 'names in /dev/shm'), ('regions', 'regions at the server')):
        points = [(time_min, each[key]) for time_min, each in zip(times, samples) if key in each]
        counts.plot(*zip(*points), label=label)
    counts.set_ylim(bottom=0)
    counts.legend(loc='center right')
    for stream in STREAMS:
        margins.plot(times, [each.get(f'margin_{stream}', float('nan')) for each in samples],
                     label=stream)
    margins.set_ylabel('safety margin, %')
    margins.set_xlabel('minutes')
    margins.legend(loc='upper right')
    for axis in (memory, counts, margins):
        for time_min, each in zip(times, samples):
            if not each['ready']:
                axis.axvspan(time_min, time_min + 1 / 60, color='tab:red', alpha=0.15, lw=0)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def main() -> int:
    """Live, judge, print; the exit code says whether it passed."""
    parser = argparse.ArgumentParser(prog='soak', description='See the module.')
    parser.add_argument('--minutes', type=float, default=os.environ.get('SOAK_MINUTES', '30'))
    parser.add_argument('--output', type=Path, default=ROOT / 'build' / 'soak')
    options = parser.parse_args()
    if options.minutes < 1:
        parser.error('less than one minute shows nothing')
    # As a Ctrl-C would: the world ends its node and its server.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    facts = conditions()
    ends: Counter[str] = Counter()
    problem = ''
    with World(options.output / 'world', STREAMS) as world:
        world.start_node()
        samples = live(world, options.minutes * 60)
        try:
            ends = world.check_accounts()
        except AssertionError as error:
            problem = str(error)
        if 'Traceback' in world.log:
            problem = f'{problem} a traceback in {options.output}/world'.strip()
    found = judge(samples)
    draw(samples, options.output / 'soak.png')
    (options.output / 'result.json').write_text(json.dumps(
        {'conditions': facts, 'minutes': options.minutes, 'ends': dict(ends), 'problem': problem,
         **found, 'samples': samples}, indent=1) + '\n', encoding='utf-8')
    print(f'{told(facts)}\n{options.minutes:g} minutes, {PERIODS - 1} restarts of the server: '
          f'{plain_ends(ends)}')
    for key, values in found.items():
        if key != 'growing':
            print(f'  {key:16} {values["second_fifth"]:8.1f} in the second fifth, '
                  f'{values["last_fifth"]:8.1f} in the last')
    if found['growing']:
        problem = f'{problem} grown: {", ".join(found["growing"])}'.strip()
    print(f'picture in {options.output}/soak.png; '
          f'{f"FAILED: {problem}" if problem else "flat, and every frame got one status"}')
    return 1 if problem else 0


if __name__ == '__main__':
    sys.exit(main())
