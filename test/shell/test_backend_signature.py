"""What a model's configuration is read as, and what is refused or warned about."""

import pytest

from vig_governor.backend.base import ModelSignature, TensorSpec
from vig_governor.backend.calls import wire_shape
from vig_governor.backend.signature import (check_complete, check_input, NotGovernable,
                                            signature_of, SignatureMismatch)
from vig_governor.backend.slots import FilledTensor
from vig_governor.endpoints import is_loopback

DETECTOR = {
    'name': 'detector',
    'max_batch_size': 8,
    'input': [{'name': 'image', 'data_type': 'TYPE_FP32', 'dims': ['3', '-1', '300']},
              {'name': 'hint', 'data_type': 'TYPE_STRING', 'dims': ['1'], 'optional': True}],
    'output': [{'name': 'boxes', 'data_type': 'TYPE_FP32', 'dims': ['-1', '4']}],
}


def test_numbers_that_come_as_text_become_numbers_and_strings_become_bytes():
    signature = signature_of(DETECTOR)
    assert signature.inputs == (TensorSpec('image', 'FP32', (3, -1, 300)),
                                TensorSpec('hint', 'BYTES', (1,), is_optional=True))
    assert signature.outputs == (TensorSpec('boxes', 'FP32', (-1, 4)),)
    assert signature.max_batch_size == 8 and signature.warnings == ()


@pytest.mark.parametrize('block, words', [
    ({'max_queue_delay_microseconds': '100000'}, 'waits up to 100 ms for a batch'),
    ({'default_queue_policy': {'max_queue_size': 4}}, 'rejects the newest frame'),
    ({'default_queue_policy': {'default_timeout_microseconds': '5'}}, 'default queue timeout'),
    ({'priority_levels': '2'}, 'stall for 500 ms'),
    ({}, 'no priority levels')])
def test_what_hurts_when_it_is_unknown_is_warned_about(block, words):
    warnings = signature_of({**DETECTOR, 'dynamic_batching': block}).warnings
    assert sum(words in warning for warning in warnings) == 1
    assert all("'detector'" in warning for warning in warnings)


@pytest.mark.parametrize('block', [{'model_transaction_policy': {'decoupled': True}},
                                   {'sequence_batching': {}}])
def test_a_model_that_one_answer_for_one_request_cannot_serve_is_refused(block):
    with pytest.raises(NotGovernable, match="'detector'.*config.pbtxt"):
        signature_of({**DETECTOR, **block})


@pytest.mark.parametrize('shape', [(3, 200, 300), (1, 3, 200, 300), (3, -1, 300), (3, -1, -1)])
def test_an_input_fits_with_and_without_the_batch_axis(shape):
    check_input(signature_of(DETECTOR), 'image', 'FP32', shape)


@pytest.mark.parametrize('tensor, datatype, shape, words', [
    ('picture', 'FP32', (3, 1, 300), "no input 'picture'; its inputs are 'image', 'hint'"),
    ('image', 'UINT8', (3, 1, 300), 'wants FP32, not UINT8'),
    ('image', 'FP32', (300, 300, 3), r'axis 0 must be 3, not 300 .wants \[3, any, 300\]'),
    ('image', 'FP32', (300, 3), r'wants 3 axes \[3, any, 300\], not 2 axes \[300, 3\]'),
    ('image', 'FP32', (3, 700_000, 300), 'does not fit into one gRPC message')])
def test_an_input_that_every_frame_would_fail_with_is_refused(tensor, datatype, shape, words):
    with pytest.raises(SignatureMismatch, match=words):
        check_input(signature_of(DETECTOR), tensor, datatype, shape)


def test_a_required_input_that_nothing_fills_is_named():
    with pytest.raises(SignatureMismatch, match="requires the inputs 'image'"):
        check_complete(signature_of(DETECTOR), ['hint'])
    check_complete(signature_of(DETECTOR), ['image'])


@pytest.mark.parametrize('shape, batch, sent', [
    ((3, 4, 300), 8, (1, 3, 4, 300)), ((2, 3, 4, 300), 8, (2, 3, 4, 300)),
    ((3, 4, 300), 0, (3, 4, 300))])
def test_the_batch_axis_is_added_where_the_model_wants_one(shape, batch, sent):
    signature = ModelSignature('m', (TensorSpec('image', 'FP32', (3, -1, 300)),), (), batch)
    assert wire_shape(FilledTensor('image', 'FP32', shape, None), signature) == sent


@pytest.mark.parametrize('endpoint, is_here', [
    ('127.0.0.1:8001', True), ('localhost:8001', True), ('[::1]:8001', True),
    ('127.9.9.9:1', True), ('unix:/run/triton', True), ('192.168.0.7:8001', False),
    ('robot:8001', False)])
def test_only_a_server_on_this_host_shares_memory(endpoint, is_here):
    assert is_loopback(endpoint) is is_here
