"""
The report of ``vig doctor`` as people read it; ``--json`` has everything.

Rules:

- It fits the terminal, 80 columns where there is none. A remedy that is a command stays in one
  line, so that it can be copied.
- What is said of several models or streams alike is said once, with the first of their names.
- The last line counts checks, each by the worst that it found, and names those to look at
  where there is room.
"""

from collections.abc import Iterable, Iterator, Sequence
import shutil
import textwrap
from typing import TextIO

from vig_governor.doctor.checks import Check, CHECKS
from vig_governor.doctor.finding import Finding, Level, Result

PLAIN_WIDTH = 80
NARROWEST, WIDEST = 40, 110
NAMES_SHOWN = 3
_COLOURS = {Level.OK: '32', Level.WARN: '33', Level.FAIL: '31', Level.SKIP: '2'}
_WORST_FIRST = (Level.FAIL, Level.WARN, Level.SKIP, Level.OK)
_INDENT = ' ' * 11


def width_of(stream: TextIO) -> int:
    """Give the columns to write in."""
    if not stream.isatty():
        return PLAIN_WIDTH
    return min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)


def page_of(findings: Sequence[tuple[Check, Finding]], result: Result, *, width: int,
            is_coloured: bool = False) -> Iterator[str]:
    """Give the lines."""
    for check, finding, names in _said_once(findings):
        who = _some(names) + ': ' if names else ''
        first, *others = _wrapped(f'{check.name}: {who}{finding.said}', width)
        level = f'{finding.level.value:4}'
        if is_coloured:
            level = f'\033[{_COLOURS[finding.level]}m{level}\033[0m'
        yield f'{level}  {check.number}  {first}'
        yield from (_INDENT + line for line in others)
        if finding.remedy.startswith('vig '):
            yield f'{_INDENT}-> {finding.remedy}'
        elif finding.remedy:
            first, *others = _wrapped(finding.remedy, width - 3)
            yield f'{_INDENT}-> {first}'
            yield from (f'{_INDENT}   {line}' for line in others)
    yield _summary(findings, result, width)


def _said_once(findings: Iterable[tuple[Check, Finding]]
               ) -> list[tuple[Check, Finding, list[str]]]:
    """Put together what differs in nothing but what it is about; in the order of the first."""
    found: dict[tuple[str, Level, str, str], tuple[Check, Finding, list[str]]] = {}
    for check, finding in findings:
        key = check.number, finding.level, finding.said, finding.remedy
        names = found.setdefault(key, (check, finding, []))[2]
        if finding.about and finding.about not in names:
            names.append(finding.about)
    return list(found.values())


def _some(names: Sequence[str]) -> str:
    """Name all, or the first and how many more."""
    if len(names) <= NAMES_SHOWN + 1:
        return ', '.join(names)
    return f'{", ".join(names[:NAMES_SHOWN])} and {len(names) - NAMES_SHOWN} more'


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width - len(_INDENT), break_long_words=False,
                         break_on_hyphens=False) or ['']


def _summary(findings: Iterable[tuple[Check, Finding]], result: Result, width: int) -> str:
    worst: dict[str, Level] = {}
    for check, finding in findings:
        before = worst.get(check.number, Level.OK)
        worst[check.number] = min(before, finding.level, key=_WORST_FIRST.index)
    by_level = {level: [number for number, one in worst.items() if one is level]
                for level in _WORST_FIRST}
    unasked = len(CHECKS) - len(worst)
    rest = [f'{count} {what}' for count, what in (
        (len(by_level[Level.SKIP]), 'not checked'), (len(by_level[Level.OK]), 'OK'),
        (unasked, 'need a file without mistakes')) if count]
    line = ''
    for is_named in (True, False):
        bad = [f'{len(numbers)} {level.value}' + (f' ({" ".join(numbers)})' if is_named else '')
               for level in (Level.FAIL, Level.WARN) if (numbers := by_level[level])]
        line = f'{result.value}: {", ".join([*bad, *rest])}'
        if len(line) <= width:
            break
    return line
