"""What the doctor says of generative models: gaps, overhead of splitting, speed."""

from config_text import changed, load, SIMPLE

from vig_governor.doctor.context import Context
from vig_governor.doctor.finding import Level
from vig_governor.doctor.quanta_checks import check_quanta
from vig_governor.doctor.timing_checks import check_background

CAMERA = changed('period_ms: 33', 'period_ms: 100')
"""Its fastest variant plans 11 ms: 89 ms are idle before the next frame."""

WRITER = """\
  writer:
    class: best_effort
    queue: {policy: fifo, capacity: 4}
    contract: {deadline_ms: 8000, max_age_ms: 15000}
    cooperative: {tokens_per_second: 100, base_cost_us: 5000, prefill_per_token_us: 500,
      max_total_tokens: 40, min_tokens: 2EXTRA}
    variants: [{id: main, backend_model: llm, profile: {p50_us: 100000, p99_us: 110000}}]
streams:
"""
"""Quanta are planned 1.1 times 1.1 as long: 26 ms for the prompt of 32, 12.1 ms for each token."""


def found(tmp_path, extra='', camera=CAMERA):
    text = changed('streams:\n', WRITER.replace('EXTRA', extra), camera)
    return list(check_quanta(Context(config=load(tmp_path, text))))


def test_without_generative_models_there_is_nothing_to_say(tmp_path):
    only, = check_quanta(Context(config=load(tmp_path, SIMPLE)))
    assert only.level is Level.OK and only.text == '0 cooperative models'


def test_what_fits_into_a_gap_what_splitting_costs_and_how_fast_text_comes(tmp_path):
    only, = found(tmp_path)
    assert only.level is Level.OK
    assert only.facts['gap_ns'] == 89_000_000
    assert only.facts['tokens_of_a_gap'] == 5, '25.4 + 5 * 12.1 = 85.9 ms'
    assert only.facts['first_token_ns'] == 5_000_000 + 32 * 500_000 + 10_000_000
    assert only.facts['between_tokens_ns'] == 10_000_000
    # Seven more requests of 5 ms, which read 32 + 5, 32 + 10 ... tokens again.
    again_ns = sum(500_000 * (32 + 5 * count) for count in range(1, 8))
    assert only.facts['overhead_permille'] == (7 * 5_000_000 + again_ns) * 1000 // 421_000_000
    for words in ('holds 5 tokens', '515 permille', 'after 31.0 ms', 'every 10.0 ms'):
        assert words in only.text, only.text


def test_a_quantum_that_fits_into_no_gap_is_told(tmp_path):
    only, = found(tmp_path, camera=SIMPLE)
    assert only.level is Level.WARN
    assert '22.0 ms) holds no quantum' in only.text and 'one token plan 37.5 ms' in only.text


def test_a_smallest_quantum_that_is_too_large_is_told_with_the_one_that_fits(tmp_path):
    only, = found(tmp_path, camera=changed('period_ms: 33', 'period_ms: 50'))
    assert only.level is Level.WARN and 'holds 1 tokens, and min_tokens is 2' in only.text
    assert only.remedy.endswith('min_tokens to 1 or less')


def test_more_overhead_than_is_allowed_runs_whole_and_is_told(tmp_path):
    first, _ = found(tmp_path, ', max_overhead_permille: 300')
    assert first.level is Level.WARN
    assert '515 permille more, above max_overhead_permille 300' in first.text
    assert 'for 421.0 ms' in first.text


def test_a_new_prompt_that_takes_longer_than_the_gap_is_told(tmp_path):
    first, _ = found(tmp_path, ', new_prompt_per_token_us: 3000')
    assert first.level is Level.WARN
    # 5 + 32 * 3 + 2 * 10 = 121 ms; The longest gap is 92 ms, and 1.21 * (25 + 17 * 3) = 91.96.
    for words in (
            'holds no first quantum of a prompt of 32, which plans 146.4 ms: 5.0 ms, 96.0 ms to '
            'read and 20.0 ms to write, times 1.21 for spread and margin',
            'no gap before a frame of detector is longer than 92.0 ms',
            'the smallest quantum plans 30.2 ms and 3.6 ms for each token of a new prompt',
            'a prompt of more than 17 tokens (about 68 bytes) and a text of more than 102 tokens'):
        assert words in first.text, first.text
    assert first.facts['first_token_ns'] == 111_000_000
    assert first.facts['first_quantum_ns'] == 146_410_000


def test_a_second_slot_leaves_room_beside_every_frame(tmp_path):
    only, = found(tmp_path, camera=changed('slots: 1', 'slots: 2'))
    assert only.level is Level.OK and 'no guarded stream is in their way' in only.text


def test_a_job_that_is_cut_is_no_background_that_never_starts(tmp_path):
    text = changed('streams:\n', WRITER.replace('EXTRA', ''), CAMERA)
    only, = check_background(Context(config=load(tmp_path, text)))
    assert only.level is Level.OK
    assert only.text == 'models of a lower class that run in one piece: 0'
