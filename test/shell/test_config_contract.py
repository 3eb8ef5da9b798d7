"""The contract's extension: what is contradictory in itself, and what is not enforced."""

from pathlib import Path

from config_text import assert_refused, changed, load, one_notice, SIMPLE
import pytest
import vig_core
from vig_core.contract import Contract, DeliverySemantics, MissBudget
from vig_core.units import ms
import vig_governor
from vig_governor.config.forced import forced_misses

BUDGET = 'miss_budget: {max_misses: 2, window_cycles: 100, max_consecutive: 1}'


def extended(*lines, text=SIMPLE):
    """Give the simple file with an extension of so many keys; the first is in line 14."""
    return changed('      max_age_ms: 80\n', '      max_age_ms: 80\n      extension:\n'
                   '        version: 1\n' + ''.join(f'        {line}\n' for line in lines), text)


def forced(**contract):
    """Give what a contract forces: in a row, and in its window."""
    values = {key: ms(value) if key.endswith('_ns') else value for key, value in contract.items()}
    runtime_ns, spacing_ns = values.pop('runtime_ns', 0), values.pop('spacing_ns', 0)
    return [(one.in_a_row, one.in_window) for one in forced_misses(
        Contract(deadline_ns=ms(33), **values), runtime_ns=runtime_ns, spacing_ns=spacing_ns)]


def test_a_consumer_twice_as_fast_as_the_camera_cannot_have_a_new_sample_each_cycle(tmp_path):
    text = extended('consumer_period_ms: 16.5', 'require_new_sample_each_cycle: true', BUDGET)
    assert_refused(tmp_path, text, line=16,
                   key='models.detector.contract.extension.miss_budget',
                   says=['a new sample comes every 33.0 ms', 'needs one every 16.5 ms',
                         '1 cycles in a row and 50 of 100 must be missed',
                         'allows 1 in a row and 2 of 100'])


def test_without_a_budget_the_same_is_only_noticed(tmp_path):
    text = extended('consumer_period_ms: 16.5', 'require_new_sample_each_cycle: true')
    one_notice(tmp_path, text, 'consumer_period_ms', '1 cycles in a row must be missed', line=14)


def test_a_result_that_is_worthless_long_before_the_next_one_comes_is_refused(tmp_path):
    text = changed('max_age_ms: 80', 'max_age_ms: 13', extended('consumer_period_ms: 5', BUDGET))
    assert_refused(tmp_path, text, line=15,
                   key='models.detector.contract.extension.miss_budget',
                   says=['worthless after 13.0 ms', 'for 20.0 ms each time there is none',
                         '3 cycles in a row and 46 of 100'])


@pytest.mark.parametrize('semantics', ['every_event', 'stateful_sequence'])
def test_every_event_cannot_come_through_a_queue_that_keeps_the_newest(tmp_path, semantics):
    text = extended(f'delivery_semantics: {semantics}')
    assert_refused(tmp_path, text, line=14, value=semantics,
                   key='models.detector.contract.extension.delivery_semantics',
                   says=['n - 1 are superseded', 'use fifo or never_drop'])
    load(tmp_path, changed('policy: latest, capacity: 1', 'policy: fifo, capacity: 4', text))


def test_what_nothing_forces_is_empty():
    camera = {'period_ns': 33, 'consumer_period_ns': 33, 'max_age_ns': 66}
    assert forced(**camera) == []
    assert forced(**camera, require_new_sample_each_cycle=True, runtime_ns=60) == []
    assert forced(consumer_period_ns=10, max_age_ns=1) == []


def test_the_arithmetic_takes_the_slower_of_camera_and_server():
    contract = {'period_ns': 30, 'consumer_period_ns': 10, 'max_age_ns': 40,
                'miss_budget': MissBudget(2, 60, 1)}
    assert forced(**contract, runtime_ns=10) == []
    assert forced(**contract, runtime_ns=31) == [(2, 40)]
    assert forced(**contract, runtime_ns=31, spacing_ns=50) == [(4, 48)]
    assert forced(**contract, runtime_ns=31,
                  delivery_semantics=DeliverySemantics.EVERY_EVENT) == []


@pytest.mark.parametrize('line, key, sentence', [
    ('delivery_boundary: consumer', 'delivery_boundary', 'its own publication'),
    ('evidence_required: qualified_slo', 'evidence_required', 'neither is ever made'),
    ('minimum_background_progress_pct: 5', 'minimum_background_progress_pct', 'observed'),
    ('max_input_kib: 64', 'max_input_kib', 'vig doctor compares'),
    ('max_occupancy_pct: 90', 'max_occupancy_pct', 'vig doctor compares'),
    ('release_jitter_ms: 17', 'release_jitter_ms', 'cannot be told from the next')])
def test_what_is_not_enforced_or_hardly_meant_is_one_notice_with_its_line(
        tmp_path, line, key, sentence):
    one_notice(tmp_path, extended(line), f'extension.{key} = ', sentence, line=14)
    assert len(load(tmp_path, extended(line)).notices) == 1


def test_an_order_that_nothing_keeps_is_noticed(tmp_path):
    text = changed('policy: latest, capacity: 1', 'policy: fifo, capacity: 4',
                   extended('delivery_semantics: stateful_sequence'))
    one_notice(tmp_path, text, 'delivery_semantics', 'counted as a missed cycle', line=14)


def test_keys_without_effect_are_noticed(tmp_path):
    text = changed('      period_ms: 33\n', '', changed(
        'class: protected', 'class: normal', extended(
            'phase_ms: 5', 'require_new_sample_each_cycle: true')))
    one_notice(tmp_path, text, 'phase_ms', 'has no cycles', line=13)
    one_notice(tmp_path, text, 'require_new_sample_each_cycle', 'has no cycles', line=14)
    text = changed('      max_age_ms: 80\n', '', extended('consumer_period_ms: 33', BUDGET))
    one_notice(tmp_path, text, 'miss_budget', 'can never be broken', line=14)


def test_the_observation_window_reaches_the_core(tmp_path):
    contract = load(tmp_path, extended('observation_window: 40')).system.models[
        'detector'].contract
    assert contract.observation_window == 40


def test_a_required_evidence_is_read_by_nothing_that_observes():
    """Whoever stores, resolves or explains it may name it; no other file does."""
    roots = [Path(package.__file__).parent for package in (vig_core, vig_governor)]
    naming = {path.name for root in roots for path in root.rglob('*.py')
              if 'evidence_required' in path.read_text(encoding='utf-8')}
    assert naming == {'contract.py', 'schema_model.py', 'resolve_contract.py'}
