"""
``vig timeline``: a recorded run as a picture.

By the ending of the output: ``.html`` is a page that zooms and opens without network, ``.png`` or
``.svg`` a picture, ``.json`` a file for Perfetto or chrome://tracing.
"""

import argparse
from dataclasses import replace
from importlib import resources
import json
from pathlib import Path
from typing import Any

from vig_core.errors import VigError
from vig_core.request import Reason
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.history import Frame, History, history_of
from vig_governor.recorded import read_trace, Recorded

ENDINGS = ('.html', '.json', '.png', '.svg')
MOST_FRAMES = 50_000
"""A page with more cannot be moved smoothly."""
PICTURE_SECONDS = 0.3


def add_parser(subparsers: Any) -> None:
    """Add ``vig timeline``."""
    parser = subparsers.add_parser('timeline', help='draw a recorded trace as a timeline')
    parser.add_argument('trace', metavar='TRACE', help='what the parameter record wrote')
    parser.add_argument('-o', '--output', required=True, metavar='FILE',
                        help='.html (zooms, needs no network), .png, .svg, or .json for Perfetto')
    parser.add_argument('--from', dest='begin', type=float, metavar='S',
                        help='seconds after the begin of the trace; default 0, in a picture '
                             'where the first request came')
    parser.add_argument('--seconds', type=float, metavar='S',
                        help='how much of it; default everything, in a picture 0.3')


def run(arguments: argparse.Namespace) -> int:
    """Draw what was asked for and say where it is."""
    output = Path(arguments.output)
    if output.suffix not in ENDINGS:
        raise VigError(f'{output}: the ending {output.suffix!r} says nothing; there are '
                       f'{", ".join(ENDINGS)}')
    for name, value in (('--from', arguments.begin), ('--seconds', arguments.seconds)):
        if value is not None and not 0 <= value < 1e9:
            raise VigError(f'{name} {value:g}: must be 0 s or more')
    if arguments.seconds == 0:
        raise VigError('--seconds 0: nothing would be drawn; give more, or leave it out')
    recorded = read_trace(arguments.trace)
    seconds = arguments.seconds
    if seconds is None and output.suffix in ('.png', '.svg'):
        seconds = PICTURE_SECONDS
    history = history_of(recorded)
    begin_ns = round((arguments.begin or 0.0) * NS_PER_S)
    if arguments.begin is None and output.suffix in ('.png', '.svg'):
        begin_ns = _first_ns(history) - history.begin_ns
    history = cut(history, begin_ns, None if seconds is None else round(seconds * NS_PER_S))
    if not history.frames:
        raise VigError(f'{arguments.trace}: no request falls into this part of the trace')
    try:
        if output.suffix == '.html':
            output.write_text(page(history, recorded), encoding='utf-8')
        elif output.suffix == '.json':
            output.write_text(json.dumps(chrome_trace(history)), encoding='utf-8')
        else:
            from vig_governor.timeline_picture import draw
            draw(history, output)
    except OSError as error:
        raise VigError(f'{output}: cannot be written: {error.strerror}') from None
    print(f'{output}: {len(history.frames)} requests of {len(history.streams)} streams, '
          f'{(history.end_ns - history.begin_ns) / NS_PER_S:.1f} s')
    return 0


def cut(history: History, begin_ns: int, length_ns: int | None) -> History:
    """
    Keep a part of a history, everything that reaches into it included.

    :param begin_ns: after the begin of the history.
    """
    begin_ns = min(begin_ns + history.begin_ns, history.end_ns + 1)
    end_ns = history.end_ns
    if length_ns is not None:
        end_ns = min(end_ns, begin_ns + length_ns)

    def is_inside(first_ns: int, last_ns: int | None) -> bool:
        return first_ns <= end_ns and (last_ns is None or last_ns >= begin_ns)

    if begin_ns > end_ns:
        return replace(history, begin_ns=begin_ns, end_ns=begin_ns, frames=[], holds=[],
                       cycles={})
    return replace(
        history, begin_ns=begin_ns, end_ns=end_ns,
        frames=[frame for frame in history.frames
                if is_inside(frame.captured_ns, _last_ns(frame))],
        holds=[hold for hold in history.holds if is_inside(hold.begin_ns, hold.end_ns)],
        cycles={stream: [cycle for cycle in cycles if is_inside(cycle.at_ns, cycle.at_ns)]
                for stream, cycles in history.cycles.items()},
        overload=[one for one in history.overload if one[0] <= end_ns])


def page(history: History, recorded: Recorded) -> str:
    """Make the page; raises :class:`VigError` for more than it can show."""
    if len(history.frames) > MOST_FRAMES:
        raise VigError(f'{len(history.frames)} requests are more than a page can show '
                       f'({MOST_FRAMES}); choose a part with --from and --seconds')
    template = resources.files('vig_governor').joinpath('pages/timeline.html').read_text('utf-8')
    data = json.dumps(_page_data(history, recorded), separators=(',', ':'))
    # Nothing in a name or a sentence may end the element that it stands in.
    return template.replace('@DATA@', data.replace('<', '\\u003c'))


def chrome_trace(history: History) -> dict[str, Any]:
    """Make the JSON object that Perfetto and chrome://tracing read; microseconds."""
    events: list[dict[str, Any]] = [_named('process_name', 1, 0, 'execution slots'),
                                    _named('process_name', 2, 0, 'streams')]
    events += [_named('thread_name', 1, lane, f'slot {lane}') for lane in range(history.lanes)]
    rows = {stream: number for number, stream in enumerate(history.streams)}
    events += [_named('thread_name', 2, row, stream) for stream, row in rows.items()]
    for frame in history.frames:
        known = {'request': frame.request_id, 'age_ms': frame.age_ns / NS_PER_MS,
                 'reason': frame.reason.value if frame.reason else 'open',
                 'detail': frame.detail}
        for run in frame.runs:
            events.append(_span(f'{frame.stream} {frame.variant}', 1, run.lane, run.begin_ns,
                                history.end_ns if run.end_ns is None else run.end_ns,
                                {**known, 'tokens': run.tokens} if run.tokens else known))
        ended_ns = history.end_ns if frame.ended_ns is None else frame.ended_ns
        began_ns = ended_ns if frame.dispatched_ns is None else frame.dispatched_ns
        row = rows[frame.stream]
        events.append(_span('waits', 2, row, frame.arrived_ns, began_ns, known))
        if frame.reason not in (Reason.COMPLETED, None):
            events.append(_instant(frame.reason.value, 2, row, ended_ns, known))
    for hold in history.holds:
        events += [_span(f'idle for {hold.beneficiary}', 1, lane, hold.begin_ns, hold.end_ns,
                         {'request': hold.request_id, 'detail': hold.detail})
                   for lane in hold.lanes]
    for stream, cycles in history.cycles.items():
        events += [_instant('uncovered', 2, rows[stream], cycle.at_ns, {})
                   for cycle in cycles if not cycle.is_covered]
    events += [_instant(f'overload: {state}', 2, 0, at_ns, {}) for at_ns, state
               in history.overload]
    return {'traceEvents': events, 'displayTimeUnit': 'ms'}


def _page_data(history: History, recorded: Recorded) -> dict[str, Any]:
    frames = [{
        'id': frame.request_id, 'stream': frame.stream,
        'captured': _ms(frame.captured_ns), 'arrived': _ms(frame.arrived_ns),
        'runs': [[run.lane, _ms(run.begin_ns), _ms(run.end_ns), run.tokens]
                 for run in frame.runs],
        'ended': _ms(frame.ended_ns), 'planned': _ms(frame.planned_ns),
        'variant': frame.variant, 'reason': frame.reason.value if frame.reason else 'open',
        'age': _ms(frame.age_ns), 'met': frame.is_deadline_met, 'detail': frame.detail}
        for frame in history.frames]
    ran = sum(frame.dispatched_ns is not None for frame in history.frames)
    return {
        'title': Path(recorded.path).name,
        'facts': f'{len(frames)} requests, {ran} of them ran; recorded by version '
                 f'{recorded.head["version"]} with {recorded.head["config"]}',
        'begin': _ms(history.begin_ns), 'end': _ms(history.end_ns),
        'first': _ms(_first_ns(history)), 'slots': history.slots,
        'lanes': history.lanes, 'frames': frames,
        'streams': {stream: {'deadline': _ms(model.contract.deadline_ns),
                             'cycle': _ms(model.contract.cycle_ns) or 0}
                    for stream, model in history.streams.items()},
        'holds': [{'for': hold.beneficiary, 'begin': _ms(hold.begin_ns),
                   'end': _ms(hold.end_ns), 'lanes': hold.lanes, 'detail': hold.detail}
                  for hold in history.holds],
        'cycles': {stream: [[_ms(cycle.at_ns), cycle.is_covered] for cycle in cycles]
                   for stream, cycles in history.cycles.items()}}


def _first_ns(history: History) -> int:
    """Give when the first request came, or the begin: a node may run long before a camera does."""
    return min((frame.arrived_ns for frame in history.frames
                if frame.arrived_ns > history.begin_ns), default=history.begin_ns)


def _last_ns(frame: Frame) -> int | None:
    if frame.ended_ns is None or (frame.runs and frame.freed_ns is None):
        return None
    return max(frame.ended_ns, frame.freed_ns or 0)


def _ms(value_ns: int | None) -> float | None:
    return None if value_ns is None else round(value_ns / NS_PER_MS, 4)


def _named(kind: str, process: int, row: int, name: str) -> dict[str, Any]:
    return {'name': kind, 'ph': 'M', 'pid': process, 'tid': row, 'args': {'name': name}}


def _span(name: str, process: int, row: int, begin_ns: int, end_ns: int,
          known: dict[str, Any]) -> dict[str, Any]:
    return {'name': name, 'ph': 'X', 'pid': process, 'tid': row, 'ts': begin_ns / 1000,
            'dur': max(end_ns - begin_ns, 0) / 1000, 'args': known}


def _instant(name: str, process: int, row: int, at_ns: int,
             known: dict[str, Any]) -> dict[str, Any]:
    return {'name': name, 'ph': 'i', 's': 't', 'pid': process, 'tid': row, 'ts': at_ns / 1000,
            'args': known}
