"""What both scenes have in common in showing snapshots of a run to a person."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text


class SnapshotView(ABC):
    """
    Shows a consumer's snapshots: a picture that moves on a terminal, plain lines elsewhere.

    A context manager: the picture stays as it was last.

    :cvar plain_period_s: distance of two plain lines.
    """

    plain_period_s: float

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._live: Live | None = None
        self._shown_at_s = 0.0

    def __enter__(self) -> 'SnapshotView':
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        else:
            self._console.print(self._title)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, snapshot: Mapping[str, Any], elapsed_s: float, seconds: float) -> None:
        """
        Show a consumer's snapshot.

        :param elapsed_s: of the run, which takes ``seconds``.
        """
        if self._live is not None:
            self._live.update(self._picture(snapshot, elapsed_s, seconds), refresh=True)
        elif elapsed_s - self._shown_at_s >= self.plain_period_s:
            self._shown_at_s = elapsed_s
            self._console.print(self._line(snapshot, elapsed_s))

    @abstractmethod
    def _picture(self, snapshot: Mapping[str, Any], elapsed_s: float,
                 seconds: float) -> RenderableType:
        """Draw a snapshot for a terminal."""

    @abstractmethod
    def _line(self, snapshot: Mapping[str, Any], elapsed_s: float) -> Text:
        """Write a snapshot in one line."""
