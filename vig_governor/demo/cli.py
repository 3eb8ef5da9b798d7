"""
``vig demo``: the main job on this machine, first without the governor and then with it.

Two scenes: cameras that ask for more than the slot can do, and a language model beside a camera.
Everything is real: a Triton server, its models, videos as cameras, ROS between the processes.
Every process is a child of this one and ends with it.
"""

import argparse
from pathlib import Path
import signal
from typing import Any

from rich.console import Console

from vig_core.errors import VigError

from vig_governor.demo.arms import graph_environment
from vig_governor.demo.assets import AssetError, AssetStore, DEFAULT_FOLDER
from vig_governor.demo.camera_scene import CameraScene
from vig_governor.demo.load import LOAD
from vig_governor.demo.plan import choose, choose_text, DemoPlan, RATES_HZ
from vig_governor.demo.text_scene import TextScene

SHORTEST_S = 5.0
LONGEST_S = 600.0
MOST_IN_FLIGHT = 64
MOST_SAMPLES = 1000
LAST_DOMAIN = 232
LAST_PORT = 65_535
LEAST_LOAD = 0.2
MOST_LOAD = 5.0
PLAIN_WIDTH = 110
SCENES = ('cameras', 'text', 'both')
TEXT_FOLDER = 'text'


def add_parser(subparsers: Any) -> None:
    """Add ``demo`` to the command ``vig``."""
    parser = subparsers.add_parser(
        'demo', help='run real models on real video, with and without the governor')
    parser.add_argument('--scene', choices=SCENES, default='both',
                        help='cameras: five of them share one slot; text: a language model writes '
                        'beside a camera (default: %(default)s)')
    parser.add_argument('--load', type=float, default=LOAD,
                        help='how much the cameras ask for, as a multiple of what the slot can '
                        'do; their rates follow (default: %(default)s)')
    parser.add_argument('--text-rate', type=float, choices=RATES_HZ, metavar='HZ',
                        help='frames a second beside the language model: '
                        f'{", ".join(f"{rate:g}" for rate in RATES_HZ)} (default: the most that '
                        'leave room for text on this machine)')
    parser.add_argument('--seconds', type=float, default=20.0,
                        help='length of each of the two runs of a scene (default: %(default)s)')
    parser.add_argument('--no-direct-arm', action='store_true',
                        help='leave out the run without the governor')
    parser.add_argument('--no-governor-arm', action='store_true',
                        help='leave out the run with the governor')
    parser.add_argument('--direct-depth', type=int, default=2,
                        help='requests that each ungoverned node of the cameras keeps in flight; '
                        'a frame beyond them is refused (default: %(default)s, one runs and one '
                        'waits)')
    parser.add_argument('--profile-samples', type=int, default=15,
                        help='runs of each model in each of three measurements before the start '
                        '(default: %(default)s)')
    parser.add_argument('--assets', type=Path, default=DEFAULT_FOLDER,
                        help='folder with weights and videos (default: %(default)s)')
    parser.add_argument('--out', type=Path, default=Path('build/demo'),
                        help='folder for everything written (default: %(default)s)')
    parser.add_argument('--domain-id', type=int, help='ROS domain (default: of the environment)')
    parser.add_argument('--grpc-port', type=int, default=0,
                        help='port of the server on the loopback interface (default: a free one)')


def run(options: argparse.Namespace) -> int:
    """Run the demo; 1 with a sentence when something that it needs fails."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    for name, value, least, most, unit in (
            ('--seconds', options.seconds, SHORTEST_S, LONGEST_S, ' s'),
            ('--load', options.load, LEAST_LOAD, MOST_LOAD, ''),
            ('--direct-depth', options.direct_depth, 1, MOST_IN_FLIGHT, ''),
            ('--profile-samples', options.profile_samples, 1, MOST_SAMPLES, ''),
            ('--domain-id', options.domain_id or 0, 0, LAST_DOMAIN, ''),
            ('--grpc-port', options.grpc_port, 0, LAST_PORT, '')):
        if not least <= value <= most:
            console.print(f'{name} {value:g}: between {least:g}{unit} and {most:g}{unit} are '
                          'possible')
            return 1
    if options.out.exists() and not options.out.is_dir():
        console.print(f'--out {options.out}: this is a file; name a folder', markup=False)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _play(options, console)
    except VigError as error:
        console.print(f'[red]demo:[/red] {error}', markup=True)
        return 1
    except KeyboardInterrupt:
        console.print('demo: interrupted; every process has been ended')
        return 130
    return 0


def _play(options: argparse.Namespace, console: Console) -> None:
    """
    Play the scenes that were asked for.

    Without the language model the other scene goes on; why it is alone is said before it.
    """
    environment = graph_environment(_config_folder(), options.domain_id)
    store = AssetStore(options.assets)
    cameras = None if options.scene == 'text' else choose(store)
    text = None if options.scene == 'cameras' else _text_plan(options, store, console)
    if cameras is not None:
        CameraScene(options, console, cameras, environment).run()
    if text is not None:
        TextScene(options, console, text, options.out / TEXT_FOLDER, environment).run()


def _text_plan(options: argparse.Namespace, store: AssetStore, console: Console
               ) -> DemoPlan | None:
    """Plan the scene of the language model, or say why there is none beside the other scene."""
    try:
        return choose_text(store)
    except AssetError as error:
        if options.scene == 'text':
            raise
        console.print(f'note: without the scene of the language model: {error}', markup=False)
        return None


def _config_folder() -> Path:
    """Find the folder ``config`` of the source tree, or of the installed package."""
    source = Path(__file__).resolve().parents[2] / 'config'
    if source.is_dir():
        return source
    from ament_index_python.packages import get_package_share_directory
    return Path(get_package_share_directory('vig')) / 'config'
