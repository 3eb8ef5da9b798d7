"""
The event trace: everything the scheduler was told, when, and what it decided.

The actor's thread only puts events into a queue; a thread of the trace makes text of them and
writes, so that a slow disk delays no decision. When a file is full, the next one begins with the
scheduler's state: each file replays by itself (``vig replay``), and the oldest goes. Knows
nothing of ROS; the format is told in ``trace_file``.
"""

from collections.abc import Sequence
import hashlib
import logging
import os
from pathlib import Path
from queue import SimpleQueue
import threading
from typing import Any

from vig_core.actions import Action, Defer, Dispatch, ReportOverload, Terminate
from vig_core.errors import RefusedEvent
from vig_core.events import CyclesInherited, Event, RequestArrived
from vig_core.model import System
from vig_core.scheduler import Scheduler
from vig_core.units import NS_PER_MS

from vig_governor import checkpoint
from vig_governor.trace_file import (
    DEFER, DISPATCH, END, EVENT, OVERLOAD, TraceError, TraceFile,
)
from vig_governor.trace_values import encode
from vig_governor.version import package_version

FILES = 4
"""A trace of bounded size keeps this many files, each a fourth of it."""
DEFAULT_MAX_BYTES = 1000 * 1000 * 1000
MOST_WAITING = 100_000
"""Events that may wait for the disk before the trace is given up: minutes at usual rates."""

_log = logging.getLogger(__name__)


def digest_of(actions: Sequence[Action]) -> str:
    """Give a short digest of what was decided about one event."""
    return hashlib.sha256(repr(tuple(actions)).encode()).hexdigest()[:16]


class TraceWriter:
    """
    One trace: the file that grows, and the full ones before it (``run.1.mcap`` ...).

    A disk that is full or too slow ends the trace and not the governor: it is logged once.
    """

    def __init__(self, path: str | os.PathLike[str], *, system: System, origin_ns: int,
                 config: str, config_digest: str, wall_minus_steady_ns: int,
                 max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        """
        See that the file can be written; ``begin`` writes its head.

        :param path: ends in ``.mcap``: anybody on the graph may set the parameter ``record``, and
            no other file shall be overwritten by it.
        :param config: path of the configuration; its digest is over the file's bytes.
        :param wall_minus_steady_ns: turns the scheduler's instants into log times.
        :param max_bytes: of all files together.
        :raises TraceError: the file cannot be written, or has another ending.
        """
        self.path = Path(path)
        if self.path.suffix != '.mcap':
            raise TraceError(f'{self.path}: a trace must be called *.mcap: it takes the place of '
                             'a file of its name')
        self._head = {'version': package_version(), 'config': config,
                      'config_digest': config_digest, 'origin_ns': str(origin_ns)}
        self._system = encode(system)
        self._part_bytes = max(max_bytes // FILES, 1)
        self._offset_ns = wall_minus_steady_ns
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._file: TraceFile | None = None
        self._digest = hashlib.sha256()
        self._events = 0
        self._parts = 0
        self._requests: dict[int, tuple[str, str, int]] = {}
        self._is_over = False
        self._has_asked = False
        self.needs_state = False
        self._shift()
        try:
            open(self.path, 'wb').close()
        except (OSError, ValueError) as error:
            raise TraceError(f'{self.path}: the trace cannot be written: '
                             f'{getattr(error, "strerror", None) or error}') from None
        self._thread = threading.Thread(target=self._run, name='vig-trace', daemon=True)
        self._thread.start()

    def begin(self, state: bytes | None, now_ns: int) -> None:
        """Begin a file at this instant; with the scheduler's state unless it is a new one."""
        self.needs_state = False
        self._queue.put((state, now_ns))

    def add(self, event: Event, now_ns: int, actions: tuple[Action, ...] | None) -> None:
        """Write one event and what was decided; ``None`` for one that was refused."""
        if not self._is_over:
            self._queue.put((event, now_ns, actions))

    def close(self) -> None:
        """Write what waits and the end; bounded and idempotent."""
        self._queue.put(None)
        self._thread.join(timeout=5.0)
        if self._thread.is_alive():
            _log.error('%s: the disk takes too long; the trace may lack its end', self.path)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._is_over:
                continue
            try:
                if self._queue.qsize() > MOST_WAITING:
                    raise TraceError(f'{self.path}: the disk is too slow: {MOST_WAITING} events '
                                     'wait to be written')
                if len(item) == 2:
                    self._next_file(*item)
                else:
                    self._write(*item)
            except TraceError as error:
                self._give_up(error)
        if not self._is_over:
            self._is_over = True
            try:
                self._close_file()
            except TraceError as error:
                _log.error('%s; its end is missing', error)

    def _next_file(self, state: bytes | None, now_ns: int) -> None:
        if self._file is not None:
            self._close_file()
            self._shift()
        self._digest, self._events, self._has_asked = hashlib.sha256(), 0, False
        self._file = TraceFile(
            self.path, system=self._system, state=state, wall_minus_steady_ns=self._offset_ns,
            head={**self._head, 'begin_ns': str(now_ns), 'part': str(self._parts)})
        self._parts += 1

    def _write(self, event: Event, now_ns: int, actions: tuple[Action, ...] | None) -> None:
        assert self._file is not None
        if isinstance(event, RequestArrived):
            self._requests[event.request_id] = event.stream, event.model, now_ns
        decided = 'refused' if actions is None else digest_of(actions)
        self._events += 1
        self._digest.update(f'{now_ns} {decided}\n'.encode())
        self._file.add(EVENT, now_ns, {'at': now_ns, 'event': encode(event), 'decided': decided})
        for action in actions or ():
            self._write_action(action, now_ns)
        if self._file.size_bytes > self._part_bytes and not self._has_asked:
            self._has_asked = self.needs_state = True

    def _write_action(self, action: Action, now_ns: int) -> None:
        assert self._file is not None
        stream, model, arrived_ns = self._requests.get(
            getattr(action, 'request_id', -1), ('', '', now_ns))
        request = {'request_id': getattr(action, 'request_id', -1), 'stream': stream,
                   'model': model}
        if isinstance(action, Dispatch):
            self._file.add(DISPATCH, now_ns, {
                **request, 'variant': action.variant_id, 'planned_ms': _ms(action.planned_ns),
                'wait_ms': _ms(now_ns - arrived_ns)})
        elif isinstance(action, Terminate):
            self._requests.pop(action.request_id, None)
            self._file.add(END, now_ns, {
                **request, 'stream': action.stream, 'model': action.model,
                'variant': action.variant_id or '', 'reason': action.reason.value,
                'detail': action.detail, 'age_ms': _ms(action.age_ns),
                'wait_ms': _ms(action.queue_wait_ns), 'backend_ms': _ms(action.backend_ns or 0),
                'deadline_met': action.is_deadline_met})
        elif isinstance(action, Defer):
            self._file.add(DEFER, now_ns, {
                **request, 'beneficiary': action.beneficiary, 'detail': action.detail,
                'until_ms': _ms(action.until_ns - now_ns)})
        elif isinstance(action, ReportOverload):
            self._file.add(OVERLOAD, now_ns, {
                'before': action.before.value, 'after': action.after.value,
                'detail': action.detail})

    def _close_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close({'events': str(self._events), 'digest': self._digest.hexdigest()})

    def _give_up(self, error: TraceError) -> None:
        self._is_over = True
        _log.error('%s; the trace ends after %d events', error, self._events)
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close(None)
        except TraceError:
            pass

    def _shift(self) -> None:
        """Let the newest file become the first of the full ones; the oldest goes."""
        names = [self.path, *(self.path.with_name(f'{self.path.stem}.{number}{self.path.suffix}')
                              for number in range(1, FILES))]
        try:
            for newer, older in reversed(list(zip(names, names[1:]))):
                if newer.is_file():
                    newer.replace(older)
        except OSError as error:
            raise TraceError(f'{self.path}: the full file before it cannot be renamed: '
                             f'{error.strerror}') from None


class RecordingScheduler:
    """A scheduler that can be listened to: from its begin, or from any later moment."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Stand in front of a scheduler; nothing is recorded yet."""
        self._scheduler = scheduler
        self._writer: TraceWriter | None = None
        self._is_new = True

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return self._scheduler.is_idle

    def listen(self, writer: TraceWriter | None, now_ns: int) -> TraceWriter | None:
        """Record from now on, or no more; gives the writer before, which is to be closed."""
        before, self._writer = self._writer, writer
        if writer is not None:
            writer.begin(None if self._is_new else checkpoint.dump(self._scheduler), now_ns)
        return before

    def handle(self, event: Event, *, now_ns: int) -> tuple[Action, ...]:
        """Pass an event on and write it down, refused ones too."""
        writer = self._writer
        if writer is None:
            self._is_new = False
            return self._scheduler.handle(event, now_ns=now_ns)
        if writer.needs_state:
            writer.begin(checkpoint.dump(self._scheduler), now_ns)
        self._is_new = False
        try:
            actions = self._scheduler.handle(event, now_ns=now_ns)
        except RefusedEvent:
            writer.add(event, now_ns, None)
            raise
        writer.add(event, now_ns, actions)
        return actions

    def next_wakeup_ns(self) -> int | None:
        """Say when to look again without an event."""
        return self._scheduler.next_wakeup_ns()

    def snapshot(self, *, now_ns: int) -> Any:
        """Freeze the counters."""
        return self._scheduler.snapshot(now_ns=now_ns)

    def bequeath(self, *, now_ns: int) -> tuple[CyclesInherited, ...]:
        """Give the windows of all miss budgets; for a later scheduler."""
        return self._scheduler.bequeath(now_ns=now_ns)


def _ms(value_ns: int) -> float:
    return value_ns / NS_PER_MS
