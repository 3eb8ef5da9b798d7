"""Files that are no vig.yaml: one clear sentence each, with the line where there is one."""

import os

from config_text import assert_refused, changed, line_of, load, SIMPLE

import pytest

from vig_governor.config import ConfigError, load_config


def refused(path):
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert len(caught.value.problems) == 1
    assert '\n' not in str(caught.value)
    return str(caught.value)


def of_bytes(folder, raw):
    path = folder / 'vig.yaml'
    path.write_bytes(raw)
    return refused(path)


def test_a_directory_is_no_file(tmp_path):
    assert refused(tmp_path) == f'{tmp_path}: this is a directory; name the YAML file in it'


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / 'none.yaml'
    assert refused(path) == f'{path}: there is no such file; give the path of a vig.yaml'


def test_an_empty_path_is_answered():
    assert refused('') == 'the path is empty; give the path of a vig.yaml'


def test_a_path_that_no_system_accepts_is_answered(tmp_path):
    assert 'cannot be read' in refused('a\0b')
    assert 'cannot be read' in refused(tmp_path / ('x' * 5000))


@pytest.mark.skipif(os.geteuid() == 0, reason='root may read everything; run as another user')
def test_an_unreadable_file_says_who_may_not_read_it(tmp_path):
    path = tmp_path / 'vig.yaml'
    path.write_text(SIMPLE)
    path.chmod(0)
    assert 'may not be read by this user' in refused(path)


def test_a_device_is_not_read():
    assert 'not a regular file' in refused('/dev/zero')


@pytest.mark.parametrize('raw', [b'', b'\n \n', b'# only a comment\n', b'\xef\xbb\xbf'])
def test_an_empty_file_says_what_belongs_into_it(tmp_path, raw):
    assert 'version, backend and models' in of_bytes(tmp_path, raw)


def test_a_binary_file_is_recognised(tmp_path):
    assert 'vig.yaml:2: this is a binary file' in of_bytes(tmp_path, b'a: 1\n\x00\x01\x02')


def test_a_file_in_another_encoding_names_the_line(tmp_path):
    text = of_bytes(tmp_path, b'version: 1\n# caf\xe9\n')
    assert 'vig.yaml:2: byte 0xe9 is not UTF-8; save the file as UTF-8' in text


def test_a_byte_order_mark_is_harmless(tmp_path):
    path = tmp_path / 'vig.yaml'
    path.write_bytes(b'\xef\xbb\xbf' + SIMPLE.encode())
    assert load_config(path).system.slots == 1


def test_windows_line_ends_are_harmless(tmp_path):
    path = tmp_path / 'vig.yaml'
    path.write_bytes(changed('slots: 1', 'slots: 0').replace('\n', '\r\n').encode())
    with pytest.raises(ConfigError, match='vig.yaml:3: backend.slots = 0'):
        load_config(path)


def test_a_huge_file_is_not_parsed(tmp_path):
    assert 'larger than 1024 KiB' in of_bytes(tmp_path, b'#' * (1024 * 1024 + 1))


@pytest.mark.parametrize('text, line, part', [
    ('version: 1\nbackend: {slots: 1\n', 3, 'not valid YAML'),
    ('version: 1\n\tbackend: 2\n', 2, 'spaces, not tabs'),
    ('version: 1\nbackend: a: b\n', 2, 'check the indentation'),
    ('version: 1\n---\nversion: 1\n', 2, 'without a second ---'),
    ('a: "\\UFFFFFFFF"\n', 0, 'not valid YAML'),
    ('a: \x01\n', 0, 'not valid YAML'),
])
def test_a_syntax_error_names_its_line(tmp_path, text, line, part):
    sentence = of_bytes(tmp_path, text.encode())
    assert sentence.startswith(f'{tmp_path / "vig.yaml"}:{line}: ' if line else str(tmp_path))
    assert part in sentence


@pytest.mark.parametrize('text', ['!!python/object/apply:os.system [true]', '!mine 1',
                                  'a: !!str 1'])
def test_a_tag_is_refused_and_nothing_is_built(tmp_path, text):
    assert 'vig.yaml:1: the tag' in of_bytes(tmp_path, text.encode())


def test_an_anchor_is_refused_before_it_can_multiply(tmp_path):
    bomb = 'a: &a [x, x]\n' + ''.join(
        f'{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n' for i in range(20))
    assert "vig.yaml:1: the anchor or alias 'a' is not supported" in of_bytes(
        tmp_path, bomb.encode())


def test_deep_nesting_is_refused(tmp_path):
    assert 'nested deeper than 32' in of_bytes(tmp_path, b'a: ' + b'[' * 50_000)


def test_a_flood_of_values_is_refused(tmp_path):
    assert 'more than 20000 values' in of_bytes(tmp_path, b'a: [' + b'1,' * 30_000 + b']')


@pytest.mark.parametrize('text', ['just words', '- a\n- b\n', '7'])
def test_a_file_that_is_no_block_of_keys_is_refused(tmp_path, text):
    assert 'vig.yaml:1: ' in of_bytes(tmp_path, text.encode())
    assert 'must be a block of keys' in of_bytes(tmp_path, text.encode())


def test_a_duplicate_key_names_both_lines(tmp_path):
    text = changed('      max_age_ms: 80\n', '      max_age_ms: 80\n      deadline_ms: 50\n')
    assert_refused(tmp_path, text, line=12, key='models.detector.contract.deadline_ms',
                   value='50', says=['in line 10 and in line 12', 'keep one'])


def test_a_model_given_twice_names_both_lines(tmp_path):
    start, end = SIMPLE.index('  detector:'), SIMPLE.index('streams:')
    text = SIMPLE[:end] + SIMPLE[start:end] + SIMPLE[end:]
    assert_refused(tmp_path, text, line=21, key='models.detector', says=['line 5', 'line 21'])


def test_a_key_that_is_no_text_is_refused(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  ? [a, b]\n  : 1')
    assert_refused(tmp_path, text, line=4, key='backend.?', says=['plain text'])


def test_a_key_that_yaml_would_take_for_a_truth_value_stays_a_text(tmp_path):
    assert_refused(tmp_path, changed('slots: 1', 'slots: 1\n  on: 1'), line=4, key='backend.on',
                   value='1', says=['unknown key'])


@pytest.mark.parametrize('written', ['010', '1:30', '1_0x'])
def test_numbers_that_yaml_reads_in_another_base_are_refused(tmp_path, written):
    assert_refused(tmp_path, changed('slots: 1', f'slots: {written}'), line=3,
                   key='backend.slots', value=written, says=['whole number'])


def test_a_number_of_thousands_of_digits_is_answered_briefly(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, changed('slots: 1', 'slots: ' + '9' * 6000))
    assert caught.value.problems[0].line == 3
    assert len(str(caught.value)) < 500


def test_an_exponent_without_a_point_is_a_number(tmp_path):
    text = changed('encoder: image', 'encoder: image, scale: 1e-3')
    assert load(tmp_path, text).streams[0].input.scale == 0.001


def test_an_unquoted_time_stays_a_text(tmp_path):
    text = changed('p99_us: 25000}', 'p99_us: 25000, manifest: {revision: 2, '
                   'recorded_at: 2026-09-09T18:42:11Z}}')
    variant = load(tmp_path, text).file.models['detector'].variants[0]
    assert variant.profile.manifest.recorded_at == '2026-09-09T18:42:11Z'


def test_an_unquoted_off_is_answered_with_quotes(tmp_path):
    text = changed('p99_us: 25000}', 'p99_us: 25000, manifest: {revision: 2, '
                   'resources: {rate_limiter: off}}}')
    assert_refused(tmp_path, text, line=line_of(text, 'rate_limiter'), value='off',
                   key='models.detector.variants[0].profile.manifest.resources.rate_limiter',
                   says=['put it in quotes'])


def test_half_a_surrogate_pair_is_refused(tmp_path):
    text = changed('model: detector\n', 'model: "\\ud800"\n')
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert caught.value.problems[0].key == 'streams.front.model'
    str(caught.value).encode('utf-8')
