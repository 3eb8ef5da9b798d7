"""Which prompts and texts no gap between guarded frames ever holds, and how that is said."""

from dataclasses import replace

from config_text import changed, load
import pytest
from vig_core.room import find_room
from vig_core.units import ms

from vig_governor.generation import Generation
from vig_governor.prompt_room import Outlook, room_text

CAMERA = changed('period_ms: 33', 'period_ms: 100')
"""Its fastest variant takes 8 ms: 92 ms are the longest gap."""

WRITER = """\
  writer:
    class: best_effort
    queue: {policy: fifo, capacity: 4}
    contract: {deadline_ms: 8000, max_age_ms: 15000}
    cooperative: {tokens_per_second: 100, base_cost_us: 10000, max_total_tokens: 40,
      min_tokens: 2, EXTRA}
    variants: [{id: main, backend_model: llm, profile: {p50_us: 100000, p99_us: 110000}}]
streams:
"""
"""The smallest quantum plans 1.21 * (10 + 2 * 10) = 36.3 ms; 55.7 ms are left to read in."""


def configured(tmp_path, extra, camera=CAMERA):
    return load(tmp_path, changed('streams:\n', WRITER.replace('EXTRA', extra), camera))


def text_of(tmp_path, extra, camera=CAMERA):
    config = configured(tmp_path, extra, camera)
    models = config.system.models
    return room_text(config, models['writer'], models.values())


def test_a_new_prompt_may_be_as_long_as_the_longest_gap_holds(tmp_path):
    found = text_of(tmp_path, 'new_prompt_per_token_us: 2000')
    assert found == (
        'no gap before a frame of detector is longer than 92.0 ms, and the smallest quantum plans '
        '36.3 ms and 2.4 ms for each token of a new prompt: a prompt of more than 23 tokens '
        '(about 92 bytes) waits as long as no frame of detector stays away')


def test_the_template_takes_its_share_of_the_bytes(tmp_path):
    found = text_of(tmp_path, 'new_prompt_per_token_us: 2000, '
                    'prompt_template: "<user>{prompt}</user>"')
    assert '23 tokens (about 84 bytes)' in found


def test_without_a_prefix_cache_the_text_counts_as_well(tmp_path):
    found = text_of(tmp_path, 'prefill_per_token_us: 2000')
    assert found.endswith('a prompt of more than 23 tokens (about 92 bytes) and a text of more '
                          'than 23 tokens with its prompt wait as long as no frame of detector '
                          'stays away')


def test_a_text_may_outgrow_the_gap_though_every_prompt_fits(tmp_path):
    found = text_of(tmp_path, 'prefill_per_token_us: 2000, max_prompt_bytes: 80')
    assert found.endswith('36.3 ms: a text of more than 23 tokens with its prompt waits as long '
                          'as no frame of detector stays away')


def test_where_no_quantum_fits_every_job_waits(tmp_path):
    found = text_of(tmp_path, 'prefill_per_token_us: 1', changed('period_ms: 33', 'period_ms: 40'))
    assert 'every job waits as long as no frame' in found


@pytest.mark.parametrize('extra', [
    'prefill_per_token_us: 0', 'split: false, prefill_per_token_us: 2000',
    'prefill_per_token_us: 500, max_prompt_bytes: 80'])
def test_where_all_that_may_come_fits_there_is_nothing_to_say(tmp_path, extra):
    assert text_of(tmp_path, extra) == ''


def test_beside_a_second_slot_or_without_a_higher_guarded_stream_there_is_nothing_to_say(tmp_path):
    extra = 'prefill_per_token_us: 2000'
    two = changed('slots: 1', 'slots: 2', CAMERA)
    assert text_of(tmp_path, extra, two) == ''
    assert text_of(tmp_path, extra, changed('      period_ms: 100\n', '', CAMERA)) == ''


def test_the_limits_are_those_of_the_cost_model_to_the_token(tmp_path):
    config = configured(tmp_path, 'prefill_per_token_us: 1000, new_prompt_per_token_us: 2000')
    models = config.system.models
    room = find_room(config.system, models['writer'], models.values())
    assert (room.gap_ns, room.smallest_ns) == (ms(92), 36_300_000)
    assert (room.new_prompt, room.text) == (23, 46)
    assert find_room(replace(config.system, slots=2), models['writer'], models.values()) is None


def remark(tmp_path, prompt, *, extra='new_prompt_per_token_us: 2000', camera=CAMERA, age=0,
           tokens=0):
    """Give what is said of a job; a word and a space are a token."""
    config = configured(tmp_path, extra, camera)
    model = config.system.models['writer']
    return Outlook(config.system, model).remark(
        Generation(config.generative['writer'], 'word ' * prompt, tokens), ms(age))


def test_a_prompt_that_fits_no_gap_is_told_with_what_its_first_quantum_plans(tmp_path):
    assert remark(tmp_path, 23) == ''
    assert remark(tmp_path, 24) == (
        'no gap before a frame of detector is longer than 92.0 ms, and the first quantum of this '
        'prompt (24 tokens) plans 94.4 ms: it waits as long as no frame of detector stays away')


def test_where_nothing_fits_every_prompt_is_told(tmp_path):
    narrow = changed('period_ms: 33', 'period_ms: 40')
    assert 'plans 36.3 ms: it waits' in remark(tmp_path, 0, camera=narrow)


def test_a_text_that_outgrows_the_gap_is_told_with_its_length(tmp_path):
    extra = 'prefill_per_token_us: 1000'
    assert remark(tmp_path, 10, extra=extra, tokens=36) == ''
    assert remark(tmp_path, 10, extra=extra, tokens=37) == (
        'no gap before a frame of detector is longer than 92.0 ms: a text of more than 46 tokens '
        'with its prompt waits as long as no frame of detector stays away')


def test_a_text_that_cannot_be_written_in_time_is_told_which_limit_it_misses(tmp_path):
    """40 tokens and 10 to read are 430 ms, four gaps of 92 and 62 ms behind four frames of 8."""
    assert remark(tmp_path, 10, age=8000 - 462) == ''
    assert remark(tmp_path, 10, age=8000 - 461) == (
        'all of its 40 tokens take at least 462.0 ms beside the frames of detector, and the '
        'deadline is in 461.0 ms')
    assert remark(tmp_path, 10, age=15_000 - 461).endswith(
        'and the end of its use (max_age) is in 461.0 ms')
    assert remark(tmp_path, 10, age=16_000).endswith('(max_age) was 1000.0 ms ago')
    assert remark(tmp_path, 10, age=8000 - 461, tokens=39) == ''


def test_without_a_camera_in_its_way_a_text_takes_what_it_costs(tmp_path):
    two = changed('slots: 1', 'slots: 2', CAMERA)
    assert remark(tmp_path, 500, camera=two) == ''
    assert remark(tmp_path, 10, camera=two, age=8000 - 430) == ''
    assert remark(tmp_path, 10, camera=two, age=8000 - 429) == (
        'all of its 40 tokens take at least 430.0 ms, and the deadline is in 429.0 ms')
