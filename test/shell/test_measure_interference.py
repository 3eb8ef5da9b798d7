"""Directed added time, suggestions of no_corun, and what a quantum of a generative job costs."""

import pytest
from vig_core.units import ms, us

from vig_governor.measure.cells import Cell
from vig_governor.measure.exchange import MeasurementFailed
from vig_governor.measure.interference import Beside, Calibration, suggest_taking_turns
from vig_governor.measure.lines import fit_line, measure_quantum_cost, quantum_cost, Sample
from vig_governor.measure.profiling import MeasuredProfile


def cell(runtime_ms, reasons=()):
    return Cell('m', 0, None, 120, 0, 0, 0, (ms(runtime_ms),) * 120, 0, '', reasons)


def beside(victim, other, *runs):
    return Beside(victim, other, tuple((cell(alone), cell(both)) for alone, both in runs))


def test_added_time_is_the_median_over_runs_of_what_each_run_saw_against_itself():
    assert beside('a', 'b', (10, 15), (20, 26), (10, 11)).added_ns == ms(5)


def test_a_neighbour_that_costs_nothing_adds_nothing_and_never_less():
    assert beside('a', 'b', (10, 9)).added_ns == 0


def test_without_a_kept_run_it_is_unknown_and_not_zero():
    bad = cell(10, ('the neighbour failed',))
    assert Beside('a', 'b', ((cell(10), bad), (bad, cell(10)))).added_ns is None


def calibration(a, a_beside, b, b_beside):
    return Calibration(
        {name: MeasuredProfile(name, (cell(runtime),)) for name, runtime in (('a', a), ('b', b))},
        (beside('a', 'b', (a, a_beside)), beside('b', 'a', (b, b_beside))))


@pytest.mark.parametrize('figures, is_suggested', [
    ((40, 40, 40, 40), False),      # nothing is shared
    ((40, 75, 40, 75), True),       # 75 and 75 against 40 and 80
    ((40, 80, 40, 80), True),       # time slicing of equals
    ((40, 55, 40, 55), False),
    ((5, 10, 200, 400), False),     # a short job gains from not waiting for a long one
    ((5, 150, 200, 600), True),
])
def test_taking_turns_is_suggested_where_it_ends_both_sooner(figures, is_suggested):
    assert bool(suggest_taking_turns(calibration(*figures))) is is_suggested


def test_a_suggestion_names_both_directions():
    only, = suggest_taking_turns(calibration(40, 75, 40, 90))
    assert only.pair == ('a', 'b') and only.added_ns == (ms(35), ms(50))
    assert only.together_ns > only.in_turn_ns == ms(120)


def test_one_direction_alone_suggests_nothing():
    full = calibration(40, 75, 40, 75)
    assert suggest_taking_turns(Calibration(full.profiles, full.pairs[:1])) == ()


def cost_of(context, tokens):
    """10 ms base, 200 us for each token of context, 250 tokens a second."""
    return ms(10) + us(200) * context + ms(4) * tokens


def begun(context, tokens):
    """Begin a text on a server that remembers nothing."""
    return Sample(context, cost_of(context, 1), cost_of(context + 1, tokens))


def test_base_cost_rate_and_prefill_are_found_again():
    found = measure_quantum_cost(begun)
    assert found.base_cost_us == 10_000
    assert found.tokens_per_second == pytest.approx(250)
    assert found.prefill_per_token_us == pytest.approx(200)
    assert found.new_prompt_per_token_us == pytest.approx(200)
    assert not found.has_prefix_cache


def test_what_a_prefix_cache_saves_is_saved_in_the_quanta_behind_and_not_in_the_first():
    found = measure_quantum_cost(lambda context, tokens: Sample(
        context, cost_of(context, 1), cost_of(1, tokens)))
    assert found.prefill_per_token_us == 0
    assert found.new_prompt_per_token_us == pytest.approx(200)
    assert found.base_cost_us == 10_200, 'one token is read by each'
    assert found.has_prefix_cache


def test_the_first_text_does_not_count():
    texts = []

    def generate(context, tokens):
        texts.append(context)
        slow = ms(500) if len(texts) == 1 else 0
        return Sample(context, slow + cost_of(context, 1), slow + cost_of(context + 1, tokens))
    assert measure_quantum_cost(generate, repeats=1).base_cost_us == 10_000


BY_PROMPT = {16: [ms(1)], 32: [ms(2)]}


def test_one_disturbed_sample_and_one_disturbed_point_move_nothing():
    points = {count: [cost_of(16, count)] * 5 for count in (1, 4, 8, 16, 32)}
    points[4][0] = ms(900)
    for count in (1, 16, 32):
        points[count][1] = ms(count % 3)
    points[8] = [ms(900)] * 5
    found = quantum_cost(points, context=16, by_context={
        count: [cost_of(count, 1)] for count in (16, 64, 128)}, by_prompt=BY_PROMPT)
    assert found.tokens_per_second == pytest.approx(250)
    assert found.base_cost_us == 10_000


def test_a_cost_is_never_negative():
    found = quantum_cost({1: [ms(1)], 2: [ms(3)]}, context=10,
                         by_context={10: [ms(5)], 20: [ms(4)]}, by_prompt=BY_PROMPT)
    assert found.base_cost_us == 0 and found.prefill_per_token_us == 0


def test_tokens_that_cost_nothing_are_no_rate():
    with pytest.raises(MeasurementFailed, match='honour the number of tokens'):
        quantum_cost({1: [ms(5)], 9: [ms(5)]}, context=1, by_context={1: [ms(5)], 2: [ms(6)]},
                     by_prompt=BY_PROMPT)


@pytest.mark.parametrize('points', [{}, {3: [1]}, {3: [1], 4: []}])
def test_one_point_makes_no_line(points):
    with pytest.raises(MeasurementFailed, match='a line needs at least 2'):
        fit_line(points)
