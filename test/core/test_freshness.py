"""Stage B: the single instant from which starting a request is useless."""

from making import request
import pytest
from vig_core.freshness import optimistic_runtime_ns, useless_from_ns, verdict
from vig_core.request import Reason
from vig_core.units import ms
from virtual_server import model, variant


def test_useless_is_strictly_greater_than_max_age():
    m = model('m', p50=20, max_age=100)
    assert useless_from_ns(m, ms(7), ms(20)) == ms(7) + ms(80) + 1


def test_without_max_age_the_deadline_is_the_limit():
    assert useless_from_ns(model('m', p50=20, deadline=90), ms(7), ms(20)) == ms(77) + 1


def test_a_max_age_outlives_the_deadline_and_may_undercut_it():
    assert useless_from_ns(model('m', deadline=10, max_age=100), 0, ms(20)) == ms(80) + 1
    assert useless_from_ns(model('m', deadline=100, max_age=50), 0, ms(20)) == ms(30) + 1


def test_never_drop_is_never_useless():
    assert useless_from_ns(model('m', 'never_drop', deadline=1, max_age=1), 0, ms(20)) is None


def test_the_optimistic_runtime_is_the_smallest_median_of_what_may_run():
    three = (variant('m', 'a', p50=30), variant('m', 'b', p50=10, p99=50, quality=0.8),
             variant('m', 'c', p50=5, quality=0.5))
    assert optimistic_runtime_ns(model('m', variants=three)) == ms(5)
    assert optimistic_runtime_ns(model('m', variants=three, min_quality=0.7)) == ms(10)
    assert optimistic_runtime_ns(model('m', variants=three, approved_variants=('a',))) == ms(30)
    assert optimistic_runtime_ns(model('m', variants=three, min_quality=2)) == 0


@pytest.mark.parametrize('contract, reason, text', [
    ({'max_age': 100}, Reason.STALE, 'even main (median 20.0 ms) ends 12.4 ms beyond '
     'max_age: 92.4 ms old at its start, 80.0 ms would do'),
    ({'deadline': 100}, Reason.INFEASIBLE, 'at most 7.6 ms are left to its deadline: main needs '
     '20.0 ms (planned 25.0 ms), 12.4 ms too long')])
def test_the_verdict_names_the_numbers_that_decided(contract, reason, text):
    of = model('m', p50=20, **contract)
    found, because = verdict(request(1, of), ms(92.4), [('main', ms(20), ms(25))])
    assert (found, str(because)) == (reason, text)
