"""
A process that stays warm from cell to cell.

The bench writes what a cell needs to one JSON file and sends its path as a line; the process says
``ready``, gets further lines as its part demands, and says ``done``. It ends with its input.
"""

from collections.abc import Callable
import json
from pathlib import Path
import signal
import sys
import threading
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from vig_governor.process import make_executor, spin_until


def serve(play: Callable[[dict[str, Any]], None]) -> int:
    """Play one cell after the other until the input ends or a signal comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    for line in sys.stdin:
        play(json.loads(Path(line.strip()).read_text(encoding='utf-8')))
        say('done')
    rclpy.shutdown()
    return 0


def say(line: str) -> None:
    """Tell the bench."""
    print(line, flush=True)


def spin_until_told(node: Node) -> None:
    """Run a node's callbacks until the bench sends the next line, whatever it says."""
    executor = make_executor()
    executor.add_node(node)
    told: Future[Any] = Future(executor=executor)

    def listen() -> None:
        sys.stdin.readline()
        executor.create_task(told.set_result, None)

    threading.Thread(target=listen, daemon=True).start()
    spin_until(executor, told)
    executor.remove_node(node)
    executor.shutdown()
