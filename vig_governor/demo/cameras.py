"""
All cameras of the governed demo as one command, for whoever supervises server and governor.

``python -m vig_governor.demo.cameras`` starts one camera process for each stream of the plan and
ends with the last of them, or on SIGTERM or SIGINT; no camera outlives it. They are as fast as
``vig_governor.demo.server`` chose for the same ``--out``.
"""

import argparse
from pathlib import Path
import sys

from vig_core.errors import VigError

from vig_governor.demo.assets import AssetStore, DEFAULT_FOLDER
from vig_governor.demo.contract import INPUT
from vig_governor.demo.load import at_written_rates
from vig_governor.demo.plan import choose, DemoStream
from vig_governor.demo.processes import Processes
from vig_governor.stopping import StopSignal


def camera_command(stream: DemoStream, assets: Path, seconds: float, *,
                   is_governed: bool) -> list[str]:
    """Give the command line of one camera."""
    width, height = stream.size
    topic = stream.governed_topic if is_governed else stream.topic
    lend = (['--lend', INPUT, '--statuses', f'{stream.topic}/vig/status']
            if is_governed and stream.lends else [])
    return [sys.executable, '-m', 'vig_governor.demo.camera', str(assets / stream.video),
            '--topic', topic, '--name', stream.frame_id, '--frame-id', stream.frame_id,
            '--rate', str(stream.rate_hz), '--width', str(width), '--height', str(height),
            '--jitter-ms', str(stream.jitter_ms), '--transport-ms', str(stream.transport_ms),
            '--seed', str(stream.seed), '--seconds', str(seconds), *lend]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog='python -m vig_governor.demo.cameras',
                                     description='Publish all videos of the demo.')
    parser.add_argument('--assets', type=Path, default=DEFAULT_FOLDER)
    parser.add_argument('--out', type=Path, default=Path('build/demo'),
                        help='folder in which the server left rates.json; receives '
                        'log/camera_<stream>.log')
    parser.add_argument('--seconds', type=float, default=60.0)
    options = parser.parse_args()
    stop = StopSignal()
    try:
        plan = at_written_rates(options.out, choose(AssetStore(options.assets)))
        with Processes(options.out / 'log', {}) as processes:
            cameras = [processes.start(f'camera_{stream.name}', camera_command(
                stream, options.assets, options.seconds, is_governed=True))
                for stream in plan.streams]
            topics = ', '.join(stream.governed_topic for stream in plan.streams)
            print(f'publishing {topics}', flush=True)
            while any(camera.returncode is None for camera in cameras) and not stop.wait(0.1):
                processes.check(may_end=cameras)
            processes.check(may_end=cameras)
    except VigError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
