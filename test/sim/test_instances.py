"""
A server with one instance of a model on two slots: what it costs not to know that.

Two cameras share a detector, a third one has a model of its own. All come at once, so that without
the limit the two take both slots and the second waits inside the server.
"""

from dataclasses import replace

import pytest
from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.sim.engine import SimStream, simulate
from vig_core.sim.server import Server
from vig_core.sim.workload import Periodic, RuntimeLaw
from vig_core.units import ms, NS_PER_S

STREAMS = [SimStream('left', 'detector', Periodic(ms(50))),
           SimStream('right', 'detector', Periodic(ms(50), phase_ns=ms(1))),
           SimStream('third', 'segmenter', Periodic(ms(50), phase_ns=ms(2)))]


def make(instances):
    """Two slots; the detector has as many instances as said to the governor."""
    contract = Contract(deadline_ns=ms(45), max_age_ns=ms(90), period_ns=ms(50))
    detector = Model('detector', Criticality.HIGH, contract,
                     (Variant('main', 'det', RuntimeProfile(ms(20), ms(20)),
                              instances=instances),), QueuePolicy.LATEST_PER_KEY, 2)
    segmenter = Model('segmenter', Criticality.HIGH, contract,
                      (Variant('main', 'seg', RuntimeProfile(ms(20), ms(20))),))
    return System(models={'detector': detector, 'segmenter': segmenter}, slots=2,
                  margin_percent=100)


def latencies(system):
    """Play two seconds; the mean latency of each camera in milliseconds, of whole frames."""
    run = simulate(Scheduler(system), system, STREAMS, seed=1, duration_ns=2 * NS_PER_S,
                   instances={'det': 1},
                   laws={name: RuntimeLaw(ms(20), ms(20), is_constant=True)
                         for name in ('det', 'seg')})
    assert {end.reason for end in run.ends} == {Reason.COMPLETED}
    return {stream.name: sum(end.ended_at_ns - end.captured_at_ns for end in run.ends
                             if end.stream == stream.name) / ms(1)
            / sum(end.stream == stream.name for end in run.ends) for stream in STREAMS}


def test_a_camera_finds_the_slot_that_a_second_request_would_have_taken_for_nothing():
    without, with_limit = latencies(make(None)), latencies(make(1))
    assert without == {'left': 20, 'right': pytest.approx(39), 'third': pytest.approx(38)}
    assert with_limit == {'left': 20, 'right': pytest.approx(39), 'third': 20}


def test_the_simulated_server_runs_no_more_at_once_than_it_has_instances():
    law = RuntimeLaw(ms(10), ms(10), is_constant=True)
    variant = Variant('main', 'det', RuntimeProfile(ms(10), ms(10)))
    for instances, ends in ((1, [10, 20, 30]), (2, [10, 10, 20]), (3, [10, 10, 10])):
        server = Server(1, {'det': law}, instances={'det': instances})
        assert [server.begin(number, 's', number, variant, 0) // ms(1)
                for number in range(3)] == ends
        server.end(0)
        assert server.begin(9, 's', 9, replace(variant, variant_id='other'), ms(40)) == ms(50)
