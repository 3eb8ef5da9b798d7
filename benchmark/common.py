"""What the benchmarks with a server share: the conditions, the configuration, the quantiles."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
import os
from pathlib import Path
import platform
import shutil
import statistics
from typing import Any

from vig_governor.demo.arms import graph_environment

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / 'benchmark' / 'models'
MODEL = 'fixed'


def isolate() -> dict[str, str]:
    """Keep DDS of this process and its children on this host; before rclpy is initialised."""
    environment = graph_environment(ROOT / 'config', None)
    os.environ.update(environment)
    return environment


def conditions() -> dict[str, Any]:
    """Say what the figures depend on: processor, cores, Python, load of the last minute."""
    model = 'unknown processor'
    for line in Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines():
        if line.startswith('model name'):
            model = line.partition(':')[2].strip()
            break
    return {'processor': model, 'cores': len(os.sched_getaffinity(0)),
            'machine': platform.machine(), 'python': platform.python_version(),
            'load_1min': round(os.getloadavg()[0], 2)}


def told(facts: dict[str, Any]) -> str:
    """Write ``conditions`` as one line."""
    return (f'{facts["processor"]} ({facts["machine"]}), {facts["cores"]} cores, '
            f'Python {facts["python"]}, load average {facts["load_1min"]}')


def quantile(samples: Sequence[float], percent: int) -> float:
    """Give the nearest-rank quantile; at least one sample."""
    ranked = sorted(samples)
    return ranked[max(0, -(-len(ranked) * percent // 100) - 1)]


def median_of_blocks(blocks: Sequence[Sequence[float]], percent: int) -> float:
    """Take the quantile of each block and the median of these: one bad block decides nothing."""
    return statistics.median(quantile(block, percent) for block in blocks if block)


def model_repository(folder: Path, runtime_ms: float) -> Path:
    """Copy the models to ``folder``, with another runtime."""
    repository = folder / 'models'
    shutil.rmtree(repository, ignore_errors=True)
    shutil.copytree(MODELS, repository, ignore=shutil.ignore_patterns('__pycache__'))
    config = repository / MODEL / 'config.pbtxt'
    config.write_text(config.read_text(encoding='utf-8').replace(
        'string_value: "10"', f'string_value: "{runtime_ms:g}"'), encoding='utf-8')
    return repository


IMAGES = ('sensor_msgs/msg/Image', '{tensor: IMAGE, encoder: image, dtype: UINT8, layout: HWC}')
REFERENCES = ('vig/msg/TensorReference', '{tensor: IMAGE, encoder: reference}')
"""Message type of a stream, and its block ``input``."""


def config_text(endpoint: str, streams: Sequence[tuple[str, str, str]], *,
                runtime_ms: float, kind: tuple[str, str] = IMAGES, http_endpoint: str = '') -> str:
    """
    Write a vig.yaml whose models all run on one backend model and keep the newest frame only.

    :param streams: name, topic and model of each.
    :param runtime_ms: what the governor plans with.
    :param kind: ``IMAGES`` or ``REFERENCES``.
    :param http_endpoint: over which inferences travel; empty for gRPC.
    """
    http = f', http_endpoint: "{http_endpoint}"' if http_endpoint else ''
    lines = ['version: 1', f'backend: {{grpc_endpoint: "{endpoint}"{http}, slots: 1}}', 'models:']
    for model in dict.fromkeys(model for _, _, model in streams):
        lines += [
            f'  {model}:',
            '    class: normal',
            '    queue: {policy: latest, capacity: 1}',
            '    contract: {deadline_ms: 500, max_age_ms: 1000}',
            '    variants:',
            f'      - id: {MODEL}',
            f'        backend_model: {MODEL}',
            '        quality: {value: 1.0, source: user_declared}',
            f'        profile: {{p50_us: {round(runtime_ms * 1000)}, '
            f'p99_us: {round(runtime_ms * 1500)}}}']
    lines.append('streams:')
    for name, topic, model in streams:
        lines += [
            f'  {name}:',
            f'    topic: {topic}',
            f'    type: {kind[0]}',
            f'    model: {model}',
            f'    input: {kind[1]}']
    return '\n'.join(lines) + '\n'


@contextmanager
def ros_node(name: str) -> Iterator[tuple[Any, Any]]:
    """Join the graph with a node; gives it and the executor that spins it."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    rclpy.init(args=[])
    node = rclpy.create_node(name)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        yield node, executor
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown()
