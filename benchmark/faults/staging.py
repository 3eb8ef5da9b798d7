"""What the world of a fault is made of: test models, a configuration, frames, and patience."""

from collections.abc import Callable, Mapping
import os
from pathlib import Path
import shutil
import threading
import time
from typing import TypeVar

import psutil

from sensor_msgs.msg import Image

ROOT = Path(__file__).resolve().parents[2]
TEST_MODELS = ROOT / 'test' / 'server' / 'models'
PATIENCE = float(os.environ.get('VIG_FAULTS_PATIENCE', '1'))
"""Factor on all waits and limits, for tests beside other work: ``make faults`` takes 1."""

TIMEOUT_S = 0.8
DRAIN_S = 1.5
STREAMS = {'quick': ('sleeper', 20), 'slow': ('sleeper', 300), 'hang': ('sleeper', 2500),
           'failing': ('failing', 0), 'sized': ('echo', 0)}
"""Stream and backend model of the same name: template and runtime in milliseconds."""

WRITER = """\
  writer:
    class: normal
    queue: {policy: fifo, capacity: 8, overflow: reject_new}
    contract: {deadline_ms: 6000, max_age_ms: 8000}
    cooperative: {tokens_per_second: 45, base_cost_us: 1000, min_tokens: 2, max_total_tokens: 24,
                  tokens_tensor: TOKENS, end_tensor: END, split: true}
    variants:
      - {id: only, backend_model: writer, quality: {value: 1.0, source: user_declared},
         profile: {p50_us: 450000, p99_us: 500000}}"""
STREAMED_WRITER = f'{WRITER}\n    decoupled: true'
PROMPTS = """\
  questions: {topic: /ask, type: std_msgs/msg/String, model: writer, time_source: arrival}"""
WRITER_TOKEN_MS = 20

MIB = 1024 * 1024
Streams = Mapping[str, tuple[str, int]]
_T = TypeVar('_T')


def until(condition: Callable[[], _T], timeout_s: float, what: str | Callable[[], str]) -> _T:
    """
    Look every 5 ms until ``condition`` gives something truthy, and give that.

    :raises AssertionError: with ``what`` when the time is over.
    """
    end_s = time.monotonic() + timeout_s * PATIENCE
    pause = threading.Event()
    while not (value := condition()):
        if time.monotonic() > end_s:
            raise AssertionError(f'not within {timeout_s:g} s: '
                                 f'{what() if callable(what) else what}')
        pause.wait(0.005)
    return value


def repository(folder: Path, streams: Streams) -> Path:
    """Make the server's model folder of the test models, renamed, with their runtimes."""
    for name, (template, runtime_ms) in streams.items():
        add_model(folder, name, template, runtime_ms)
    return folder


def add_model(folder: Path, name: str, template: str, runtime_ms: int) -> None:
    """Add one model, or replace it."""
    shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(TEST_MODELS / template, folder / name,
                    ignore=shutil.ignore_patterns('__pycache__'))
    with open(folder / name / 'config.pbtxt', 'a', encoding='utf-8') as config:
        config.write(f'parameters {{ key: "delay_ms" '
                     f'value {{ string_value: "{runtime_ms}" }} }}\n')


def config_text(endpoint: str, streams: Streams, backend: str = '', *, writer: str = '') -> str:
    """
    Write the configuration of a world.

    :param backend: lines for that block.
    :param writer: block of the generative model ``writer``, which gets prompts on ``/ask``.
    """
    lines = ['version: 1', 'backend:', f'  grpc_endpoint: "{endpoint}"', '  slots: 1',
             f'  inference_timeout_ms: {round(TIMEOUT_S * 1000)}',
             f'  drain_deadline_s: {DRAIN_S:g}', *backend.strip('\n').splitlines(), 'models:']
    for name, (_, runtime_ms) in streams.items():
        lines += [f'  {name}:', '    class: normal',
                  '    queue: {policy: fifo, capacity: 4, overflow: reject_new}',
                  '    contract: {deadline_ms: 1500, max_age_ms: 3000}', '    variants:',
                  f'      - {{id: only, backend_model: {name}, '
                  'quality: {value: 1.0, source: user_declared},',
                  f'         profile: {{p50_us: {runtime_ms * 1000 + 2000}, '
                  f'p99_us: {runtime_ms * 1000 + 10000}}}}}']
    lines += [writer] if writer else []
    lines.append('streams:')
    for name in streams:
        lines += [f'  {name}:', f'    topic: /fault/{name}', '    type: sensor_msgs/msg/Image',
                  f'    model: {name}',
                  '    input: {tensor: IMAGE, encoder: image, dtype: UINT8, layout: HWC}']
    lines += [PROMPTS] if writer else []
    return '\n'.join(lines) + '\n'


def image(stamp_ns: int, value: int = 7, width: int = 8, height: int = 6) -> Image:
    """Make a small rgb8 frame of one value."""
    message = Image(width=width, height=height, encoding='rgb8', step=3 * width)
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    message.data.frombytes(bytes([value]) * (height * width * 3))
    return message


class Footprint:
    """What the node holds: memory, threads, files, regions."""

    def __init__(self, pid: int) -> None:
        """Look at a process."""
        process = psutil.Process(pid)
        with process.oneshot():
            self.rss_mib = process.memory_info().rss / MIB
            self.threads = process.num_threads()
            self.files = process.num_fds()
        self.names = sum(entry.name.startswith(f'vig_{pid}_')
                         for entry in Path('/dev/shm').iterdir())
