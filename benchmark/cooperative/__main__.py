"""
A language model beside a guarded camera on a real Triton; see benchmark/README.md.

Arms: every client straight to the server; the governor with each job in one piece; the governor
with its jobs cut into quanta. The server really runs one model at a time, or two.
"""

import argparse
from collections.abc import Callable
import json
import os
from pathlib import Path
import shutil
import signal
import sys
from typing import Any

from benchmark.common import conditions, isolate, ROOT
from benchmark.cooperative import picture, report
from benchmark.cooperative.record import judge, Outcome, Record
from benchmark.cooperative.stage import CAMERA, CONFIG, serve, WRITER

import numpy as np
from numpy.typing import NDArray

from vig_core.errors import VigError
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.demo.assets import AssetStore, DEFAULT_FOLDER
from vig_governor.triton_server import TritonServer

ARMS = ('direct', 'whole', 'cut')
MAX_TOKENS = 24
RATES_HZ = (5.0, 10.0, 15.0, 20.0, 30.0)
CELLS, QUICK_CELLS = {1: (2, 4), 2: (4,)}, {1: (4,), 2: (4,)}
"""
By slots, how many periods of the camera the longest answer takes in one piece, at least.

So the camera is as fast as the machine makes it a problem: at a fixed rate a text that fits
between two frames of a slow camera, or is written in less than two, need not be cut.
"""

QUESTIONS = 2
"""In hand. The server has one instance of the writer, and with two slots the second one waits."""

DEADLINE, MAX_AGE = 0.8, 1.5
"""Of the camera, in periods: a frame that is late misses its cycle, one that fails two."""


def play(arm: str, slots: int, rate_hz: float, server: TritonServer, costs: Any,
         options: argparse.Namespace, frame: NDArray[np.uint8]) -> Outcome:
    """Play one arm and judge it."""
    from benchmark.cooperative.arms import direct, governed, Grid
    period_ns = round(NS_PER_S / rate_hz)
    record, grid = Record(), Grid(period_ns, options.seconds)
    if arm == 'direct':
        direct(server.grpc_endpoint, frame, (CAMERA, WRITER), MAX_TOKENS,
               QUESTIONS, grid, record)
    else:
        config = options.output / f'{arm}_{slots}_{rate_hz:g}hz.yaml'
        period_ms = period_ns / NS_PER_MS
        config.write_text(CONFIG.format(
            endpoint=server.grpc_endpoint, slots=slots, camera=CAMERA, writer=WRITER,
            period_ms=period_ms, deadline_ms=DEADLINE * period_ms, age_ms=MAX_AGE * period_ms,
            max_tokens=MAX_TOKENS, split=str(arm == 'cut').lower(),
            interference=costs.interference(), **costs.figures()), encoding='utf-8')
        governed(config, frame, QUESTIONS, grid, record)
    return judge(record, arm, slots, rate_hz, grid.window, round(MAX_AGE * period_ns))


def rate_of(periods: int, whole_us: float) -> float:
    """Give the lowest rate at which so long a text takes so many periods, or the highest."""
    return next((rate for rate in RATES_HZ if whole_us * rate >= 1e6 * periods), RATES_HZ[-1])


def run(options: argparse.Namespace, results: dict[str, Any], say: Callable[[str], None]) -> None:
    """
    Play all arms; one server for each number of slots.

    :raises VigError: says what is missing or went wrong.
    """
    from benchmark.cooperative.costs import measure
    store = AssetStore(DEFAULT_FOLDER)
    frame = np.random.default_rng(1).integers(0, 255, (240, 320, 3), np.uint8)
    for slots, periods in options.cells.items():
        with serve(options.output, store, slots) as server:
            costs = measure(server.grpc_endpoint, frame, slots, 3 if options.quick else 5)
            results['costs'][slots] = costs.as_json()
            whole_us = costs.whole_us(MAX_TOKENS)
            for rate_hz in sorted({rate_of(count, whole_us) for count in periods}):
                for arm in ARMS:
                    outcome = play(arm, slots, rate_hz, server, costs, options, frame)
                    say(f'{slots} slots, {rate_hz:g} Hz, {arm}: {outcome.coverage:.1f} % '
                        f'coverage, {outcome.answers} answers')
                    results['arms'].append(outcome.as_json())


def publish(folder: Path, root: Path) -> None:
    """Copy what is committed: the report beside this benchmark, the picture to docs."""
    for name, target in (('report.txt', 'benchmark/cooperative-report.txt'),
                         ('answers.png', 'docs/images/cooperative-answers.png')):
        shutil.copyfile(folder / name, root / target)
        print(f'wrote {target}')


def main() -> int:
    """Run all arms; bounded by their seconds."""
    quick = os.environ.get('QUICK', '') not in ('', '0')
    parser = argparse.ArgumentParser(prog='python -m benchmark.cooperative')
    parser.add_argument('--seconds', type=float, default=8 if quick else 30,
                        help='judged in each arm (default: %(default)s)')
    parser.add_argument('--publish', action='store_true',
                        help='copy the report to benchmark/, the picture to docs/images/')
    parser.add_argument('--output', type=Path, default=ROOT / 'build' / 'bench-cooperative')
    options = parser.parse_args()
    options.quick, options.cells = quick, QUICK_CELLS if quick else CELLS
    options.output.mkdir(parents=True, exist_ok=True)
    isolate()
    import rclpy
    from rclpy.signals import SignalHandlerOptions
    results: dict[str, Any] = {
        'conditions': conditions(), 'seconds': options.seconds, 'max_tokens': MAX_TOKENS,
        'camera': CAMERA, 'writer': WRITER, 'costs': {}, 'arms': []}
    # An interrupted arm ends its node and its server first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    try:
        run(options, results, lambda line: print(line, flush=True))
    except VigError as error:
        print(f'bench-cooperative: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('bench-cooperative: interrupted; no report is written', file=sys.stderr)
        return 130
    finally:
        rclpy.try_shutdown()
    text = report.text(results)
    (options.output / 'results.json').write_text(json.dumps(results, indent=1) + '\n',
                                                 encoding='utf-8')
    (options.output / 'report.txt').write_text(text, encoding='utf-8')
    picture.draw(options.output / 'answers.png', results)
    print(f'\n{text}')
    if options.publish:
        publish(options.output, ROOT)
    return 0


if __name__ == '__main__':
    sys.exit(main())
