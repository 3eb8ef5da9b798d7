"""A trace as it was recorded: what ``vig replay``, ``timeline`` and ``report`` start from."""

from dataclasses import dataclass, field
import os

from vig_core.events import Event, RequestArrived
from vig_core.model import System
from vig_core.scheduler import Scheduler

from vig_governor import checkpoint
from vig_governor.trace_file import read_file, TraceError
from vig_governor.trace_values import decode, NotATraceValue


@dataclass
class Recorded:
    """
    One file of a trace.

    :ivar origin_ns: where the scheduler counts from.
    :ivar begin_ns: where this file begins; later than the origin for all but the first file.
    :ivar state: the scheduler at ``begin_ns``; ``None`` for a new one.
    :ivar events: instant, event, and the digest of what was decided then.
    :ivar digest: of all decisions; ``None`` where the file was cut off.
    """

    path: str
    head: dict[str, str]
    system: System
    origin_ns: int
    begin_ns: int
    state: bytes | None = None
    events: list[tuple[int, Event, str]] = field(default_factory=list)
    digest: str | None = None

    def check_stream(self, name: str) -> None:
        """
        See that a stream is one of this trace.

        :raises TraceError: it is none; names those that there are.
        """
        known = {*self.system.streams, *(event.stream for _, event, _ in self.events
                                         if isinstance(event, RequestArrived))}
        if name not in known:
            raise TraceError(f'{self.path}: there is no stream {name!r}; there are '
                             f'{", ".join(sorted(known)) or "none"}')

    def scheduler(self) -> Scheduler:
        """
        Make the scheduler as it was when the file began.

        :raises TraceError: its state is of another version, or damaged.
        """
        if self.state is None:
            return Scheduler(self.system, origin_ns=self.origin_ns)
        try:
            return checkpoint.load(self.state)
        except checkpoint.NotACheckpoint as error:
            raise TraceError(f'{self.path}: {error}; it was recorded by version '
                             f'{self.head["version"]}') from None


def read_trace(path: str | os.PathLike[str]) -> Recorded:
    """
    Read one file of a trace.

    :raises TraceError: it cannot be read, or holds what is none of a trace of this version.
    """
    path = os.fspath(path)
    content = read_file(path)
    number = 0
    try:
        recorded = Recorded(
            path, content.head, decode(content.system),
            origin_ns=int(content.head['origin_ns']), begin_ns=int(content.head['begin_ns']),
            state=content.state, digest=content.end and content.end['digest'])
        if not isinstance(recorded.system, System):
            raise NotATraceValue('system.json holds no system')
        for name in ('version', 'config', 'config_digest'):
            content.head[name]
        for number, value in enumerate(content.events, 1):
            recorded.events.append((value['at'], decode(value['event']), value['decided']))
    except (KeyError, TypeError, ValueError, NotATraceValue) as error:
        where = f'event {number}' if number else 'its head'
        raise TraceError(f'{path}: {where} is none of a trace of this version: '
                         f'{error}') from None
    return recorded
