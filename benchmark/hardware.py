"""
What the governor knows of its hardware, shown on the demo's own models: ``make show-hardware``.

Three models of the demo on a real Triton, whose processes share one core, two slots: measure
everything, look with ``vig doctor``, let the real node plan; then exchange the weights of one
model under the same version number, later its instance groups, and look again. Prints each
command with its output. Exit code 1 where something that must be told is not told. ``QUICK=1``
measures one run instead of three.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
import json
import os
from pathlib import Path
import shlex
import shutil
import subprocess
import sys
from typing import Any

from common import conditions, isolate, ROOT, told

import numpy as np

from vig_governor.demo.assets import AssetStore
from vig_governor.demo.camera import frames
from vig_governor.demo.cameras import camera_command
from vig_governor.demo.contract import INPUT, render
from vig_governor.demo.plan import choose, DemoPlan
from vig_governor.demo.processes import Processes
from vig_governor.demo.profiles import measure_plan
from vig_governor.demo.server import serve

ASSETS = ROOT / '.vig' / 'models'
FOLDER = ROOT / 'build' / 'show-hardware'
FRAMES = 40
CAMERA_S = 60.0
EXCHANGED, BY = 'pose_full', 'pose_landmark_lite.tflite'


def main() -> int:
    """Show everything."""
    environment = isolate()
    os.environ['PYTHONUNBUFFERED'] = '1'
    os.environ.setdefault('VIG_TRITON_VENV', str(ROOT / '.vig' / 'triton'))
    print(told(conditions()))
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.chdir(FOLDER)
    store = AssetStore(ASSETS)
    plan = plan_of(store)
    with serve(plan, store, FOLDER) as server:
        profiles = measure_plan(plan, ASSETS, server.grpc_endpoint, lambda line: None)
        write_file(render(plan, profiles, server.grpc_endpoint))
        data = write_frames(plan)
        samples = ['--runs', '1', '--samples', '100'] if os.environ.get('QUICK') else []
        told_before = call('vig', 'calibrate', '-c', 'vig.yaml', '-o', 'measured.yaml', '--force',
                           *samples, *data)
        doctor()
        before = seen_by_node(plan, environment)
        with exchanged_weights():
            weights = doctor('the weights of pose_full are those of pose_lite, still version 1')
            after = seen_by_node(plan, environment)
        server.stop()
        with two_instances():
            server.start()
            instances = doctor('two instances of pose_full, the server started anew')
    return judged(told_before, weights, instances, before, after)


def plan_of(store: AssetStore) -> DemoPlan:
    """Take the demo's first two cameras, each with the variants that two slots can alternate."""
    face, pose, *_ = choose(store).streams
    return DemoPlan((face, replace(pose, variants=tuple(
        variant for variant in pose.variants if variant.backend_model == EXCHANGED))), ())


def write_file(text: str) -> None:
    """Write the demo's file for two slots and with the model repository."""
    changed = text.replace('  slots: 1\n', '  slots: 2\n  model_repository: model_repository\n')
    assert changed != text
    Path('vig.yaml').write_text(changed, encoding='utf-8')


def write_frames(plan: DemoPlan) -> list[str]:
    """Write what the cameras see, and name it as the command wants it."""
    options = []
    for stream in plan.streams:
        images = [image for _, image in islice(frames(ASSETS / stream.video, stream.size),
                                               FRAMES)]
        np.savez(f'{stream.name}.npz', **{INPUT: np.stack(images)})
        options += ['--data', f'{stream.name}={stream.name}.npz']
    return options


def call(*command: str) -> str:
    """Run a command, print it and what it says."""
    print(f'\n$ {shlex.join(command)}', flush=True)
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    print(answer, end='', flush=True)
    return answer


def doctor(title: str = '') -> str:
    """Look at the measured file; after the first time, print what concerns the manifest."""
    if not title:
        return call('vig', 'doctor', '-c', 'measured.yaml', '--no-ros')
    print(f'\n# {title}\n$ vig doctor -c measured.yaml --no-ros   # check D10 and the result')
    answer = subprocess.run(['vig', 'doctor', '-c', 'measured.yaml', '--no-ros'], check=False,
                            stdout=subprocess.PIPE, text=True).stdout
    is_shown = False
    for line in answer.splitlines():
        if not line.startswith(' '):
            is_shown = '  D10  ' in line or line.startswith(('READY', 'NOT_READY'))
        if is_shown:
            print(line, flush=True)
    return ' '.join(answer.split())


def seen_by_node(plan: DemoPlan, environment: Mapping[str, str]) -> dict[str, Any]:
    """Run the real node with its cameras; give margin and plan of each stream."""
    with Processes(FOLDER / 'log', environment) as processes:
        for stream in plan.streams:
            processes.start(f'camera_{stream.name}',
                            camera_command(stream, ASSETS, CAMERA_S, is_governed=True))
        processes.start('governor', [
            sys.executable, '-m', 'vig_governor.node', '--ros-args', '-r', '__node:=governor',
            '-p', f'config:={FOLDER / "measured.yaml"}', '-p', 'autostart:=true'])
        for _ in range(30):
            answer = subprocess.run(['vig', 'top', '--once', '--json'], check=False,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
            streams = json.loads(answer)['streams'] if answer else {}
            if streams and all(one['variant'] for one in streams.values()):
                break
        processes.stop()
    found = {name: {key: one[key] for key in ('variant', 'margin_percent', 'planned_ms')}
             for name, one in streams.items()}
    print('\n$ vig top --once --json   # of a running governor')
    for name, one in found.items():
        print(f'{name}: {json.dumps(one)}')
    return found


@contextmanager
def exchanged_weights() -> Iterator[None]:
    """Put other weights into the version folder of one model."""
    folder = FOLDER / 'model_repository' / EXCHANGED / '1'
    target = folder / 'pose_landmark_full.tflite'
    kept = FOLDER / 'kept.tflite'
    shutil.move(target, kept)
    shutil.copy(ASSETS / 'weights' / BY, target)
    try:
        yield
    finally:
        target.unlink()
        shutil.move(kept, target)


@contextmanager
def two_instances() -> Iterator[None]:
    """Let the configuration of one model ask for another instance group."""
    config = FOLDER / 'model_repository' / EXCHANGED / 'config.pbtxt'
    before = config.read_text(encoding='utf-8')
    config.write_text(before.replace('count: 1', 'count: 2'), encoding='utf-8')
    try:
        yield
    finally:
        config.write_text(before, encoding='utf-8')


def judged(calibrated: str, weights: str, instances: str, before: dict[str, Any],
           after: dict[str, Any]) -> int:
    """Say what was not told; 1 if anything was not."""
    wrong = [sentence for is_told, sentence in (
        (f'face_full beside {EXCHANGED}: +' in calibrated, 'no interference was measured'),
        (f'{EXCHANGED}: artifact.digest: recorded' in weights, 'the exchanged weights'),
        (f'{EXCHANGED}: resources.instances: recorded 1, found 2' in instances, 'the instances'),
        (before.get('pose', {}).get('margin_percent') == 110
         and after.get('pose', {}).get('margin_percent', 0) >= 130, 'the wider plan of pose'),
        (after.get('face', {}).get('margin_percent', 0) < 130, 'that face is planned as before'),
    ) if not is_told]
    print(f'\nnot told: {"; ".join(wrong)}' if wrong else '\neverything that must be told is told')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
