"""A job that was slow for a while is tried again: old runs are no evidence for ever."""

from vig_core.actions import Dispatch
from vig_core.estimate import HORIZON_NS, MIN_RUNS
from vig_core.events import BackendCompleted, RequestArrived
from vig_core.scheduler import Scheduler
from vig_core.units import ms
from virtual_server import model, system


def test_a_job_that_was_slow_for_a_while_runs_again_beside_a_camera():
    camera = model('camera', p50=5, p99=5, period=50, deadline=5, max_age=50,
                   criticality='protected')
    job = model('job', p50=20, p99=20, policy='fifo', capacity=1, deadline=10_000)
    scheduler = Scheduler(system(camera, job, margin_percent=110))
    starts_ns = []
    is_waiting = False

    def dispatched(event, now_ns):
        return [action.request_id for action in scheduler.handle(event, now_ns=now_ns)
                if isinstance(action, Dispatch)]

    for frame in range(400):
        at_ns = ms(50) * frame
        [camera_id] = dispatched(RequestArrived(
            2 * frame, 'camera', 'camera', 'camera', at_ns), at_ns)
        job_ids = dispatched(BackendCompleted(camera_id), at_ns + ms(5))
        if not is_waiting:
            job_ids = dispatched(RequestArrived(
                2 * frame + 1, 'job', 'job', 'job', at_ns + ms(5)), at_ns + ms(5))
        is_waiting = not job_ids
        if job_ids:
            starts_ns.append(at_ns)
            # A slow run ends just before the next frame; 110 % of its 44 ms no longer fit.
            # The first run of all trains nothing.
            ends_ns = ms(49 if len(starts_ns) <= MIN_RUNS + 1 else 25)
            dispatched(BackendCompleted(job_ids[0]), at_ns + ends_ns)
    assert len(starts_ns) > 2 * MIN_RUNS
    pause_ns = starts_ns[MIN_RUNS + 1] - starts_ns[MIN_RUNS]
    assert HORIZON_NS - MIN_RUNS * ms(50) <= pause_ns <= HORIZON_NS + ms(200)
