"""
Laws of generative jobs beside a camera, whatever the server writes.

The witness checks after each event that bounds hold, that a variant stays and that the slot is
free between quanta; here are the laws that need a server whose runtimes are known.
"""

from collections import Counter
import heapq

from hypothesis import given, strategies as st
from vig_core.actions import Dispatch
from vig_core.cooperative import Cooperative
from vig_core.events import BackendCompleted, BackendFailed, QuantumCompleted
from vig_core.room import find_room
from vig_core.units import ms
from virtual_server import arrive, model, system
from witness import Witness

costs = st.builds(
    lambda base, token, prefill, new, most, least: Cooperative(
        ms(base), ms(token), most, prefill_per_token_ns=ms(prefill), min_tokens=min(least, most),
        new_prompt_per_token_ns=None if new is None else ms(new)),
    st.sampled_from([0.5, 2, 6]), st.sampled_from([0.5, 1, 4]), st.sampled_from([0, 0.1]),
    st.sampled_from([None, 0.4, 2]), st.integers(1, 40), st.integers(1, 4))

answers = st.lists(st.sampled_from(['all', 'all', 'all', 'half', 'one', 'end', 'nothing', 'more',
                                    'error']), min_size=1, max_size=12)


def text_of(answer, asked):
    """Say how many tokens the server writes, and whether it ends the text."""
    return {'all': (asked, False), 'half': (max(1, asked // 2), False), 'one': (1, False),
            'end': (asked // 2, True), 'nothing': (0, False), 'more': (asked + 3, True)}[answer]


def run(setup, arrivals, script, frame_ns, until_ns):
    """
    Play a workload to a server whose frames take ``frame_ns`` and whose quanta cost the modelled.

    It remembers the one text that it was sent last.

    :returns: the witness; frames as (arrival, start), quanta as (start, end, action, context).
    """
    witness = Witness(setup, 0)
    heap = [(at_ns, 1, number, event) for number, (at_ns, event) in enumerate(arrivals)]
    heapq.heapify(heap)
    count, turn, waits, quanta, read_last = len(heap), 0, [], [], None
    while True:
        wakeup_ns = witness.scheduler.next_wakeup_ns()
        at_ns = heap[0][0] if heap else until_ns + 1
        if wakeup_ns is not None and wakeup_ns < at_ns and wakeup_ns <= until_ns:
            now_ns, actions = wakeup_ns, witness.wake(wakeup_ns)
        elif heap and at_ns <= until_ns:
            now_ns, _, _, event = heapq.heappop(heap)
            actions = witness.handle(event, now_ns)
        else:
            return witness, waits, quanta
        for action in actions:
            if not isinstance(action, Dispatch):
                continue
            count += 1
            if not action.tokens:
                waits.append((witness.arrivals[action.request_id], now_ns))
                heapq.heappush(heap, (now_ns + frame_ns, 0, count,
                                      BackendCompleted(action.request_id)))
                continue
            arrival = witness.arrivals[action.request_id]
            cost = setup.models[action.model].cooperative
            context = arrival.prompt_tokens + witness.written.get(action.request_id, 0)
            answer = script[turn % len(script)]
            turn += 1
            ends_ns = now_ns + cost.cost_ns(context, action.tokens,
                                            is_new=action.request_id != read_last)
            read_last = action.request_id
            quanta.append((now_ns, ends_ns, action, context))
            if answer == 'error':
                event = BackendFailed(action.request_id, 'an error')
            else:
                event = QuantumCompleted(action.request_id, *text_of(answer, action.tokens))
            heapq.heappush(heap, (ends_ns, 0, count, event))


@st.composite
def workloads(draw):
    """A camera at 33 ms, jobs at any time, on one slot or two; times in milliseconds."""
    frame = draw(st.sampled_from([3, 10, 20]))
    camera = model('cam', criticality='protected', period=33, deadline=33, max_age=66, p50=frame)
    policy = draw(st.sampled_from(['fifo', 'latest', 'latest_per_key', 'never_drop']))
    writer = model('llm', policy, criticality='best_effort', p50=1, deadline=2000,
                   max_age=draw(st.sampled_from([None, 300])), cooperative=draw(costs))
    slots = draw(st.sampled_from([1, 1, 2]))
    jobs = draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30), st.integers(0, 30)),
                         min_size=1, max_size=6))
    moments = sorted([(33 * k, 'cam', {}) for k in range(20)]
                     + [(at, 'llm', {'prompt_tokens': prompt, 'max_tokens': most})
                        for at, prompt, most in jobs], key=lambda moment: moment[0])
    arrivals = [arrive(number, name, at, **options)
                for number, (at, name, options) in enumerate(moments)]
    return system(camera, writer, slots=slots, inference_timeout_ns=ms(500)), arrivals, frame


@given(workloads(), answers)
def test_every_job_ends_with_one_reason_and_within_its_bound(workload, script):
    setup, arrivals, frame = workload
    witness, _, _ = run(setup, arrivals, script, ms(frame), ms(60_000))
    assert sorted(witness.ended) == sorted(witness.arrivals)
    for request_id, (_, end) in witness.ended.items():
        if end.model == 'llm':
            assert end.tokens <= witness.bound(request_id)
            assert not end.is_end_of_sequence or end.reason.value in ('completed', 'obsolete')
            assert end.reason.value != 'completed' or end.is_end_of_sequence or (
                end.tokens == witness.bound(request_id))


@given(workloads(), answers)
def test_the_context_of_a_job_never_shrinks_and_its_quanta_never_overlap(workload, script):
    setup, arrivals, frame = workload
    _, _, quanta = run(setup, arrivals, script, ms(frame), ms(60_000))
    last = {}
    for start_ns, end_ns, action, context in quanta:
        ended_ns, before = last.get(action.request_id, (0, 0))
        assert start_ns >= ended_ns and context >= before
        last[action.request_id] = end_ns, context + 1


@given(workloads(), answers)
def test_each_quantum_is_planned_for_all_that_was_asked_and_written_before(workload, script):
    """What the core takes for the context is at least what travels, so it never shrinks."""
    setup, arrivals, frame = workload
    _, _, quanta = run(setup, arrivals, script, ms(frame), ms(60_000))
    for start_ns, end_ns, action, context in quanta:
        assert action.planned_ns >= end_ns - start_ns, context


@given(workloads(), st.lists(st.sampled_from(['all', 'half', 'one', 'end']), min_size=1))
def test_no_expected_frame_waits_for_a_quantum_that_costs_what_is_modelled(workload, script):
    """From the second frame on each is expected to the nanosecond, so it finds a slot."""
    setup, arrivals, frame = workload
    _, waits, quanta = run(setup, arrivals, script, ms(frame), ms(33 * 19))
    for arrival, start_ns in waits[1:]:
        assert start_ns == arrival.generation_ns, quanta
    assert len(waits) >= 19


@given(workloads(), st.lists(st.sampled_from(['all', 'one', 'end']), min_size=1),
       st.integers(1, 32))
def test_a_frame_that_nobody_expected_waits_for_one_quantum_at_most(workload, script, shift):
    setup, arrivals, frame = workload
    cameras = [number for number, (_, event) in enumerate(arrivals) if event.model == 'cam']
    odd = cameras[9]
    early_ns = arrivals[odd][0] - ms(shift)
    moved = [(early_ns if number == odd else at_ns, event)
             for number, (at_ns, event) in enumerate(arrivals)]
    moved.sort(key=lambda moment: moment[0])
    renamed = [arrive(number, event.model, at_ns / 1e6, prompt_tokens=event.prompt_tokens,
                      max_tokens=event.max_tokens)
               for number, (at_ns, event) in enumerate(moved)]
    _, waits, quanta = run(setup, renamed, script, ms(frame), ms(33 * 19))
    for arrival, start_ns in waits:
        between = Counter(action.request_id for begin_ns, _, action, _ in quanta
                          if arrival.generation_ns < begin_ns < start_ns)
        assert not between, 'a quantum was started while a frame waited'


@given(costs, st.sampled_from([3, 10, 20]), st.integers(0, 30), st.integers(0, 99))
def test_no_text_is_written_in_less_time_than_its_room_has(cost, frame, prompt, at):
    """Where runtimes are those of the profiles and the camera keeps its period."""
    camera = model('cam', criticality='protected', period=33, deadline=33, max_age=66, p50=frame)
    writer = model('llm', 'fifo', criticality='best_effort', p50=1, deadline=10_000,
                   cooperative=cost)
    setup = system(camera, writer)
    moments = sorted([(33 * k, 'cam', {}) for k in range(100)]
                     + [(at + 0.5, 'llm', {'prompt_tokens': prompt})], key=lambda each: each[0])
    arrivals = [arrive(number, name, moment, **options)
                for number, (moment, name, options) in enumerate(moments)]
    witness, _, quanta = run(setup, arrivals, ['all'], ms(frame), ms(3300))
    room = find_room(setup, writer, [camera])
    whole_ns = cost.cost_ns(prompt, cost.max_total_tokens, is_new=True)
    job = next(number for number, moment in enumerate(moments) if moment[1] == 'llm')
    if prompt > room.new_prompt:
        assert not quanta
    elif job in witness.ended:
        end_ns, end = witness.ended[job]
        assert end.tokens == cost.max_total_tokens
        assert end_ns - ms(at + 0.5) >= room.takes_ns(whole_ns)
