"""The prompts that the quanta of a generative model are measured with."""

import pytest

from vig_governor.config.options import GenerativeOptions
from vig_governor.generation import Generation
from vig_governor.measure.exchange import MeasurementFailed
from vig_governor.measure.quanta import CONTEXTS, contexts_of, prompt_of


def options(**more):
    return GenerativeOptions('PROMPT', 'MAX_TOKENS', 'TEXT', **more)


def tokens_of(context, given, number=0):
    return Generation(given, prompt_of(context, given, number)).prompt_tokens


@pytest.mark.parametrize('template', ['{prompt}', '<|im_start|>user\n{prompt}<|im_end|>\n'])
def test_prompts_have_their_length_with_the_template(template):
    given = options(template=template)
    assert [tokens_of(context, given) for context in CONTEXTS] == list(CONTEXTS)


def test_prompts_begin_differently_and_with_words():
    prompts = [prompt_of(32, options(), number) for number in range(200)]
    assert len({prompt[:9] for prompt in prompts}) == 200
    assert not any(character.isdigit() for prompt in prompts for character in prompt)


@pytest.mark.parametrize('limit, template, contexts', [
    (16_384, '{prompt}', CONTEXTS), (860, '{prompt}', CONTEXTS), (859, '{prompt}', (2, 191)),
    (100, '<user>{prompt}</user>', (4, 25)), (16, '{prompt}', (2, 4))])
def test_where_only_shorter_prompts_are_allowed_those_are_measured(limit, template, contexts):
    given = options(max_prompt_bytes=limit, template=template)
    assert contexts_of(given) == contexts
    for context in contexts:
        job = Generation(given, prompt_of(context, given, 7))
        assert job.prompt_tokens == context and not job.problem


def test_a_limit_that_leaves_one_length_only_is_named_with_one_that_would_do():
    with pytest.raises(MeasurementFailed) as error:
        contexts_of(options(max_prompt_bytes=13))
    assert str(error.value) == (
        'max_prompt_bytes 13 leaves no room for prompts of two lengths, and it takes two to tell '
        'the fixed cost from that of reading; measure with at least 17')
    assert contexts_of(options(max_prompt_bytes=17))
