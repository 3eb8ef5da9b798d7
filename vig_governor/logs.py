"""What the ROS-free parts log, in the log of the node."""

import logging
from typing import Any

NAMES = ('vig', 'vig_core', 'vig_governor')


class RosLogHandler(logging.Handler):
    """
    Passes records on to a node's logger; a context manager around the node's life.

    One call site for each severity: rclpy refuses a site that changes its own.
    """

    def __init__(self, logger: Any) -> None:
        """Attach to the loggers of this package."""
        super().__init__()
        self._logger = logger
        for name in NAMES:
            logging.getLogger(name).addHandler(self)
            logging.getLogger(name).setLevel(logging.DEBUG)

    def detach(self) -> None:
        """Stop to pass records on."""
        for name in NAMES:
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Say one record; a traceback follows its sentence."""
        try:
            text = self.format(record)
            if record.levelno >= logging.ERROR:
                self._logger.error(text)
            elif record.levelno >= logging.WARNING:
                self._logger.warning(text)
            elif record.levelno >= logging.INFO:
                self._logger.info(text)
            else:
                self._logger.debug(text)
        except Exception:
            self.handleError(record)
