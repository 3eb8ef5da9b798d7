"""``vig calibrate`` of generative models of known cost on a real server, cut and decoupled."""

import json

import pytest
from triton_fixture import model_repository, require_triton

from vig_governor import cli
from vig_governor.config import load_config
from vig_governor.triton_server import TritonServer

BACKENDS = {'plain': {}, 'cached': {'cache': 'on'}, 'streaming': {}, 'short': {'tokens': '1'}}
HEAD = 'version: 1\nbackend: {{grpc_endpoint: "{endpoint}", slots: 1}}\nmodels:\n'
BLOCK = """\
  {name}:
    class: best_effort
    queue: {{policy: fifo, capacity: 4}}
    contract: {{deadline_ms: 3000, max_age_ms: 9000}}
    decoupled: {decoupled}
    cooperative: {{tokens_per_second: 1, base_cost_us: 1, max_total_tokens: 24, min_tokens: 2,
      tokens_tensor: TOKENS, end_tensor: END}}
    variants: [{{id: main, backend_model: {name}}}]
"""
FEW = ['--runs', '1', '--samples', '100', '--warmup', '2', '--pairs', 'none']


@pytest.fixture(scope='module')
def server(tmp_path_factory):
    """Give a server; a busy machine spoils no cell here."""
    require_triton()
    folder = tmp_path_factory.mktemp('generative')
    repository = model_repository(folder / 'models', {
        name: ('writer', parameters) for name, parameters in BACKENDS.items()})
    with open(repository / 'streaming' / 'config.pbtxt', 'a') as config:
        config.write('model_transaction_policy { decoupled: true }\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('vig_governor.measure.state.MAX_STEAL_PERCENT', 100)
        with TritonServer(repository) as server:
            yield server


def calibrate(server, folder, *names):
    """Calibrate a file with these models; give the exit code, the new file and all figures."""
    old, new = folder / 'vig.yaml', folder / 'measured.yaml'
    old.write_text(HEAD.format(endpoint=server.grpc_endpoint) + ''.join(
        BLOCK.format(name=name, decoupled=str(name == 'streaming').lower()) for name in names))
    code = cli.main(['calibrate', '-c', str(old), '-o', str(new), '--json',
                     str(folder / 'all.json'), *FEW])
    return code, new, json.loads((folder / 'all.json').read_text())


def test_base_cost_rate_and_prefill_of_unary_and_decoupled_models_are_written_down(
        server, tmp_path):
    code, new, _ = calibrate(server, tmp_path, 'plain', 'streaming')
    assert code == 0
    for name in ('plain', 'streaming'):
        block = load_config(new, require_profiles=True).file.models[name].cooperative
        assert 120 < block.tokens_per_second < 400, '4 ms a token; the machine may be busy'
        assert 2_000 < block.base_cost_us < 60_000, '6 ms, plus the way to the server and back'
        assert 120 < block.prefill_per_token_us < 600
        assert block.max_total_tokens == 24 and block.tokens_tensor == 'TOKENS'


def test_a_prefix_cache_is_seen_and_only_what_is_new_is_planned_for_the_quanta_behind(
        server, tmp_path, capsys):
    _, new, figures = calibrate(server, tmp_path, 'cached')
    block = load_config(new).file.models['cached'].cooperative
    assert block.prefill_per_token_us < 110
    assert 120 < block.new_prompt_per_token_us < 600
    assert figures['cooperative']['cached']['new_prompt_per_token_us'] > 120
    assert '(a prefix cache)' in capsys.readouterr().out
    assert '(a prefix cache)' in new.read_text()


def test_a_model_that_ends_too_soon_keeps_its_figures_and_is_named(server, tmp_path, capsys):
    code, new, figures = calibrate(server, tmp_path, 'short')
    assert code == 1
    assert load_config(new).file.models['short'].cooperative.base_cost_us == 1
    assert 'texts ended before' in figures['cooperative']['short']
    assert 'models.short.cooperative: not measured' in capsys.readouterr().out


def test_a_model_without_the_named_inputs_is_one_sentence(server, tmp_path, capsys):
    path = tmp_path / 'wrong.yaml'
    text = HEAD.format(endpoint=server.grpc_endpoint) + BLOCK.format(name='plain',
                                                                     decoupled='false')
    path.write_text(text.replace('{tokens_per', '{prompt_tensor: TEXT_IN, tokens_per'))
    assert cli.main(['calibrate', '-c', str(path), '-o', str(tmp_path / 'new.yaml'), *FEW]) == 1
    assert 'has no input TEXT_IN; its inputs are PROMPT, MAX_TOKENS' in capsys.readouterr().err
