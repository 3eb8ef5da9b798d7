"""``vig calibrate``: measure everything that can be measured and write a complete new file."""

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

from vig_core.units import NS_PER_US, text_ms

from vig_governor.backend.base import BackendUnavailable
from vig_governor.config import Config, load_config
from vig_governor.config.schema_model import Measurement, Profile, Validity
from vig_governor.endpoints import is_loopback
from vig_governor.instances import capacities_of, missing
from vig_governor.measure import quanta
from vig_governor.measure.artifact import read_artifact
from vig_governor.measure.exchange import Caller, MeasurementFailed
from vig_governor.measure.hardware import device_facts
from vig_governor.measure.interference import (
    Beside, calibrate, Calibration, HEURISTIC, Pair, suggest_taking_turns, Suggestion,
)
from vig_governor.measure.lines import QuantumCost
from vig_governor.measure.manifest import make_manifest, repository_path, ServerFacts
from vig_governor.measure.new_file import check_output, Figures, new_content, write_file
from vig_governor.measure.options import add_options, Bench, open_bench, plan_of
from vig_governor.measure.profile_cli import (
    as_json, check_json, plan_as_json, report, write_json,
)
from vig_governor.measure.profiling import MeasuredProfile, Plan, Profiler
from vig_governor.measure.progress import Bars
from vig_governor.measure.quanta import QuantumMeter


def add_parser(subparsers: Any) -> None:
    """Add ``calibrate`` to the command ``vig``."""
    parser = subparsers.add_parser(
        'calibrate', help='measure profiles and interference, write a new file with them',
        description='Measure every variant alone and every pair that can run together, and write '
        'a complete new file. Contracts are copied unchanged; the input is never touched.')
    add_options(parser)
    parser.add_argument('-o', '--output', type=Path, required=True, metavar='FILE',
                        help='the new file')
    parser.add_argument('--force', action='store_true',
                        help='replace the output if it exists (never the input)')
    parser.add_argument('--pairs', choices=('auto', 'all', 'none'), default='auto',
                        help='which pairs to measure side by side: auto takes those that the '
                        'slots of the file can run together (default: %(default)s)')
    parser.add_argument('--json', type=Path, metavar='FILE', help='write everything there too')


def run(options: argparse.Namespace) -> int:
    """Measure, print, write; 1 where a variant is left without a profile."""
    plan = plan_of(options)
    source, output = Path(options.config), options.output
    check_output(source, output, may_replace=options.force)
    check_json(options.json)
    with open_bench(options) as bench:
        for sentence in bench.skipped:
            print(f'note: {sentence}')
        pairs, why = pairs_of(bench.config, options.pairs, bench.feeds)
        print(f'{bench.server}: {plan.describe()}')
        print(f'{len(pairs)} ordered pairs side by side{f": {why}" if why else ""}')
        calibration, costs = _measure(bench, plan, pairs)
        figures = _figures(bench, plan, calibration, costs)
    suggestions = between_models(bench.config, suggest_taking_turns(calibration))
    lines = [*report(calibration.profiles,
                     {name: feed.dataset for name, feed in bench.feeds.items()}),
             *quanta.report(costs), *_pairs_report(calibration.pairs), *_suggested(suggestions),
             *_instances_report(figures.instances)]
    print('\n'.join(lines))
    write_file(output, new_content(source, output, figures),
               list(_head(source, bench, plan, [*quanta.report(costs), *_suggested(suggestions),
                                                *_instances_report(figures.instances)])))
    load_config(output)
    print(f'{output}: written; {source} is as it was')
    if options.json is not None:
        write_json(options.json, {
            'server': bench.server, 'plan': plan_as_json(plan),
            'profiles': {name: as_json(one) for name, one in calibration.profiles.items()},
            'pairs': [{'victim': one.victim, 'co_tenant': one.co_tenant,
                       'added_ns': one.added_ns, 'p50_ns': one.p50_ns}
                      for one in calibration.pairs],
            'cooperative': {name: cost if isinstance(cost, str) else asdict(cost)
                            for name, cost in costs.items()}})
    is_complete = all(one.is_complete for one in calibration.profiles.values())
    return 0 if is_complete and len(figures.cooperative) == len(costs) else 1


def pairs_of(config: Config, wanted: str,
             names: Collection[str]) -> tuple[list[Pair], str]:
    """
    Name the ordered pairs of backend models to measure, and say why there are none or fewer.

    :param wanted: ``auto``, ``all`` or ``none``.
    :param names: the backend models that can be measured.
    """
    system = config.system
    if wanted == 'none':
        return [], 'not wanted'
    if wanted == 'auto' and system.slots * (1 + system.pipelining_depth) == 1:
        return [], 'one slot runs nothing together (--pairs all measures them anyway)'
    model_of = {variant.backend_model: name for name, model in system.models.items()
                for variant in model.variants}
    ordered = list(permutations(names, 2))
    allowed = [(victim, other) for victim, other in ordered
               if frozenset((model_of[victim], model_of[other])) not in system.no_corun]
    left_out = len(ordered) - len(allowed)
    return allowed, f'{left_out} more are excluded by no_corun' if left_out else ''


def between_models(config: Config, suggestions: Iterable[Suggestion]) -> list[Suggestion]:
    """Leave out pairs of variants of one model: ``no_corun`` names two models."""
    model_of = {variant.backend_model: name for name, model in config.system.models.items()
                for variant in model.variants}
    return [one for one in suggestions if len({model_of[name] for name in one.pair}) > 1]


def _measure(bench: Bench, plan: Plan,
             pairs: list[Pair]) -> tuple[Calibration, dict[str, QuantumCost | str]]:
    steps = {name: plan.steps * (1 + sum(victim == name for victim, _ in pairs))
             for name in bench.feeds}
    blocks = {name: block.cooperative for name, block in bench.config.file.models.items()
              if block.cooperative is not None and block.variants[0].backend_model in bench.feeds}
    for name, block in blocks.items():
        steps[f'quanta of {name}'] = quanta.steps_of(block.max_total_tokens)
    costs: dict[str, QuantumCost | str] = {}
    with Bars(steps) as bars:
        profiler = Profiler(bench.backend, bench.feeds, plan, on_point=bars.advance)
        calibration = calibrate(profiler, bench.backend, pairs)
        caller = Caller(bench.backend, 'quanta', timeout_s=plan.timeout_s)
        for name, block in blocks.items():
            first = bench.config.file.models[name].variants[0].backend_model
            meter = QuantumMeter(caller, first, bench.signatures[first],
                                 bench.config.generative[name])
            try:
                costs[name] = quanta.measure_quanta(
                    bench.backend, meter, block.max_total_tokens,
                    on_sample=partial(bars.advance, f'quanta of {name}'))
            except MeasurementFailed as error:
                costs[name] = str(error)
    return calibration, costs


def _figures(bench: Bench, plan: Plan, calibration: Calibration,
             costs: Mapping[str, QuantumCost | str]) -> Figures:
    config = bench.config
    profiles = {}
    device = device_facts(is_local=is_loopback(config.backend.endpoint))
    server = server_facts(bench)
    repository = repository_path(config.backend.model_repository, config.source)
    now = datetime.now(timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')
    for name, measured in calibration.profiles.items():
        if measured.is_complete:
            feed = bench.feeds[name]
            manifest = make_manifest(
                name, server, device, read_artifact(repository, name), recorded_at=now,
                measurement=Measurement(
                    dataset=feed.dataset, batch_size=1, concurrency=1, warmup=plan.warmup,
                    independent_runs=len(measured.kept), release=plan.release,
                    shapes=feed.shapes),
                validity=Validity(
                    max_concurrent_models=config.system.slots if calibration.pairs else 1,
                    max_input_kib=feed.kib))
            profiles[name] = Profile(
                p50_us=_us(measured, 50), p95_us=_us(measured, 95), p99_us=_us(measured, 99),
                samples=measured.samples, manifest=manifest)
    measured_costs = {name: cost for name, cost in costs.items() if not isinstance(cost, str)}
    interference = [
        {'victim': one.victim, 'co_tenant': one.co_tenant,
         'added_us': -(-one.added_ns // NS_PER_US)}
        for one in calibration.pairs if one.added_ns is not None]
    return Figures(
        profiles, interference if calibration.pairs else None, measured_costs,
        missing(config.system.models, config.system.slots, capacities_of(server.configs)))


def server_facts(bench: Bench) -> ServerFacts:
    """Ask the server about itself and every model that was measured."""
    try:
        name, version = bench.backend.facts()
        return ServerFacts(name, version, {
            one: bench.backend.model_config(one) for one in bench.feeds})
    except BackendUnavailable:
        return ServerFacts()


def _us(measured: MeasuredProfile, percent: int) -> int:
    value_ns = measured.quantile_ns(percent)
    assert value_ns is not None
    return -(-value_ns // NS_PER_US)


def _pairs_report(pairs: Iterable[Beside]) -> Iterator[str]:
    for one in pairs:
        if one.added_ns is None:
            reasons = '; '.join(dict.fromkeys(
                reason for cells in one.cells for cell in cells for reason in cell.reasons))
            yield f'{one.victim} beside {one.co_tenant}: not measured: {reasons}'
        else:
            yield f'{one.victim} beside {one.co_tenant}: +{text_ms(one.added_ns)}'


def _instances_report(instances: Mapping[str, int]) -> Iterator[str]:
    for name, count in instances.items():
        yield f'{name}: instances: {count}, as the server says; it was not in the file'


def _suggested(suggestions: Iterable[Suggestion]) -> Iterator[str]:
    for one in suggestions:
        first, second = one.pair
        yield (f'suggestion: no_corun for the models of {first} and {second}: {HEURISTIC} (sum of '
               f'both completions {text_ms(one.in_turn_ns)} in turn, {text_ms(one.together_ns)} '
               f'together; {first} +{text_ms(one.added_ns[0])}, {second} '
               f'+{text_ms(one.added_ns[1])})')


def _head(source: Path, bench: Bench, plan: Plan, remarks: Iterable[str]) -> Iterator[str]:
    now = datetime.now(timezone.utc).strftime('%Y-%m-%d %H:%M')
    yield f'Written by `vig calibrate` at {now} UTC from {source.name}, where its comments are.'
    yield f'Measured on {bench.server}: {plan.describe()}.'
    yield 'Contracts are copied unchanged.'
    yield from remarks
