"""Checks of what is known about runtimes: measured at all, and measured here."""

from collections.abc import Iterable
from pathlib import Path

from vig_core.margin import DOUBT_POINTS

from vig_governor.config.schema_model import VariantBlock
from vig_governor.doctor.context import Context
from vig_governor.doctor.finding import fail, Finding, ok, skip, warn
from vig_governor.manifest import compare, contradictions, Verdict

MIN_SAMPLES = 100


def check_profiles(context: Context) -> Iterable[Finding]:
    """Whether every variant has measured runtimes, and enough of them."""
    config = context.config
    for model, unmeasured in config.unprofiled:
        yield fail('0 runtimes measured, and the node plans with nothing else',
                   _calibrate(context),
                   about=f'{model}/{unmeasured}', model=model, variant=unmeasured)
    blocks = [(name, variant) for name, block in config.file.models.items()
              for variant in block.variants if variant.profile is not None]
    for name, variant in blocks:
        samples = variant.profile.samples if variant.profile is not None else None
        if samples is not None and samples < MIN_SAMPLES:
            yield warn(f'the p99 comes from {samples} samples; below {MIN_SAMPLES} it is the '
                       'longest run', _calibrate(context),
                       about=f'{name}/{variant.id}', samples=samples)
    if not config.unprofiled:
        yield ok(f'{len(blocks)} variants have a profile')


def check_manifests(context: Context) -> Iterable[Finding]:
    """Whether the profiles still speak for this server, these files and this device."""
    if not context.manifests:
        yield skip('not checked: nothing is known of this server (offline, or it is away)')
        return
    seen = set()
    for block in context.config.file.models.values():
        for variant in block.variants:
            if (variant.profile is not None and variant.backend_model in context.manifests
                    and variant.backend_model not in seen):
                seen.add(variant.backend_model)
                yield from _judge(context, variant)
    if not seen:
        yield skip('not checked: no variant whose model is on the server has a profile')


def _judge(context: Context, variant: VariantBlock) -> Iterable[Finding]:
    name = variant.backend_model
    assert variant.profile is not None
    again = _calibrate(context)
    if variant.profile.manifest is None:
        yield warn('0 fields recorded: nobody knows where its profile was measured', again,
                   about=name, model=name)
        return
    verdicts = compare(variant.profile.manifest, context.manifests[name])
    wrong = contradictions(verdicts)
    gaps = [one.field for one in verdicts if one.verdict is Verdict.UNKNOWN]
    facts = {'model': name, 'fields': {one.field: {
        'verdict': one.verdict.value, 'recorded': one.recorded, 'found': one.found}
        for one in verdicts}}
    for one in wrong:
        yield warn(f'{one}; its profile was measured on something else and is planned with '
                   f'{DOUBT_POINTS} more points of margin until own runs replace it', again,
                   about=name, **facts)
    why = context.artifact_gaps.get(name, '')
    if 'artifact.digest' in gaps and variant.profile.manifest.artifact is not None:
        yield warn(f'artifact.digest is unknown, 1 of {len(verdicts)} fields'
                   f'{f": {why}" if why else ""}',
                   'let backend.model_repository name a folder that this host can read',
                   about=name, **facts)
    if not wrong:
        verified, comma = len(verdicts) - len(gaps), ', '
        yield ok(f'{verified} fields verified, {len(gaps)} unknown'
                 f'{f" ({comma.join(gaps)})" if gaps else ""}', about=name, **facts)


def check_operating_point(context: Context) -> Iterable[Finding]:
    """Whether the file asks for more than the profiles claim to hold for."""
    system = context.config.system
    together = system.slots * (1 + system.pipelining_depth)
    found = False
    for name, block in context.config.file.models.items():
        for variant in block.variants:
            manifest = variant.profile.manifest if variant.profile is not None else None
            limit = (manifest.validity.max_concurrent_models
                     if manifest is not None and manifest.validity is not None else None)
            if limit is not None and limit < min(together, len(context.config.backend_models)):
                found = True
                yield warn(f'its profile holds for {limit} models at once, and {together} credits '
                           'allow more: measure with the slots that will be used',
                           _calibrate(context),
                           about=f'{name}/{variant.id}', model=name, limit=limit)
    if not found:
        yield ok(f'at most {together} at once, and every profile holds for that')


def _calibrate(context: Context) -> str:
    """Give the command that measures again; its output may not be its input."""
    source = context.config.source
    output = 'measured.yaml' if Path(source).name != 'measured.yaml' else 'measured-again.yaml'
    return f'vig calibrate -c {source} -o {output}'
