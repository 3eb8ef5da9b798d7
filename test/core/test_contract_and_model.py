"""What a contract, a model and a system refuse, with the sentence that says why."""

from dataclasses import replace

import pytest
from vig_core.contract import Contract, MissBudget
from vig_core.errors import ContractError
from vig_core.model import RuntimeProfile
from vig_core.units import ms, seconds, text_ms, us
from virtual_server import model, system, variant


@pytest.mark.parametrize('make, path, sentence', [
    (lambda: Contract(deadline_ns=0), 'deadline', '0 ns is not a positive duration'),
    (lambda: Contract(deadline_ns=1, max_age_ns=0), 'max_age', 'not a positive duration'),
    (lambda: Contract(deadline_ns=1, period_ns=-3), 'period', '-3 ns is not a positive'),
    (lambda: Contract(deadline_ns=1, consumer_period_ns=0), 'consumer_period', 'not a positive'),
    (lambda: Contract(deadline_ns=1, release_jitter_ns=-1), 'release_jitter', 'is negative'),
    (lambda: Contract(deadline_ns=1, variant_dwell_ns=-1), 'variant_dwell', 'is negative'),
    (lambda: Contract(deadline_ns=1, phase_ns=-1), 'phase', 'is negative'),
    (lambda: Contract(deadline_ns=1, miss_budget=MissBudget(1, 4, 1)), 'miss_budget',
     'needs consumer_period'),
    (lambda: Contract(deadline_ns=1, approved_variants=()), 'approved_variants',
     'approves no variant'),
    (lambda: MissBudget(4, 4, 1), 'miss_budget.max_misses', 'must be smaller than window_cycles'),
    (lambda: MissBudget(2, 4, 3), 'miss_budget.max_consecutive', 'between 0 and max_misses'),
    (lambda: MissBudget(-1, 4, 0), 'miss_budget.max_misses', 'negative'),
    (lambda: MissBudget(0, 0, 0), 'miss_budget.window_cycles', 'outside 1..1024'),
    (lambda: MissBudget(0, 1025, 0), 'miss_budget.window_cycles', 'outside 1..1024'),
    (lambda: RuntimeProfile(p50_ns=0, p99_ns=5), 'profile', 'positive and in order'),
    (lambda: RuntimeProfile(p50_ns=6, p99_ns=5), 'profile', 'positive and in order'),
    (lambda: RuntimeProfile(p50_ns=4, p95_ns=6, p99_ns=5), 'profile', 'positive and in order'),
    (lambda: model('m', variants=()), 'm.variants', 'at least one variant'),
    (lambda: model('m', variants=(variant('m', p50=1), variant('m', p50=2))), 'm.variants',
     'variant ids repeat: main, main'),
    (lambda: model('m', 'fifo', capacity=0), 'm.queue.capacity', 'no room for a request'),
    (lambda: model('m', 'latest', capacity=2), 'm.queue.capacity', 'keeps one waiting request'),
    (lambda: model('m', 'latest', is_stateful=True), 'm.queue.policy', 'use fifo or never_drop'),
    (lambda: model('m', 'latest_per_key', is_stateful=True), 'm.queue.policy', 'use fifo'),
    (lambda: model('m', approved_variants=('big',)),
     'm.contract.extension.approved_variants', "'big' is not a variant of this model; there are "
     'main'),
    (lambda: system(model('m'), slots=0), 'backend.slots', 'nothing to run on'),
    (lambda: system(model('m'), pipelining_depth=-1), 'backend.pipelining_depth', 'negative'),
    (lambda: system(model('m'), pipelining_lead_ns=-1), 'backend.pipelining_lead_ms', 'negative'),
    (lambda: system(model('m'), margin_percent=99), 'backend.safety_margin_percent',
     'at least 100'),
    (lambda: system(model('m'), inference_timeout_ns=0), 'backend.inference_timeout_ms',
     'positive'),
    (lambda: system(model('m'), streams={'front': 'n'}), 'streams.front.model',
     "'n' is no model; there are m"),
    (lambda: system(model('m'), no_corun=frozenset({frozenset({'m', 'n'})})),
     'backend.no_corun', "'n' is no model"),
    (lambda: system(model('m', variants=[replace(variant('m', p50=1), instances=0)])),
     'models.m.variants', '0 instances of m_main leave nothing to run on'),
    (lambda: system(*(model(name, variants=[replace(variant('m', p50=1), instances=count)])
                      for name, count in (('one', 1), ('two', 2)))),
     'models.two.variants', 'm_main has 2 instances here and 1 at models.one'),
])
def test_what_cannot_bind_is_refused_with_its_path_and_a_sentence(make, path, sentence):
    with pytest.raises(ContractError) as caught:
        make()
    assert '.'.join(caught.value.path) == path
    assert sentence in caught.value.reason


def test_a_contract_without_consumer_period_is_judged_by_its_period():
    assert Contract(deadline_ns=1, period_ns=5).cycle_ns == 5
    assert Contract(deadline_ns=1, period_ns=5, consumer_period_ns=7).cycle_ns == 7
    assert Contract(deadline_ns=1).cycle_ns is None


@pytest.mark.parametrize('criticality, period, is_guarded', [
    ('protected', 33, True), ('high', 33, True), ('normal', 33, False),
    ('best_effort', 33, False), ('protected', None, False)])
def test_protected_and_high_with_a_period_are_guarded(criticality, period, is_guarded):
    assert model('m', criticality=criticality, period=period).is_guarded is is_guarded


def test_conversions_give_whole_nanoseconds():
    assert (ms(0.1), us(1.5), seconds(2)) == (100_000, 1_500, 2_000_000_000)
    assert [text_ms(value) for value in (12_400_000, -100_000, 9_999_000_000, 10_000_000_000)] == [
        '12.4 ms', '-0.1 ms', '9999.0 ms', '10 s']
