"""Stage D: the best variant that still meets the deadline, and the hysteresis."""

import pytest
from vig_core.actions import OverloadState
from vig_core.model import QualitySource
from vig_core.units import ms
from vig_core.variants import VariantSelector
from virtual_server import model, variant

THREE = (variant('m', 'large', p50=30), variant('m', 'medium', p50=10, quality=0.8),
         variant('m', 'small', p50=20, quality=0.5))


def p99(each):
    """Plan with the profile."""
    return each.profile.p99_ns


def choose(selector, budget, start=0.0, overload=OverloadState.NORMAL):
    """Resolve with a budget until the deadline; milliseconds."""
    return selector.resolve(start_ns=ms(start), deadline_ns=ms(start + budget),
                            overload=overload, plans_ns=[p99(each) for each in selector.variants])


@pytest.mark.parametrize('budget, expected', [
    (30, 'large'), (29.999999, 'medium'), (10, 'medium'), (9.999999, 'medium'), (-5, 'medium')])
def test_the_best_that_fits_and_the_measured_fastest_when_none_does(budget, expected):
    assert choose(VariantSelector(model('m', variants=THREE)), budget).variant.variant_id == (
        expected)


@pytest.mark.parametrize('overload, expected', [
    ('NORMAL', 'large'), ('FRESHNESS_PRESSURE', 'large'), ('DEGRADED', 'medium'),
    ('REJECT_BEST_EFFORT', 'medium'), ('PROTECTED_ONLY', 'medium')])
def test_from_degraded_on_the_fastest(overload, expected):
    choice = choose(VariantSelector(model('m', variants=THREE)), 100,
                    overload=OverloadState[overload])
    assert choice.variant.variant_id == expected


def run(selector, budget, start, overload=OverloadState.NORMAL):
    """Resolve and commit, as a dispatch does."""
    choice = choose(selector, budget, start, overload)
    selector.commit(choice, ms(start))
    return choice.variant.variant_id


def test_down_at_once_and_up_after_the_dwell():
    selector = VariantSelector(model('m', variants=THREE, variant_dwell_ns=ms(100)))
    assert run(selector, 100, 0) == 'large'
    assert run(selector, 15, 10) == 'medium'
    assert [run(selector, 100, at) for at in (20, 119.999999, 120, 130)] == [
        'medium', 'medium', 'large', 'large']


def test_under_freshness_pressure_the_dwell_is_twice_as_long():
    pressure = OverloadState.FRESHNESS_PRESSURE
    selector = VariantSelector(model('m', variants=THREE, variant_dwell_ns=ms(100)))
    assert run(selector, 15, 0, pressure) == 'medium'
    assert [run(selector, 100, at, pressure) for at in (20, 219.999999, 220)] == [
        'medium', 'medium', 'large']


def test_resolving_alone_changes_nothing():
    selector = VariantSelector(model('m', variants=THREE, variant_dwell_ns=ms(100)))
    run(selector, 15, 0)
    for at in range(20, 500, 20):
        assert choose(selector, 100, at).variant.variant_id == 'medium'


def test_the_declared_order_does_not_matter_the_quality_does():
    selector = VariantSelector(model('m', variants=tuple(reversed(THREE))))
    assert [each.variant_id for each in selector.variants] == ['large', 'medium', 'small']
    assert selector.current.variant_id == 'large'


@pytest.mark.parametrize('change, reason', [
    ({'variants': (THREE[0], variant('m', 'b', p50=1, signature='x'))},
     'the variants have different inputs or outputs'),
    ({'variants': (THREE[0], variant('m', 'b', p50=1, source=QualitySource.UNKNOWN))},
     "the quality of variant 'b' has no known source"),
    ({'variants': THREE, 'policy': 'fifo', 'is_stateful': True},
     'the model is stateful: its variants do not share their state')])
def test_variants_that_are_not_interchangeable_leave_the_first_declared(change, reason):
    m = model('m', **change)
    assert m.reason_against_selection == reason
    assert [each.variant_id for each in VariantSelector(m).variants] == ['large']


def test_a_single_variant_needs_no_reason():
    m = model('m', variants=(variant('m', p50=1, source=QualitySource.UNKNOWN),))
    assert m.reason_against_selection is None


def test_only_the_approved_and_good_enough_are_usable():
    assert [each.variant_id for each in VariantSelector(
        model('m', variants=THREE, approved_variants=('small', 'medium'))).variants] == [
            'medium', 'small']
    assert [each.variant_id for each in VariantSelector(
        model('m', variants=THREE, min_quality=0.8)).variants] == ['large', 'medium']
    assert VariantSelector(model('m', variants=THREE, min_quality=1.5)).current is None
