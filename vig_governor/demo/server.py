"""
The demo's Triton, with one CPU core as its accelerator.

The demo says ``slots: 1``, and that must be what the server really runs at once. So the processes
in which the models run share one core, as they would share one GPU, in both arms alike; the
server itself, the cameras and the nodes use the others. With a single core all use that one.

``python -m vig_governor.demo.server`` serves until SIGTERM or SIGINT, for whoever supervises the
rest by other means: it measures the profiles, chooses the cameras' rates, writes both
(``vig.yaml``, ``rates.json``) and says ``ready``.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
import contextlib
import os
from pathlib import Path
import sys

import psutil

from vig_core.errors import VigError

from vig_governor.demo import load
from vig_governor.demo.assets import AssetStore, DEFAULT_FOLDER
from vig_governor.demo.contract import render
from vig_governor.demo.plan import choose, DemoPlan
from vig_governor.demo.profiles import measure_plan
from vig_governor.demo.repository import write_repository
from vig_governor.stopping import StopSignal
from vig_governor.triton_server import TritonServer

_MODEL_PROCESS = 'triton_python_backend_stub'


def split_cores() -> tuple[set[int], set[int]]:
    """Give the core of the models and the cores of everything else."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[-1]}, set(cores[:-1] or cores)


def pin_models(server_pid: int, cores: set[int], model: str = '') -> int:
    """
    Bind the threads of model processes to ``cores``; tell how many processes they are.

    :param model: only of this one; empty for all.
    """
    models = [process for process in psutil.Process(server_pid).children(recursive=True)
              if process.name() == _MODEL_PROCESS
              and (not model or any(f'/{model}/' in word for word in process.cmdline()))]
    for process in models:
        for thread in process.threads():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread.id, cores)
    return len(models)


@contextlib.contextmanager
def serve(plan: DemoPlan, store: AssetStore, folder: Path, *, grpc_port: int = 0,
          priorities: Mapping[str, int] | None = None) -> Iterator[TritonServer]:
    """
    Run the plan's models on a real server, and everything else that we start beside them.

    While it runs, this thread and the children that it starts keep off the models' core.

    :param folder: receives ``model_repository/`` and ``log/triton.log``.
    :param priorities: of every model, for a server that runs one model at a time by its rate
        limiter; without it the server runs what it is given.
    :raises TritonServerError: it is not installed or did not start.
    :raises AssetError: a file of a model is missing.
    """
    environment = write_repository(folder / 'model_repository', store, plan.backend_models,
                                   priorities)
    log = folder / 'log' / 'triton.log'
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    before = os.sched_getaffinity(0)
    for_models, for_others = split_cores()
    os.sched_setaffinity(0, for_others)
    try:
        with TritonServer(folder / 'model_repository', grpc_port=grpc_port,
                          environment=environment, log=log,
                          rate_limiter=priorities is not None) as server:
            pin_models(server.pid, for_models)
            yield server
    finally:
        os.sched_setaffinity(0, before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog='python -m vig_governor.demo.server',
                                     description="Serve the demo's models until SIGTERM.")
    parser.add_argument('--assets', type=Path, default=DEFAULT_FOLDER)
    parser.add_argument('--out', type=Path, default=Path('build/demo'))
    parser.add_argument('--grpc-port', type=int, default=0)
    options = parser.parse_args(arguments)
    stop = StopSignal()
    store = AssetStore(options.assets)
    try:
        plan = choose(store)
        with serve(plan, store, options.out, grpc_port=options.grpc_port) as server:
            profiles = measure_plan(plan, options.assets, server.grpc_endpoint, print)
            plan = load.loaded(plan, profiles)
            print(load.describe(plan, profiles))
            load.write_rates(options.out, plan)
            (options.out / 'vig.yaml').write_text(
                render(plan, profiles, server.grpc_endpoint), encoding='utf-8')
            print('ready', flush=True)
            while server.is_running and not stop.wait(0.5):
                pass
            if not stop.is_set():
                print(f'the server ended:\n{server.complaints()}', file=sys.stderr)
                return 1
    except VigError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
