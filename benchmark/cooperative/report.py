"""The table of a run, and whether the trade that was published for cutting is met here."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmark.common import told
from benchmark.cooperative.costs import Costs
from benchmark.cooperative.record import Outcome

ANSWERS_FOR_ONE = 20
POINTS = 7.0
"""Published: so many answers for each one without cutting, at no more points of coverage."""


def text(results: Mapping[str, Any]) -> str:
    """Write everything."""
    arms = [Outcome(**one) for one in results['arms']]
    costs = {int(slots): Costs(**one) for slots, one in results['costs'].items()}
    tokens = results['max_tokens']
    lines = [told(results['conditions']),
             f'camera {results["camera"]}, writer {results["writer"]} with answers of at most '
             f'{tokens} tokens; {results["seconds"]:g} s for each arm',
             *(_costs(slots, one, tokens) for slots, one in costs.items()), '',
             'slots  camera  arm     coverage  longest gap  answers  tokens  requests  refused']
    for one in arms:
        lines.append(
            f'{one.slots:5} {one.rate_hz:4g} Hz  {one.arm:6} {one.coverage:7.1f} % '
            f'{one.longest_gap_ms:9.0f} ms {one.answers:8} {one.tokens:7} {one.quanta:9}  '
            + (', '.join(f'{count} {reason}' for reason, count in one.refused.items()) or '-'))
    lines.append('')
    for key in sorted({(one.slots, one.rate_hz) for one in arms}):
        of_key = {one.arm: one for one in arms if (one.slots, one.rate_hz) == key}
        if {'whole', 'cut'} <= set(of_key):
            lines += _verdict(of_key, costs[key[0]], tokens, results['seconds'])
    return '\n'.join(lines) + '\n'


def _costs(slots: int, costs: Costs, tokens: int) -> str:
    beside = ''.join(f'; {model} +{added / 1000:.1f} ms beside the other'
                     for model, added in costs.interference_us.items())
    return (f'{_slots(slots)}: a frame {costs.camera_p50_us / 1000:.1f} ms (p99 '
            f'{costs.camera_p99_us / 1000:.1f}), a request of the writer '
            f'{costs.base_cost_us / 1000:.1f} ms, a token {costs.token_ms:.1f} '
            f'ms, a token of a new prompt {costs.new_prompt_per_token_us / 1000:.1f} ms, '
            f'{tokens} tokens in one piece {costs.whole_us(tokens) / 1000:.0f} ms{beside}')


def _verdict(arms: Mapping[str, Outcome], costs: Costs, tokens: int,
             seconds: float) -> Iterator[str]:
    """Compare cut with whole; where the trade is not met, show the arithmetic."""
    cut, whole = arms['cut'], arms['whole']
    lost = whole.coverage - cut.coverage
    at = f'{_slots(cut.slots)}, {cut.rate_hz:g} Hz'
    factor = (f'{cut.answers / whole.answers:.1f} answers for each one in one piece'
              if whole.answers else f'{cut.answers} answers where none is written in one piece')
    added_us = max(0, cut.quanta - cut.answers) * costs.base_cost_us
    work_us = cut.answers * costs.base_cost_us + 1e6 * cut.tokens / costs.tokens_per_second
    yield (f'{at}: {factor}, for {lost:+.1f} points of coverage; the requests more cost '
           f'{100 * added_us / max(1, work_us):.1f} % of the same answers whole')
    if is_met(cut, whole):
        yield (f'{at}: the published trade ({ANSWERS_FOR_ONE} for one, at most {POINTS:g} '
               'points) is met')
        return
    gap_us = 1e6 / cut.rate_hz - costs.camera_p50_us
    if cut.slots > 1:
        why = ('with a slot for each no text need be cut: in one piece '
               f'{whole.answers} are written, and cutting makes the writer no faster')
    elif costs.whole_us(tokens) <= gap_us:
        why = (f'{tokens} tokens in one piece take {costs.whole_us(tokens) / 1000:.0f} ms and fit '
               f'between two frames, which leave {gap_us / 1000:.0f}: none need be cut')
    else:
        fit = int(max(0.0, gap_us - costs.base_cost_us) * costs.tokens_per_second / 1e6)
        length = cut.tokens / cut.answers if cut.answers else tokens
        share = seconds * cut.rate_hz * fit / length
        why = (f'between two frames {gap_us / 1000:.0f} ms are free, which hold {fit} tokens by '
               f'medians: at most {share:.0f} answers in {seconds:g} s, and the prompts are not '
               'yet read then')
    yield f'{at}: the published trade is not met: {why}'


def is_met(cut: Outcome, whole: Outcome) -> bool:
    """Whether cutting brings so much more; no answer at all in one piece counts as one."""
    return (cut.answers >= ANSWERS_FOR_ONE * max(1, whole.answers)
            and whole.coverage - cut.coverage <= POINTS)


def _slots(count: int) -> str:
    return f'{count} slot{"s" if count > 1 else ""}'
