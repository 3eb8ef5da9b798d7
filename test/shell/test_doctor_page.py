"""How the doctor's report reads: in 80 columns, everything said once, a line that sums it up."""

from config_text import changed
import pytest

from vig_governor import cli
from vig_governor.doctor.checks import CHECKS
from vig_governor.doctor.finding import fail, ok, result_of, skip, warn
from vig_governor.doctor.page import NAMES_SHOWN, page_of

D01, D02, D03 = CHECKS[:3]


def page(*findings, width=80):
    return list(page_of(findings, result_of(one for _, one in findings), width=width))


def test_a_long_sentence_is_wrapped_below_its_own_first_word():
    lines = page((D01, warn('seven ' * 20, 'call 7')))
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith('WARN  D01  file: seven')
    assert lines[1].startswith('           seven')


def test_a_command_to_copy_stays_in_one_line():
    command = f'vig calibrate -c {"long/" * 20}vig.yaml -o measured.yaml'
    assert f'           -> {command}' in page((D01, warn('1 thing', command)))


def test_what_holds_for_several_is_said_once_with_the_first_names():
    lines = page(*((D02, warn('1 of 2', 'do it', about=name)) for name in 'abcdef'))
    assert lines[0] == 'WARN  D02  server: a, b, c and 3 more: 1 of 2'
    assert [line for line in lines if 'do it' in line] == ['           -> do it']
    few = [(D02, warn('1 of 2', 'do it', about=name)) for name in 'abcd'[:NAMES_SHOWN + 1]]
    assert 'a, b, c, d: 1 of 2' in page(*few)[0]


def test_what_differs_in_a_number_is_not_put_together():
    lines = page((D02, warn('1 of 2', 'do it', about='a')), (D02, warn('2 of 2', 'do it',
                                                                       about='b')))
    assert [line[:30] for line in lines if 'WARN  D02' in line] == [
        'WARN  D02  server: a: 1 of 2', 'WARN  D02  server: b: 2 of 2']


def test_the_last_line_counts_each_check_once_by_its_worst_and_names_the_bad_ones():
    others = [(check, ok('1')) for check in CHECKS[3:]]
    last = page((D01, warn('1', 'x')), (D01, fail('2', 'x')), (D02, warn('3', 'x')),
                (D03, skip('no')), *others)[-1]
    assert last == (f'NOT_READY: 1 FAIL (D01), 1 WARN (D02), 1 not checked, {len(others)} OK')


def test_the_last_line_leaves_the_numbers_out_where_there_is_no_room():
    findings = [(check, warn('1', 'x')) for check in CHECKS]
    assert page(*findings)[-1] == f'READY_WITH_WARNINGS: {len(CHECKS)} WARN'
    assert 'D01 D02' in page(*findings, width=200)[-1]


@pytest.mark.parametrize('text', [changed('x', 'x'), changed('slots: 1', 'slots: 0'), changed(
    '        profile: {p50_us: 20000, p99_us: 25000}\n', '')])
def test_the_report_of_a_real_file_fits_80_columns_and_every_sentence_has_a_number(
        text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'vig.yaml').write_text(text)
    cli.main(['doctor', '-c', 'vig.yaml', '--offline'])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    starts = [index for index, line in enumerate(lines) if not line.startswith(' ')]
    for begin, end in zip(starts, starts[1:]):
        sentence = ' '.join(lines[begin:end])[10:].partition(' -> ')[0]
        assert lines[begin].startswith('SKIP') or any(map(str.isdigit, sentence)), sentence
