"""The sentences about promises that are broken."""

from vig_core.contract import Contract, Criticality, MissBudget
from vig_core.events import RequestArrived
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.scheduler import Scheduler
from vig_core.units import ms
from vig_governor.contract_findings import contract_findings

CAMERA = Model('cam', Criticality.PROTECTED, Contract(
    ms(33), max_age_ns=ms(40), period_ns=ms(33), consumer_period_ns=ms(33),
    miss_budget=MissBudget(3, 10, 2)), (Variant('v', 'c', RuntimeProfile(ms(5), ms(5))),))
JOB = Model('job', Criticality.BEST_EFFORT, Contract(
    ms(20), max_age_ns=ms(30), observation_window=4, minimum_background_progress_percent=50),
    (Variant('v', 'j', RuntimeProfile(ms(5), ms(5))),))


def seen_at(at_ms):
    """Give both streams of a server that answers nothing."""
    scheduler = Scheduler(System({'cam': CAMERA, 'job': JOB},
                                 streams={'front': 'cam', 'jobs': 'job'}))
    scheduler.handle(RequestArrived(0, 'cam', 'front', '', 0), now_ns=0)
    for number in range(1, min(5, at_ms // 31)):
        at_ns = ms(31 * number)
        scheduler.handle(RequestArrived(number, 'job', 'jobs', '', at_ns), now_ns=at_ns)
    return scheduler.snapshot(now_ns=ms(at_ms)).streams


def test_nothing_is_said_while_the_promises_hold():
    front, jobs = seen_at(70)
    assert front.weakly_hard_misses == front.weakly_hard_consecutive == 2 and jobs.received == 1
    assert not list(contract_findings(CAMERA, front, 0))
    assert not list(contract_findings(JOB, jobs, 0))


def test_a_broken_budget_is_said_with_what_is_allowed():
    front, _ = seen_at(140)
    assert list(contract_findings(CAMERA, front, 0)) == [
        'its miss budget is broken: 4 misses in a window of 10 cycles (3 allowed), 4 in a row '
        '(2 allowed)']


def test_progress_that_is_short_and_starvation_are_said_with_their_numbers():
    _, jobs = seen_at(200)
    assert jobs.background_ended >= 2
    short, starved = contract_findings(JOB, jobs, jobs.starved)
    assert short.startswith(f'0 of its last {jobs.background_ended} requests were completed, 0%')
    assert 'ask for 50 %' in short
    assert starved.startswith(f'it starved: {jobs.starved} times')
