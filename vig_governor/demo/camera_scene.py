"""
The demo's first scene: cameras that ask for more than one slot can do.

Without the governor every frame goes straight to the server, with it through the governor.
"""

import argparse
from collections.abc import Mapping
import json
import os
from pathlib import Path
import platform

from rich.console import Console

from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.demo import load, table
from vig_governor.demo.arms import Arm, ArmRunner
from vig_governor.demo.assets import AssetStore
from vig_governor.demo.contract import render
from vig_governor.demo.pictures import draw_results
from vig_governor.demo.plan import DemoPlan
from vig_governor.demo.profiles import measure_plan
from vig_governor.demo.server import serve, split_cores
from vig_governor.demo.timeline import draw_timeline
from vig_governor.measure.runtime import RuntimeSamples


class CameraScene:
    """One invocation; everything that it writes goes below ``folder``."""

    def __init__(self, options: argparse.Namespace, console: Console, plan: DemoPlan,
                 environment: Mapping[str, str]) -> None:
        self._options = options
        self._console = console
        self._plan = plan
        self._environment = environment
        self._folder: Path = options.out
        self._store = AssetStore(options.assets)

    def run(self) -> None:
        """
        Play both runs, show them and write what they brought.

        :raises VigError: something that the scene needs is missing or failed.
        """
        for note in self._plan.notes:
            self._console.print(f'note: {note}')
        self._folder.mkdir(parents=True, exist_ok=True)
        self._report(*self._run_arms())

    def _run_arms(self) -> tuple[DemoPlan, Arm | None, Arm | None, dict[str, RuntimeSamples]]:
        """Measure the models, choose the cameras' rates, and play both runs."""
        plan, direct, governed = self._plan, None, None
        self._console.print(f'starting Triton with {", ".join(plan.backend_models)} ...')
        with serve(plan, self._store, self._folder,
                   grpc_port=self._options.grpc_port) as server:
            profiles = measure_plan(plan, self._options.assets, server.grpc_endpoint,
                                    self._console.print,
                                    samples=self._options.profile_samples)
            plan = load.loaded(plan, profiles, self._options.load)
            self._console.print(load.describe(plan, profiles), soft_wrap=True)
            runner = ArmRunner(
                plan, assets=self._options.assets, folder=self._folder,
                seconds=self._options.seconds, direct_depth=self._options.direct_depth,
                environment=self._environment)
            config = self._folder / 'vig.yaml'
            config.write_text(render(plan, profiles, server.grpc_endpoint), encoding='utf-8')
            if not self._options.no_direct_arm:
                title = 'Without the governor: every frame goes straight to Triton'
                with table.LiveView(self._console, plan, title) as view:
                    direct = runner.run_direct(server.grpc_endpoint, view.show)
            if not self._options.no_governor_arm:
                title = 'With the governor'
                with table.LiveView(self._console, plan, title) as view:
                    governed = runner.run_governed(config, view.show)
        return plan, direct, governed, profiles

    def _report(self, plan: DemoPlan, direct: Arm | None, governed: Arm | None,
                profiles: Mapping[str, RuntimeSamples]) -> None:
        models, others = split_cores()
        arms = {name: arm for name, arm in (('direct', direct), ('governed', governed))
                if arm is not None}
        reports = {name: arm.reports(plan) for name, arm in arms.items()}
        summary = {
            'seconds_judged': {name: (arm.end_ns - arm.start_ns) / NS_PER_S
                               for name, arm in arms.items()},
            'machine': {'processor': platform.machine(), 'cores': os.cpu_count(),
                        'python': platform.python_version(),
                        'models_have_a_core_of_their_own': models != others},
            'profiles_ms': {name: {f'p{percent}': samples.quantile_ns(percent) / NS_PER_MS
                                   for percent in (50, 95, 99)}
                            for name, samples in profiles.items()},
            'load': round(load.demand(plan, profiles), 3),
            'rates_hz': {stream.name: stream.rate_hz for stream in plan.streams},
            'notes': plan.notes,
            'lent': governed.lent if governed is not None else {},
            **{name: {report.stream: report.as_json() for report in of_arm}
               for name, of_arm in reports.items()}}
        (self._folder / 'summary.json').write_text(json.dumps(summary, indent=1),
                                                   encoding='utf-8')
        if reports:
            self._console.print(table.comparison(plan, reports, self._conditions(models)))
        if direct is not None and governed is not None:
            self._console.print(table.verdict(reports['direct'], reports['governed']))
        if governed is not None:
            for line in table.lent(governed.lent):
                self._console.print(line)
        for hint in table.hints(plan, profiles, reports.get('governed', ())):
            self._console.print(hint)
        self._draw(plan, direct, governed)
        if direct is not None and governed is not None:
            readme = table.markdown(plan, reports['direct'], reports['governed'])
            (self._folder / 'table.md').write_text(readme + '\n', encoding='utf-8')
            self._console.print(f'the table of the README, from this run '
                                f'({self._folder / "table.md"}):\n\n{readme}',
                                markup=False, soft_wrap=True)

    def _conditions(self, models: set[int]) -> str:
        cores = ', '.join(map(str, sorted(models)))
        return (f'In both runs the models share processor core {cores}. direct: asynchronous, '
                f'shared memory, at most {self._options.direct_depth} frames of each camera in '
                'flight, a frame beyond them is refused.')

    def _draw(self, plan: DemoPlan, direct: Arm | None, governed: Arm | None) -> None:
        shown = governed or direct
        if shown is None:
            return
        draw_results(self._folder / 'result.png', plan, shown.notes, shown.captures,
                     self._options.assets)
        draw_timeline(self._folder / 'timeline.png', plan, direct, governed)
        for name in ('result.png', 'timeline.png', 'summary.json', 'vig.yaml'):
            self._console.print(f'wrote {self._folder / name}')
