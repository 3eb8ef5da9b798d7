"""Draws are pure functions of seed and names; distributions are what they say."""

from statistics import median

import pytest
from vig_core.model import RuntimeProfile, Variant
from vig_core.sim.client import Client
from vig_core.sim.workload import Continuous, Periodic, Poisson, RuntimeLaw, Trace
from vig_core.units import ms

VARIANT = Variant('v', 'm', RuntimeProfile(ms(30), ms(45)))


def test_the_same_frame_costs_the_same_in_any_order():
    law = RuntimeLaw.of(VARIANT.profile)
    forwards = [law.draw_ns(7, 'cam', index, VARIANT) for index in range(50)]
    backwards = [law.draw_ns(7, 'cam', index, VARIANT) for index in reversed(range(50))]
    assert forwards == backwards[::-1]
    assert forwards != [law.draw_ns(8, 'cam', index, VARIANT) for index in range(50)]


def test_runtimes_have_the_profiles_quantiles_and_are_clamped():
    law = RuntimeLaw(ms(30), ms(45))
    runs = sorted(law.draw_ns(1, 'cam', index, VARIANT) for index in range(4000))
    assert median(runs) == pytest.approx(ms(30), rel=0.02)
    assert runs[3960] == pytest.approx(ms(45), rel=0.04)
    wild = RuntimeLaw(ms(1), ms(1000))
    drawn = [wild.draw_ns(1, 'cam', index, VARIANT) for index in range(1000)]
    assert (min(drawn), max(drawn)) == (ms(0.5), ms(3000))


def test_a_periodic_sensor_keeps_its_clock_and_its_envelope():
    frames = list(Periodic(ms(33), ms(7), ms(2), ms(3)).frames(5, 'cam', ms(33000)))
    assert len(frames) == 1000
    shifts = [frame.captured_at_ns - ms(7) - frame.index * ms(33) for frame in frames]
    assert -ms(2) <= min(shifts) < -ms(1.9)
    assert ms(1.9) < max(shifts) <= ms(2)
    assert {frame.arrives_at_ns - frame.captured_at_ns for frame in frames} == {ms(3)}


def test_bursts_leave_out_what_lies_between_them():
    arrivals = Periodic(10, windows=((20, 41), (90, 100)))
    assert [frame.captured_at_ns for frame in arrivals.frames(1, 'x', 200)] == [20, 30, 40, 90]


def test_poisson_begins_at_its_phase_and_keeps_its_rate():
    frames = list(Poisson(100, phase_ns=ms(5)).frames(3, 'x', ms(100_000)))
    assert frames[0].captured_at_ns == ms(5)
    assert len(frames) == pytest.approx(10_000, rel=0.05)


def take(client, now_ns, was_run=True):
    frame = client.next_frame(now_ns, was_run=was_run)
    return None if frame is None else frame.captured_at_ns


def test_a_synchronous_client_takes_the_newest_release_and_gives_up_the_older():
    client = Client(Trace(((0, 0), (10, 10), (20, 20), (30, 30), (60, 60))), 1, 'x', 100)
    assert [take(client, now_ns) for now_ns in (0, 12, 45, 46)] == [0, 10, 30, 60]
    assert client.given_up == 1
    assert take(client, 70) is None


def test_an_endless_client_asks_again_when_it_is_answered_and_pauses_when_refused():
    client = Client(Continuous(retry_ns=5), 1, 'x', 100)
    assert take(client, 0) == 0
    assert take(client, 17) == 17
    assert take(client, 20, was_run=False) == 25
    assert take(client, 100) is None
