"""
The demo's second scene: a language model writes beside a camera on one slot.

The server really runs one model at a time here, by its rate limiter: a processor would take turns
between two models within a text, and a GPU does not take back what it has begun. Where both ask at
once, the camera comes first in both runs.
"""

import argparse
import json
from pathlib import Path

from rich.console import Console

from vig_core.units import NS_PER_MS

from vig_governor.backend.triton import TritonBackend
from vig_governor.demo import text_view
from vig_governor.demo.arms import Arm, ArmRunner
from vig_governor.demo.assets import AssetStore
from vig_governor.demo.contract import render
from vig_governor.demo.plan import at_rate, DemoPlan, rate_beside
from vig_governor.demo.profiles import measure_plan
from vig_governor.demo.server import serve
from vig_governor.demo.text_report import judge_text
from vig_governor.demo.text_timeline import draw_text_timeline
from vig_governor.demo.writer_costs import (
    describe, measure_writer, PLANNED_PERCENT, quantum_meter, WriterCosts)
from vig_governor.measure.runtime import RuntimeSamples

CAMERA_FIRST, WRITER_LAST = 1, 4096
"""In the rate limiter, the smaller first."""

DIRECT_DEPTH = 16
"""Frames in flight: more than come while an answer is written, so that none is refused."""

REPEATS, SAMPLES = 3, 3
CONNECT_TIMEOUT_S = 10.0


class TextScene:
    """One invocation; everything that it writes goes below ``folder``."""

    def __init__(self, options: argparse.Namespace, console: Console, plan: DemoPlan,
                 folder: Path, environment: dict[str, str]) -> None:
        self._options = options
        self._console = console
        self._plan = plan
        self._folder = folder
        self._environment = environment

    def run(self) -> None:
        """Play both runs, show them and write what they brought."""
        plan, trace = self._plan, self._folder / 'run.mcap'
        assert plan.writer is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        self._console.print(f'starting Triton with {", ".join(plan.backend_models)} ...')
        arms: dict[str, Arm] = {}
        priorities = dict.fromkeys(camera_models(plan), CAMERA_FIRST)
        priorities[plan.writer.backend_model] = WRITER_LAST
        with serve(plan, AssetStore(self._options.assets), self._folder,
                   grpc_port=self._options.grpc_port, priorities=priorities) as server:
            plan, profiles, costs = self._measure(server.grpc_endpoint)
            runner = ArmRunner(
                plan, assets=self._options.assets, folder=self._folder,
                seconds=self._options.seconds, direct_depth=DIRECT_DEPTH,
                environment=self._environment)
            config = self._folder / 'vig.yaml'
            config.write_text(render(plan, profiles, server.grpc_endpoint, costs),
                              encoding='utf-8')
            if not self._options.no_direct_arm:
                with text_view.TextView(
                        self._console, plan, 'Without the governor: each question and each frame '
                                             'goes straight to Triton') as view:
                    arms['direct'] = runner.run_direct(server.grpc_endpoint, view.show)
            if not self._options.no_governor_arm:
                with text_view.TextView(
                        self._console, plan, 'With the governor: pieces of text between the '
                                             'frames') as view:
                    arms['governed'] = runner.run_governed(config, view.show, record=trace)
        self._report(plan, arms, trace)

    def _measure(self, endpoint: str) -> tuple[DemoPlan, dict[str, RuntimeSamples], WriterCosts]:
        """Measure camera and writer, choose the camera's rate, and say what it means."""
        plan = self._plan
        camera, = plan.streams
        assert plan.writer is not None
        profiles = measure_plan(plan, self._options.assets, endpoint, self._console.print,
                                samples=self._options.profile_samples)
        backend = TritonBackend(endpoint)
        try:
            backend.connect(timeout_s=CONNECT_TIMEOUT_S)
            costs = measure_writer(quantum_meter(backend, plan.writer.backend_model), REPEATS)
        finally:
            backend.close()
        self._console.print(describe(plan.writer.backend_model, costs))
        frame_ms = (profiles[camera.direct_model].quantile_ns(99) / NS_PER_MS
                    * PLANNED_PERCENT / 100)
        plan = at_rate(plan, self._options.text_rate or rate_beside(plan, frame_ms, costs))
        self._console.print(text_view.room(plan, frame_ms, costs))
        return plan, profiles, costs

    def _report(self, plan: DemoPlan, arms: dict[str, Arm], trace: Path) -> None:
        assert plan.writer is not None
        cameras = {name: arm.reports(plan)[0] for name, arm in arms.items()}
        texts = {name: judge_text(arm.notes[plan.writer.name], start_ns=arm.start_ns,
                                  end_ns=arm.end_ns) for name, arm in arms.items()}
        (self._folder / 'summary.json').write_text(json.dumps({
            name: {'camera': cameras[name].as_json(), 'text': texts[name].as_json(),
                   'answers': [{'question': each['question'], 'reason': each['reason'],
                                'text': ''.join(part[1] for part in each['parts'])}
                               for each in arm.notes[plan.writer.name]['exchanges']]}
            for name, arm in arms.items()}, indent=1), encoding='utf-8')
        if not arms:
            return
        self._console.print(text_view.comparison(
            plan, cameras, texts,
            'In both runs the server runs one model at a time, the camera first, and no frame is '
            'refused.'))
        for name, arm in arms.items():
            for line in text_view.refusals(name, arm.notes[plan.writer.name]):
                self._console.print(line, markup=False)
        if len(arms) == 2:
            self._console.print(text_view.verdict(cameras, texts))
        if 'governed' in arms:
            self._console.print('Written between the frames:')
            for answer in text_view.samples(arms['governed'].notes[plan.writer.name], SAMPLES):
                self._console.print(answer, markup=False)
        draw_text_timeline(self._folder / 'timeline.png', plan, arms, trace)
        for name in ('timeline.png', 'summary.json', 'vig.yaml'):
            self._console.print(f'wrote {self._folder / name}')
        if 'governed' in arms:
            self._console.print(f'wrote {trace}: look into it with vig timeline and vig explain')


def camera_models(plan: DemoPlan) -> list[str]:
    """Name the backend models of the plan's cameras."""
    return [variant.backend_model for stream in plan.streams for variant in stream.variants]
