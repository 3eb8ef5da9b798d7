"""
The event trace: everything the scheduler was told, when, and a digest of what it decided.

JSON lines. The first names the format, the package's version, the configuration and its digest,
and holds the whole system; then one line per event; the last holds the digest of all decisions.
Fed through the same core again (``vig replay``) the events give the same decisions. Knows
nothing of ROS.
"""

from collections.abc import Sequence
import hashlib
from importlib import metadata
import json
import logging
import os
from typing import Any, TextIO

from vig_core.actions import Action
from vig_core.errors import RefusedEvent, VigError
from vig_core.events import Event
from vig_core.model import System

from vig_governor.ports import Scheduling
from vig_governor.trace_values import encode

FORMAT = 1

_log = logging.getLogger(__name__)


class TraceError(VigError):
    """A trace that cannot be written or read; says which, where and why."""


def digest_of(actions: Sequence[Action]) -> str:
    """Give a short digest of what was decided about one event."""
    return hashlib.sha256(repr(tuple(actions)).encode()).hexdigest()[:16]


def package_version() -> str:
    """Name the installed version, or say that there is none."""
    try:
        return metadata.version('vig')
    except metadata.PackageNotFoundError:
        return 'not installed'


class TraceWriter:
    """
    One trace file, open.

    A disk that is full ends the trace and not the governor: it is logged once.
    """

    def __init__(self, path: str | os.PathLike[str], *, system: System, origin_ns: int,
                 config: str, config_digest: str) -> None:
        """
        Open the file and write its head.

        :param config: path of the configuration; its digest is over the file's bytes.
        :raises TraceError: the file cannot be written.
        """
        self._path = os.fspath(path)
        self._digest = hashlib.sha256()
        self._events = 0
        try:
            self._file: TextIO | None = open(self._path, 'w', encoding='utf-8')
        except (OSError, ValueError) as error:
            raise TraceError(f'{self._path}: the trace cannot be written: '
                             f'{getattr(error, "strerror", None) or error}') from None
        self._write({'vig_trace': FORMAT, 'version': package_version(), 'config': config,
                     'config_digest': config_digest, 'origin_ns': origin_ns,
                     'system': encode(system)})

    def add(self, event: Event, now_ns: int, decided: str) -> None:
        """Write one event; ``decided`` is ``digest_of`` its actions, or ``refused``."""
        self._events += 1
        self._digest.update(f'{now_ns} {decided}\n'.encode())
        self._write({'at': now_ns, 'event': encode(event), 'decided': decided})

    def close(self) -> None:
        """Write the end and close; idempotent."""
        if self._file is None:
            return
        self._write({'events': self._events, 'digest': self._digest.hexdigest()})
        self._end()

    def _write(self, value: dict[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(value, separators=(',', ':')) + '\n')
        except OSError as error:
            _log.error('%s: the trace ends after %d events: %s', self._path, self._events, error)
            self._end()

    def _end(self) -> None:
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except OSError as error:
            _log.error('%s: the end of the trace is not on the disk: %s', self._path, error)


class RecordingScheduler:
    """A scheduler that writes down what it is told and what it decides."""

    def __init__(self, scheduler: Scheduling, writer: TraceWriter) -> None:
        """Stand in front of a scheduler that has not been told anything yet."""
        self._scheduler = scheduler
        self._writer = writer

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return self._scheduler.is_idle

    def handle(self, event: Event, *, now_ns: int) -> tuple[Action, ...]:
        """Pass an event on and write it down, refused ones too."""
        try:
            actions = self._scheduler.handle(event, now_ns=now_ns)
        except RefusedEvent:
            self._writer.add(event, now_ns, 'refused')
            raise
        self._writer.add(event, now_ns, digest_of(actions))
        return actions

    def next_wakeup_ns(self) -> int | None:
        """Say when to look again without an event."""
        return self._scheduler.next_wakeup_ns()

    def snapshot(self, *, now_ns: int) -> Any:
        """Freeze the counters."""
        return self._scheduler.snapshot(now_ns=now_ns)
