"""Options that ``vig profile`` and ``vig calibrate`` share, and what becomes of them."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vig_core.errors import VigError

from vig_governor.backend.base import ModelSignature
from vig_governor.backend.opening import open_backend
from vig_governor.backend.triton import TritonBackend
from vig_governor.config import Config, load_config
from vig_governor.measure.inputs import Feed, make_feed, stream_shapes
from vig_governor.measure.profiling import inspect_all, Plan
from vig_governor.measure.quanta import prompt_feed

CONNECT_TIMEOUT_S = 5.0


class WrongOption(VigError):
    """An option that says nothing usable; gives an example."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says how and with what to measure."""
    parser.add_argument('-c', '--config', required=True, metavar='FILE', help='the vig.yaml')
    parser.add_argument('--periodic-us', type=int, metavar='N',
                        help='release every N microseconds on an absolute grid '
                        '(default: back to back)')
    parser.add_argument('--runs', type=int, default=3, metavar='N',
                        help='independent runs (default: %(default)s)')
    parser.add_argument('--samples', type=int, default=120, metavar='N',
                        help='release points of each run; below 100 answers there is no p99 '
                        '(default: %(default)s)')
    parser.add_argument('--warmup', type=int, default=10, metavar='N',
                        help='requests before each run that do not count (default: %(default)s)')
    parser.add_argument('--timeout-s', type=float, default=10.0, metavar='S',
                        help='for each request (default: %(default)s)')
    parser.add_argument('--shape', action='append', default=[], metavar='TENSOR=A,B,...',
                        help='shape of an input whose size is free; may be repeated')
    parser.add_argument('--data', action='append', default=[], metavar='[MODEL=]FILE.npz',
                        help='real inputs instead of zeros: arrays by tensor name, samples along '
                        'the first axis; for one model of the file or for all')


def plan_of(options: argparse.Namespace) -> Plan:
    """
    Say how to measure.

    :raises WrongOption: a number outside of its range.
    """
    for name, value, low, high in (
            ('--runs', options.runs, 1, 100), ('--samples', options.samples, 1, 100_000),
            ('--warmup', options.warmup, 0, 10_000),
            ('--timeout-s', options.timeout_s, 0.001, 600),
            ('--periodic-us', options.periodic_us, 1, 60_000_000)):
        if value is not None and not low <= value <= high:
            raise WrongOption(f'{name} {value}: must lie between {low} and {high}')
    period_us = options.periodic_us
    return Plan(runs=options.runs, points=options.samples, warmup=options.warmup,
                period_ns=None if period_us is None else period_us * 1000,
                timeout_s=options.timeout_s)


@dataclass(frozen=True, slots=True)
class Bench:
    """
    Everything that is ready to be measured.

    :ivar skipped: why models of the file are not measured, one sentence each.
    """

    config: Config
    backend: TritonBackend
    server: str
    signatures: Mapping[str, ModelSignature]
    feeds: Mapping[str, Feed]
    skipped: tuple[str, ...]


@contextmanager
def open_bench(options: argparse.Namespace) -> Iterator[Bench]:
    """
    Read the file, reach the server, make the inputs of every model that can be measured.

    :raises VigError: says what is missing.
    """
    shapes = _shapes(options.shape)
    config = load_config(options.config)
    data = _data(options.data, list(config.file.models))
    names, skipped = _measurable(config)
    backend = open_backend(config.backend)
    try:
        server = backend.connect(timeout_s=CONNECT_TIMEOUT_S)
        signatures = inspect_all(backend, {
            name: config.file.models[model].decoupled for name, model in names.items()})
        streamed = stream_shapes(config)
        feeds = {name: _generative_feed(config, model, signatures[name])
                 if model in config.generative and model not in data else
                 make_feed(signatures[name], shapes=shapes, streamed=streamed.get(model, {}),
                           data=data.get(model, data.get('')))
                 for name, model in names.items()}
        yield Bench(config, backend, server, signatures, feeds, tuple(skipped))
    finally:
        backend.close()


def _measurable(config: Config) -> tuple[dict[str, str], list[str]]:
    """Give backend model -> logical model, and why others are left out."""
    names: dict[str, str] = {}
    skipped = []
    for name, block in config.file.models.items():
        what = ''
        if block.backend_endpoint is not None:
            what = 'it runs on a server of its own, which is not supported yet'
        elif block.decoupled and block.cooperative is None:
            what = 'it answers on the streaming endpoint and has no block cooperative'
        if what:
            skipped.append(f'models.{name} is not measured: {what}; its figures stay as they are')
            continue
        for variant in block.variants:
            names.setdefault(variant.backend_model, name)
    if not names:
        raise WrongOption(f'{config.source}: no model of this file can be measured')
    return names, skipped


def _generative_feed(config: Config, model: str, signature: ModelSignature) -> Feed:
    block = config.file.models[model].cooperative
    assert block is not None
    missing = [name for name in (block.prompt_tensor, block.max_tokens_tensor)
               if name not in {spec.name for spec in signature.inputs}]
    if missing:
        raise WrongOption(f'models.{model}.cooperative: {signature.backend_model} has no input '
                          f'{", ".join(missing)}; its inputs are '
                          f'{", ".join(spec.name for spec in signature.inputs)}')
    return prompt_feed(signature, config.generative[model],
                       min(block.min_tokens, block.max_total_tokens))


def _shapes(given: Sequence[str]) -> dict[str, tuple[int, ...]]:
    found = {}
    for text in given:
        name, _, axes = text.partition('=')
        try:
            shape = tuple(int(axis) for axis in axes.split(','))
        except ValueError:
            shape = ()
        if not name or not shape or min(shape) < 1:
            raise WrongOption(f'--shape {text}: must be TENSOR=A,B,... with whole sizes, for '
                              'example --shape images=480,640,3')
        found[name] = shape
    return found


def _data(given: Sequence[str], models: list[str]) -> dict[str, Path]:
    found = {}
    for text in given:
        name, _, path = text.rpartition('=')
        if name and name not in models:
            raise WrongOption(f'--data {text}: {name} is no model of the file; there are '
                              f'{", ".join(models)}')
        if not Path(path).is_file():
            raise WrongOption(f'--data {text}: there is no file {path}')
        found[name] = Path(path)
    return found
