"""Waiting for the next frame: its quantiles, and each condition by itself."""

from statistics import NormalDist

from making import request
import pytest
from vig_core.clockwork import Clockwork
from vig_core.contract import Criticality
from vig_core.coverage import CycleMonitor
from vig_core.forecast import ArrivalForecast
from vig_core.model import RuntimeProfile
from vig_core.patience import long_run_ns, short_run_ns, wait_for_successor
from vig_core.sim.workload import RuntimeLaw
from vig_core.units import ms
from virtual_server import model

PROFILE = RuntimeProfile(ms(20), ms(80))


def judge(*, now=27, arrived=3, free=(), max_age=66, profile=PROFILE, newest=-33.0):
    """Judge a frame captured at 0 whose successor is expected 33 after its arrival."""
    of = model('cam', 'latest', criticality='protected', deadline=66, max_age=max_age, period=33)
    assert of.criticality is Criticality.PROTECTED
    frame = request(1, of, captured=0, arrived=arrived)
    forecast = ArrivalForecast(of.contract)
    forecast.note(arrived_at_ns=ms(arrived), captured_at_ns=0)
    monitor = CycleMonitor(of.contract, ms(-32))
    monitor.judge_before(ms(now))
    monitor.deliver(ms(newest), ms(now))
    return wait_for_successor(
        frame, profile, free_at=[(ms(now), True), *((ms(each), False) for each in free)],
        forecast=forecast, monitor=monitor, clock=Clockwork(ms(now)))


def test_a_frame_waits_until_its_successor_counts_as_lost():
    wait = judge()
    assert (wait.successor_ns, wait.until_ns) == (ms(36), ms(39) + 1)
    assert judge(now=39).successor_ns == ms(39)
    assert judge(now=39.000001) is None


@pytest.mark.parametrize('change', [
    {'max_age': None}, {'now': 3}, {'max_age': 80}, {'free': [36]},
    {'profile': RuntimeProfile(ms(8), ms(400)), 'now': 27}])
def test_each_condition_is_needed(change):
    assert judge(**change) is None


def test_another_slot_that_is_free_too_late_helps_nobody():
    assert judge(free=[36.5]) is not None


@pytest.mark.parametrize('p50, p99', [(10, 11), (30, 45), (5, 200)])
def test_the_quantiles_are_those_of_the_lognormal_law(p50, p99):
    profile = RuntimeProfile(ms(p50), ms(p99))
    sigma = RuntimeLaw.of(profile).sigma
    for value_ns, share in ((long_run_ns(profile), 0.927), (short_run_ns(profile), 0.122)):
        normal = NormalDist(0, sigma)
        from_law = profile.p50_ns * 2.718281828459045 ** normal.inv_cdf(share)
        assert value_ns == pytest.approx(from_law, rel=0.005)
