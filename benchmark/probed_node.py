"""
The real ``GovernorNode`` in a process of its own, with a clock read at nine points.

The product is not changed for this: the points are the entries and returns of functions that
every frame passes anyway, wrapped before the node is made. A point costs one read of the
monotonic clock and one list store, well below a microsecond. On SIGTERM or SIGINT the node ends
as it always does, and the points of every frame are written as JSON:
``{"frames": {stamp_ns: [ns, ...]}, "inline": n, "gc_us": [...]}``, the last the pauses of the
garbage collector, during which nothing else of the node runs.
"""

import argparse
from collections.abc import Callable
from enum import IntEnum
import gc
import json
from pathlib import Path
from struct import unpack_from
import sys
import threading
import time
from typing import Any

from rclpy.lifecycle import LifecyclePublisher

from vig.msg import InferenceResult

from vig_core.units import NS_PER_S

from vig_governor.backend.carriers import Carriers
from vig_governor.backend.triton import TritonBackend
from vig_governor.clock import stamp_to_ns
from vig_governor.dispatcher import Dispatcher
from vig_governor.encoders.image import ImageEncoder
from vig_governor.encoders.reference import ReferenceEncoder
from vig_governor.intake import Intake
from vig_governor.node import GovernorNode
from vig_governor.process import run

from wire import HttpWatch, WireWatch


class Point(IntEnum):
    """Where the clock is read, in the order in which a frame passes."""

    FRAME_IN_HAND = 0
    CALLBACK_OVER = 1
    DECIDED = 2
    CONVERSION_BEGINS = 3
    CONVERSION_ENDS = 4
    ON_THE_WIRE = 5
    ANSWER_IN_HAND = 6
    PUBLISH_BEGINS = 7
    PUBLISHED = 8


class Probes:
    """Keeps the points of every frame, by the stamp of its header."""

    def __init__(self) -> None:
        """Know no frame yet."""
        self.frames: dict[int, list[int]] = {}
        self.inline = 0
        self._sent: dict[str, list[int]] = {}
        self._wire: Any = None
        self._gc_us: list[float] = []
        self._gc_began_ns = 0
        self._here = threading.local()

    def install(self) -> None:
        """Wrap the functions at the points; before the node is made."""
        gc.callbacks.append(self._collect)
        self._wrap(Intake, '__call__', self._intake)
        self._wrap(Dispatcher, 'submit', self._decide)
        self._wrap(ImageEncoder, 'encode', self._encode)
        self._wrap(ReferenceEncoder, 'encode', self._encode)
        self._wrap(TritonBackend, '__init__', self._watch)
        self._wrap(TritonBackend, 'infer', self._send)
        self._wrap(Carriers, 'send', self._call)
        self._wrap(LifecyclePublisher, 'publish', self._publish)

    def write(self, path: Path) -> None:
        """Write everything that was kept."""
        path.write_text(json.dumps({'frames': self.frames, 'inline': self.inline,
                                    'gc_us': self._gc_us}), encoding='utf-8')

    @staticmethod
    def _wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
        inner = getattr(owner, name)
        setattr(owner, name, lambda *args, **kwargs: around(inner, *args, **kwargs))

    def _collect(self, phase: str, facts: dict[str, int]) -> None:
        now_ns = time.monotonic_ns()
        if phase == 'stop' and self.frames:
            self._gc_us.append((now_ns - self._gc_began_ns) / 1000)
        self._gc_began_ns = now_ns

    def _intake(self, inner: Callable[..., Any], intake: Any, message: Any) -> None:
        now_ns = time.monotonic_ns()
        # Images and references come as the middleware delivers them: format, then the stamp.
        sec, nanosec = unpack_from('<iI', message, 4)
        points = self.frames[sec * NS_PER_S + nanosec] = [0] * len(Point)
        points[Point.FRAME_IN_HAND] = now_ns
        inner(intake, message)
        points[Point.CALLBACK_OVER] = time.monotonic_ns()

    def _decide(self, inner: Callable[..., Any], dispatcher: Any, action: Any,
                payload: Any) -> None:
        stamp_ns = stamp_to_ns(payload.message.header.stamp)
        self.frames[stamp_ns][Point.DECIDED] = time.monotonic_ns()
        inner(dispatcher, action, payload)

    def _encode(self, inner: Callable[..., Any], encoder: Any, message: Any, slot: Any) -> None:
        points = self._here.points = self.frames[stamp_to_ns(message.header.stamp)]
        points[Point.CONVERSION_BEGINS] = time.monotonic_ns()
        inner(encoder, message, slot)
        points[Point.CONVERSION_ENDS] = time.monotonic_ns()

    def _watch(self, inner: Callable[..., Any], backend: Any, *args: Any,
               **kwargs: Any) -> None:
        inner(backend, *args, **kwargs)
        self._wire = HttpWatch() if kwargs['http_endpoint'] else WireWatch(backend._client)

    def _send(self, inner: Callable[..., Any], backend: Any, request_id: int, *args: Any) -> None:
        self._sent[str(request_id)] = self._here.points
        inner(backend, request_id, *args)

    def _call(self, inner: Callable[..., Any], carriers: Any, call: Any, signature: Any,
              tensors: Any) -> Any:
        points = self._sent.pop(str(call.request_id))
        self.inline += not all(is_shared for _, is_shared in tensors)
        answer = inner(carriers, call, signature, tensors)
        points[Point.ANSWER_IN_HAND] = time.monotonic_ns()
        points[Point.ON_THE_WIRE] = self._wire.take()
        return answer

    def _publish(self, inner: Callable[..., Any], publisher: Any, message: Any) -> None:
        begin_ns = time.monotonic_ns()
        inner(publisher, message)
        published_ns = time.monotonic_ns()
        if publisher.msg_type is InferenceResult:
            # A serialised message begins with four bytes of format and then its stamp.
            sec, nanosec = unpack_from('<iI', message, 4)
            points = self.frames[sec * NS_PER_S + nanosec]
            points[Point.PUBLISH_BEGINS] = begin_ns
            points[Point.PUBLISHED] = published_ns


def main() -> int:
    """Run the command line: ``probed_node.py OUTPUT --ros-args ...``."""
    parser = argparse.ArgumentParser(description='Run a governor whose path is timed.')
    parser.add_argument('output', type=Path)
    options, rest = parser.parse_known_args()
    probes = Probes()
    probes.install()
    code = run(GovernorNode, [sys.argv[0], *rest])
    probes.write(options.output)
    return code


if __name__ == '__main__':
    sys.exit(main())
