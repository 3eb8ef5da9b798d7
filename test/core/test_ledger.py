"""Counters, ages, idle time: what the governor says about itself."""

from making import request
import pytest
from vig_core.actions import ReportOverload
from vig_core.contract import MissBudget
from vig_core.events import BackendCompleted, BackendFailed, DispatchRefused, DrainStarted
from vig_core.request import Reason, State, TRANSITIONS, Trigger
from vig_core.units import ms
from virtual_server import arrive, model, system, VirtualServer
from witness import Witness


def stream(snapshot, name):
    """One stream of a snapshot."""
    return next(each for each in snapshot.streams if each.stream == name)


def test_accepted_is_ended_plus_waiting_plus_running_for_every_stream():
    done = VirtualServer(
        system(model('m', 'fifo', capacity=2, p50=20), model('n', p50=20)),
        lambda _: ms(20),
        [arrive(0, 'm', 0, stream='a'), arrive(1, 'm', 1, stream='b'),
         arrive(2, 'm', 2, stream='b'), arrive(3, 'm', 3, stream='a'),
         arrive(4, 'n', 4), arrive(5, 'n', 5)]).run(ms(10))
    snapshot = done.witness.scheduler.snapshot(now_ns=ms(10))
    a, b, n = (stream(snapshot, name) for name in 'abn')
    assert (a.received, a.running, a.waiting, a.counts[Reason.CAPACITY]) == (2, 1, 0, 1)
    assert (b.received, b.running, b.waiting) == (2, 0, 2)
    assert (n.received, n.waiting, n.counts[Reason.SUPERSEDED]) == (2, 1, 1)


def test_a_deadline_is_met_only_by_a_result_that_is_delivered_in_time():
    done = VirtualServer(
        system(model('m', p50=20, deadline=30, max_age=60)),
        lambda dispatch: ms({0: 30, 1: 31, 2: 70}[dispatch.request_id]),
        [arrive(0, 'm', 0), arrive(1, 'm', 100), arrive(2, 'm', 200)]).run()
    assert [done.end_of(number)[1].is_deadline_met for number in range(3)] == [
        True, False, False]
    snapshot = done.witness.scheduler.snapshot(now_ns=ms(300))
    assert stream(snapshot, 'm').deadline_misses == 1
    assert snapshot.stale_compute_ns == ms(70)


def test_ages_are_from_capture_to_delivery():
    done = VirtualServer(
        system(model('m', p50=20)), lambda _: ms(20),
        [arrive(number, 'm', 100 * number, 100 * number - 1 - number)
         for number in range(20)]).run()
    snapshot = stream(done.witness.scheduler.snapshot(now_ns=ms(2000)), 'm')
    assert snapshot.age_p50_ns == ms(30)
    assert snapshot.age_p95_ns == ms(39)
    assert snapshot.last_result_age_ns == ms(2000 - 1880)


def test_waiting_and_backend_time_are_reported_apart():
    done = VirtualServer(system(model('m', 'fifo', capacity=2, p50=20)), lambda _: ms(20),
                         [arrive(0, 'm', 0), arrive(1, 'm', 5)]).run()
    second = done.end_of(1)[1]
    assert (second.queue_wait_ns, second.backend_ns, second.age_ns) == (ms(15), ms(20), ms(35))


def test_deliberate_idle_time_is_counted_from_the_veto_to_the_start():
    s = system(model('cam', criticality='protected', p50=30, deadline=60, max_age=60, period=100),
               model('low', 'fifo', criticality='best_effort', p50=60))
    done = VirtualServer(s, {'cam_main': ms(30), 'low_main': ms(60)}, [
        arrive(0, 'cam', 0), arrive(1, 'low', 75), arrive(2, 'cam', 100)]).run(ms(150))
    snapshot = done.witness.scheduler.snapshot(now_ns=ms(150))
    assert snapshot.deliberate_idle_ns == ms(25)
    assert snapshot.deferred_for_protected == 1
    assert stream(snapshot, 'low').deferred == 1


def test_idle_time_without_work_is_not_deliberate():
    done = VirtualServer(system(model('m', p50=20)), lambda _: ms(20),
                         [arrive(0, 'm', 0), arrive(1, 'm', 500)]).run()
    assert done.witness.scheduler.snapshot(now_ns=ms(600)).deliberate_idle_ns == 0


def test_cycles_of_a_named_stream_are_counted_from_the_start_and_of_others_from_arrival():
    s = system(model('m', p50=1, max_age=1000, consumer_period_ns=ms(10)),
               streams={'named': 'm'})
    witness = Witness(s, 0)
    at_ns, event = arrive(0, 'm', 50, stream='other')
    witness.handle(event, at_ns)
    witness.handle(BackendCompleted(0), ms(51))
    witness.handle(DrainStarted(), ms(100))
    snapshot = witness.scheduler.snapshot(now_ns=ms(100))
    assert (stream(snapshot, 'named').judged_cycles, stream(snapshot, 'named').covered_cycles) == (
        9, 0)
    assert (stream(snapshot, 'other').judged_cycles, stream(snapshot, 'other').covered_cycles) == (
        4, 4)


def test_a_snapshot_judges_the_cycles_up_to_its_instant_though_nothing_happens():
    s = system(model('m', p50=1, max_age=25, consumer_period_ns=ms(10),
                     miss_budget=MissBudget(1, 4, 1)), streams={'m': 'm'})
    done = VirtualServer(s, lambda _: ms(1), [arrive(0, 'm', 5)]).run()
    scheduler = done.witness.scheduler
    assert scheduler.next_wakeup_ns() is None
    for _ in range(2):
        m = stream(scheduler.snapshot(now_ns=ms(101)), 'm')
        assert (m.judged_cycles, m.covered_cycles) == (10, 3)
        assert (m.weakly_hard_consecutive, m.weakly_hard_violated) == (7, True)
    assert stream(scheduler.snapshot(now_ns=ms(6)), 'm').judged_cycles == 0


def test_backend_time_is_said_only_where_the_server_answered():
    witness = Witness(system(model('m', 'fifo', capacity=9, p50=20), slots=4,
                             inference_timeout_ns=ms(50)), 0)
    for number in range(4):
        at_ns, event = arrive(number, 'm', number)
        witness.handle(event, at_ns)
    witness.handle(BackendCompleted(0), ms(20))
    witness.handle(BackendFailed(1, 'the model raised'), ms(21))
    witness.handle(DispatchRefused(2, Reason.BACKEND_FAILED, 'no such encoding'), ms(22))
    witness.wake(ms(53))
    assert witness.reasons()[3] == 'backend_timeout'
    assert [witness.ended[number][1].backend_ns for number in range(4)] == [
        ms(20), ms(20), None, None]


def test_a_deadline_given_up_is_evidence_of_overload_as_a_missed_one_is():
    s = system(model('cam', 'fifo', criticality='protected', p50=30, deadline=40, period=15,
                     capacity=3))
    done = VirtualServer(s, lambda _: ms(30),
                         [arrive(number, 'cam', 15 * number) for number in range(200)]).run()
    assert len(done.ended('infeasible')) > 50
    assert any(isinstance(action, ReportOverload) for _, action in done.witness.log)


def test_a_system_is_ready_unless_every_slot_waits_for_a_proof():
    done = VirtualServer(
        system(model('m', 'fifo', capacity=4, p50=20), slots=2, inference_timeout_ns=ms(50)),
        lambda _: ms(20), [arrive(0, 'm', 0), arrive(1, 'm', 10)], lost=[0, 1]).run(ms(55))
    assert done.witness.scheduler.snapshot(now_ns=ms(55)).is_ready
    done.run(ms(65))
    snapshot = done.witness.scheduler.snapshot(now_ns=ms(65))
    assert (snapshot.is_ready, snapshot.slots_quarantined) == (False, 2)


@pytest.mark.parametrize('state', State)
@pytest.mark.parametrize('trigger', Trigger)
def test_a_request_takes_only_the_steps_of_the_table(state, trigger):
    each = request(1, model('m'))
    each.state = state
    if (state, trigger) in TRANSITIONS:
        each.move(trigger)
        assert each.state is TRANSITIONS[state, trigger]
        return
    with pytest.raises(KeyError):
        each.move(trigger)
    assert each.state is state


def test_the_table_leads_every_request_to_its_end_and_back_only_between_quanta():
    assert not any(before is State.ENDED for before, _ in TRANSITIONS)
    assert {step for step, after in TRANSITIONS.items() if after is State.WAITING} == {
        (State.RUNNING, Trigger.AT_BOUNDARY)}


def test_cycles_of_a_stopped_stream_are_no_evidence_though_another_feeds_its_model():
    """Left stops after a second; a single forecast would have its cycles count for ever."""
    frames = [(at, name) for at in range(0, 5000, 20) for name in ('left', 'right')
              if name == 'right' or at < 1000]
    cam = model('cam', criticality='protected', period=20, deadline=15, max_age=30, p50=4)
    done = VirtualServer(system(cam), lambda _: ms(4), [
        arrive(number, 'cam', at + (name == 'right') * 9, stream=name)
        for number, (at, name) in enumerate(frames)]).run()
    left = stream(done.witness.scheduler.snapshot(now_ns=ms(5000)), 'left')
    assert left.judged_cycles - left.covered_cycles > 150
    assert not [each for each in done.witness.log if isinstance(each[1], ReportOverload)]


@pytest.mark.parametrize('step', [1, 7, 50])
def test_a_cycle_is_evidence_from_its_own_instant_on_whoever_looks(step):
    """A camera of 200 ms that is never served: evidence reaches back to single cycles."""
    def reports(ticks):
        witness = Witness(system(model('cam', 'fifo', criticality='protected', period=200,
                                       deadline=20, p50=100)), 0)
        arrivals = [0, 200, 403, 603, 1406, 1607, 1806, 2010, 2215, 2420, 2624]
        for number, at in enumerate(arrivals):
            wake(witness, ms(at), ticks)
            witness.handle(arrive(number, 'cam', at)[1], ms(at))
        wake(witness, ms(2910), ticks)
        return [(at_ns, action) for at_ns, action in witness.log
                if isinstance(action, ReportOverload)]

    def wake(witness, until_ns, ticks):
        instants = iter([each for each in ticks if witness.now_ns < each < until_ns])
        tick_ns = next(instants, until_ns)
        while True:
            wakeup_ns = witness.scheduler.next_wakeup_ns()
            at_ns = min(tick_ns, until_ns if wakeup_ns is None else wakeup_ns)
            if at_ns >= until_ns:
                return
            witness.wake(at_ns)
            if at_ns == tick_ns:
                tick_ns = next(instants, until_ns)
    assert reports([]) == reports([ms(each) for each in range(1, 2910, step)])
