"""
The other end: a process that receives results and statuses and notes when.

Age is measured here, in the callback, from the header's capture time: the same boundary whoever
produced the result. Twice a second it prints one line of JSON for the live table, ten times where
it asks a language model questions too (``--ask``); on SIGTERM or SIGINT it writes everything that
it noted to ``--log``.
"""

import argparse
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
import json
from pathlib import Path
import sys
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.time import Time
from std_msgs.msg import String
from vig.msg import GeneratedText, GovernorStatus, InferenceResult, RequestStatus

from vig_core.units import NS_PER_MS

from vig_governor.demo.conversation import Conversation
from vig_governor.demo.spinning import spin
from vig_governor.measure.runtime import quantile
from vig_governor.measure.supply import covered_cycles
from vig_governor.stopping import StopSignal

REPORT_PERIOD_S = 0.5
ASKING_REPORT_PERIOD_S = 0.1
# The first question comes when the cameras run, and the first one judged is not the first of all.
QUIET_NS = 700 * NS_PER_MS
ASKING_PERIOD_S = 0.02
RECENT_NS = 2_000_000_000
STALEST_NS = 1_000_000_000
OUTPUTS_KEPT = 40
REASONS = {getattr(RequestStatus, name): name.lower() for name in (
    'COMPLETED', 'OBSOLETE', 'SUPERSEDED', 'STALE', 'INFEASIBLE', 'INVALID_STAMP', 'CAPACITY',
    'CANCELLED', 'BACKEND_TIMEOUT', 'BACKEND_FAILED')}

Status = tuple[int, str, str, int, int, int]
"""``(stamp, reason, variant, age, queue_wait, backend_time)`` in ns."""


@dataclass(frozen=True, slots=True)
class Need:
    """What this consumer needs of one stream: a result at most ``max_age`` old each period."""

    topic: str
    period_ns: int
    max_age_ns: int


@dataclass(slots=True)
class StreamNotes:
    """
    What was seen of one stream; times in nanoseconds of the ROS clock.

    :ivar results: ``(stamp, received)`` of each result.
    :ivar outputs: the last ``(stamp, received, result)``.
    """

    results: list[tuple[int, int]] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    outputs: deque[tuple[int, int, InferenceResult]] = field(
       default_factory=lambda: deque(maxlen=OUTPUTS_KEPT))


class Consumer(Node):
    """Subscribes to the results and statuses of all streams, and to the governor's status."""

    def __init__(self, needs: dict[str, Need]) -> None:
        super().__init__('demo_consumer')
        self._needs = needs
        self.notes = {stream: StreamNotes() for stream in needs}
        self.governor: GovernorStatus | None = None
        for stream, need in needs.items():
            topic = need.topic
            self.create_subscription(
                InferenceResult, topic + '/vig/result',
                lambda result, stream=stream: self._on_result(stream, result), 10)
            self.create_subscription(
                RequestStatus, topic + '/vig/status',
                lambda status, stream=stream: self._on_status(stream, status),
                QoSProfile(depth=100))
        self.create_subscription(GovernorStatus, '/governor/status', self._on_governor, 10)

    def _on_result(self, stream: str, result: InferenceResult) -> None:
        received_ns = self.get_clock().now().nanoseconds
        stamp_ns = Time.from_msg(result.header.stamp).nanoseconds
        self.notes[stream].results.append((stamp_ns, received_ns))
        self.notes[stream].outputs.append((stamp_ns, received_ns, result))

    def _on_status(self, stream: str, status: RequestStatus) -> None:
        self.notes[stream].statuses.append(_noted(status))

    def _on_governor(self, status: GovernorStatus) -> None:
        self.governor = status

    def snapshot(self) -> dict[str, Any]:
        """Give the figures of the live table."""
        now_ns = self.get_clock().now().nanoseconds
        streams = {}
        for stream, notes in self.notes.items():
            recent = [received - stamp for stamp, received in notes.results[-100:]
                      if received > now_ns - RECENT_NS]
            reasons = Counter(status[1] for status in notes.statuses)
            ran = [status[2] for status in notes.statuses[-50:] if status[2]]
            since = [status for status in notes.statuses[-200:]
                     if status[0] + status[3] > now_ns - RECENT_NS]
            need = self._needs[stream]
            covered, cycles = covered_cycles(
                notes.results, start_ns=notes.statuses[0][0] if notes.statuses else now_ns,
                end_ns=now_ns, period_ns=need.period_ns, max_age_ns=need.max_age_ns)
            streams[stream] = {
                'rate_in_hz': len(since) / (RECENT_NS / 1e9), 'results': len(notes.results),
                'coverage': covered / cycles if cycles else None,
                'age_p50_ms': quantile(recent, 50) / 1e6 if recent else None,
                'age_p95_ms': quantile(recent, 95) / 1e6 if recent else None,
                'stalest_ms': _stalest_ms(notes.results[-100:], now_ns),
                'reasons': dict(reasons), 'variant': ran[-1] if ran else ''}
        governor = self.governor
        return {'streams': streams, 'unconnected': self._unconnected(),
                'idle_share': governor.deliberate_idle_share if governor else None,
                'state': governor.lifecycle_state if governor else ''}

    def _unconnected(self) -> list[str]:
        """Name the streams whose images nobody takes yet, or whose results nobody gives."""
        return [stream for stream, need in self._needs.items()
                if not (self.count_publishers(need.topic + '/vig/result')
                        and self.count_subscribers(need.topic))]

    def record(self) -> dict[str, Any]:
        """Give everything noted, as JSON has it."""
        return {stream: {'results': notes.results, 'statuses': notes.statuses,
                         'outputs': [_output(*entry) for entry in notes.outputs]}
                for stream, notes in self.notes.items()}


class Asker:
    """
    Asks a language model, on the consumer's node, once results come.

    :ivar statuses: as those of a stream.
    """

    def __init__(self, node: Consumer, topic: str, questions: Sequence[str]) -> None:
        self._node = node
        self._publisher = node.create_publisher(String, topic, 10)
        reliable = QoSProfile(depth=100)
        node.create_subscription(GeneratedText, topic + '/vig/generated', self._on_text, reliable)
        node.create_subscription(RequestStatus, topic + '/vig/status', self._on_status, reliable)
        node.create_timer(ASKING_PERIOD_S, self._ask)
        self.conversation = Conversation(questions)
        self.statuses: list[Status] = []

    def _ask(self) -> None:
        now_ns = self._node.get_clock().now().nanoseconds
        if (self._publisher.get_subscription_count()
                and any(notes.results and notes.results[0][1] + QUIET_NS < now_ns
                        for notes in self._node.notes.values())):
            question = self.conversation.ask(now_ns)
            if question is not None:
                self._publisher.publish(String(data=question))

    def _on_text(self, part: GeneratedText) -> None:
        self.conversation.write(self._node.get_clock().now().nanoseconds, part.request_id,
                                part.text, part.tokens, part.quanta, is_last=part.finished)

    def _on_status(self, status: RequestStatus) -> None:
        self.statuses.append(_noted(status))
        if status.reason != RequestStatus.COMPLETED:
            self.conversation.fail(self._node.get_clock().now().nanoseconds, status.request_id,
                                   REASONS[status.reason], status.detail)

    def record(self) -> dict[str, Any]:
        """Give everything noted, as JSON has it."""
        return {'statuses': self.statuses,
                'exchanges': [each.as_json() for each in self.conversation.exchanges]}


def _stalest_ms(results: Sequence[tuple[int, int]], now_ns: int) -> float | None:
    """Give the highest age, within the last second, of the newest result at hand."""
    newest_ns, ages = None, list[int]()
    for stamp_ns, received_ns in results:
        if newest_ns is not None and received_ns > now_ns - STALEST_NS:
            ages.append(received_ns - newest_ns)
        newest_ns = stamp_ns if newest_ns is None else max(newest_ns, stamp_ns)
    return None if newest_ns is None else max(*ages, now_ns - newest_ns, 0) / 1e6


def _noted(status: RequestStatus) -> Status:
    return (Time.from_msg(status.header.stamp).nanoseconds, REASONS[status.reason],
            status.variant, _ns(status.age), _ns(status.queue_wait), _ns(status.backend_time))


def _output(stamp_ns: int, received_ns: int, result: InferenceResult) -> dict[str, Any]:
    tensor = result.outputs[0]
    return {'stamp': stamp_ns, 'received': received_ns, 'variant': result.variant,
            'datatype': tensor.datatype, 'shape': list(tensor.shape),
            'data': bytes(tensor.data).hex()}


def _ns(duration: Any) -> int:
    return duration.sec * 1_000_000_000 + duration.nanosec


def main() -> int:
    """Run the command line until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog='python -m vig_governor.demo.consumer',
                                     description='Receive results and measure their age.')
    parser.add_argument('--stream', action='append', required=True, nargs=4,
                        metavar=('NAME', 'TOPIC', 'PERIOD_MS', 'MAX_AGE_MS'))
    parser.add_argument('--ask', nargs=2, metavar=('NAME', 'TOPIC'),
                        help='also ask a language model')
    parser.add_argument('--question', action='append', default=[],
                        help='with --ask: asked in turn')
    parser.add_argument('--log', type=Path, required=True)
    options = parser.parse_args()
    stop = StopSignal()
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = Consumer({name: Need(topic, int(period) * NS_PER_MS, int(max_age) * NS_PER_MS)
                     for name, topic, period, max_age in options.stream})
    asker = Asker(node, options.ask[1], options.question) if options.ask else None

    def report() -> None:
        text = {} if asker is None else {'text': asker.conversation.snapshot()}
        print(json.dumps({**node.snapshot(), **text}), flush=True)

    node.create_timer(REPORT_PERIOD_S if asker is None else ASKING_REPORT_PERIOD_S, report)
    spin(node, stop)
    text = {} if asker is None else {options.ask[0]: asker.record()}
    options.log.write_text(json.dumps({**node.record(), **text}), encoding='utf-8')
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
