"""What a check says, and what all of them together mean."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Level(Enum):
    """How bad it is; ``SKIP`` was not looked at, which is never the same as OK."""

    OK = 'OK'
    WARN = 'WARN'
    FAIL = 'FAIL'
    SKIP = 'SKIP'


class Result(Enum):
    """The last line of the report."""

    READY = 'READY'
    READY_WITH_WARNINGS = 'READY_WITH_WARNINGS'
    NOT_READY = 'NOT_READY'

    @property
    def exit_code(self) -> int:
        """Only what cannot work is an error of the command."""
        return 1 if self is Result.NOT_READY else 0


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One sentence of one check.

    :ivar about: what it is said of, where the same may hold for several; people read it once.
    :ivar remedy: what to do; empty where there is nothing to do.
    :ivar facts: the numbers for machines; plain JSON values.
    """

    level: Level
    said: str
    remedy: str = ''
    facts: Mapping[str, Any] = field(default_factory=dict)
    about: str = ''

    @property
    def text(self) -> str:
        """The whole sentence."""
        return f'{self.about}: {self.said}' if self.about else self.said


def ok(text: str, *, about: str = '', **facts: Any) -> Finding:
    """Say that something is as it should be."""
    return Finding(Level.OK, text, '', facts, about)


def warn(text: str, remedy: str, *, about: str = '', **facts: Any) -> Finding:
    """Say what will hurt, and what helps."""
    return Finding(Level.WARN, text, remedy, facts, about)


def fail(text: str, remedy: str, *, about: str = '', **facts: Any) -> Finding:
    """Say what cannot work, and what helps."""
    return Finding(Level.FAIL, text, remedy, facts, about)


def skip(text: str) -> Finding:
    """Say what was not looked at, and why."""
    return Finding(Level.SKIP, text)


def result_of(findings: Iterable[Finding]) -> Result:
    """Take the worst; what was skipped neither helps nor hurts."""
    levels = {finding.level for finding in findings}
    if Level.FAIL in levels:
        return Result.NOT_READY
    return Result.READY_WITH_WARNINGS if Level.WARN in levels else Result.READY
