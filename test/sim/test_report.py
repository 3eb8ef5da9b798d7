"""What the report counts, on runs written by hand."""

from vig_core.contract import Contract, Criticality
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.sim.engine import Delivery, Run, SimStream
from vig_core.sim.report import judge, longest_gap_ns, uncovered_instants, uncovered_windows
from vig_core.sim.workload import Periodic
from vig_core.units import quantile_ns

NUMBERS = {'period_ns': 10, 'max_age_ns': 15, 'duration_ns': 45}


def test_a_cycle_is_covered_by_what_is_delivered_up_to_its_instant_and_fresh_then():
    assert uncovered_instants([(10, 0), (26, 20)], **NUMBERS) == 2
    assert uncovered_instants([(11, 0), (26, 20)], **NUMBERS) == 3
    assert uncovered_instants([(10, 0), (26, 25)], **NUMBERS) == 1


def test_an_older_capture_that_is_delivered_later_uncovers_nothing():
    assert uncovered_instants([(6, 5), (21, 20), (25, 6), (39, 30)], **NUMBERS) == 0


def test_a_window_is_covered_by_a_fresh_delivery_inside_it():
    assert uncovered_windows([(0, 0), (19, 10), (30, 14)], **NUMBERS) == 2
    assert uncovered_windows([(0, 0), (19, 10), (29, 14), (44, 44)], **NUMBERS) == 1


def test_bursts_count_from_one_period_after_their_begin():
    bursts = ((10, 40),)
    assert uncovered_windows([(28, 25)], **NUMBERS, bursts=bursts) == 1


def test_the_longest_gap_is_without_supply_and_not_between_deliveries():
    assert longest_gap_ns([(5, 5), (25, 24)], **NUMBERS) == 6
    assert longest_gap_ns([(5, 5), (20, 19), (30, 30)], **NUMBERS) == 0
    assert longest_gap_ns([], **NUMBERS) == 35


def test_quantiles_are_nearest_ranks():
    assert quantile_ns(range(1, 101), 99) == 99
    assert quantile_ns([7], 50) == 7
    assert quantile_ns([], 50) is None


def made(criticality, period_ns):
    contract = Contract(deadline_ns=12, max_age_ns=15, period_ns=period_ns)
    return Model('x', criticality, contract, (Variant('v', 'x', RuntimeProfile(5, 5)),))


def test_a_run_is_judged_for_every_stream():
    system = System({'cam': made(Criticality.PROTECTED, 10), 'job': made(
        Criticality.BEST_EFFORT, None)})
    streams = [SimStream('cam', 'cam', Periodic(10)), SimStream('job', 'job', Periodic(10))]
    run = Run(40, [Delivery('cam', Reason.COMPLETED, 0, 10, 5),
                   Delivery('cam', Reason.COMPLETED, 10, 24, 6),
                   Delivery('cam', Reason.OBSOLETE, 20, 36, 8),
                   Delivery('job', Reason.COMPLETED, 0, 12, 1),
                   Delivery('job', Reason.STALE, 5, 30, 0)], given_up={'job': 2})
    report = judge(run, system, streams, deliberate_idle_ns=4)
    camera, job = report.streams
    assert camera.instant_permille == report.worst_instant_permille == 750
    assert camera.window_permille == report.worst_window_permille == 500
    assert (camera.results, camera.releases, camera.drops) == (2, 3, {'obsolete': 1})
    assert camera.missed_permille == 1000 * 2 / 3
    assert (camera.age_p50_ns, camera.age_p99_ns) == (10, 14)
    assert (job.results, job.releases) == (1, 4)
    assert job.drops == {'stale': 1, 'given_up': 2}
    assert job.instant_permille is None
    assert report.background_permille == 250
    assert report.stale_compute_permille == 400
    assert report.deliberate_idle_permille == 100
