"""Checks of the contracts' extensions: what nobody can keep, and what nobody enforces."""

from collections.abc import Iterable
from math import prod

from vig_core.model import Model
from vig_core.units import text_ms

from vig_governor.backend.base import ModelSignature
from vig_governor.config.forced import forced_misses
from vig_governor.config.resolve_contract import unenforced
from vig_governor.datatypes import element_size
from vig_governor.doctor.context import Context
from vig_governor.doctor.finding import fail, Finding, ok, warn
from vig_governor.doctor.timing_checks import share_percent, shortest_gap

KIB = 1024


def check_unenforced(context: Context) -> Iterable[Finding]:
    """Name what the contract says and nobody enforces."""
    found = False
    for name, block in context.config.file.models.items():
        for key, sentence in unenforced(block.contract.extension).items():
            found = True
            path = f'models.{name}.contract.extension.{key}'
            yield warn(f'{path}: 0 code paths enforce it: '
                       f'{sentence.removeprefix("not enforced: ")}', 'see to it by other '
                       'means, or leave it out so that nobody relies on it', field=path)
    if not found:
        yield ok('0 fields are stored without being enforced')


def check_budgets(context: Context) -> Iterable[Finding]:
    """Whether the consumers can be served as their contracts say, with the fastest variants."""
    count = 0
    slots = context.config.system.slots
    for model in context.config.system.models.values():
        contract = model.contract
        if contract.cycle_ns is None or contract.period_ns is None:
            continue
        if not context.is_profiled(model):
            continue
        count += 1
        runtime_ns = context.fastest(model).profile.p50_ns
        for forced in forced_misses(contract, runtime_ns=runtime_ns,
                                    spacing_ns=runtime_ns * context.streams_of(model) // slots):
            say = fail if forced.breaks(contract) else warn
            yield say(f'models.{model.name}: with the median of the fastest variant, '
                      f'{text_ms(runtime_ns)}, {forced.sentence(contract)}',
                      'a faster variant, a longer consumer_period_ms or max_age_ms, or a budget '
                      'that bears it', model=model.name, in_a_row=forced.in_a_row,
                      in_window=forced.in_window)
    yield ok(f'{count} consumers compared with what their streams can supply')


def check_progress(context: Context) -> Iterable[Finding]:
    """Whether best-effort work can get on as the contracts ask beside the guarded streams."""
    system = context.config.system
    asked = {model.name: percent for model in system.models.values()
             if (percent := system.background_percent(model))}
    asking = [model.name for model in system.models.values()
              if model.contract.minimum_background_progress_percent]
    if not asked:
        if asking:
            yield warn(f'models.{asking[0]}.contract.extension.minimum_background_progress_pct: '
                       f'{len(asking)} contracts ask for progress of best-effort work, and 0 '
                       'models are of class best_effort', 'leave it out, or give the background '
                       'its class')
        else:
            yield ok('0 contracts ask for progress of best-effort work')
        return
    guarded = [model for model in context.guarded if context.is_profiled(model)]
    taken = sum(_least_percent(context, model) for model in guarded)
    needed = 0.0
    for name, percent in asked.items():
        model = system.models[name]
        yield from _never_starts(context, model, percent)
        if model.contract.period_ns is not None and context.is_profiled(model):
            needed += percent * _least_percent(context, model) / 100
    if taken + needed > 100:
        yield fail(f'the guarded streams need {taken:.0f} % of the slots with their fastest '
                   f'variants at median runtime, and the progress that is asked for '
                   f'{", ".join(asked)} {needed:.0f} %: {taken + needed:.0f} % of what there is',
                   'ask for less progress, lower the rates, or add slots that the device really '
                   'has', guarded_percent=round(taken), progress_percent=round(needed))
    else:
        yield ok(f'{len(asked)} best-effort models: {needed:.0f} % of the slots beside '
                 f'{taken:.0f} % of the guarded streams')


def check_limits(context: Context) -> Iterable[Finding]:
    """Whether models, frames and load stay within what the contracts say that they hold for."""
    count = 0
    guarded = [model for model in context.guarded if context.is_profiled(model)]
    planned = sum(share_percent(context, model, context.planned_ns(
        (model.runnable_variants or model.variants)[0])) for model in guarded)
    for name, block in context.config.file.models.items():
        extension = block.contract.extension
        if extension is None:
            continue
        at = f'models.{name}.contract.extension'
        if extension.max_occupancy_pct is not None:
            count += 1
            if planned > extension.max_occupancy_pct:
                yield warn(f'{at}.max_occupancy_pct: {extension.max_occupancy_pct:g}, and the '
                           f'guarded streams plan {planned} % of the slots', 'lower a rate, add '
                           'a faster variant, or qualify the contract for more', percent=planned)
        if extension.max_input_kib is not None:
            count += 1
            for what, size in _inputs(context, context.config.system.models[name]):
                if size > extension.max_input_kib * KIB:
                    yield warn(f'{at}.max_input_kib: {extension.max_input_kib}, and {what} is '
                               f'{-(-size // KIB)} KiB', 'send smaller frames, or qualify the '
                               'contract for these', bytes=size)
    yield ok(f'{count} limits compared with what is known of models, frames and load')


def _never_starts(context: Context, model: Model, percent: int) -> Iterable[Finding]:
    gap = shortest_gap(context, model)
    if context.config.system.slots > 1 or gap is None or not context.is_profiled(model):
        return
    if context.config.file.models[model.name].cooperative is not None:
        return
    needed_ns = context.planned_ns(context.fastest(model))
    if needed_ns > gap[0]:
        yield fail(f'models.{model.name}: {percent} % of its requests should complete, and its '
                   f'{text_ms(needed_ns)} never start while {gap[1]} runs, whose frames leave '
                   f'{text_ms(gap[0])}: 0 % will', 'a slot more, cut the job into pieces '
                   '(cooperative), or ask for no progress', model=model.name)


def _inputs(context: Context, model: Model) -> Iterable[tuple[str, int]]:
    """Give the bytes of one input: of the model's, and where that may have any size, as heard."""
    signatures = context.server.signatures if context.server is not None else {}
    is_free = False
    for variant in model.runnable_variants:
        signature = signatures.get(variant.backend_model)
        size = None if signature is None else _bytes(signature)
        if size is None:
            is_free = True
        else:
            yield f'the input of {variant.backend_model}', size
    for binding in context.config.streams:
        heard = context.graph.streams.get(binding.name) if context.graph is not None else None
        if is_free and binding.model == model.name and heard is not None:
            yield f'a message on {heard.topic}', heard.largest_bytes


def _bytes(signature: ModelSignature) -> int | None:
    """Sum up the inputs; ``None`` where one may have any size."""
    if any(spec.datatype == 'BYTES' or min(spec.shape, default=1) < 0
           for spec in signature.inputs):
        return None
    return sum(prod(spec.shape) * element_size(spec.datatype) for spec in signature.inputs)


def _least_percent(context: Context, model: Model) -> int:
    return share_percent(context, model, context.fastest(model).profile.p50_ns)
