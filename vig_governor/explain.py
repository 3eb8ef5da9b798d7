"""
``vig explain``: why the frames of a stream ran or did not, one sentence for each decision.

Asks a running node over ROS (``~/explain``), or plays a recorded trace through the core again.
"""

import argparse
import re
from typing import Any

from vig_core.actions import Defer, Dispatch, Terminate
from vig_core.errors import RefusedEvent, VigError
from vig_core.events import RequestArrived

from vig_governor.decisions import Decision, newest, sentence
from vig_governor.recorded import read_trace, Recorded

MOST_SECONDS = 2 ** 31


def add_parser(subparsers: Any) -> None:
    """Add ``vig explain``."""
    parser = subparsers.add_parser(
        'explain', help='say why the frames of a stream ran or did not',
        usage='vig explain [TRACE] STREAM [--last N | --request ID | --stamp SEC.NSEC] '
              '[--node NAME]')
    parser.add_argument('trace', nargs='?', metavar='TRACE',
                        help='a recorded trace; without one a running node is asked')
    parser.add_argument('stream', metavar='STREAM', help='its name in the configuration')
    which = parser.add_mutually_exclusive_group()
    which.add_argument('--last', type=int, default=0, metavar='N',
                       help='the newest N requests; default all that are remembered')
    which.add_argument('--request', type=int, default=0, metavar='ID',
                       help='this one, as RequestStatus names it')
    which.add_argument('--stamp', default='', metavar='SEC.NSEC',
                       help='the request whose header has this stamp')
    parser.add_argument('--node', default='/governor', metavar='NAME',
                        help='full name of the node; default /governor')


def run(arguments: argparse.Namespace) -> int:
    """Print one sentence a line, oldest first."""
    for option, value in (('--last', arguments.last), ('--request', arguments.request)):
        if not 0 <= value < MOST_SECONDS:
            raise VigError(f'{option} {value}: must be 0 to {MOST_SECONDS - 1}')
    stamp = stamp_of(arguments.stamp)
    if arguments.trace is None:
        from vig_governor.explain_node import ask
        told = ask(arguments.node, arguments.stream, request_id=arguments.request, stamp=stamp,
                   last=arguments.last)
    elif arguments.stamp:
        raise VigError('--stamp: a trace holds no header; name the frame with --request, which '
                       'vig timeline shows for each, or take --last')
    else:
        told = from_trace(read_trace(arguments.trace), arguments.stream, arguments.request,
                          arguments.last)
    for line in told:
        print(line)
    return 0


def stamp_of(text: str) -> tuple[int, int]:
    """
    Read a stamp as ``SEC.NSEC``; empty is none.

    :raises VigError: it is none.
    """
    if not text:
        return 0, 0
    found = re.fullmatch(r'(\d{1,10})\.(\d{9})', text, re.ASCII)
    if found is None or int(found[1]) >= MOST_SECONDS:
        raise VigError(f'--stamp {text}: write the seconds, a point and all nine digits of the '
                       'nanoseconds, as in 1700000000.000000050')
    return int(found[1]), int(found[2])


def from_trace(recorded: Recorded, stream: str, request_id: int, last: int) -> list[str]:
    """
    Play a trace and tell what was decided about a stream.

    :raises VigError: there is no such stream or request in it.
    """
    scheduler = recorded.scheduler()
    streams: dict[int, str] = {}
    decided: list[Decision] = []
    for at_ns, event, _ in recorded.events:
        if isinstance(event, RequestArrived):
            streams.setdefault(event.request_id, event.stream)
        try:
            actions = scheduler.handle(event, now_ns=at_ns)
        except RefusedEvent:
            continue
        decided += [action for action in actions
                    if isinstance(action, Dispatch | Defer | Terminate)
                    and streams.get(action.request_id) == stream
                    and request_id in (0, action.request_id)]
    if not decided:
        recorded.check_stream(stream)
        mine = sorted(number for number, name in streams.items() if name == stream)
        there_is = f'requests {mine[0]} to {mine[-1]}' if mine else 'nothing'
        wanted = f'request {request_id} of stream {stream}' if request_id else f'stream {stream}'
        raise VigError(f'{recorded.path}: nothing was decided about {wanted}; there is {there_is}')
    return list(map(sentence, newest(decided, last)))
