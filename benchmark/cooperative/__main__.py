"""
A language model beside a guarded camera on a real Triton; see benchmark/README.md.

Arms: every client straight to the server; the governor with each job in one piece; the governor
with its jobs cut into quanta. With one slot the models share one core, with two they have two.
"""

import argparse
from collections.abc import Callable
import json
import os
from pathlib import Path
import statistics
import sys
import threading
import time
from typing import Any

from benchmark.common import conditions, isolate, ROOT, told
from benchmark.cooperative.record import judge, Outcome, Record

import numpy as np
from numpy.typing import NDArray

from vig_core.errors import VigError
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.backend.base import Answered
from vig_governor.backend.triton import TritonBackend
from vig_governor.demo.assets import AssetStore, DEFAULT_FOLDER
from vig_governor.demo.repository import write_repository
from vig_governor.demo.server import pin_models, split_cores
from vig_governor.triton_server import TritonServer

CAMERA, WRITER = 'face_full', 'smollm2_q4'
MAX_TOKENS = 24
SAMPLES = 9
CONFIG = """\
version: 1
backend: {{grpc_endpoint: "{endpoint}", slots: {slots}, drain_deadline_s: 2}}
models:
  detector:
    class: protected
    queue: {{policy: latest, capacity: 1}}
    contract: {{period_ms: {period}, deadline_ms: {deadline}, max_age_ms: {max_age}}}
    variants:
      - id: only
        backend_model: {camera}
        profile: {{p50_us: {camera_p50}, p99_us: {camera_p99}}}
  writer:
    class: best_effort
    queue: {{policy: fifo, capacity: 4}}
    contract: {{deadline_ms: 30000, max_age_ms: 60000}}
    cooperative:
      tokens_per_second: {rate:.2f}
      base_cost_us: {base}
      min_tokens: 1
      max_total_tokens: {tokens}
      tokens_tensor: TOKENS
      end_tensor: END
      split: {split}
    variants:
      - id: only
        backend_model: {writer}
        profile: {{p50_us: {whole}, p99_us: {whole_p99}}}
streams:
  camera: {{topic: /camera, type: sensor_msgs/msg/Image, model: detector,
           input: {{tensor: IMAGE, encoder: image, layout: HWC, dtype: UINT8}}}}
  questions: {{topic: /ask, type: std_msgs/msg/String, model: writer, time_source: arrival}}
"""


class Meter:
    """Times single requests on a server that nobody else uses."""

    def __init__(self, endpoint: str) -> None:
        self._backend = TritonBackend(endpoint)
        self._backend.connect(timeout_s=10)
        self._backend.open_stream('meter', slots=1, transport='copy')

    def camera_us(self, frame: NDArray[np.uint8]) -> list[int]:
        """Time the camera's model, in rising order."""
        return sorted(self._time(CAMERA, lambda slot: slot.allocate(
            'IMAGE', frame.shape, 'UINT8').__setitem__(..., frame)) for _ in range(4 * SAMPLES))

    def writer_us(self, tokens: int) -> float:
        """Time the first quantum of a new prompt, median."""
        from benchmark.cooperative.arms import PROMPT

        def fill(slot: Any, number: int) -> None:
            # Another first word each time, so that the prefix cache does not know it.
            slot.put_bytes('PROMPT', (1,), [f'{number} {PROMPT}'.encode()])
            slot.allocate('MAX_TOKENS', (1,), 'INT32')[...] = tokens

        return statistics.median(self._time(WRITER, lambda slot, n=number: fill(slot, n))
                                 for number in range(SAMPLES))

    def close(self) -> None:
        """End the connection."""
        self._backend.close()

    def _time(self, model: str, fill: Callable[[Any], None]) -> int:
        slot, done, answers = self._backend.acquire('meter', 1), threading.Event(), []
        fill(slot)
        begin_ns = time.monotonic_ns()
        self._backend.infer(1, model, slot, lambda answer: (answers.append(answer), done.set()))
        if not done.wait(60) or not isinstance(answers[0], Answered):
            raise VigError(f'{model} could not be measured: {answers}')
        self._backend.release(1)
        return (time.monotonic_ns() - begin_ns) // 1000


def measure(endpoint: str, frame: NDArray[np.uint8]) -> dict[str, float]:
    """Measure what the governor plans with."""
    meter = Meter(endpoint)
    for tokens in (1, MAX_TOKENS):
        meter.writer_us(tokens)
    camera = meter.camera_us(frame)
    one, many = meter.writer_us(1), meter.writer_us(MAX_TOKENS)
    meter.close()
    per_token = (many - one) / (MAX_TOKENS - 1)
    return {'camera_p50': camera[len(camera) // 2], 'camera_p99': camera[-1],
            'rate': 1e6 / per_token, 'base': max(0, round(one - per_token)),
            'whole': round(many), 'whole_p99': round(1.2 * many)}


def play(arm: str, slots: int, server: TritonServer, costs: dict[str, float], folder: Path,
         options: argparse.Namespace, frame: NDArray[np.uint8]) -> Outcome:
    """Play one arm and judge it."""
    from benchmark.cooperative.arms import direct, governed, Grid
    period_ns = round(NS_PER_S / options.rate_hz)
    period = period_ns / NS_PER_MS
    record, grid = Record(), Grid(period_ns, options.seconds + 3)
    if arm == 'direct':
        direct(server.grpc_endpoint, frame, (CAMERA, WRITER), MAX_TOKENS, grid, record)
    else:
        config = folder / f'{arm}_{slots}.yaml'
        config.write_text(CONFIG.format(
            endpoint=server.grpc_endpoint, slots=slots, period=period, deadline=period,
            max_age=1.5 * period, camera=CAMERA, writer=WRITER, tokens=MAX_TOKENS,
            split='true' if arm == 'cut' else 'false', **costs), encoding='utf-8')
        grid = Grid(period_ns, options.seconds + 3)
        governed(config, frame, grid, record)
    # The first two seconds settle: the forecast needs frames, the models their caches.
    return judge(record, arm, slots, grid.begin_ns + 2 * NS_PER_S,
                 grid.end_ns - NS_PER_S, period_ns, round(1.5 * period_ns))


def report(results: dict[str, Any]) -> str:
    """Write the table and what it means."""
    costs, arms = results['costs'], [Outcome(**one) for one in results['arms']]
    lines = [told(results['conditions']),
             f'camera {CAMERA} at {results["rate_hz"]:g} Hz (p50 {costs["camera_p50"] / 1000:.1f} '
             f'ms), {WRITER} with answers of {MAX_TOKENS} tokens: {1000 / costs["rate"]:.1f} ms a '
             f'token, {costs["base"] / 1000:.1f} ms a request, whole {costs["whole"] / 1000:.0f} '
             f'ms; {results["seconds"]:g} s for each arm', '',
             'arm      slots  coverage  longest gap  answers  refused  tokens  quanta']
    for one in arms:
        lines.append(f'{one.arm:8} {one.slots:5} {one.coverage:8.1f} % {one.longest_gap_ms:9.0f} '
                     f'ms {one.answers:8} {one.refused:8} {one.tokens:7} {one.quanta:7}')
    for slots in sorted({one.slots for one in arms}):
        by_arm = {one.arm: one for one in arms if one.slots == slots}
        if {'whole', 'cut'} <= set(by_arm):
            cut, whole = by_arm['cut'], by_arm['whole']
            added = max(0, cut.quanta - cut.answers) * costs['base']
            share = 100 * added / max(1, cut.answers * costs['whole'])
            lines.append(f'{slots} slot{"s" if slots > 1 else ""}: cut {cut.answers} answers, '
                         f'whole {whole.answers}, for {whole.coverage - cut.coverage:+.1f} points '
                         f'of coverage; requests more than whole cost {share:.1f} % of the work')
    return '\n'.join(lines) + '\n'


def main() -> int:
    """Run all arms; bounded by their seconds."""
    parser = argparse.ArgumentParser(prog='python -m benchmark.cooperative')
    quick = bool(os.environ.get('QUICK'))
    parser.add_argument('--seconds', type=float, default=8 if quick else 30)
    parser.add_argument('--rate-hz', type=float, default=5.0)
    parser.add_argument('--output', type=Path, default=ROOT / 'build' / 'bench-cooperative')
    options = parser.parse_args()
    isolate()
    import rclpy
    store, folder = AssetStore(DEFAULT_FOLDER), options.output
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    frame = rng.integers(0, 255, (240, 320, 3), np.uint8)
    results: dict[str, Any] = {'conditions': conditions(), 'seconds': options.seconds,
                               'rate_hz': options.rate_hz, 'arms': []}
    rclpy.init()
    try:
        environment = write_repository(folder / 'model_repository', store, [CAMERA, WRITER])
        with TritonServer(folder / 'model_repository', environment=environment,
                          log=folder / 'triton.log') as server:
            for slots in (1, 2):
                pin_models(server.pid, split_cores()[0] if slots == 1 else
                           set(os.sched_getaffinity(0)))
                if slots == 1:
                    results['costs'] = measure(server.grpc_endpoint, frame)
                for arm in ('direct', 'whole', 'cut'):
                    outcome = play(arm, slots, server, results['costs'], folder, options, frame)
                    print(f'{arm} with {slots} slots: {outcome.coverage:.1f} % coverage, '
                          f'{outcome.answers} answers', flush=True)
                    results['arms'].append(outcome.as_json())
    except VigError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        rclpy.try_shutdown()
    (folder / 'results.json').write_text(json.dumps(results, indent=1) + '\n', encoding='utf-8')
    text = report(results)
    (folder / 'report.txt').write_text(text, encoding='utf-8')
    print(f'\n{text}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
