"""The real models of the demo, in the same arms, on a server tuned in the same way."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmark.live import judge, machine
from benchmark.live.accelerator import PRIORITY
from benchmark.live.stage import Arm

from vig_core.contract import Criticality
from vig_core.units import NS_PER_MS

from vig_governor.demo.arms import Arm as DemoArm, ArmRunner
from vig_governor.demo.assets import AssetStore, DEFAULT_FOLDER
from vig_governor.demo.contract import render
from vig_governor.demo.plan import choose, DemoPlan, DemoStream
from vig_governor.demo.profiles import measure_plan
from vig_governor.demo.server import serve

POINT = 'real models'
ARMS = (Arm.DIRECT_1, Arm.DIRECT_8, Arm.NEWEST, Arm.GOVERNOR)

Play = Callable[[Arm, int], dict[str, Any]]


def priorities_of(plan: DemoPlan) -> dict[str, int]:
    """Give every backend model the priority of its stream's class."""
    return {variant.backend_model: PRIORITY[Criticality[stream.criticality.upper()]]
            for stream in plan.streams for variant in stream.variants}


@contextmanager
def stage(folder: Path, environment: Mapping[str, str], *, seconds: float, grpc_port: int,
          say: Callable[[str], None], samples: int) -> Iterator[Play]:
    """
    Serve the demo's models and give what plays one arm.

    :raises AssetError: the models are not there.
    :raises VigError: the server did not start, or a model failed.
    """
    store = AssetStore(DEFAULT_FOLDER)
    plan = choose(store)
    with serve(plan, store, folder, grpc_port=grpc_port,
               priorities=priorities_of(plan)) as server:
        profiles = measure_plan(plan, DEFAULT_FOLDER, server.grpc_endpoint, say, samples=samples)
        config = folder / 'vig.yaml'
        config.write_text(render(plan, profiles, server.grpc_endpoint), encoding='utf-8')

        def play(arm: Arm, repeat: int) -> dict[str, Any]:
            runner = ArmRunner(plan, assets=DEFAULT_FOLDER, folder=folder, seconds=1.0 + seconds,
                               direct_depth=arm.depth, environment=environment)
            before = machine.look()
            played = (runner.run_governed(config, _ignore) if arm.is_governed else
                      runner.run_direct(server.grpc_endpoint, _ignore,
                                        keeps_newest=arm is Arm.NEWEST))
            share = machine.between(before, machine.look())
            return _judged(plan, played, arm, repeat, share)

        yield play


def _judged(plan: DemoPlan, played: DemoArm, arm: Arm, repeat: int,
            share: machine.Share) -> dict[str, Any]:
    span = judge.Span(played.start_ns, played.start_ns, played.end_ns)
    streams = {stream.name: judge.judge_stream(
        _need(stream), played.notes[stream.name], played.captures[stream.name], span)
        for stream in plan.streams}
    logs = [[(stamp, max(0, published - stamp - round(stream.transport_ms * NS_PER_MS)))
             for stamp, published, _ in played.captures[stream.name]] for stream in plan.streams]
    planned = sum(round(stream.rate_hz * (span.seconds + 1)) for stream in plan.streams)
    status, reasons = judge.status_of(streams, share, logs, planned)
    return {'point': POINT, 'workload': POINT, 'load_permille': 0, 'arm': arm.value,
            'repeat': repeat, 'status': status, 'reasons': reasons, 'streams': streams,
            'background_permille': judge.background_permille(streams), 'node': {},
            'foreign_percent': share.foreign_percent, 'steal_percent': share.steal_percent}


def _need(stream: DemoStream) -> judge.Need:
    return judge.Need(stream.criticality, stream.criticality in ('protected', 'high'),
                      stream.period_ms * NS_PER_MS, stream.max_age_ms * NS_PER_MS)


def _ignore(*_: object) -> None:
    """Show nothing while an arm plays."""
