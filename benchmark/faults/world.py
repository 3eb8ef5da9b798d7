"""
The world of a fault: a real Triton, the real node process, a camera and a reader of everything.

One configuration serves nearly all cases: one slot, an inference timeout of 0.8 s, and a stream
for each kind of model. Frames are published reliably, so that a status that is missing is the
node's fault and not that of a lossy transport; each carries a stamp of its own, by which it is
found again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any, TypeVar

from diagnostic_msgs.msg import DiagnosticArray

from lifecycle_msgs.srv import ChangeState

import psutil

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, QoSReliabilityPolicy

from sensor_msgs.msg import Image

from vig.msg import GovernorStatus, RequestStatus

from vig_governor.triton_server import free_port, TritonServer

ROOT = Path(__file__).resolve().parents[2]
TEST_MODELS = ROOT / 'test' / 'server' / 'models'
PATIENCE = float(os.environ.get('VIG_FAULTS_PATIENCE', '1'))
"""Factor on all waits and limits, for tests beside other work: ``make faults`` takes 1."""

TIMEOUT_S = 0.8
DRAIN_S = 1.5
STREAMS = {'quick': ('sleeper', 20), 'slow': ('sleeper', 300), 'hang': ('sleeper', 2500),
           'failing': ('failing', 0), 'sized': ('echo', 0)}
"""Stream and backend model of the same name: template and runtime in milliseconds."""

REASONS = {value: name.lower() for name, value in vars(RequestStatus).items()
           if name.isupper() and isinstance(value, int)}
TRANSITIONS = {'configure': 1, 'cleanup': 2, 'activate': 3, 'deactivate': 4,
               'shutdown_unconfigured': 5, 'shutdown_inactive': 6, 'shutdown_active': 7}
MIB = 1024 * 1024
Streams = Mapping[str, tuple[str, int]]
_T = TypeVar('_T')


def until(condition: Callable[[], _T], timeout_s: float, what: str | Callable[[], str]) -> _T:
    """
    Look every 5 ms until ``condition`` gives something truthy, and give that.

    :raises AssertionError: with ``what`` when the time is over.
    """
    end_s = time.monotonic() + timeout_s * PATIENCE
    pause = threading.Event()
    while not (value := condition()):
        if time.monotonic() > end_s:
            raise AssertionError(f'not within {timeout_s:g} s: '
                                 f'{what() if callable(what) else what}')
        pause.wait(0.005)
    return value


def repository(folder: Path, streams: Streams) -> Path:
    """Make the server's model folder of the test models, renamed, with their runtimes."""
    for name, (template, runtime_ms) in streams.items():
        add_model(folder, name, template, runtime_ms)
    return folder


def add_model(folder: Path, name: str, template: str, runtime_ms: int) -> None:
    """Add one model, or replace it."""
    shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(TEST_MODELS / template, folder / name,
                    ignore=shutil.ignore_patterns('__pycache__'))
    with open(folder / name / 'config.pbtxt', 'a', encoding='utf-8') as config:
        config.write(f'parameters {{ key: "delay_ms" '
                     f'value {{ string_value: "{runtime_ms}" }} }}\n')


def config_text(endpoint: str, streams: Streams, backend: str = '') -> str:
    """Write the configuration of a world; ``backend`` adds lines to that block."""
    lines = ['version: 1', 'backend:', f'  grpc_endpoint: "{endpoint}"', '  slots: 1',
             f'  inference_timeout_ms: {round(TIMEOUT_S * 1000)}',
             f'  drain_deadline_s: {DRAIN_S:g}', *([backend] if backend else []), 'models:']
    for name, (_, runtime_ms) in streams.items():
        lines += [f'  {name}:', '    class: normal',
                  '    queue: {policy: fifo, capacity: 4, overflow: reject_new}',
                  '    contract: {deadline_ms: 1500, max_age_ms: 3000}', '    variants:',
                  f'      - {{id: only, backend_model: {name}, '
                  'quality: {value: 1.0, source: user_declared},',
                  f'         profile: {{p50_us: {runtime_ms * 1000 + 2000}, '
                  f'p99_us: {runtime_ms * 1000 + 10000}}}}}']
    lines.append('streams:')
    for name in streams:
        lines += [f'  {name}:', f'    topic: /fault/{name}', '    type: sensor_msgs/msg/Image',
                  f'    model: {name}',
                  '    input: {tensor: IMAGE, encoder: image, dtype: UINT8, layout: HWC}']
    return '\n'.join(lines) + '\n'


def image(stamp_ns: int, value: int = 7, width: int = 8, height: int = 6) -> Image:
    """Make a small rgb8 frame of one value."""
    message = Image(width=width, height=height, encoding='rgb8', step=3 * width)
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    message.data.frombytes(bytes([value]) * (height * width * 3))
    return message


class Footprint:
    """What the node holds: memory, threads, files, regions."""

    def __init__(self, pid: int) -> None:
        """Look at a process."""
        process = psutil.Process(pid)
        with process.oneshot():
            self.rss_mib = process.memory_info().rss / MIB
            self.threads = process.num_threads()
            self.files = process.num_fds()
        self.names = sum(entry.name.startswith(f'vig_{pid}_')
                         for entry in Path('/dev/shm').iterdir())


class World:
    """
    A context manager; ``server`` is started, the node is not.

    :ivar published: stamp of every frame that was published while the node listened, by stream.
    :ivar statuses: every status, by stream.
    :ivar margins: safety margin of each stream's model, in percent.
    :ivar readiness: each change of ``ready`` as ``(seconds since the start, ready, reason)``.
    """

    def __init__(self, folder: Path, streams: Streams = STREAMS) -> None:
        self.streams = streams
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
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
        self._process: subprocess.Popen[bytes] | None = None
        self._runs = 0
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
        self._node = rclpy.create_node('faults', context=self._context)
        executor = SingleThreadedExecutor(context=self._context)
        executor.add_node(self._node)
        self._spinning = threading.Thread(target=self._spin, args=(executor,), daemon=True)
        self._spinning.start()
        reliable = QoSProfile(depth=1000, reliability=QoSReliabilityPolicy.RELIABLE)
        self._cameras = {}
        for name in self.streams:
            self.published[name], self.statuses[name] = [], []
            self._cameras[name] = self._node.create_publisher(Image, f'/fault/{name}', reliable)
            self._node.create_subscription(RequestStatus, f'/fault/{name}/vig/status',
                                           self.statuses[name].append, reliable)
        self._node.create_subscription(GovernorStatus, '/governor/status', self._note, reliable)
        self._node.create_subscription(DiagnosticArray, '/diagnostics',
                                       self._keep_diagnostics, reliable)
        self._change = self._node.create_client(ChangeState, '/governor/change_state')
        return self

    def __exit__(self, *error: object) -> None:
        # Each step also where the one before it was interrupted.
        with ExitStack() as ending:
            ending.callback(self.server.stop)
            ending.callback(rclpy.try_shutdown, context=self._context)
            ending.callback(self._node.destroy_node)
            ending.callback(self._spinning.join, 10)
            ending.callback(self._done.set)
            self.end_node()

    # ---- the node ----

    @property
    def pid(self) -> int:
        """Process id of the node."""
        assert self._process is not None, 'the node was not started'
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the node process exists."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What the present node has said."""
        return (self.folder / f'node-{self._runs}.log').read_text(errors='replace')

    def start_node(self, *, waits: bool = True, autostart: bool = True, backend: str = '',
                   endpoint: str = '', sim_time: bool = False) -> None:
        """
        Start the node process; without ``waits`` it need not become active.

        :param backend: lines for the block ``backend``.
        :param sim_time: run it with ``use_sim_time``.
        """
        self._runs += 1
        path = self.folder / 'vig.yaml'
        path.write_text(config_text(endpoint or self.endpoint, self.streams, backend),
                        encoding='utf-8')
        command = [sys.executable, '-m', 'vig_governor.node', '--ros-args',
                   '-p', f'config:={path}', '-p', f'autostart:={str(autostart).lower()}',
                   '-p', f'use_sim_time:={str(sim_time).lower()}',
                   '-p', 'diagnostics_period_s:=0.1']
        for name in self.streams:
            prefix = f'qos_overrides./fault/{name}'
            command += ['-p', f'{prefix}.subscription.reliability:=reliable',
                        '-p', f'{prefix}.subscription.depth:=1000',
                        '-p', f'{prefix}/vig/status.publisher.depth:=1000']
        self.readiness.clear()
        self.diagnostics.clear()
        self._counted_from.clear()
        with open(self.folder / f'node-{self._runs}.log', 'wb') as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                             stdin=subprocess.DEVNULL, start_new_session=True)
        if waits:
            self.wait_until_listening()

    def wait_until_listening(self, timeout_s: float = 40.0) -> None:
        """Wait until the node is active and all cameras and it have found each other."""
        until(lambda: all(camera.get_subscription_count() == 1
                          for camera in self._cameras.values()) and self.is_ready, timeout_s,
              lambda: f'the node does not listen; it said:\n{self.log[-3000:]}')

    def end_node(self) -> int | None:
        """End the node if it runs, by SIGTERM; give its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(DRAIN_S + 10.0)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        return process.returncode

    def signal_node(self, number: int) -> None:
        """Send the node a signal."""
        os.kill(self.pid, number)

    def wait_for_end(self, timeout_s: float) -> int:
        """Give the exit code of a node that is about to end."""
        assert self._process is not None
        code = self._process.wait(timeout_s * PATIENCE)
        self._process = None
        return code

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

    def region_names(self) -> list[str]:
        """List the names in /dev/shm that belong to the node."""
        return [entry.name for entry in Path('/dev/shm').iterdir()
                if entry.name.startswith(f'vig_{self.pid}_')]

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


def free_endpoint() -> str:
    """Name an address on this host where nobody listens."""
    return f'127.0.0.1:{free_port()}'


def _stamp(status: RequestStatus) -> int:
    return status.header.stamp.sec * 10**9 + status.header.stamp.nanosec
