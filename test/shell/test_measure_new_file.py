"""The new file is complete and valid, the old one untouched."""

import os

from config_text import changed, COMPLETE, load, SIMPLE
import pytest

from vig_governor.cli import main
from vig_governor.config import load_config
from vig_governor.config.schema_model import Artifact, Manifest, Profile
from vig_governor.measure.calibrate_cli import between_models, pairs_of
from vig_governor.measure.interference import Suggestion
from vig_governor.measure.lines import QuantumCost
from vig_governor.measure.new_file import (
    CannotWrite, check_output, Figures, new_content, write_file,
)

PROFILE = Profile(p50_us=7000, p95_us=8000, p99_us=9000, samples=300, manifest=Manifest(
    revision=2, artifact=Artifact(digest='sha256:12', versions=['1'])))


@pytest.fixture
def source(tmp_path):
    path = tmp_path / 'vig.yaml'
    path.write_text('# my words\n' + SIMPLE, encoding='utf-8')
    return path


@pytest.mark.parametrize('place, words', [
    ('no/where/x.json', 'there is no folder'), ('.', 'this is a folder')])
@pytest.mark.parametrize('command', [['profile'], ['calibrate', '-o', 'new.yaml']])
def test_figures_that_have_no_place_are_refused_before_anything_is_measured(
        source, tmp_path, monkeypatch, capsys, command, place, words):
    monkeypatch.chdir(tmp_path)
    assert main([*command, '-c', str(source), '--json', place]) == 1
    said = capsys.readouterr()
    assert f'--json {place}: {words}' in said.err and not said.out


def written(source, output, figures):
    write_file(output, new_content(source, output, figures), ['Written by a test.'])
    return load_config(output)


def test_only_what_was_measured_changes(source, tmp_path):
    before = source.read_bytes()
    new = written(source, tmp_path / 'new.yaml', Figures({'detector_small': PROFILE}))
    old = load_config(source)
    large, small = new.file.models['detector'].variants
    assert small.profile == PROFILE
    assert large == old.file.models['detector'].variants[0]
    assert new.system.models['detector'].contract == old.system.models['detector'].contract
    assert new.streams == old.streams
    assert source.read_bytes() == before


def test_every_key_of_the_format_survives(tmp_path):
    source = tmp_path / 'vig.yaml'
    source.write_text(COMPLETE, encoding='utf-8')
    assert written(source, tmp_path / 'new.yaml', Figures({})).file == load_config(source).file


def test_interference_replaces_the_old_one(source, tmp_path):
    new = written(source, tmp_path / 'new.yaml', Figures({}, [
        {'victim': 'detector_large', 'co_tenant': 'detector_small', 'added_us': 1500}]))
    assert new.system.interference_ns == {('detector_large', 'detector_small'): 1_500_000}


def test_a_measured_cost_of_quanta_replaces_three_figures_and_no_bound(tmp_path):
    source = tmp_path / 'vig.yaml'
    source.write_text(COMPLETE, encoding='utf-8')
    before = load_config(source).file.models['summariser'].cooperative
    after = written(source, tmp_path / 'new.yaml', Figures({}, cooperative={
        'summariser': QuantumCost(7001, 123.45678, 1.25, 2900.04)})).file.models[
            'summariser'].cooperative
    assert (after.base_cost_us, after.tokens_per_second) == (7001, 123.457)
    assert (after.prefill_per_token_us, after.new_prompt_per_token_us) == (1.2, 2900.0)
    assert (after.min_tokens, after.max_total_tokens, after.max_overhead_permille) == (
        before.min_tokens, before.max_total_tokens, before.max_overhead_permille)


@pytest.mark.parametrize('name', ['1e3', '010', '1:30', 'off', 'null', '+5', '0x10', 'é'])
def test_texts_that_look_like_something_else_stay_texts(source, tmp_path, name):
    source.write_text(SIMPLE.replace('detector_large', f'"{name}"'), encoding='utf-8')
    new = written(source, tmp_path / 'new.yaml', Figures({}))
    assert new.file.models['detector'].variants[0].backend_model == name


def test_relative_paths_still_lead_to_the_same_files(source, tmp_path):
    source.write_text(changed('slots: 1', 'slots: 1\n  model_repository: models'))
    (tmp_path / 'other').mkdir()
    new = written(source, tmp_path / 'other' / 'new.yaml', Figures({}))
    assert new.backend.model_repository == str(tmp_path / 'models')


def test_the_input_is_refused_as_output_by_whatever_name(source, tmp_path):
    link = tmp_path / 'link.yaml'
    link.symlink_to(source)
    hard = tmp_path / 'hard.yaml'
    os.link(source, hard)
    for output in (source, link, hard):
        with pytest.raises(CannotWrite, match='this is the input'):
            check_output(source, output, may_replace=True)


def test_another_file_is_replaced_only_when_asked(source, tmp_path):
    other = tmp_path / 'other.yaml'
    other.write_text('precious')
    with pytest.raises(CannotWrite, match='exists already'):
        check_output(source, other, may_replace=False)
    check_output(source, other, may_replace=True)
    with pytest.raises(CannotWrite, match='there is no folder'):
        check_output(source, tmp_path / 'no' / 'new.yaml', may_replace=False)


def test_two_variants_of_one_model_are_no_suggestion(tmp_path):
    config = load(tmp_path, COMPLETE)
    large, llm = (config.system.models[name].variants[0].backend_model
                  for name in ('detector', 'summariser'))
    both = Suggestion((large, llm), (1, 1), 3, 2)
    assert between_models(config, [Suggestion((large, large), (1, 1), 3, 2), both]) == [both]


def test_pairs_are_those_that_can_run_together(tmp_path):
    names = ('detector_large', 'detector_small', 'llm')
    one_slot = load(tmp_path, COMPLETE)
    assert pairs_of(one_slot, 'auto', names)[0] == []
    assert 'one slot' in pairs_of(one_slot, 'auto', names)[1]
    found, why = pairs_of(load(tmp_path, changed('slots: 1', 'slots: 2', COMPLETE)), 'auto',
                          ('detector_large', 'llm'))
    assert found == [] and '2 more are excluded by no_corun' in why
    free = load(tmp_path, changed('no_corun: [[detector, summariser]]', 'no_corun: []', COMPLETE))
    assert len(pairs_of(free, 'all', ('detector_large', 'llm'))[0]) == 2
    assert pairs_of(free, 'none', ('detector_large', 'llm'))[0] == []
