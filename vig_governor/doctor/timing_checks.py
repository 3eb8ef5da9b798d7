"""Checks of the contracts against the measured runtimes: arithmetic, no server needed."""

from collections.abc import Iterable

from vig_core.contract import Criticality
from vig_core.model import Model, Variant
from vig_core.units import text_ms

from vig_governor.doctor.context import Context
from vig_governor.doctor.finding import fail, Finding, ok, skip, warn

TIGHT_PERCENT = 75
NO_PROFILES = 'not checked: it needs profiles'


def check_utilisation(context: Context) -> Iterable[Finding]:
    """Whether the guarded streams alone can be served: the sum of C/T over all of them."""
    guarded = [model for model in context.guarded if context.is_profiled(model)]
    if not guarded:
        yield skip('not checked: no guarded stream has a profile and a period')
        return
    protected = [model for model in guarded if model.criticality is Criticality.PROTECTED]
    for what, models in (('protected', protected), ('guarded', guarded)):
        least = sum(share_percent(context, model, context.fastest(model).profile.p50_ns)
                    for model in models)
        if least > 100:
            say = fail if what == 'protected' else warn
            yield say(f'the {what} streams need {least} % of the slots with their fastest '
                      'variants at median runtime: not every frame can be served',
                      'lower the rates, add slots that the device really has, or add a faster '
                      'variant', percent=least)
            return
    best = sum(share_percent(context, model, context.planned_ns(_best(model)))
               for model in guarded)
    if best > TIGHT_PERCENT:
        yield warn(f'the guarded streams plan {best} % of the slots with their best variants; '
                   f'above {TIGHT_PERCENT} % little is left for anything else',
                   'add a faster variant, or lower a rate', percent=best)
    else:
        yield ok(f'the guarded streams plan {best} % of the slots', percent=best)


def check_max_age(context: Context) -> Iterable[Finding]:
    """Whether every consumer says how old is too old, and can be served within it."""
    count = 0
    for model in context.config.system.models.values():
        max_age_ns = model.contract.max_age_ns
        at = f'models.{model.name}.contract.max_age_ms'
        if max_age_ns is None:
            if model.is_guarded:
                yield warn(f'{at}: missing on a guarded stream of {_period(model)}: nothing is '
                           'ever too old', 'say from which age on a result is worthless')
            continue
        if not context.is_profiled(model):
            continue
        count += 1
        fastest, best_ns = context.fastest(model), context.planned_ns(_best(model))
        if fastest.profile.p50_ns >= max_age_ns:
            yield fail(f'{at}: {text_ms(max_age_ns)}, and the median of the fastest variant is '
                       f'{text_ms(fastest.profile.p50_ns)}: every frame ends stale',
                       'add a faster variant, or accept older results')
        elif context.planned_ns(fastest) > max_age_ns:
            yield warn(f'{at}: {text_ms(max_age_ns)} is in the order of the runtime; the fastest '
                       f'variant plans {text_ms(context.planned_ns(fastest))}',
                       'add a faster variant, or accept older results')
        elif best_ns > max_age_ns:
            yield warn(f'{at}: {text_ms(max_age_ns)}, and the best variant plans '
                       f'{text_ms(best_ns)}: it can hardly ever run',
                       'leave it out, or accept older results')
    yield ok(f'{count} models with a max_age that their runtimes allow')


def check_background(context: Context) -> Iterable[Finding]:
    """Whether every lower job fits between two guarded frames; else it never starts under load."""
    system = context.config.system
    if system.slots > 1:
        yield ok(f'{system.slots} slots: a long job can run beside a guarded stream')
        return
    count = 0
    for model in system.models.values():
        gap = shortest_gap(context, model)
        is_split = model.cooperative is not None and model.cooperative.is_split
        if gap is None or is_split or not context.is_profiled(model):
            continue
        count += 1
        gap_ns, guarded = gap
        needed_ns = context.planned_ns(context.fastest(model))
        if needed_ns > gap_ns:
            yield warn(
                f'models.{model.name}: plans {text_ms(needed_ns)}, and the longest run that fits '
                f'between two frames of {guarded} is {text_ms(gap_ns)}: while {guarded} runs it '
                'never starts', 'add a slot that the device really has, cut the job into pieces '
                '(cooperative), or raise its class', model=model.name, needed_ns=needed_ns,
                gap_ns=gap_ns)
    yield ok(f'{count} lower models, each fits between two guarded frames' if count else
             'models of a lower class that run in one piece: 0')


def check_supply(context: Context) -> Iterable[Finding]:
    """Whether max_age leaves no gap in the supply: max_age >= T + D + 4 J + transport."""
    count = 0
    for model in context.guarded:
        contract = model.contract
        if contract.max_age_ns is None or contract.period_ns is None:
            continue
        count += 1
        needed_ns = (contract.period_ns + contract.deadline_ns + 4 * contract.release_jitter_ns
                     + _transport_ns(context, model))
        if contract.max_age_ns < needed_ns:
            yield warn(
                f'models.{model.name}.contract.max_age_ms: {text_ms(contract.max_age_ns)}, and '
                f'T + D + 4 J + transport is {text_ms(needed_ns)}: even when every deadline is '
                f'met, up to {text_ms(needed_ns - contract.max_age_ns)} can pass without a fresh '
                'result', 'raise max_age_ms or shorten deadline_ms', model=model.name,
                needed_ns=needed_ns)
    yield ok(f'{count} guarded models, max_age is at least T + D + 4 J + transport')


def shortest_gap(context: Context, model: Model) -> tuple[int, str] | None:
    """
    Give the longest run of ``model`` that never delays a guarded frame, and whose frame that is.

    It starts when a guarded run has ended and ends while the next frame can still be in time:
    T + D - 2 C of a strictly higher class, the least of all.
    """
    gaps = []
    for guarded in context.guarded:
        if guarded.criticality >= model.criticality or not context.is_profiled(guarded):
            continue
        assert guarded.contract.period_ns is not None
        runtime_ns = context.planned_ns(context.fastest(guarded))
        gaps.append((guarded.contract.period_ns + guarded.contract.deadline_ns - 2 * runtime_ns,
                     guarded.name))
    return min(gaps, default=None)


def share_percent(context: Context, model: Model, runtime_ns: int) -> int:
    """Give the percent of the slots that the periodic streams of a model take."""
    assert model.contract.period_ns is not None
    return (100 * runtime_ns * context.streams_of(model)
            // (model.contract.period_ns * context.config.system.slots))


def _best(model: Model) -> Variant:
    return (model.runnable_variants or model.variants)[0]


def _period(model: Model) -> str:
    assert model.contract.period_ns is not None
    return text_ms(model.contract.period_ns)


def _transport_ns(context: Context, model: Model) -> int:
    """Median age on arrival of the slowest stream of a model, as far as it was heard."""
    if context.graph is None:
        return 0
    ages = [sorted(heard.ages_ns)[len(heard.ages_ns) // 2]
            for binding in context.config.streams if binding.model == model.name
            and (heard := context.graph.streams.get(binding.name)) is not None and heard.ages_ns]
    return max(0, max(ages, default=0))
