"""Progress bars on a terminal; nothing where stderr is a file or a pipe."""

from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Bars:
    """
    One bar for each model; a context manager.

    :param steps: how many there are for each.
    """

    def __init__(self, steps: Mapping[str, int]) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(), console=console, disable=not console.is_terminal,
            transient=True)
        self._tasks = {name: self._progress.add_task(name, total=total)
                       for name, total in steps.items()}

    def advance(self, name: str) -> None:
        """Count one step of a model."""
        self._progress.advance(self._tasks[name])

    def __enter__(self) -> 'Bars':
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._progress.stop()
