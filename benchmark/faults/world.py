"""
The world of a fault: a real Triton, the real node process, a camera and a reader of everything.

One configuration serves nearly all cases: one slot, an inference timeout of 0.8 s, and a stream
for each kind of model. Frames are published reliably, so that a status that is missing is the
node's fault and not that of a lossy transport; each carries a stamp of its own, by which it is
found again.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
import threading
import time
from typing import Any

from benchmark.faults.node_process import NodeProcess
from benchmark.faults.staging import DRAIN_S, image, PATIENCE, repository, STREAMS, Streams, until

from diagnostic_msgs.msg import DiagnosticArray

from lifecycle_msgs.srv import ChangeState

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, QoSReliabilityPolicy

from sensor_msgs.msg import Image

from vig.msg import GovernorStatus, RequestStatus

from vig_governor.triton_server import TritonServer

REASONS = {value: name.lower() for name, value in vars(RequestStatus).items()
           if name.isupper() and isinstance(value, int)}
TRANSITIONS = {'configure': 1, 'cleanup': 2, 'activate': 3, 'deactivate': 4,
               'shutdown_unconfigured': 5, 'shutdown_inactive': 6, 'shutdown_active': 7}


class World(NodeProcess):
    """
    A context manager; ``server`` is started, the node is not.

    :param is_over_http: whether inferences to the world's own server travel over HTTP.

    :ivar node: the one that publishes and listens here, not that of the governor.
    :ivar published: stamp of every frame that was published while the node listened, by stream.
    :ivar statuses: every status, by stream.
    :ivar margins: safety margin of each stream's model, in percent.
    :ivar readiness: each change of ``ready`` as ``(seconds since the start, ready, reason)``.
    """

    def __init__(self, folder: Path, streams: Streams = STREAMS, *,
                 is_over_http: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, streams)
        self._is_over_http = is_over_http
        self.models = repository(folder / 'models', streams)
        self.server = TritonServer(self.models, load=list(streams), log=folder / 'triton.log')
        self.endpoint = ''
        self.begin_s = time.monotonic()
        self.published: dict[str, list[int]] = {}
        self.statuses: dict[str, list[RequestStatus]] = {}
        self.readiness: list[tuple[float, bool, str]] = []
        self.diagnostics: list[DiagnosticArray] = []
        self.mended_s: float | None = None
        self.recovered_s: float | None = None
        self._last_stamp_ns = 0
        self._dispatched: dict[str, int] = {}
        self._received: dict[str, int] = {}
        self._counted_from: dict[str, tuple[int, int]] = {}
        self.margins: dict[str, int] = {}
        self._done = threading.Event()

    def __enter__(self) -> 'World':
        self.server.start()
        self.endpoint = self.server.grpc_endpoint
        self._context = rclpy.Context()
        rclpy.init(context=self._context, args=[])
        self.node = rclpy.create_node('faults', context=self._context)
        executor = SingleThreadedExecutor(context=self._context)
        executor.add_node(self.node)
        self._spinning = threading.Thread(target=self._spin, args=(executor,), daemon=True)
        self._spinning.start()
        reliable = QoSProfile(depth=1000, reliability=QoSReliabilityPolicy.RELIABLE)
        self._cameras = {}
        for name in self.streams:
            self.published[name], self.statuses[name] = [], []
            self._cameras[name] = self.node.create_publisher(Image, f'/fault/{name}', reliable)
            self.node.create_subscription(RequestStatus, f'/fault/{name}/vig/status',
                                          self.statuses[name].append, reliable)
        self.node.create_subscription(GovernorStatus, '/governor/status', self._note, reliable)
        self.node.create_subscription(DiagnosticArray, '/diagnostics',
                                      self._keep_diagnostics, reliable)
        self._change = self.node.create_client(ChangeState, '/governor/change_state')
        return self

    def __exit__(self, *error: object) -> None:
        # Each step also where the one before it was interrupted.
        with ExitStack() as ending:
            ending.callback(self.server.stop)
            ending.callback(rclpy.try_shutdown, context=self._context)
            ending.callback(self.node.destroy_node)
            ending.callback(self._spinning.join, 10)
            ending.callback(self._done.set)
            self.end_node()

    # ---- the node ----

    def start_node(self, *, waits: bool = True, autostart: bool = True, backend: str = '',
                   endpoint: str = '', sim_time: bool = False, writer: str = '') -> None:
        """
        Start the node process; without ``waits`` it need not become active.

        :param backend: lines for the block ``backend``.
        :param sim_time: run it with ``use_sim_time``.
        :param writer: block of a generative model, see ``jobs``.
        """
        self.readiness.clear()
        self.diagnostics.clear()
        self._counted_from.clear()
        if self._is_over_http and not endpoint:
            backend += f'\n  http_endpoint: "{self.server.http_endpoint}"'
        self.launch(autostart=autostart, backend=backend, endpoint=endpoint or self.endpoint,
                    sim_time=sim_time, writer=writer)
        if waits:
            self.wait_until_listening()

    def wait_until_listening(self, timeout_s: float = 40.0) -> None:
        """Wait until the node is active and all cameras and it have found each other."""
        until(lambda: all(camera.get_subscription_count() == 1
                          for camera in self._cameras.values()) and self.is_ready, timeout_s,
              lambda: f'the node does not listen; it said:\n{self.log[-3000:]}')

    def wait_until_warm(self) -> None:
        """
        Wait until each model has answered the node's warm-up since the server was last started.

        A server that is frozen in the middle of one gives that model up, until it is loaded again.
        """
        until(lambda: all(self._is_warm(name) for name in self.streams), 20.0,
              lambda: f'not all models are warm; the node said:\n{self.log[-2500:]}')

    def _is_warm(self, model: str) -> bool:
        of_model = [line for line in self.log.splitlines() if f"model '{model}'" in line]
        telling = [line for line in of_model if 'its warm-up' in line or 'started anew' in line]
        return bool(telling) and 'its warm-up' in telling[-1]

    def change(self, transition: str, timeout_s: float = 10.0) -> bool:
        """Ask for a lifecycle transition; whether it succeeded."""
        request = ChangeState.Request()
        request.transition.id = TRANSITIONS[transition]
        assert self._change.wait_for_service(10.0)
        future = self._change.call_async(request)
        until(future.done, timeout_s, f'{transition} is not answered')
        return bool(future.result().success)

    @property
    def is_ready(self) -> bool:
        """What the node says of its own readiness."""
        return bool(self.readiness) and self.readiness[-1][1]

    def dispatched(self, stream: str) -> int:
        """How many frames of a stream the node has sent since the case began."""
        return self._dispatched.get(stream, 0) - self._counted_from.get(stream, (0, 0))[0]

    def received(self, stream: str) -> int:
        """How many frames of a stream have reached the node since the case began."""
        return self._received.get(stream, 0) - self._counted_from.get(stream, (0, 0))[1]

    def value(self, part: str, key: str) -> str:
        """Give a value of the newest diagnostics entry whose name ends in ``part``."""
        for array in reversed(list(self.diagnostics)):
            for status in array.status:
                if status.name.endswith(part):
                    return next((pair.value for pair in status.values if pair.key == key), '')
        return ''

    def finding(self, text: str, timeout_s: float = 5.0) -> str:
        """Wait for a diagnostics message that contains ``text``."""
        return until(lambda: next(
            (status.message for array in list(self.diagnostics)[-20:] for status in array.status
             if text in status.message), ''), timeout_s, lambda: (
                f'no diagnostics say {text!r}; the last: '
                f'{[status.message for array in self.diagnostics[-1:] for status in array.status]}'
            ))

    # ---- frames ----

    def publish(self, stream: str, count: int = 1, *, ahead_ns: int = 0,
                **shape: int) -> list[int]:
        """
        Publish frames at once; give their stamps. ``shape`` goes to ``image``.

        :param ahead_ns: of the clock that stamps them, against that of this computer.
        """
        stamps = []
        for _ in range(count):
            stamp_ns = max(time.time_ns(), self._last_stamp_ns + 1)
            self._last_stamp_ns = stamp_ns
            stamp_ns += ahead_ns
            self.published[stream].append(stamp_ns)
            self._cameras[stream].publish(image(stamp_ns, **shape))
            stamps.append(stamp_ns)
        return stamps

    def ends(self, stamps: Iterable[int], timeout_s: float = 8.0) -> Counter[str]:
        """Wait until these frames have ended; count the reasons."""
        wanted = set(stamps)
        until(lambda: wanted <= self._ended().keys(), timeout_s, lambda: (
            f'{len(wanted - self._ended().keys())} of {len(wanted)} frames got no status'))
        ended = self._ended()
        return Counter(ended[stamp][0] for stamp in wanted)

    def details(self, stamps: Iterable[int]) -> list[str]:
        """Give the sentences in the statuses of frames that have ended."""
        ended = self._ended()
        return [ended[stamp][1] for stamp in stamps]

    def run_one(self, stream: str = 'quick', timeout_s: float = 8.0, **shape: int) -> str:
        """Publish one frame and give its reason."""
        return next(iter(self.ends(self.publish(stream, **shape), timeout_s)))

    def mended(self) -> None:
        """Say that the cause is gone: from here the recovery counts."""
        self.mended_s = time.monotonic()

    def recover(self, timeout_s: float, stream: str = 'quick') -> float:
        """Publish five frames a second until one completes; give the seconds since the repair."""
        begin_s = self.mended_s or time.monotonic()
        pause = threading.Event()
        while not (self.run_one(stream, timeout_s=DRAIN_S + 6.0) == 'completed'
                   and self.is_ready):
            assert time.monotonic() - begin_s < timeout_s * PATIENCE + 10.0, (
                f'no result within {timeout_s + 10.0:g} s after the repair; the node said:\n'
                f'{self.log[-2500:]}')
            pause.wait(0.2)
        if self.mended_s is not None and self.recovered_s is None:
            self.recovered_s = time.monotonic() - begin_s
        return time.monotonic() - begin_s

    def check_accounts(self) -> Counter[str]:
        """
        Count how everything ended.

        :raises AssertionError: a frame without a status, with two, or a status without a frame.
        """
        total: Counter[str] = Counter()
        for name, stamps in self.published.items():
            if not stamps:
                continue
            self.ends(stamps)
            seen = Counter(_stamp(status) for status in self.statuses[name])
            twice = [stamp for stamp, count in seen.items() if count != 1]
            assert not twice, f'{len(twice)} frames of {name} got more than one status'
            strange = seen.keys() - set(stamps)
            assert not strange, f'{len(strange)} statuses of {name} belong to no frame'
            total += Counter(REASONS[status.reason] for status in self.statuses[name])
        return total

    def forgive(self, stamps: Iterable[int]) -> None:
        """Take frames from the account: their node was killed before it could tell."""
        gone = set(stamps)
        for name in self.streams:
            self.published[name] = [each for each in self.published[name] if each not in gone]
            self.statuses[name][:] = [status for status in self.statuses[name]
                                      if _stamp(status) not in gone]

    def forget(self) -> None:
        """Begin a new account for the next case."""
        for name in self.streams:
            self._counted_from[name] = (self._dispatched.get(name, 0),
                                        self._received.get(name, 0))
            self.published[name].clear()
            self.statuses[name].clear()
        self.mended_s = self.recovered_s = None
        del self.readiness[:-1]
        self.begin_s = time.monotonic()

    def _ended(self) -> dict[int, tuple[str, str]]:
        return {_stamp(status): (REASONS[status.reason], status.detail)
                for statuses in self.statuses.values() for status in list(statuses)}

    def _note(self, status: GovernorStatus) -> None:
        self._dispatched = {stream.stream: stream.dispatched for stream in status.streams}
        self._received = {stream.stream: stream.received for stream in status.streams}
        self.margins = {stream.stream: stream.margin_percent for stream in status.streams}
        if not self.readiness or self.readiness[-1][1] != status.ready:
            self.readiness.append((time.monotonic() - self.begin_s, status.ready,
                                   status.not_ready_reason))

    def _keep_diagnostics(self, array: DiagnosticArray) -> None:
        self.diagnostics.append(array)
        del self.diagnostics[:-40]

    def _spin(self, executor: Any) -> None:
        while not self._done.is_set():
            executor.spin_once(timeout_sec=0.1)
        executor.shutdown()


def _stamp(status: RequestStatus) -> int:
    return status.header.stamp.sec * 10**9 + status.header.stamp.nanosec
