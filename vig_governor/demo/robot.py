"""
A robot to practise on: what someone has who comes to the governor, and no governor.

``python -m vig_governor.demo.robot`` (``make robot``) runs a real Triton with the demo's models on
one port of the loopback interface and two cameras that publish real videos:
docs/getting-started.md goes on from there. It ends by itself after ``--minutes``, or on SIGTERM
or SIGINT; nothing outlives it.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
import sys
import time

from vig_core.errors import VigError

from vig_governor.demo.assets import AssetStore, DEFAULT_FOLDER
from vig_governor.demo.cameras import camera_command
from vig_governor.demo.contract import INPUT
from vig_governor.demo.plan import choose, DemoPlan, DemoStream
from vig_governor.demo.processes import ChildDied, Processes
from vig_governor.demo.server import serve
from vig_governor.stopping import StopSignal

PORT = 8001
_CAMERAS = {'face': 'front', 'pose': 'cabin'}
_READY_TIMEOUT_S = 60.0


class _RobotCamera(DemoStream):
    """A camera that is named like one of a robot."""

    __slots__ = ()

    @property
    def topic(self) -> str:
        """Where the camera publishes."""
        return f'/camera/{_CAMERAS[self.name]}/image_raw'


def robot_plan(store: AssetStore) -> DemoPlan:
    """
    Take the demo's two most important cameras and their models.

    :raises AssetError: a file that they need is missing.
    """
    plan = choose(store)
    return replace(plan, streams=tuple(
        _RobotCamera(**{name: getattr(stream, name) for name in DemoStream.__slots__})
        for stream in plan.streams if stream.name in _CAMERAS))


def describe(plan: DemoPlan, endpoint: str, minutes: float) -> str:
    """Say what there is, in the words in which a robot's owner knows it."""
    lines = [f'Triton answers on {endpoint} (gRPC). Its models take {INPUT}, UINT8[height, width, '
             '3], RGB:']
    lines += [f'  {name}' for name in plan.backend_models]
    lines.append('Cameras publish sensor_msgs/Image, rgb8:')
    lines += [f'  {stream.topic:<26} {stream.size[0]}x{stream.size[1]} at {stream.rate_hz:g} Hz'
              for stream in plan.streams]
    lines.append(f'Ctrl-C ends everything; otherwise it ends in {minutes:g} minutes.')
    return '\n'.join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog='python -m vig_governor.demo.robot',
        description='A Triton with real models and two cameras, to practise on.')
    parser.add_argument('--assets', type=Path, default=DEFAULT_FOLDER)
    parser.add_argument('--out', type=Path, default=Path('build/robot'))
    parser.add_argument('--grpc-port', type=int, default=PORT,
                        help='on the loopback interface (default: %(default)s; 0: a free one)')
    parser.add_argument('--minutes', type=float, default=30.0)
    options = parser.parse_args(arguments)
    if not 0.1 <= options.minutes <= 240:
        parser.error(f'--minutes {options.minutes:g}: between 0.1 and 240 are possible')
    if not 0 <= options.grpc_port <= 65_535:
        parser.error(f'--grpc-port {options.grpc_port}: between 0 and 65535 are possible')
    stop = StopSignal()
    store = AssetStore(options.assets)
    seconds = options.minutes * 60
    try:
        plan = robot_plan(store)
        with (serve(plan, store, options.out, grpc_port=options.grpc_port) as server,
              Processes(options.out / 'log', {}) as processes):
            cameras = [processes.start(f'camera_{stream.name}', camera_command(
                stream, options.assets, seconds, is_governed=False))
                for stream in plan.streams]
            for camera in cameras:
                processes.wait_for_line(camera, 'ready', timeout_s=_READY_TIMEOUT_S)
            print(describe(plan, server.grpc_endpoint, options.minutes), flush=True)
            end_s = time.monotonic() + seconds
            while server.is_running and time.monotonic() < end_s and not stop.wait(0.2):
                processes.check(may_end=cameras)
            if not server.is_running:
                raise ChildDied(f'the server ended:\n{server.complaints()}')
    except VigError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
