"""The node's status, its trace's report and the simulator say the same about one run."""

import pytest
from stage import config_text, image, model_text, Parameter, stream_text

from vig_core.actions import Terminate
from vig_core.coverage import supply_of
from vig_core.request import Reason
from vig_core.sim.engine import Delivery, Run, SimStream
from vig_core.sim.report import judge
from vig_core.sim.workload import Trace

from vig_governor.history import history_of
from vig_governor.messages import duration, stream_status
from vig_governor.recorded import read_trace
from vig_governor.report_figures import StreamFigures

from waiting import wait_until

CYCLE_NS = 20_000_000
CONTRACT = ('extension: {version: 1, consumer_period_ms: 20, '
            'miss_budget: {max_misses: 3, window_cycles: 10, max_consecutive: 3}}')


def run_of(recorded, until_ns):
    """Play the trace again and note what it delivered as the simulator does."""
    scheduler, ends = recorded.scheduler(), []
    for at_ns, event, _ in recorded.events:
        for action in scheduler.handle(event, now_ns=at_ns):
            if isinstance(action, Terminate):
                ends.append(Delivery(
                    action.stream, action.reason, at_ns - action.age_ns - recorded.origin_ns,
                    at_ns - recorded.origin_ns, action.backend_ns or 0))
    return Run(until_ns - recorded.origin_ns, ends)


def seen_now(session):
    """Give the live view of the stream and its instant, which is that of no cycle."""
    def look():
        now_ns = session._clock.now_ns()
        now_ns += not (now_ns - session.began_at_ns) % CYCLE_NS
        return session._scheduler.snapshot(now_ns=now_ns).streams[0], now_ns
    return session.actor.ask(look)


def test_status_and_report_and_simulator_judge_one_run_alike(stage, tmp_path):
    model = model_text('detector', 'echo', deadline_ms=60, max_age_ms=90).replace(
        'max_age_ms: 90}', f'max_age_ms: 90, {CONTRACT}}}')
    stage.governor(stage.write(config_text(
        stage.endpoint, models=[model], streams=[stream_text('front', '/cam', 'detector')])))
    stage.node.set_parameters([Parameter('record', value=str(tmp_path / 'run.mcap'))])
    _, statuses = stage.outputs('/cam')
    stage.activate()
    camera, session = stage.camera(), stage.node.session
    for count in range(1, 7):
        camera.publish(image())
        statuses.wait_for(count)
        before = seen_now(session)[0].judged_cycles
        wait_until(lambda: seen_now(session)[0].judged_cycles >= before + 2 * count)
    live, now_ns = seen_now(session)
    assert stage.change('deactivate')[0]
    recorded = read_trace(tmp_path / 'run.mcap')

    run = run_of(recorded, now_ns)
    front = SimStream('front', 'detector', Trace(()))
    simulated = judge(run, recorded.system, [front]).streams[0]
    assert live.counts[Reason.COMPLETED] == simulated.results > 0
    assert live.judged_cycles > live.covered_cycles > 0
    assert 1000 * (1 - live.coverage) == pytest.approx(simulated.instant_permille)
    assert (live.longest_gap_ns, live.age_p50_ns, live.age_p95_ns, live.age_p99_ns) == (
        simulated.longest_gap_ns, simulated.age_p50_ns, simulated.age_p95_ns,
        simulated.age_p99_ns)
    message = stream_status(live, 6)
    assert message.longest_gap == duration(simulated.longest_gap_ns)
    assert message.age_p99 == duration(simulated.age_p99_ns)
    assert message.weakly_hard_window == 10

    history = history_of(recorded)
    figures = StreamFigures.of(history, 'front')
    whole = supply_of(
        recorded.system.models['detector'].contract,
        [(end.ended_at_ns, end.captured_at_ns) for end in run.ends], origin_ns=0,
        until_ns=history.end_ns)
    assert (figures.cycles, figures.uncovered, figures.gap_ns) == (
        whole.cycles, whole.cycles - whole.covered, whole.longest_gap_ns)


def test_a_budget_that_is_broken_still_reaches_the_status_topic(stage):
    """A negative number of misses left would not fit into the message."""
    model = model_text('detector', 'echo').replace('max_age_ms: 9000}',
                                                   f'max_age_ms: 9000, {CONTRACT}}}')
    stage.governor(stage.write(config_text(
        stage.endpoint, models=[model], streams=[stream_text('front', '/cam', 'detector')])))
    stage.activate()
    wait_until(lambda: any(stream.weakly_hard_violated and stream.weakly_hard_observed
                           for status in stage.status.messages for stream in status.streams))
    last = stage.status.messages[-1].streams[0]
    assert (last.weakly_hard_misses, last.weakly_hard_misses_left) == (10, 0)
    assert last.cycles_total > last.cycles_covered == 0
    assert last.longest_gap.sec or last.longest_gap.nanosec
    stage.entry('stream front', b'\x01', 'its miss budget is broken')
