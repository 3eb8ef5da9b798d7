"""
The known theorem of the look-ahead, as a law.

One slot, one guarded ``latest`` stream, nothing else above ``normal``, capture jitter within the
declared envelope J, constant transport delta, runtimes within plan, no background before the
first arrival, ``C + delta <= D``, ``C + 2 J <= T``, ``D + 2 J < T + C + delta``,
``2 J + D <= A``: every frame is delivered, with an age of at most ``2 J + D``; and if
``2 J + D < A`` the supply has no gap longer than ``max(0, T + D + 4 J - A)``.
"""

from dataclasses import replace

from hypothesis import assume, given, strategies as st
from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.events import RequestArrived
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.units import ms
from virtual_server import VirtualServer

T_NS, D_NS, J_NS, DELTA_NS, C_NS = ms(33), ms(33), ms(2), ms(1), ms(10)


def build(period_ns, deadline_ns, jitter_ns, plan_ns, max_age_ns, jobs_ns):
    """One protected camera and a ``normal`` model for each background runtime."""
    camera = Model(
        name='cam', criticality=Criticality.PROTECTED,
        contract=Contract(deadline_ns=deadline_ns, max_age_ns=max_age_ns, period_ns=period_ns,
                          release_jitter_ns=jitter_ns),
        variants=(Variant('v', 'cam', RuntimeProfile(max(1, plan_ns // 2), plan_ns)),))
    jobs = {f'job{index}': Model(
        name=f'job{index}', criticality=Criticality.NORMAL, policy=QueuePolicy.NEVER_DROP,
        capacity=64, contract=Contract(deadline_ns=10**12),
        variants=(Variant('v', f'job{index}', RuntimeProfile(job_ns, job_ns)),))
        for index, job_ns in enumerate(jobs_ns)}
    return System(models={'cam': camera, **jobs}, margin_percent=100,
                  inference_timeout_ns=10**12)


def play(system, captures_ns, delta_ns, background, exec_ns):
    """Run all frames and jobs; returns (capture, delivery) of each delivered frame."""
    instants = sorted([(capture_ns + delta_ns, 0, 'cam', capture_ns)
                       for capture_ns in captures_ns]
                      + [(at_ns, 1, name, at_ns) for at_ns, name in background])
    arrivals = [(at_ns, RequestArrived(request_id=number, model=name, stream=name, key='',
                                       generation_ns=capture_ns))
                for number, (at_ns, _, name, capture_ns) in enumerate(instants)]
    done = VirtualServer(system, exec_ns, arrivals, origin_ns=0).run()
    frames = [number for number, (_, event) in enumerate(arrivals) if event.model == 'cam']
    reasons = done.witness.reasons()
    assert all(reasons[number] == 'completed' for number in frames), (
        f'not every frame was delivered: {[reasons[number] for number in frames]}')
    return [(arrivals[number][1].generation_ns, done.end_of(number)[0]) for number in frames]


@st.composite
def cases(draw):
    """Draw numbers of the theorem's assumptions, in units that are no round ones."""
    unit = 100_003
    period = draw(st.integers(10, 60))
    jitter = draw(st.integers(0, period // 6))
    plan = draw(st.integers(1, period - 2 * jitter))
    delta = draw(st.integers(0, 8))
    low, high = plan + delta, period + plan + delta - 2 * jitter - 1
    assume(low <= high)
    deadline = draw(st.integers(low, high))
    max_age = 2 * jitter + deadline + draw(st.sampled_from([0, 1, 5, 40, 200]))
    frames = draw(st.integers(2, 14))
    shifts = draw(st.lists(st.sampled_from([-jitter, 0, jitter, jitter // 2]),
                           min_size=frames, max_size=frames))
    start = jitter + 5
    captures = [(start + k * period + shift) * unit for k, shift in enumerate(shifts)]
    jobs = draw(st.lists(st.integers(1, 3 * period), min_size=1, max_size=3))
    first_arrival = captures[0] + delta * unit
    background = [(first_arrival + draw(st.integers(0, frames * period)) * unit + 1,
                   f'job{draw(st.integers(0, len(jobs) - 1))}')
                  for _ in range(draw(st.integers(0, 12)))]
    is_at_plan = draw(st.booleans())
    return (unit, period, deadline, jitter, plan, delta, max_age, captures, jobs, background,
            is_at_plan)


@given(cases())
def test_a_guarded_stream_alone_is_delivered_within_its_bound(case):
    (unit, period, deadline, jitter, plan, delta, max_age, captures, jobs, background,
     is_at_plan) = case
    system = build(period * unit, deadline * unit, jitter * unit, plan * unit, max_age * unit,
                   [job * unit for job in jobs])
    runtimes = {'cam': plan * unit, **{f'job{k}': job * unit for k, job in enumerate(jobs)}}
    if not is_at_plan:
        runtimes = {name: max(1, runtime_ns * 2 // 3) for name, runtime_ns in runtimes.items()}
    delivered = play(system, captures, delta * unit, background, runtimes)
    ages = [done_ns - capture_ns for capture_ns, done_ns in delivered]
    assert max(ages) <= (2 * jitter + deadline) * unit
    if 2 * jitter + deadline < max_age:
        gaps = [following[1] - (capture_ns + max_age * unit)
                for (capture_ns, _), following in zip(delivered, delivered[1:])]
        assert max(gaps) <= max(0, period + deadline + 4 * jitter - max_age) * unit


def test_the_bound_is_reached():
    job_ns = T_NS + D_NS - 2 * C_NS - DELTA_NS
    a_ns = 2 * J_NS + D_NS + ms(1)
    system = build(T_NS, D_NS, J_NS, C_NS, a_ns, [job_ns])
    captures = [ms(10), ms(10) + T_NS + J_NS, ms(10) + 2 * T_NS - J_NS, ms(10) + 3 * T_NS]
    late_done_ns = captures[1] + DELTA_NS + C_NS
    delivered = play(system, captures, DELTA_NS, [(late_done_ns, 'job0')],
                     {'cam': C_NS, 'job0': job_ns})
    ages = [done_ns - capture_ns for capture_ns, done_ns in delivered]
    assert max(ages) == 2 * J_NS + D_NS


@given(cases(), st.sampled_from([2, 3]), st.booleans())
def test_so_it_is_on_several_slots_where_its_model_has_one_instance_that_others_use(
        case, slots, is_shared):
    """The first background model sends to the same backend model, and takes as long."""
    (unit, period, deadline, jitter, plan, delta, max_age, captures, jobs, background,
     _) = case
    alone = build(period * unit, deadline * unit, jitter * unit, plan * unit, max_age * unit,
                  [job * unit for job in jobs])
    camera, first = alone.models['cam'], alone.models['job0']
    mine = replace(camera.variants[0], instances=1)
    theirs = mine if is_shared else replace(first.variants[0], instances=1)
    system = replace(alone, slots=slots, models={
        **alone.models, 'cam': replace(camera, variants=(mine,)),
        'job0': replace(first, variants=(theirs,))})
    runtimes = {'cam': plan * unit, **{f'job{k}': job * unit for k, job in enumerate(jobs)}}
    delivered = play(system, captures, delta * unit, background, runtimes)
    assert max(done_ns - capture_ns for capture_ns, done_ns in delivered) <= (
        2 * jitter + deadline) * unit
