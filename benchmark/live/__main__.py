"""
Three ways to use one server, on the same frames, with real ROS and a real Triton.

Arms: every client straight to a tuned Triton, with one and with eight requests in flight (the
better one of a point counts); newest-only clients with one in flight; the governor. Cells are
interleaved: every repeat plays all points, and at a point the arms take turns in who is first.
Each cell is judged by a consumer in ROS, from the stamps in the headers. See benchmark/README.md.
"""

import argparse
from collections.abc import Iterator, Sequence
import json
import os
from pathlib import Path
import shutil
import signal
import sys
import time
from typing import Any

from benchmark.common import conditions, isolate, ROOT, told
from benchmark.live import pictures, real_models, report, workloads
from benchmark.live.accelerator import Accelerator
from benchmark.live.calibration import calibrate
from benchmark.live.stage import Arm, Cell, SETTLING_NS, Stage, UNDER_WAY_NS
from benchmark.live.workloads import Point

from vig_core.errors import VigError
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.demo.processes import ChildDied

MAX_STREAMS = 4


def order(points: Sequence[Point], repeats: int, arms: Sequence[Arm]) -> Iterator[Cell]:
    """List the cells: the points in turn, at each all arms, another one first each time."""
    turn = 0
    for repeat in range(1, repeats + 1):
        for point in points:
            for step in range(len(arms)):
                yield Cell(point, arms[(turn + step) % len(arms)], repeat)
            turn += 1


class Bench:
    """One run; keeps what it has after every cell."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._folder: Path = options.output
        self._folder.mkdir(parents=True, exist_ok=True)
        self._end_s = time.monotonic() + options.limit_s
        self.results: dict[str, Any] = {
            'conditions': conditions(), 'seconds': options.seconds, 'repeats': options.repeats,
            'quick': options.quick, 'lead_ms': options.lead_ms, 'cells': []}

    def run(self) -> None:
        """Play everything that fits into the time limit."""
        environment = {**isolate(), 'PYTHONPATH': os.pathsep.join(
            [str(ROOT), os.environ.get('PYTHONPATH', '')])}
        found = workloads.scenarios()
        models = workloads.models_of(found)
        print(f'starting Triton with {len(models)} models ...', flush=True)
        with Accelerator(self._folder, models, grpc_port=self._options.grpc_port) as server:
            calibration = calibrate(server, models, _say,
                                    samples=self._options.profile_samples)
            self.results['calibration'] = calibration.as_json()
            points = workloads.points(
                found, calibration.measured, calibration.turnaround_ns,
                duration_ns=SETTLING_NS + round(self._options.seconds * NS_PER_S),
                is_quick=self._options.quick)
            points = chosen(points, self._options.only)
            self._play(list(order(points, self._options.repeats, self._options.arms)), server,
                       environment)
        if not self._options.only or real_models.POINT in self._options.only:
            self._play_real_models(environment)

    def _play(self, cells: Sequence[Cell], server: Accelerator,
              environment: dict[str, str]) -> None:
        stage: Stage | None = None
        try:
            for number, cell in enumerate(cells):
                if time.monotonic() > self._end_s:
                    self._keep(_of(cell, 'incomplete', 'the time limit was reached'))
                    continue
                began_s = time.monotonic()
                try:
                    if stage is None:
                        stage = Stage(self._folder, server, environment,
                                      streams=MAX_STREAMS, seconds=self._options.seconds,
                                      lead_ns=round(self._options.lead_ms * NS_PER_MS))
                    result = stage.play(cell)
                except VigError as error:
                    result = _of(cell, 'broken', str(error))
                    if stage is not None:
                        stage.__exit__()
                        stage = None
                    if not isinstance(error, ChildDied) and not server.server.is_running:
                        raise
                result['took_s'] = round(time.monotonic() - began_s, 1)
                self._keep(result)
                _say(f'{number + 1:3}/{len(cells)} {report.line(result)}')
        finally:
            if stage is not None:
                stage.__exit__()

    def _play_real_models(self, environment: dict[str, str]) -> None:
        arms = real_models.ARMS
        played = [(arms[(turn + step) % len(arms)], turn + 1)
                  for turn in range(self._options.repeats) for step in range(len(arms))]
        try:
            with real_models.stage(
                    self._folder / 'real_models', environment, seconds=self._options.seconds,
                    grpc_port=self._options.grpc_port, say=_say,
                    samples=self._options.profile_samples // 2) as play:
                for arm, repeat in played:
                    try:
                        result = (play(arm, repeat) if time.monotonic() <= self._end_s else
                                  _unplayed(real_models.POINT, 0, arm, repeat, 'incomplete',
                                            'the time limit was reached'))
                    except ChildDied as error:
                        result = _unplayed(real_models.POINT, 0, arm, repeat, 'broken',
                                           str(error))
                    self._keep(result)
                    _say(f'        {report.line(result)}')
        except VigError as error:
            self._keep(_unplayed(real_models.POINT, 0, Arm.GOVERNOR, 1, 'broken', str(error)))
            _say(f'        the real models were not played: {error}')

    def _keep(self, result: dict[str, Any]) -> None:
        raw = result.pop('raw', None)
        if raw is not None:
            name = f'{result["point"]}-{result["arm"]}-{result["repeat"]}.json'
            result['raw'] = name.replace(',', '').replace(' ', '_')
            (self._folder / 'cells' / result['raw']).write_text(json.dumps(raw),
                                                                encoding='utf-8')
        self.results['cells'].append(result)
        report.write(self._folder, self.results)


def _of(cell: Cell, status: str, reason: str) -> dict[str, Any]:
    return _unplayed(cell.point.label, cell.point.load_permille, cell.arm, cell.repeat, status,
                     reason)


def _unplayed(point: str, load_permille: int, arm: Arm, repeat: int, status: str,
              reason: str) -> dict[str, Any]:
    return {'point': point, 'load_permille': load_permille, 'arm': arm.value, 'repeat': repeat,
            'status': status, 'reasons': [reason], 'streams': {}}


def _say(line: str) -> None:
    print(line, flush=True)


def _publish(folder: Path, drawn: Sequence[Path]) -> None:
    """Copy what is committed: the raw figures beside this benchmark, the pictures to docs."""
    for source, target in (
            *((folder / name, ROOT / 'benchmark' / f'live-{name}')
              for name in ('report.txt', 'results.json')),
            *((picture, ROOT / 'docs' / 'images' / f'live-{picture.name}')
              for picture in drawn)):
        shutil.copyfile(source, target)
        print(f'wrote {target.relative_to(ROOT)}')


def chosen(points: Sequence[Any], only: Sequence[str]) -> list[Any]:
    """
    Give the points of these labels, all if there are none.

    :raises VigError: a label is none of a point; names those that there are.
    """
    labels = [point.label for point in points]
    for label in only:
        if label not in (*labels, real_models.POINT):
            raise VigError(f'--only {label}: no such point; there are '
                           f'{", ".join([*labels, real_models.POINT])}')
    return [point for point in points if not only or point.label in only]


def main() -> int:
    """Run, print, write; 1 if it could not be measured, 130 if it was interrupted."""
    quick = os.environ.get('QUICK', '') not in ('', '0')
    parser = argparse.ArgumentParser(prog='python -m benchmark.live', description=__doc__)
    parser.add_argument('--seconds', type=float, default=4.0 if quick else 5.0,
                        help='judged in each cell (default: %(default)s)')
    parser.add_argument('--repeats', type=int, default=1 if quick else 3)
    parser.add_argument('--profile-samples', type=int, default=10 if quick else 20)
    parser.add_argument('--limit-s', type=float, default=300.0 if quick else 1800.0,
                        help='no cell begins after it (default: %(default)s)')
    parser.add_argument('--only', action='append', default=[], metavar='POINT',
                        help='play only this point, such as ramp-110; may be repeated')
    parser.add_argument('--plain', action='store_true',
                        help='one more arm: the governor without pipelining_lead_ms')
    parser.add_argument('--lead-ms', type=float, default=UNDER_WAY_NS / NS_PER_MS,
                        help="the governor's pipelining_lead_ms (default: %(default)s)")
    parser.add_argument('--publish', action='store_true',
                        help='copy report and figures to benchmark/, pictures to docs/images/')
    parser.add_argument('--grpc-port', type=int, default=0)
    parser.add_argument('--output', type=Path, default=Path('build/bench-live'))
    options = parser.parse_args()
    options.quick = quick
    options.arms = [arm for arm in Arm if options.plain or arm is not Arm.PLAIN]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    bench, code = Bench(options), 0
    print(told(bench.results['conditions']), flush=True)
    try:
        bench.run()
    except VigError as error:
        print(f'bench-live: {error}', file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print('bench-live: interrupted; what was measured until now follows')
        code = 130
    bench.results['conditions']['load_1min_after'] = conditions()['load_1min']
    report.write(options.output, bench.results)
    print(report.text(bench.results))
    drawn = pictures.draw(options.output, bench.results)
    print(f'JSON, report and {len(drawn)} pictures in {options.output}')
    if options.publish and not code:
        _publish(options.output, drawn)
    return code


if __name__ == '__main__':
    sys.exit(main())
