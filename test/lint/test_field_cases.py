"""The table of field cases: complete, and each test that it names exists."""

from pathlib import Path
import re

import pytest

TEST = Path(__file__).parents[1]
CASES = {
    'R': (1, 3, 5, 7, 8, 9, 10, 13, 14, 15), 'S': (1, 3, 4, 6, 9, 10, 11),
    'C': (1, 2, 4, 6, 8, 10), 'Q': (1, 3, 4), 'L': (1, 2, 4, 5, 7, 9),
    'T': (1, 3, 5, 6, 8, 9, 10, 11, 13, 15, 16, 17, 18, 19, 21, 22, 23),
    'D': (1, 3, 5, 6, 7)}
ROWS = re.findall(r'^\| ([A-Z]\d\d) \| [^|]+ \| (.+) \|$',
                  (TEST / 'FIELD_CASES.md').read_text(), re.M)


def test_every_case_has_exactly_one_row():
    assert [case for case, _ in ROWS] == [
        f'{letter}{number:02}' for letter, numbers in CASES.items() for number in numbers]


@pytest.mark.parametrize('case, cell', ROWS, ids=[case for case, _ in ROWS])
def test_the_tests_of_a_case_exist_or_the_row_says_what_is_open(case, cell):
    named = re.findall(r'`([^`]+)::(test_\w+)`', cell)
    assert named or cell.startswith('open: ')
    for path, name in named:
        assert re.search(rf'^def {name}\(', (TEST / path).read_text(), re.M), f'{path}::{name}'
