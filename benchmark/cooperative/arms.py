"""The arms: every client straight to the server, and the governor with its jobs whole or cut."""

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
import threading
import time
from typing import Any

from benchmark.cooperative.record import COMPLETED, Ended, Record

import numpy as np
from numpy.typing import NDArray
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, QoSReliabilityPolicy
from rclpy.task import Future
from sensor_msgs.msg import Image
from std_msgs.msg import String

from vig.msg import GeneratedText, InferenceResult, RequestStatus

from vig_core.errors import VigError
from vig_core.units import NS_PER_S

from vig_governor.backend.base import Answered, Outcome as Answer
from vig_governor.backend.triton import TritonBackend
from vig_governor.demo.language_repository import OPTIONS
from vig_governor.generation import Generation
from vig_governor.node import GovernorNode
from vig_governor.process import make_executor, spin_until

PROMPT = '{}. The robot in the kitchen'
"""Numbered, because a prompt that was just read would cost nothing; the same in every arm."""

REASONS = {getattr(RequestStatus, name): name.lower() for name in (
    'COMPLETED', 'OBSOLETE', 'SUPERSEDED', 'STALE', 'INFEASIBLE', 'CAPACITY', 'CANCELLED',
    'BACKEND_TIMEOUT', 'BACKEND_FAILED')}
RETRY_S = 0.25
SETTLING_S = 2.0
FRAMES_IN_FLIGHT = 64


class ArmFailed(VigError):
    """The governor did not become active; says why."""


class Grid:
    """The camera: one capture each period; alone at first, so that its rhythm is known."""

    def __init__(self, period_ns: int, seconds: float) -> None:
        self._period_ns = period_ns
        self._cycles = round(seconds * NS_PER_S) // period_ns
        self._settling = round(SETTLING_S * NS_PER_S) // period_ns
        self._begin_ns = 0

    @property
    def window(self) -> range:
        """The cycles that count; the questions begin with them."""
        first_ns = self._begin_ns + self._settling * self._period_ns
        return range(first_ns, first_ns + self._cycles * self._period_ns, self._period_ns)

    def start(self) -> None:
        """Let the first capture be soon."""
        self._begin_ns = time.monotonic_ns() + NS_PER_S // 4

    def run(self, capture: Callable[[int], None]) -> None:
        """Call ``capture(captured_ns)`` at each instant until the window ends."""
        pause = threading.Event()
        for instant_ns in range(self._begin_ns, self.window.stop + 1, self._period_ns):
            pause.wait(max(0, instant_ns - time.monotonic_ns()) / NS_PER_S)
            if instant_ns < self.window.stop:
                capture(time.monotonic_ns())

    def wait_for_window(self, is_over: threading.Event) -> None:
        """Wait until the questions begin."""
        is_over.wait(max(0, self.window.start - time.monotonic_ns()) / NS_PER_S)


def direct(endpoint: str, frame: NDArray[np.uint8], models: tuple[str, str], tokens: int,
           in_hand: int, grid: Grid, record: Record) -> None:
    """
    Send each frame and each prompt as it comes; nobody decides anything.

    :param in_hand: questions that are open at any time.
    """
    backend = TritonBackend(endpoint)
    backend.connect(timeout_s=10)
    backend.open_stream('camera', slots=FRAMES_IN_FLIGHT, transport='copy')
    backend.open_stream('writer', slots=in_hand, transport='copy')
    signature = backend.inspect(models[1], timeout_s=5)
    numbers, prompts, is_over = count(1), count(1), threading.Event()

    def capture(captured_ns: int) -> None:
        record.frames += 1
        number = next(numbers)

        def end(answer: Answer) -> None:
            backend.release(number)
            if isinstance(answer, Answered):
                record.delivered(captured_ns, time.monotonic_ns())

        slot = backend.acquire('camera', number)
        slot.allocate('IMAGE', frame.shape, 'UINT8')[...] = frame
        backend.infer(number, models[0], slot, end)

    def write() -> None:
        grid.wait_for_window(is_over)
        while not is_over.is_set():
            number, done = next(numbers), threading.Event()
            job = Generation(OPTIONS, PROMPT.format(next(prompts)))
            slot = backend.acquire('writer', number)
            job.fill(slot, tokens, signature)

            def end(answer: Answer, job: Generation = job,
                    done: threading.Event = done) -> None:
                is_answer = isinstance(answer, Answered)
                record.ended(Ended(
                    time.monotonic_ns(), COMPLETED if is_answer else 'backend_failed',
                    job.read(answer.outputs, tokens).tokens if is_answer else 0, 1))
                done.set()

            backend.infer(number, models[1], slot, end)
            done.wait(60)
            backend.release(number)

    grid.start()
    with ExitStack() as made:
        made.callback(backend.close)
        for _ in range(in_hand):
            writer = threading.Thread(target=write)
            writer.start()
            made.callback(writer.join)
        made.callback(is_over.set)
        grid.run(capture)


def governed(config: Path, frame: NDArray[np.uint8], in_hand: int, grid: Grid,
             record: Record) -> None:
    """Let the governor node decide; questions come on a topic, ``in_hand`` are always open."""
    with ExitStack() as made:
        client = rclpy.create_node('bench_client')
        made.callback(_spin(client, SingleThreadedExecutor()))
        node = GovernorNode(parameter_overrides=[Parameter('config', value=str(config))])
        made.callback(_spin(node, make_executor()))
        reliable = QoSProfile(depth=200, reliability=QoSReliabilityPolicy.RELIABLE)
        ask = client.create_publisher(String, '/ask', reliable)
        may_ask = threading.Semaphore(0)

        def written(text: GeneratedText) -> None:
            if text.finished:
                record.ended(Ended(time.monotonic_ns(), COMPLETED, text.tokens, text.quanta))
                may_ask.release()

        def ended(status: RequestStatus) -> None:
            if status.reason != RequestStatus.COMPLETED:
                record.ended(Ended(time.monotonic_ns(), REASONS[status.reason]))
                # Whoever is refused asks again, but not at once.
                threading.Timer(RETRY_S, may_ask.release).start()

        client.create_subscription(GeneratedText, '/ask/vig/generated', written, reliable)
        client.create_subscription(RequestStatus, '/ask/vig/status', ended, reliable)
        client.create_subscription(InferenceResult, '/camera/vig/result', lambda result: (
            record.delivered(_steady(result.header.stamp), time.monotonic_ns())), reliable)
        camera = client.create_publisher(Image, '/camera', QoSProfile(
            depth=5, reliability=QoSReliabilityPolicy.BEST_EFFORT))
        for transition in (node.trigger_configure, node.trigger_activate):
            transition()
            if node.last_failure:
                raise ArmFailed(node.last_failure)
        end_s = time.monotonic() + 10
        while not (camera.get_subscription_count() and ask.get_subscription_count()):
            if time.monotonic() > end_s:
                raise ArmFailed('the governor did not subscribe within 10 s')
            threading.Event().wait(0.05)
        # Sending the same picture again and again, only its stamp is new.
        image = Image(height=frame.shape[0], width=frame.shape[1], encoding='rgb8',
                      step=3 * frame.shape[1])
        image.data = frame.tobytes()
        is_over = threading.Event()

        def feed() -> None:
            grid.wait_for_window(is_over)
            for _ in range(in_hand):
                may_ask.release()
            numbers = count(1)
            while not is_over.is_set():
                if may_ask.acquire(timeout=0.2):
                    ask.publish(String(data=PROMPT.format(next(numbers))))

        def capture(captured_ns: int) -> None:
            record.frames += 1
            stamp = captured_ns - time.monotonic_ns() + time.time_ns()
            image.header.stamp.sec, image.header.stamp.nanosec = divmod(stamp, NS_PER_S)
            camera.publish(image)

        made.callback(node.trigger_cleanup)
        made.callback(node.trigger_deactivate)
        questions = threading.Thread(target=feed)
        grid.start()
        questions.start()
        made.callback(questions.join)
        made.callback(is_over.set)
        grid.run(capture)


def _steady(stamp: Any) -> int:
    """Turn a stamp of this host's clock of day into an instant of its steady clock."""
    captured_ns: int = stamp.sec * NS_PER_S + stamp.nanosec
    return captured_ns - time.time_ns() + time.monotonic_ns()


def _spin(node: Any, executor: Any) -> Any:
    """Run a node on a thread of its own; gives what ends it."""
    executor.add_node(node)
    done = Future(executor=executor)
    thread = threading.Thread(target=spin_until, args=(executor, done))
    thread.start()

    def close() -> None:
        executor.create_task(done.set_result, None)
        thread.join(30)
        executor.remove_node(node)
        executor.shutdown()
        node.destroy_node()

    return close
