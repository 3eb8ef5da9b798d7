"""``vig trace show``: a recorded trace as a story, one line per event and decision."""

import argparse
from collections.abc import Iterable
from typing import Any

from vig_core.actions import Action, Defer, Dispatch, ReleaseInput, ReportOverload, Terminate
from vig_core.errors import RefusedEvent, VigError
from vig_core.events import Event, RequestArrived, Woke
from vig_core.units import NS_PER_MS, text_ms

from vig_governor.recorded import read_trace, Recorded


def add_parser(subparsers: Any) -> None:
    """Add ``vig trace``."""
    parser = subparsers.add_parser('trace', help='look into a recorded trace')
    actions = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    show = actions.add_parser('show', help='tell it as a story, times in ms from its begin')
    show.add_argument('trace', metavar='TRACE')
    show.add_argument('--stream', help='only what concerns this stream')
    show.add_argument('--limit', type=int, default=0, metavar='N',
                      help='the first N lines; default all')


def run(arguments: argparse.Namespace) -> int:
    """Print the story."""
    if arguments.limit < 0:
        raise VigError(f'--limit {arguments.limit}: must be 0 (all lines) or more')
    recorded = read_trace(arguments.trace)
    if arguments.stream is not None:
        recorded.check_stream(arguments.stream)
    for number, line in enumerate(story(recorded, arguments.stream)):
        if arguments.limit and number >= arguments.limit:
            break
        print(line)
    return 0


def story(recorded: Recorded, stream: str | None = None) -> Iterable[str]:
    """Tell every event, and what the core decides about it."""
    origin_ns = recorded.origin_ns
    scheduler = recorded.scheduler()
    streams: dict[int, str] = {}
    for at_ns, event, _ in recorded.events:
        if isinstance(event, RequestArrived):
            streams.setdefault(event.request_id, event.stream)
        at = f'at {(at_ns - origin_ns) / NS_PER_MS:12.3f}'
        lines = []
        concerned = streams.get(getattr(event, 'request_id', -1))
        if not isinstance(event, Woke) and stream in (None, concerned):
            lines.append(f'{at} in   {_event(event, at_ns)}')
        try:
            decided: tuple[Action, ...] = scheduler.handle(event, now_ns=at_ns)
        except RefusedEvent as error:
            decided = ()
            if stream in (None, concerned):
                lines.append(f'{at} out  refused: {error}')
        lines += [f'{at} out  {_action(action)}' for action in decided
                  if stream in (None, streams.get(getattr(action, 'request_id', -1)))]
        yield from lines


def _event(event: Event, at_ns: int) -> str:
    if isinstance(event, RequestArrived):
        return (f'arrive {event.request_id} {event.model} stream {event.stream} captured '
                f'{text_ms(at_ns - event.generation_ns)} ago')
    words = type(event).__name__
    for name in ('request_id', 'request_ids', 'detail'):
        value = getattr(event, name, None)
        words += '' if value is None else f' {value}'
    return words


def _action(action: Action) -> str:
    if isinstance(action, Dispatch):
        return (f'dispatch {action.request_id} {action.variant_id} planned '
                f'{text_ms(action.planned_ns)}: {action.detail}')
    if isinstance(action, Terminate):
        return (f'terminate {action.request_id} {action.reason.value} age '
                f'{text_ms(action.age_ns)}: {action.detail}')
    if isinstance(action, Defer):
        return f'defer {action.request_id} for {action.beneficiary}: {action.detail}'
    if isinstance(action, ReleaseInput):
        return f'release {action.request_id}'
    assert isinstance(action, ReportOverload)
    return f'overload {action.after.value}: {action.detail}'
