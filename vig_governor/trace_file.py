"""
One file of a trace: MCAP, so that Foxglove and the ``mcap`` command open it as it is.

Metadata ``vig_trace`` names the format, the version, the configuration with its digest and the
instants of its begin; the attachments ``system.json`` and, where the file begins in the middle
of a run, ``scheduler.state`` hold what a replay starts from. Then JSON messages with schemas:
``/vig/event`` is what the scheduler was told, the other topics are what it decided. Metadata
``vig_trace_end`` closes the file with the digest of all decisions. Knows nothing of ROS.
"""

from collections.abc import Iterator
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from mcap.exceptions import McapError
from mcap.records import Attachment, Channel, Message, Metadata
from mcap.stream_reader import StreamReader
from mcap.writer import Writer

from vig_core.errors import VigError

FORMAT = '2'
EVENT, DISPATCH, END, DEFER, OVERLOAD = (
    '/vig/event', '/vig/dispatch', '/vig/end', '/vig/defer', '/vig/overload')

_CHUNK_BYTES = 64 * 1024
"""A governor that is killed loses at most this much of what it would have written."""
_RECORD_LIMIT_BYTES = 256 * 1024 * 1024

_NUMBER, _INTEGER, _TEXT, _YES_NO = (
    {'type': 'number'}, {'type': 'integer'}, {'type': 'string'}, {'type': 'boolean'})
_REQUEST = {'request_id': _INTEGER, 'stream': _TEXT, 'model': _TEXT}
_FIELDS: dict[str, dict[str, Any]] = {
    EVENT: {'at': _INTEGER, 'event': {'type': 'object'}, 'decided': _TEXT},
    DISPATCH: {**_REQUEST, 'variant': _TEXT, 'planned_ms': _NUMBER, 'wait_ms': _NUMBER},
    END: {**_REQUEST, 'variant': _TEXT, 'reason': _TEXT, 'detail': _TEXT, 'age_ms': _NUMBER,
          'wait_ms': _NUMBER, 'backend_ms': _NUMBER, 'deadline_met': _YES_NO},
    DEFER: {**_REQUEST, 'beneficiary': _TEXT, 'until_ms': _NUMBER, 'detail': _TEXT},
    OVERLOAD: {'before': _TEXT, 'after': _TEXT, 'detail': _TEXT},
}


class TraceError(VigError):
    """A trace that cannot be written or read; says which, where and why."""


class TraceFile:
    """
    One file, open for writing.

    :raises TraceError: from any call that meets a disk which takes no more, or no file.
    """

    def __init__(self, path: Path, *, head: dict[str, str], system: Any, state: bytes | None,
                 wall_minus_steady_ns: int) -> None:
        """
        Create the file and write what a replay starts from.

        :param wall_minus_steady_ns: what turns instants of the scheduler into the log times
            that viewers show; the messages keep the exact instants.
        """
        self.path = path
        self._offset_ns = wall_minus_steady_ns
        self._written = 0
        try:
            self._file: BinaryIO = open(path, 'wb')
        except (OSError, ValueError) as error:
            raise self._failed(error) from None
        try:
            self._writer = Writer(self._file, chunk_size=_CHUNK_BYTES)
            self._writer.start(profile='', library='vig')
            self._writer.add_metadata('vig_trace', {'format': FORMAT, **head})
            now_ns = int(head['begin_ns']) + wall_minus_steady_ns
            parts = [('system.json', 'application/json', json.dumps(system).encode())]
            if state is not None:
                parts.append(('scheduler.state', 'application/octet-stream', state))
            for name, media_type, data in parts:
                self._writer.add_attachment(now_ns, now_ns, name, media_type, data)
            self._channels = {topic: self._register(topic) for topic in _FIELDS}
            self._file.flush()
        except OSError as error:
            self._close_quietly()
            raise self._failed(error) from None

    @property
    def size_bytes(self) -> int:
        """How much lies on the disk, without the chunk in the making."""
        return self._file.tell()

    def add(self, topic: str, at_ns: int, fields: dict[str, Any]) -> None:
        """Write one message."""
        self._written += 1
        data = json.dumps(fields, separators=(',', ':')).encode()
        log_ns = max(at_ns + self._offset_ns, 0)
        try:
            self._writer.add_message(self._channels[topic], log_ns, data, log_ns, self._written)
        except OSError as error:
            raise self._failed(error) from None

    def close(self, end: dict[str, str] | None) -> None:
        """Write the end, unless it is unknown, and close; the file is closed in any case."""
        try:
            if end is not None:
                self._writer.add_metadata('vig_trace_end', end)
                self._writer.finish()
            self._file.close()
        except OSError as error:
            raise self._failed(error) from None
        finally:
            self._close_quietly()

    def _close_quietly(self) -> None:
        try:
            self._file.close()
        except OSError:
            pass  # What could not be written has been said already.

    def _register(self, topic: str) -> int:
        schema = {'type': 'object', 'properties': _FIELDS[topic]}
        schema_id = self._writer.register_schema(
            'vig.' + topic.rpartition('/')[2], 'jsonschema', json.dumps(schema).encode())
        return self._writer.register_channel(topic, 'json', schema_id)

    def _failed(self, error: Exception) -> TraceError:
        return TraceError(f'{self.path}: the trace cannot be written: '
                          f'{getattr(error, "strerror", None) or error}')


class TraceContent:
    """
    What one file holds.

    :ivar head: metadata ``vig_trace``.
    :ivar end: metadata ``vig_trace_end``, or ``None`` where the file was cut off.
    :ivar state: the scheduler at the begin of the file; ``None`` for a new one.
    """

    def __init__(self) -> None:
        """Begin with nothing read."""
        self.head: dict[str, str] = {}
        self.end: dict[str, str] | None = None
        self.system: Any = None
        self.state: bytes | None = None
        self.events: list[dict[str, Any]] = []


def read_file(path: str | os.PathLike[str]) -> TraceContent:
    """
    Read the events of one file, up to where it was cut off.

    :raises TraceError: it cannot be read, or is no trace of this format.
    """
    content = TraceContent()
    topics: dict[int, str] = {}
    try:
        with open(path, 'rb') as file:
            for record in _records(file):
                if isinstance(record, Metadata):
                    _take_metadata(path, content, record)
                elif isinstance(record, Attachment):
                    if record.name == 'system.json':
                        content.system = json.loads(record.data)
                    elif record.name == 'scheduler.state':
                        content.state = record.data
                elif isinstance(record, Channel):
                    topics[record.id] = record.topic
                elif isinstance(record, Message) and topics.get(record.channel_id) == EVENT:
                    content.events.append(json.loads(record.data))
    except (OSError, ValueError) as error:
        raise TraceError(f'{path}: the trace cannot be read: '
                         f'{getattr(error, "strerror", None) or error}') from None
    except McapError as error:
        raise TraceError(f'{path}: is no MCAP file, or a damaged one: '
                         f'{error or type(error).__name__}') from None
    if not content.head:
        raise TraceError(f'{path}: its metadata has no vig_trace: this is no trace of the '
                         'governor')
    if content.system is None:
        raise TraceError(f'{path}: the attachment system.json is missing; the file was cut off '
                         'before its first event')
    return content


def _records(file: BinaryIO) -> Iterator[Any]:
    """Give every record; a file without an end ends where it was cut off."""
    if not file.read(1):
        raise ValueError('the file is empty')
    file.seek(0)
    reader = StreamReader(file, record_size_limit=_RECORD_LIMIT_BYTES)
    count = 0
    try:
        for record in reader.records:
            count += 1
            yield record
    except McapError:
        if not count:
            raise
    except Exception:
        # What lies behind a cut inside a record is read as lengths by the library.
        if not count:
            raise McapError('it does not begin as one') from None


def _take_metadata(path: str | os.PathLike[str], content: TraceContent,
                   record: Metadata) -> None:
    if record.name == 'vig_trace_end':
        content.end = dict(record.metadata)
    elif record.name == 'vig_trace':
        content.head = dict(record.metadata)
        if content.head.get('format') != FORMAT:
            raise TraceError(f'{path}: format {content.head.get("format")} of vig_trace; this '
                             f'version reads format {FORMAT}')
