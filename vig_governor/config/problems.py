"""What is wrong with a file: collected completely, in line order, in sentences for an operator."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vig_core.errors import VigError

Path = tuple[str | int, ...]
"""Keys and list indices that lead to a value: ``('models', 'detector', 'variants', 0)``."""

MAX_SHOWN = 50


def dotted(path: Path) -> str:
    """Write a path as an operator would: ``models.detector.variants[0].id``."""
    text = ''
    for part in path:
        text += f'[{part}]' if isinstance(part, int) else f'.{part}' if text else part
    return text


@dataclass(frozen=True, slots=True)
class Problem:
    """
    One thing that is wrong, and where.

    :ivar line: counted from 1; 0 where the file as a whole is meant.
    :ivar key: the dotted key, or empty where no key is meant.
    :ivar value: the value as it is written in the file, or empty.
    :ivar reason: what is wrong and what would be right.
    """

    file: str
    line: int
    key: str
    value: str
    reason: str

    def __str__(self) -> str:
        """Show ``file:line: key = value: reason`` with what is known of it."""
        place = f'{self.file}:{self.line}' if self.line else self.file
        subject = f'{self.key} = {self.value}' if self.key and self.value else self.key
        return ': '.join(part for part in (place, subject, self.reason) if part)


class ConfigError(VigError):
    """
    A file that cannot be used; ``str()`` is the finished message, one line per problem.

    :ivar problems: every problem that was found, in line order.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        lines = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        if len(self.problems) > MAX_SHOWN:
            lines.append(f'... and {len(self.problems) - MAX_SHOWN} more')
        if len(self.problems) > 1:
            lines.insert(0, f'{self.problems[0].file}: {len(self.problems)} problems')
        super().__init__('\n'.join(lines))


@dataclass(slots=True)
class Findings:
    """
    Problems and notices of one file, addressed by path and shown by line.

    :ivar lines: the line of each key or list item.
    :ivar texts: each scalar as it is written.
    """

    file: str
    lines: dict[Path, int] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _notices: list[Problem] = field(default_factory=list)

    def refuse(self, path: Path, reason: str) -> None:
        """Add a problem at a path; one that the file lacks is placed at its nearest parent."""
        problem = self._at(path, reason)
        if problem not in self.problems:
            self.problems.append(problem)

    def notice(self, path: Path, reason: str) -> None:
        """Add something that the operator should know and that stops nothing."""
        self._notices.append(self._at(path, reason))

    @property
    def notices(self) -> tuple[str, ...]:
        """The notices in line order."""
        return tuple(str(one) for one in sorted(self._notices, key=lambda one: one.line))

    def _at(self, path: Path, reason: str) -> Problem:
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        line = self.lines.get(known, 1)
        return Problem(self.file, line, dotted(path), self.texts.get(path, ''), reason)
