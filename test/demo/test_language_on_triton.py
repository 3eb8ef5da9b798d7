"""The served language model on a real server: what it says, in one piece and in many."""

import threading

import numpy as np
import psutil
import pytest
from triton_fixture import require_triton

from vig_governor.backend.base import Answered, Failed
from vig_governor.backend.triton import TritonBackend
from vig_governor.demo.assets import AssetStore, DEFAULT_FOLDER
from vig_governor.demo.language_files import is_converted, WEIGHTS
from vig_governor.demo.language_repository import LANGUAGE_MODELS
from vig_governor.demo.repository import write_repository
from vig_governor.triton_server import TritonServer

from waiting import wait_until

pytestmark = pytest.mark.server

SERVED = ('smollm2_q8', 'smollm2_q4', 'smollm2_q8_uncached')
STREAMED = 'smollm2_q4_stream'
QUESTION = ('<|im_start|>user\nWhat is the capital of France?<|im_end|>\n'
            '<|im_start|>assistant\n').encode()


@pytest.fixture(scope='module')
def store():
    store = AssetStore(DEFAULT_FOLDER)
    if not store.has(WEIGHTS) or not is_converted(store):
        pytest.skip('no converted language model: make setup, then '
                    'python -m vig_governor.demo.assets prepare')
    return store


@pytest.fixture(scope='module')
def backend(store, tmp_path_factory):
    require_triton()
    folder = tmp_path_factory.mktemp('repository')
    environment = write_repository(folder, store, (*SERVED, STREAMED))
    with TritonServer(folder, environment=environment) as server:
        backend = TritonBackend(server.grpc_endpoint)
        backend.connect(timeout_s=10)
        backend.open_stream('test', slots=2, transport='copy')
        backend.inspect(STREAMED, timeout_s=10, may_stream=True)
        yield backend
        backend.close()


@pytest.fixture
def ask(backend):
    def ask(model, prompt, max_tokens):
        slot = backend.acquire('test', 1)
        slot.put_bytes('PROMPT', (1,), [prompt])
        slot.allocate('MAX_TOKENS', (1,), 'INT32')[...] = max_tokens
        outcomes, answered = [], threading.Event()
        backend.infer(1, model, slot,
                      lambda outcome: (outcomes.append(outcome), answered.set()))
        assert answered.wait(60)
        backend.release(1)
        return outcomes[0]
    return ask


def answer(outcome):
    """Give text, tokens, end and what was read of one answer."""
    assert isinstance(outcome, Answered), outcome
    found = {output.name: output for output in outcome.outputs}
    text = found['TEXT'].data
    assert int.from_bytes(text[:4], 'little') == len(text) - 4
    return (text[4:], int(np.frombuffer(found['TOKENS'].data, np.int32)[0]),
            bool(found['END'].data[0]), int(np.frombuffer(found['READ'].data, np.int32)[0]))


@pytest.mark.parametrize('model', SERVED)
def test_every_form_knows_the_capital_of_france_and_ends_its_answer(ask, model):
    text, tokens, is_end, _ = answer(ask(model, QUESTION, 32))
    assert b'Paris' in text
    assert is_end
    assert 4 <= tokens < 32


def test_an_answer_in_quanta_is_the_answer_in_one_piece_and_reads_its_prompt_once(ask):
    whole, tokens, _, _ = answer(ask('smollm2_q8', QUESTION, 32))
    text, reads, is_end = b'', [], False
    answer(ask('smollm2_q8', b'Something else.', 1))
    while not is_end:
        piece, written, is_end, read = answer(ask('smollm2_q8', QUESTION + text, 2))
        text += piece
        reads.append(read)
        assert written <= 2
        assert len(reads) <= tokens
    assert text == whole
    assert reads[0] > 10
    assert set(reads[1:]) == {1}


def test_without_the_prefix_cache_each_quantum_reads_everything_again(ask):
    first, written, _, read = answer(ask('smollm2_q8_uncached', QUESTION, 2))
    _, _, _, read_again = answer(ask('smollm2_q8_uncached', QUESTION + first, 2))
    assert written == 2
    assert read_again == read + written


def test_a_prompt_that_is_too_long_fails_with_both_lengths_and_the_model_goes_on(ask):
    outcome = ask('smollm2_q8', b'word ' * 2000, 1)
    assert isinstance(outcome, Failed)
    assert outcome.is_over
    assert 'the model takes at most 1024 together with its answer' in outcome.detail
    assert b'Paris' in answer(ask('smollm2_q8', QUESTION, 16))[0]


def test_the_decoupled_form_says_the_same_token_by_token(ask):
    outcome = ask(STREAMED, QUESTION, 32)
    assert isinstance(outcome, Answered), outcome
    texts = [output.data[4:] for output in outcome.outputs if output.name == 'TEXT']
    counts = [int(np.frombuffer(output.data, np.int32)[0]) for output in outcome.outputs
              if output.name == 'TOKENS']
    ends = [bool(output.data[0]) for output in outcome.outputs if output.name == 'END']
    whole, tokens, is_end, _ = answer(ask('smollm2_q4', QUESTION, 32))
    assert b''.join(texts) == whole
    assert counts == [1] * tokens + [0]
    assert ends == [False] * tokens + [True]
    assert is_end


def test_a_decoupled_model_that_fails_says_why_and_goes_on(ask, backend):
    outcome = ask(STREAMED, b'word ' * 2000, 1)
    assert isinstance(outcome, Failed)
    assert outcome.is_over
    assert 'the model takes at most 1024 together with its answer' in outcome.detail
    assert isinstance(ask(STREAMED, QUESTION, 1), Answered)


def test_each_request_of_a_decoupled_model_counts_once_on_the_server(ask, backend):
    before = backend.statistics(STREAMED)
    for _ in range(3):
        ask(STREAMED, QUESTION, 2)
    wait_until(lambda: backend.statistics(STREAMED).finished == before.finished + 3, 5)


def test_a_server_with_a_used_stream_ends_at_once(store, tmp_path):
    environment = write_repository(tmp_path, store, [STREAMED])
    server = TritonServer(tmp_path, environment=environment)
    with server:
        backend = TritonBackend(server.grpc_endpoint)
        backend.connect(timeout_s=10)
        backend.open_stream('test', slots=1, transport='copy')
        backend.inspect(STREAMED, timeout_s=10, may_stream=True)
        slot = backend.acquire('test', 1)
        slot.put_bytes('PROMPT', (1,), [QUESTION])
        slot.allocate('MAX_TOKENS', (1,), 'INT32')[...] = 1
        answered = threading.Event()
        backend.infer(1, STREAMED, slot, lambda outcome: answered.set())
        assert answered.wait(60)
        process = psutil.Process(server.pid)
        process.terminate()
        assert process.wait(30) == 0
        backend.close()


def test_the_table_names_each_form_once():
    names = [model.name for model in LANGUAGE_MODELS]
    assert len(set(names)) == 8
    assert set(SERVED) < set(names)
    for model in LANGUAGE_MODELS:
        assert ('decoupled: true' in model.config()) == model.name.endswith(
            ('_stream', '_stream_uncached'))
