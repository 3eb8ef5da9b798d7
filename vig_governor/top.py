"""
``vig top``: what a running governor does, live in a terminal, over ROS.

Reads ``~/status`` alone, so it costs the governor nothing and works for any number of viewers.
Readable at 80 columns. ``--once`` prints one picture and ends, ``--json`` the same for scripts.
"""

import argparse
from collections.abc import Iterator, Mapping
import json
import sys
import time
from typing import Any

from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_system_default, QoSProfile, ReliabilityPolicy

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from vig.msg import GovernorStatus, StreamStatus

from vig_core.actions import OverloadState
from vig_core.contract import Criticality
from vig_core.errors import VigError
from vig_core.request import Reason
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.joining import joined

BAR = 10
WAIT_S = 5.0
STALE_S = 5.0
"""A status that is older says nothing about the present."""

_DROPS = {Reason.SUPERSEDED: 'sup', Reason.STALE: 'stale', Reason.OBSOLETE: 'obs',
          Reason.INFEASIBLE: 'infeas', Reason.CAPACITY: 'cap', Reason.CANCELLED: 'canc',
          Reason.INVALID_STAMP: 'stamp', Reason.BACKEND_TIMEOUT: 'timeout',
          Reason.BACKEND_FAILED: 'failed'}


def add_parser(subparsers: Any) -> None:
    """Add ``vig top``."""
    parser = subparsers.add_parser('top', help='watch a running governor')
    parser.add_argument('--node', default='/governor', metavar='NAME',
                        help='full name of the node; default /governor')
    parser.add_argument('--once', action='store_true', help='print one picture and end')
    parser.add_argument('--json', action='store_true', help='JSON instead of a table; one value '
                                                            'a line without --once')


def run(arguments: argparse.Namespace) -> int:
    """Watch until Ctrl-C."""
    topic = f'/{arguments.node.strip("/")}/status'
    with joined('vig_top', topic) as (node, executor):
        listener = _Listener(node, executor, topic)
        first = listener.wait(WAIT_S)
        if first is None:
            raise VigError(f'{topic}: no status in {WAIT_S:g} s; is the node of that name up, and '
                           'ROS_DOMAIN_ID the same? Its name goes to --node')
        if arguments.json:
            _print_json(listener, first, is_once=arguments.once)
        elif arguments.once:
            Console(highlight=False).print(picture(first, None, 0.0))
        else:
            _watch(listener, first)
    return 0


def as_json(status: GovernorStatus) -> dict[str, Any]:
    """Give a status as plain values: milliseconds, names instead of numbers."""
    return {
        'lifecycle': status.lifecycle_state, 'ready': status.ready,
        'not_ready_reason': status.not_ready_reason,
        'overload': list(OverloadState)[status.overload_state].value,
        'slots': {'total': status.slots_total, 'busy': status.slots_busy,
                  'quarantined': status.slots_quarantined},
        'deliberate_idle_share': round(status.deliberate_idle_share, 4),
        'streams': {stream.stream: {
            'model': stream.model, 'class': Criticality(stream.criticality).name.lower(),
            'received': stream.received, 'waiting': stream.waiting, 'running': stream.running,
            **{reason.value: getattr(stream, reason.value) for reason in Reason},
            'cycles_covered': stream.cycles_covered, 'cycles_total': stream.cycles_total,
            'coverage': round(stream.coverage, 4), 'longest_gap_ms': _ms(stream.longest_gap),
            'age_p50_ms': _ms(stream.age_p50), 'age_p95_ms': _ms(stream.age_p95),
            'age_p99_ms': _ms(stream.age_p99),
            'contract_version': stream.contract_version,
            'weakly_hard': {'window': stream.weakly_hard_window,
                            'observed': stream.weakly_hard_observed,
                            'misses': stream.weakly_hard_misses,
                            'misses_left': stream.weakly_hard_misses_left,
                            'consecutive': stream.weakly_hard_consecutive,
                            'violated': stream.weakly_hard_violated},
            'background_progress': round(stream.background_progress, 4),
            'background_progress_required_percent':
                stream.background_progress_required_percent,
            'starved': stream.starved, 'tokens': stream.tokens, 'quanta': stream.quanta,
            'prefill_ms': _ms(stream.prefill_time), 'decode_ms': _ms(stream.decode_time),
            'fixed_ms': _ms(stream.fixed_time),
            'variant': stream.variant, 'margin_percent': stream.margin_percent,
            'planned_ms': _ms(stream.planned_runtime),
        } for stream in status.streams}}


def picture(status: GovernorStatus, before: GovernorStatus | None, seconds: float) -> Group:
    """
    Draw one status.

    :param before: an earlier one of the same activation, for what happened since.
    :param seconds: between the two.
    """
    earlier = {stream.stream: stream for stream in before.streams} if before is not None else {}
    return Group(_headline(status), _streams(status, earlier, seconds))


def _headline(status: GovernorStatus) -> Text:
    busy = status.slots_busy - status.slots_quarantined
    slots = ('#' * max(busy, 0) + '!' * status.slots_quarantined
             + '.' * (status.slots_total - max(status.slots_busy, status.slots_quarantined)))
    overload = list(OverloadState)[status.overload_state]
    line = Text()
    line.append(status.lifecycle_state, 'bold')
    line.append('  ready' if status.ready else '  NOT READY',
                'green' if status.ready else 'bold red')
    line.append(f'  slots [{slots}]  ')
    line.append(overload.value.replace('_', ' '),
                'green' if overload is OverloadState.NORMAL else 'yellow')
    line.append(f'  idle on purpose {status.deliberate_idle_share:.1%}')
    if status.not_ready_reason:
        line.append(f'\n{status.not_ready_reason}', 'red')
    if overload is not OverloadState.NORMAL and status.overload_detail:
        line.append(f'\n{status.overload_detail}', 'yellow')
    return line


def _streams(status: GovernorStatus, earlier: Mapping[str, StreamStatus],
             seconds: float) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), expand=False)
    for title, justify in (('stream', 'left'), ('fresh', 'left'), ('gap ms', 'right'),
                           ('age ms', 'right'), ('per s', 'right'), ('variant', 'left'),
                           ('dropped, contract', 'left')):
        table.add_column(title, justify=justify, no_wrap=title != 'dropped, contract',
                         overflow='ellipsis', max_width={
                             'stream': 14, 'variant': 12, 'dropped, contract': 22}.get(title))
    for stream in status.streams:
        before = earlier.get(stream.stream)
        if before is not None and before.received > stream.received:
            before = None
        age = (f'{_ms(stream.age_p50):.0f}/{_ms(stream.age_p95):.0f}' if stream.completed
               else '-')
        rate = _rate(stream, before, seconds)
        table.add_row(
            Text(stream.stream, 'bold' if stream.criticality == StreamStatus.CLASS_PROTECTED
                 else ''), _coverage(stream, before),
            f'{_ms(stream.longest_gap):.0f}' if stream.cycles_total else '-', age, rate,
            stream.variant or '-', _dropped(stream, before))
    return table


def _rate(stream: StreamStatus, before: StreamStatus | None, seconds: float) -> str:
    """Say how many results a second there were, of a generative model how many tokens."""
    if before is None or seconds <= 0:
        return '-'
    if stream.quanta:
        return f'{(stream.tokens - before.tokens) / seconds:.1f} tok'
    return f'{(stream.completed - before.completed) / seconds:.1f}'


def _coverage(stream: StreamStatus, before: StreamStatus | None) -> Text:
    """Draw the share of the cycles that were covered since ``before``, or from the start."""
    covered, total = stream.cycles_covered, stream.cycles_total
    if before is not None and total > before.cycles_total:
        covered, total = covered - before.cycles_covered, total - before.cycles_total
    if not total:
        return Text('-')
    share = covered / total
    full = round(share * BAR)
    colour = 'green' if share >= 0.99 else 'yellow' if share >= 0.9 else 'red'
    return Text(f'{"=" * full}{"." * (BAR - full)} {share:4.0%}', colour)


def _dropped(stream: StreamStatus, before: StreamStatus | None) -> str:
    found = []
    for reason, word in _DROPS.items():
        count = getattr(stream, reason.value)
        if before is not None:
            count -= getattr(before, reason.value)
        if count:
            found.append(f'{word} {count}')
    return ' '.join([*found, *_contract(stream)])


def _contract(stream: StreamStatus) -> Iterator[str]:
    """Say how the miss budget and the background stand."""
    if stream.weakly_hard_window:
        yield f'miss {stream.weakly_hard_misses}/{stream.weakly_hard_window}'
    if stream.weakly_hard_violated:
        yield 'BUDGET BROKEN'
    elif stream.weakly_hard_window and not stream.weakly_hard_misses_left:
        yield 'NONE LEFT'
    if stream.background_progress_required_percent:
        yield (f'done {stream.background_progress:.0%} of '
               f'{stream.background_progress_required_percent}%')
    if stream.starved:
        yield f'STARVED {stream.starved}'


class _Listener:
    def __init__(self, node: Node, executor: SingleThreadedExecutor, topic: str) -> None:
        self.newest: GovernorStatus | None = None
        self.received_s = 0.0
        self._executor = executor
        profile = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT,
                             durability=qos_profile_system_default.durability)
        node.create_subscription(GovernorStatus, topic, self._take, profile)

    def _take(self, status: GovernorStatus) -> None:
        self.newest, self.received_s = status, time.monotonic()

    def wait(self, timeout_s: float) -> GovernorStatus | None:
        """Give the next status, or ``None`` if there is none in time."""
        before, end_s = self.received_s, time.monotonic() + timeout_s
        while self.received_s == before and time.monotonic() < end_s:
            self._executor.spin_once(timeout_sec=0.1)
        return self.newest if self.received_s != before else None


def _print_json(listener: _Listener, status: GovernorStatus, *, is_once: bool) -> None:
    while True:
        print(json.dumps(as_json(status)), flush=True)
        if is_once:
            return
        following = listener.wait(STALE_S)
        if following is None:
            print(f'no status for {STALE_S:g} s', file=sys.stderr)
            return
        status = following


def _watch(listener: _Listener, status: GovernorStatus) -> None:
    before, before_s = None, 0.0
    with Live(picture(status, None, 0.0), auto_refresh=False, screen=True) as live:
        while True:
            taken_s = listener.received_s
            following = listener.wait(STALE_S)
            if following is None:
                live.update(Text(f'no status for {time.monotonic() - taken_s:.0f} s', 'red'),
                            refresh=True)
                continue
            before, before_s = status, taken_s
            status = following
            live.update(picture(status, before, listener.received_s - before_s), refresh=True)


def _ms(duration: Any) -> float:
    return (duration.sec * NS_PER_S + duration.nanosec) / NS_PER_MS
