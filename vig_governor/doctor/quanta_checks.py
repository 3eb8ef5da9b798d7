"""Checks of generative models: what splitting costs, and whether a quantum fits at all."""

from collections.abc import Iterable

from vig_core.cooperative import Cooperative
from vig_core.model import Model
from vig_core.units import text_ms

from vig_governor.doctor.context import Context
from vig_governor.doctor.finding import Finding, ok, warn

PROMPT = 32
"""Tokens of the prompt that figures are told for."""


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
    first_ns = cost.cost_ns(0, 1) + PROMPT * _new_prompt_ns(context, model, cost)
    whole_ns = cost.cost_ns(PROMPT, total)
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
    tokens = sum(one <= gap_ns for one in needed_ns)
    facts |= {'smallest_ns': needed_ns[0], 'gap_ns': gap_ns, 'tokens_of_a_gap': tokens}
    least = min(cost.min_tokens, total)
    if not tokens:
        yield warn(f'{room} holds no quantum: base cost, a prompt of {PROMPT} and one token plan '
                   f'{text_ms(needed_ns[0])}; while {guarded} runs nothing is written',
                   'a smaller model, another slot, or a longer period of the guarded stream',
                   about=about, **facts)
        return
    if tokens < least:
        yield warn(f'{room} holds {tokens} tokens, and min_tokens is {least}: while {guarded} '
                   'runs nothing is written', f'set {about}.cooperative.min_tokens to {tokens} or '
                   'less', about=about, **facts)
        return
    overhead = cost.overhead_permille(PROMPT, total, tokens)
    facts |= {'overhead_permille': overhead}
    limit = cost.max_overhead_permille
    if limit is not None and overhead > limit:
        yield warn(f'{room} holds {tokens} tokens; splitting {total} so costs {overhead} permille '
                   f'more, above max_overhead_permille {limit}: it runs whole, for '
                   f'{text_ms(whole_ns)}', 'allow more overhead, or a slower guarded stream',
                   about=about, **facts)
    if first_ns > gap_ns:
        yield warn(f'a new prompt of {PROMPT} takes {text_ms(first_ns)} to its first token, and '
                   f'{room} is shorter: a frame can be late for each new prompt', 'shorter '
                   'prompts, another slot, or a longer period of the guarded stream',
                   about=about, **facts)
    yield ok(f'{room} holds {tokens} tokens, splitting {total} so costs {overhead} permille more; '
             f'{speed}', about=about, **facts)


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


def _new_prompt_ns(context: Context, model: Model, cost: Cooperative) -> int:
    """Read a token of a prompt for the first time, where a prefix cache makes that dearer."""
    block = context.config.file.models[model.name].cooperative
    if block is None or block.new_prompt_per_token_us is None:
        return cost.prefill_per_token_ns
    return round(block.new_prompt_per_token_us * 1000)
