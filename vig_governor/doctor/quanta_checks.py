"""Checks of generative models: what splitting costs, and whether a quantum fits at all."""

from collections.abc import Iterable

from vig_core.cooperative import Cooperative
from vig_core.model import Model
from vig_core.units import text_ms

from vig_governor.doctor.context import Context
from vig_governor.doctor.finding import Finding, ok, warn
from vig_governor.prompt_room import room_text

PROMPT = 32
"""Tokens of the prompt that figures are told for."""

REMEDY = ('shorter prompts, a smaller model, another slot, or a longer period of the guarded '
          'stream')


def check_quanta(context: Context) -> Iterable[Finding]:
    """Whether base cost and one token fit between guarded frames, and what splitting costs."""
    found = False
    for model in context.config.system.models.values():
        if model.cooperative is not None:
            found = True
            yield from _judge(context, model, model.cooperative)
    if not found:
        yield ok('0 cooperative models')


def _judge(context: Context, model: Model, cost: Cooperative) -> Iterable[Finding]:
    about, total = f'models.{model.name}', cost.max_total_tokens
    first_ns = cost.cost_ns(PROMPT, 1, is_new=True)
    whole_ns = cost.cost_ns(PROMPT, total, is_new=True)
    facts = {'model': model.name, 'first_token_ns': first_ns, 'whole_ns': whole_ns,
             'between_tokens_ns': cost.per_token_ns}
    speed = (f'first token of a prompt of {PROMPT} after {text_ms(first_ns)}, then one every '
             f'{text_ms(cost.per_token_ns)}')
    gap = _idle_gap(context, model)
    if gap is None:
        yield ok(f'{speed}; {total} tokens in one piece take {text_ms(whole_ns)}, and no guarded '
                 'stream is in their way', about=about, **facts)
        return
    gap_ns, guarded = gap
    room = f'the shortest gap (before a frame of {guarded}, {text_ms(gap_ns)})'
    needed_ns = [_planned_ns(context, model, cost.cost_ns(PROMPT, count))
                 for count in range(1, total + 1)]
    tokens, least = sum(one <= gap_ns for one in needed_ns), min(cost.min_tokens, total)
    facts |= {'smallest_ns': needed_ns[0], 'gap_ns': gap_ns, 'tokens_of_a_gap': tokens}
    if not tokens:
        yield warn(f'{room} holds no quantum: base cost, a prompt of {PROMPT} and one token plan '
                   f'{text_ms(needed_ns[0])}; while {guarded} runs nothing is written', REMEDY,
                   about=about, **facts)
        return
    if tokens < least:
        yield warn(f'{room} holds {tokens} tokens, and min_tokens is {least}: while {guarded} '
                   'runs nothing is written', f'set {about}.cooperative.min_tokens to {tokens} or '
                   'less', about=about, **facts)
        return
    overhead = cost.overhead_permille(PROMPT, total, tokens, is_new=True)
    facts |= {'overhead_permille': overhead}
    limit = cost.max_overhead_permille
    if limit is not None and overhead > limit:
        yield warn(f'{room} holds {tokens} tokens; splitting {total} so costs {overhead} permille '
                   f'more, above max_overhead_permille {limit}: it runs whole, for '
                   f'{text_ms(whole_ns)}', 'allow more overhead, or a slower guarded stream',
                   about=about, **facts)
    waits = room_text(context.config, model, filter(context.is_profiled, context.guarded))
    begins_ns = _planned_ns(context, model, cost.cost_ns(PROMPT, least, is_new=True))
    if begins_ns > gap_ns:
        yield warn(f'{room} holds no first quantum of a prompt of {PROMPT}, which plans '
                   f'{_arithmetic(cost, PROMPT, least, begins_ns)}{f"; {waits}" if waits else ""}',
                   REMEDY, about=about, first_quantum_ns=begins_ns, **facts)
        waits = ''
    yield ok(f'{room} holds {tokens} tokens, splitting {total} so costs {overhead} permille more; '
             f'{speed}{f"; {waits}" if waits else ""}', about=about, **facts)


def _arithmetic(cost: Cooperative, prompt: int, tokens: int, planned_ns: int) -> str:
    """Show what a first quantum is planned with."""
    reads, writes = (cost.reading_ns(prompt, is_new=True), tokens * cost.per_token_ns)
    spread = planned_ns / cost.cost_ns(prompt, tokens, is_new=True)
    return (f'{text_ms(planned_ns)}: {text_ms(cost.base_cost_ns)}, {text_ms(reads)} to read and '
            f'{text_ms(writes)} to write, times {spread:.2f} for spread and margin')


def _planned_ns(context: Context, model: Model, cost_ns: int) -> int:
    """Plan a quantum as the node begins: with the spread of the profile and the margin."""
    first = model.variants[0]
    return cost_ns * context.planned_ns(first) // first.profile.p50_ns


def _idle_gap(context: Context, model: Model) -> tuple[int, str] | None:
    """
    Give the shortest time in which the slot is idle between guarded runs, and before whose frame.

    A quantum ends before the next guarded frame is expected: T - C of a strictly higher class, the
    least of all. With more than one slot another one is free.
    """
    if context.config.system.slots > 1:
        return None
    gaps = [(guarded.contract.period_ns - context.planned_ns(context.fastest(guarded)),
             guarded.name) for guarded in context.guarded
            if guarded.criticality < model.criticality and context.is_profiled(guarded)
            and guarded.contract.period_ns is not None]
    return min(gaps, default=None)
