"""Generative jobs: their cost model, their bounds, and what ends them between two quanta."""

import pytest
from vig_core.actions import Dispatch, Terminate
from vig_core.cooperative import Cooperative, Job
from vig_core.errors import ContractError, RefusedEvent
from vig_core.events import BackendCompleted, CancelRequested, QuantumCompleted
from vig_core.quantum import is_worth_splitting
from vig_core.scheduler import Scheduler
from vig_core.units import ms
from virtual_server import arrive, model, system


def cooperative(base=6, token=4, most=48, **options):
    """Build a cost model; times in milliseconds."""
    return Cooperative(ms(base), ms(token), most, **options)


def writer(policy='fifo', capacity=4, deadline=100_000, **options):
    """Build a generative model; options with ``cost`` are those of its cost model."""
    cost = options.pop('cost', None) or cooperative()
    return model('llm', policy, criticality='best_effort', capacity=capacity, p50=1,
                 deadline=deadline, cooperative=cost, **options)


@pytest.mark.parametrize('wrong, key', [
    ({'base': -1}, 'base_cost'), ({'token': 0}, 'tokens_per_second'),
    ({'most': 0}, 'max_total_tokens'), ({'min_tokens': 0}, 'min_tokens'),
    ({'min_tokens': 49}, 'min_tokens'), ({'prefill_per_token_ns': -1}, 'prefill_per_token'),
    ({'max_overhead_permille': -1}, 'max_overhead_permille'),
    ({'new_prompt_per_token_ns': -1}, 'new_prompt_per_token')])
def test_a_cost_model_that_no_execution_has_is_refused_with_its_key(wrong, key):
    with pytest.raises(ContractError) as error:
        cooperative(**wrong)
    assert error.value.path == (key,)


def test_the_overhead_of_splitting_is_the_base_cost_and_what_is_read_again():
    cost = cooperative(base=6, token=4, prefill_per_token_ns=ms(1))
    for context, remaining, tokens in ((0, 48, 48), (0, 48, 47), (5, 48, 8), (10, 7, 3)):
        whole_ns = cost.cost_ns(context, remaining)
        split_ns, left, seen = 0, remaining, context
        while left:
            piece = min(tokens, left)
            split_ns += cost.cost_ns(seen, piece)
            left, seen = left - piece, seen + piece
        assert cost.overhead_permille(context, remaining, tokens) == (
            (split_ns - whole_ns) * 1000 // whole_ns)


@pytest.mark.parametrize('asked, bound', [(0, 48), (10, 10), (48, 48), (1000, 48)])
def test_the_smaller_bound_holds(asked, bound):
    scheduler = Scheduler(system(writer()))
    at_ns, event = arrive(0, 'llm', 0, max_tokens=asked)
    dispatch, = scheduler.handle(event, now_ns=at_ns)
    assert isinstance(dispatch, Dispatch) and dispatch.tokens == bound
    end, = scheduler.handle(QuantumCompleted(0, bound, False), now_ns=ms(100))
    assert (end.reason.value, end.tokens, end.quanta, end.is_end_of_sequence) == (
        'completed', bound, 1, False)


def test_what_is_no_answer_of_a_generative_job_is_refused():
    plain = model('cam')
    scheduler = Scheduler(system(writer(), plain, slots=2))
    for number, (name, tokens) in enumerate([('cam', 5), ('llm', -1)]):
        with pytest.raises(RefusedEvent):
            scheduler.handle(arrive(number, name, 0, prompt_tokens=tokens)[1], now_ns=0)
    scheduler.handle(arrive(0, 'llm', 0)[1], now_ns=0)
    scheduler.handle(arrive(1, 'cam', 0)[1], now_ns=0)
    for event in (BackendCompleted(0), QuantumCompleted(1, 4, False),
                  QuantumCompleted(0, -1, True), QuantumCompleted(7, 1, True)):
        with pytest.raises(RefusedEvent):
            scheduler.handle(event, now_ns=ms(1))
    assert set(scheduler.running_ids) == {0, 1}


@pytest.mark.parametrize('tokens, is_end, reason', [
    (48, False, 'completed'), (12, True, 'completed'), (0, True, 'completed'),
    (0, False, 'backend_failed'), (49, False, 'backend_failed'), (49, True, 'backend_failed')])
def test_an_answer_ends_a_job_with_one_reason(tokens, is_end, reason):
    scheduler = Scheduler(system(writer()))
    scheduler.handle(arrive(0, 'llm', 0)[1], now_ns=0)
    end, = scheduler.handle(QuantumCompleted(0, tokens, is_end), now_ns=ms(50))
    assert isinstance(end, Terminate) and end.reason.value == reason
    assert scheduler.is_idle and not scheduler.running_ids
    assert end.tokens <= 48


def test_a_job_whose_answer_is_short_goes_on_with_what_is_left():
    scheduler = Scheduler(system(writer()))
    scheduler.handle(arrive(0, 'llm', 0, prompt_tokens=7)[1], now_ns=0)
    again, = scheduler.handle(QuantumCompleted(0, 40, False), now_ns=ms(200))
    assert isinstance(again, Dispatch) and (again.request_id, again.tokens) == (0, 8)
    end, = scheduler.handle(QuantumCompleted(0, 8, False), now_ns=ms(300))
    assert (end.tokens, end.quanta, end.backend_ns, end.queue_wait_ns) == (48, 2, ms(300), 0)


def test_a_job_that_runs_ends_at_its_boundary_when_it_is_withdrawn():
    scheduler = Scheduler(system(writer()))
    scheduler.handle(arrive(0, 'llm', 0)[1], now_ns=0)
    assert scheduler.handle(CancelRequested(0), now_ns=ms(10)) == ()
    end, = scheduler.handle(QuantumCompleted(0, 40, False), now_ns=ms(200))
    assert (end.reason.value, end.tokens, end.quanta) == ('cancelled', 40, 1)


def test_a_withdrawn_job_whose_text_is_whole_is_delivered():
    scheduler = Scheduler(system(writer()))
    scheduler.handle(arrive(0, 'llm', 0)[1], now_ns=0)
    scheduler.handle(CancelRequested(0), now_ns=ms(10))
    end, = scheduler.handle(QuantumCompleted(0, 40, True), now_ns=ms(200))
    assert (end.reason.value, end.is_end_of_sequence) == ('completed', True)


def test_the_time_of_a_quantum_is_divided_as_the_cost_model_has_it():
    cost = cooperative(base=10, token=2, most=20, prefill_per_token_ns=ms(1))
    scheduler = Scheduler(system(writer(cost=cost)))
    scheduler.handle(arrive(0, 'llm', 0, prompt_tokens=30)[1], now_ns=0)
    scheduler.handle(QuantumCompleted(0, 20, False), now_ns=ms(160))
    stream, = scheduler.snapshot(now_ns=ms(160)).streams
    assert (stream.tokens, stream.quanta) == (20, 1)
    assert (stream.fixed_ns, stream.prefill_ns, stream.decode_ns) == (ms(20), ms(60), ms(80))


def prefilled_ms(scheduler, at):
    """Say how much of the time of all quanta was booked as reading, in milliseconds."""
    stream, = scheduler.snapshot(now_ns=ms(at)).streams
    return stream.prefill_ns / 1e6


def test_the_first_quantum_is_booked_as_reading_what_is_new_and_later_ones_are_not():
    cost = cooperative(base=10, token=2, most=20, new_prompt_per_token_ns=ms(1))
    scheduler = Scheduler(system(writer(cost=cost)))
    dispatch, = scheduler.handle(arrive(0, 'llm', 0, prompt_tokens=30)[1], now_ns=0)
    assert dispatch.planned_ns == ms(10 + 30 + 40)
    again, = scheduler.handle(QuantumCompleted(0, 10, False), now_ns=ms(60))
    assert prefilled_ms(scheduler, 60) == 30 and again.planned_ns == ms(10 + 20)
    scheduler.handle(QuantumCompleted(0, 10, False), now_ns=ms(90))
    assert prefilled_ms(scheduler, 90) == 30


def test_a_text_that_was_read_as_modelled_says_nothing_against_the_profile():
    """Both kinds of quanta count in their own proportion, so plans of neither grow."""
    cost = cooperative(base=10, token=2, most=20, new_prompt_per_token_ns=ms(5))
    scheduler, now = Scheduler(system(writer(cost=cost))), 0
    for number in range(30):
        first, = scheduler.handle(arrive(number, 'llm', now, prompt_tokens=30)[1], now_ns=ms(now))
        now += 10 + 150 + 20
        later, = scheduler.handle(QuantumCompleted(number, 10, False), now_ns=ms(now))
        now += 10 + 20
        scheduler.handle(QuantumCompleted(number, 10, False), now_ns=ms(now))
        assert (first.planned_ns, later.planned_ns) == (ms(10 + 150 + 40), ms(10 + 20))


def test_the_overhead_counts_the_first_reading_once():
    cost = cooperative(base=6, token=4, new_prompt_per_token_ns=ms(2))
    whole_ns = ms(6 + 10 * 2 + 48 * 4)
    assert cost.overhead_permille(10, 48, 24, is_new=True) == ms(6) * 1000 // whole_ns
    assert cost.overhead_permille(10, 48, 24) == ms(6) * 1000 // (whole_ns - ms(20))


def test_what_a_first_quantum_reads_counts_when_its_overhead_is_judged():
    job = Job(prompt_tokens=10, bound=48)
    cost = cooperative(base=6, token=4, new_prompt_per_token_ns=ms(2), max_overhead_permille=28)
    assert is_worth_splitting(job, cost, 24), '6 ms of 218'
    job.is_new = False
    assert not is_worth_splitting(job, cost, 24), '6 ms of 198'


def test_first_quanta_that_overran_their_plans_widen_the_margin():
    cost = cooperative(base=10, token=2, most=20, new_prompt_per_token_ns=ms(5))
    scheduler, now, plans = Scheduler(system(writer(cost=cost))), 0, []
    for number in range(33):
        first, = scheduler.handle(arrive(number, 'llm', now, prompt_tokens=30)[1], now_ns=ms(now))
        plans.append(first.planned_ns)
        now += 200 if number < 30 else 210
        scheduler.handle(QuantumCompleted(number, 20, False), now_ns=ms(now))
    assert set(plans[:31]) == {ms(200)} and plans[32] > ms(210), 'more than was observed'
