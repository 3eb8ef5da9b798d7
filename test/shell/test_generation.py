"""The text of a job between client and server: prompts, answers, characters cut in two."""

from dataclasses import replace

from hypothesis import given, strategies as st
import numpy as np
import pytest

from vig_governor.backend.base import ModelSignature, OutputTensor, TensorSpec
from vig_governor.backend.slots import Slot
from vig_governor.config.options import GenerativeOptions
from vig_governor.encoders.base import EncodeError
from vig_governor.generation import Generation, Quantum, UnusableAnswer

PLAIN = GenerativeOptions(prompt_tensor='PROMPT', max_tokens_tensor='MAX', text_tensor='TEXT')
COUNTED = GenerativeOptions(prompt_tensor='PROMPT', max_tokens_tensor='MAX', text_tensor='TEXT',
                            tokens_tensor='N', end_tensor='END', template='Q: {prompt} A:')
SIGNATURE = ModelSignature('llm', (TensorSpec('PROMPT', 'BYTES', (1,)),
                                   TensorSpec('MAX', 'INT32', (1, 1))), ())


def text(content):
    return OutputTensor('TEXT', 'BYTES', (1,), len(content).to_bytes(4, 'little') + content)


def number(name, value):
    return OutputTensor(name, 'INT32', (1,), np.int32(value).tobytes())


def filled(job, tokens=5):
    slot = Slot(lambda size: pytest.fail('no shared memory here'), lambda segment: None)
    slot.allocate = lambda name, shape, datatype: slot.tensors.setdefault(
        name, np.zeros(shape, {'INT32': np.int32}[datatype]))
    job.fill(slot, tokens, SIGNATURE)
    return slot.tensors


def test_the_prompt_travels_with_what_was_written_and_the_template_stands_around_it_once():
    job = Generation(COUNTED, 'hi')
    assert filled(job)['PROMPT'].array.item() == b'Q: hi A:'
    job.append(Quantum(b' you', 2, False))
    assert filled(job)['PROMPT'].array.item() == b'Q: hi A: you'


@given(st.lists(st.binary(max_size=9)))
def test_whatever_was_written_all_of_it_travels_with_the_next_quantum(answers):
    job, before = Generation(COUNTED, 'hi'), b'Q: hi A:'
    for answer in answers:
        job.append(Quantum(answer, len(answer), False))
        before += answer
        assert filled(job)['PROMPT'].array.item() == before


def test_the_limit_on_tokens_is_written_in_the_shape_and_type_of_the_model():
    limit = filled(Generation(PLAIN, 'hi'), tokens=7)['MAX']
    assert limit.shape == (1, 1) and limit.dtype == np.int32 and limit.item() == 7


def test_a_text_that_looks_like_the_template_is_put_in_as_it_is():
    assert filled(Generation(COUNTED, '{prompt}'))['PROMPT'].array.item() == b'Q: {prompt} A:'


def test_a_character_that_a_quantum_cuts_in_two_is_told_once_and_whole():
    job, said = Generation(PLAIN, ''), []
    for piece in ('Straße 世'.encode()[:5], 'Straße 世'.encode()[5:10], 'Straße 世'.encode()[10:]):
        job.append(Quantum(piece, 1, False))
        said.append(job.take_text(is_last=False))
    assert ''.join(said) == 'Straße 世'
    assert '\ufffd' not in ''.join(said)
    assert filled(job)['PROMPT'].array.item() == 'Straße 世'.encode()


def test_half_a_character_at_the_very_end_is_told_as_one_that_cannot_be_read():
    job = Generation(PLAIN, '')
    job.append(Quantum('世'.encode()[:2], 1, True))
    assert job.take_text(is_last=True) == '\ufffd'


def test_a_prompt_over_the_limit_is_refused_with_the_name_of_the_limit():
    options = GenerativeOptions(prompt_tensor='PROMPT', max_tokens_tensor='MAX',
                                text_tensor='TEXT', max_prompt_bytes=4)
    assert not Generation(options, 'four').problem
    job = Generation(options, 'fünf!')
    with pytest.raises(EncodeError, match=r'6 bytes, more than cooperative.max_prompt_bytes.*4'):
        filled(job)


def test_one_answer_is_read_with_its_count_and_its_end():
    job = Generation(COUNTED, '')
    outputs = [text(b' the end'), number('N', 2), number('END', 1)]
    assert job.read(outputs, 8) == Quantum(b' the end', 2, True)
    assert not job.read([text(b' go'), number('N', 2), number('END', 0)], 2).is_end


def test_the_answers_of_a_decoupled_model_are_one_quantum():
    job = Generation(COUNTED, '')
    outputs = [part for piece in (b' a', b' b', b'') for part in (
        text(piece), number('N', bool(piece)), number('END', not piece))]
    assert job.read(outputs, 8) == Quantum(b' a b', 2, True)


def test_without_a_count_an_answer_has_the_tokens_that_were_asked_for_and_an_empty_one_none():
    job = Generation(PLAIN, '')
    assert job.read([text(b' more')], 4) == Quantum(b' more', 4, False)
    assert job.read([text(b'')], 4) == Quantum(b'', 0, True)


def test_without_a_count_a_decoupled_model_writes_a_token_with_each_text():
    job = Generation(PLAIN, '')
    assert job.read([text(b' a'), text(b' b')], 4) == Quantum(b' a b', 2, True)
    assert job.read([text(b' a'), text(b' b')], 2) == Quantum(b' a b', 2, False)


def test_an_answer_without_its_outputs_is_named_unusable():
    with pytest.raises(UnusableAnswer, match="no output 'TEXT'"):
        Generation(COUNTED, '').read([number('N', 1)], 1)
    with pytest.raises(UnusableAnswer, match="no output 'N'"):
        Generation(COUNTED, '').read([text(b'x')], 1)
    with pytest.raises(UnusableAnswer, match='ends before its last element'):
        Generation(PLAIN, '').read([OutputTensor('TEXT', 'BYTES', (1,), b'\x09\0\0\0x')], 1)


@pytest.mark.parametrize('prompt, tokens', [
    ('', 0), (' \t ', 0), ('Why?', 2), ('Where is the red cup?', 6), ('192.168.0.1', 11),
    ('12. The robot', 5), ('Alexandra Konstantinopoulou', 5), ('a\n\nb', 4),
    ('Küche', 3), ('где', 3), ('<|im_start|>user\n', 3), ('</s><end_of_turn>', 2), ('a < b', 3)])
def test_the_length_of_a_prompt_is_estimated_from_its_words_digits_and_signs(prompt, tokens):
    assert Generation(PLAIN, prompt).prompt_tokens == tokens


def test_a_long_prompt_is_estimated_from_its_beginning():
    job = Generation(replace(PLAIN, max_prompt_bytes=10**6), 'seven letters ' * 50_000)
    assert job.prompt_tokens == pytest.approx(100_000, rel=1e-3)


def test_the_template_counts_and_what_is_too_long_to_be_sent_does_not():
    assert Generation(replace(PLAIN, template='<s>{prompt}</s>'), 'Why?').prompt_tokens == 4
    assert Generation(replace(PLAIN, max_prompt_bytes=3), '!' * 10**6).prompt_tokens == 3
