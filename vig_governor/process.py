"""
A process around one lifecycle node: executor, signals, a clean end.

The first SIGINT or SIGTERM shuts the node down through its lifecycle: accepted work is answered
or cancelled with a status, then the process ends with code 0. A second one ends it at once, in
whatever state or transition it is, with code 128 + the number of that signal.
"""

from collections.abc import Callable, Sequence
import os
import signal
import sys
import threading
import time
from typing import Any

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from rclpy.utilities import remove_ros_args

from vig_core.errors import VigError

from vig_governor.allocator import keep_freed_memory

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_USAGE = ('usage: governor --ros-args -p config:=/path/vig.yaml -p autostart:=true\n'
          'Without autostart it waits for lifecycle commands. All arguments are ROS arguments.')
_ECHO_S = 0.5
"""A terminal and a launch system may both pass on the same Ctrl-C."""


def make_executor() -> Executor:
    """Make the executor that costs least: events instead of wait sets, where rclpy has it."""
    try:
        from rclpy.experimental import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor()
    return EventsExecutor()


def spin_until(executor: Executor, done: 'Future[Any]') -> None:
    """
    Spin until ``done``.

    The time limit is for the events executor, whose unlimited spin runs hot and does nothing
    (seen with rclpy 9.1.2).
    """
    while not done.done():
        executor.spin_until_future_complete(done, timeout_sec=1e6)


def run(make_node: Callable[[], Any], args: Sequence[str] | None = None) -> int:
    """
    Run one lifecycle node until a signal comes; give the exit code.

    :param make_node: called after rclpy is initialised; its node says its ``state_label``.
    """
    given = list(sys.argv if args is None else args)
    if {'-h', '--help'} & set(given[1:]):
        print(_USAGE)
        return 0
    signals = SignalPipe()
    keep_freed_memory()
    try:
        rclpy.init(args=given, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:
        return _refuse(f'the ROS arguments are not usable: {" ".join(str(error).split())}')
    unknown = remove_ros_args(given)[1:]
    if unknown:
        return _refuse(f'unknown arguments: {" ".join(unknown)}\n{_USAGE}')
    executor = make_executor()
    stopped: Future[Any] = Future(executor=executor)
    # With autostart the node is configured while it is made.
    threading.Thread(target=_await_signals, args=(signals, executor, stopped),
                     name='vig-signals', daemon=True).start()
    try:
        node = make_node()
    except ParameterException as error:
        return _refuse(f'a parameter is not usable: {" ".join(str(error).split())}')
    except VigError as error:
        return _refuse(str(error))
    except rclpy_implementation.RCLError as error:
        return _refuse(f'ROS cannot make the node: {" ".join(str(error).split())}')
    executor.add_node(node)
    try:
        spin_until(executor, stopped)
        if node.state_label != 'finalized':
            node.trigger_shutdown()
    except ExternalShutdownException:
        pass
    finally:
        executor.remove_node(node)
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()
        # While it exits, Python restores the default handlers: the echo of a Ctrl-C, from the
        # terminal or from launch, would turn a clean end into a death by signal.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    return 0


def _refuse(sentence: str) -> int:
    """Say why the process does not start, and give its exit code."""
    print(f'governor: {sentence}', file=sys.stderr)
    rclpy.try_shutdown()
    return 2


class SignalPipe:
    """
    Hands signals to a thread that may wait for them.

    Python runs a handler on the main thread only, and that one may be deep in C++ or in a drain.
    The low-level handler writes the signal's number into a pipe at once, on whatever thread the
    system chose. (Blocking the signals and ``sigwait`` is no way: numeric libraries start threads
    when they are imported, before anything could be blocked.)
    """

    def __init__(self) -> None:
        """Take over SIGINT and SIGTERM; on the main thread."""
        self._read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, _ignore)

    def wait(self) -> int:
        """Give the number of the next signal."""
        return os.read(self._read_end, 1)[0]


def _ignore(number: int, frame: Any) -> None:
    """Leave the signal to the thread that waits for it."""


def _await_signals(signals: SignalPipe, executor: Executor, stopped: 'Future[Any]') -> None:
    signals.wait()
    first_s = time.monotonic()
    executor.create_task(stopped.set_result, None)
    while True:
        number = signals.wait()
        if time.monotonic() - first_s > _ECHO_S:
            os.write(sys.stderr.fileno(), b'governor: a second signal: the process ends at once, '
                     b'what was accepted and has no status yet gets none\n')
            os._exit(128 + number)
