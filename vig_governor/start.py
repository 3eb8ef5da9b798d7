"""
The command ``governor``: light, so that a signal during the imports of the node ends it quietly.

Importing rclpy, OpenCV and the client library takes about a second; a Ctrl-C in that second is no
error either.
"""

import os
import signal
import sys
from typing import Any


def main() -> int:
    """Run the governor node until a signal; the entry point ``governor``."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from vig_governor.node import main as run_node
    return run_node()


def _leave(number: int, frame: Any) -> None:
    """Leave at once: nothing was accepted yet."""
    os._exit(0)


if __name__ == '__main__':
    sys.exit(main())
