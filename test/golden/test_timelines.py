"""Each timeline tells one behaviour; all must hold as written, with extra ticks, and shifted."""

from pathlib import Path

from player import compare, play
import pytest
from timeline import read, TimelineError

HERE = Path(__file__).resolve().parent
FILES = sorted(HERE.glob('*.timeline'))
SHIFT_NS = 86_400_000_000_001
SEEDS = range(5)

each = pytest.mark.parametrize('path', FILES, ids=[path.stem for path in FILES])


@each
def test_plays_as_written(path):
    timeline = read(path)
    compare(timeline, play(timeline))


@each
def test_extra_ticks_change_nothing(path):
    timeline = read(path)
    for seed in SEEDS:
        compare(timeline, play(timeline, seed=seed))


@each
def test_a_shift_in_time_changes_nothing(path):
    timeline = read(path)
    assert play(timeline, shift_ns=SHIFT_NS) == play(timeline)


def _write(tmp_path, *lines):
    path = tmp_path / 'x.timeline'
    path.write_text('\n'.join(lines))
    return path


MODEL = 'model m latest p50 20 p99 25'


@pytest.mark.parametrize('line', [
    'modle x', 'model m sometimes', 'at x in arrive 1 m', 'at 1 in arrive 1 m captured',
    'at 1 out vanish 1', 'at 1 near arrive 1 m', 'at 0.0000001 in wake', 'at 1 in nothing',
    'at 1 out terminate 1 stale colour red', 'model m latest p50 30 p99 25'])
def test_a_line_that_is_not_understood_is_named_with_its_file(tmp_path, line):
    path = _write(tmp_path, MODEL, line)
    with pytest.raises(TimelineError, match=f'{path}:2: {line.split()[0]}'):
        read(path)


def test_lines_out_of_order_are_refused(tmp_path):
    path = _write(tmp_path, MODEL, 'at 5 in arrive 1 m', 'at 4 in complete 1')
    with pytest.raises(TimelineError, match=':3: .*before the line above'):
        read(path)


@pytest.mark.parametrize('lines', [
    ['at 0 in arrive 1 m', 'at 9 end'],
    ['at 0 in arrive 1 m', 'at 1 out dispatch 1'],
    ['at 0 in arrive 1 m', 'at 0 out dispatch 2'],
    ['at 0 in arrive 1 m', 'at 0 out dispatch 1 other'],
    ['at 0 in arrive 1 m', 'at 0 out dispatch 1 planned 24'],
    ['at 0 in arrive 1 m', 'at 0 out dispatch 1', 'at 0 says nothing'],
    ['at 0 in arrive 1 m', 'at 0 out dispatch 1', 'at 0 out dispatch 1'],
    ['at 0 in arrive 1 m', 'at 0 out dispatch 1', 'at 0 wakeup 4999'],
    ['at 0 refused arrive 1 m', 'at 0 out dispatch 1']])
def test_a_timeline_that_tells_something_else_fails(tmp_path, lines):
    timeline = read(_write(tmp_path, MODEL, *lines))
    with pytest.raises(AssertionError, match='x.timeline'):
        compare(timeline, play(timeline))
