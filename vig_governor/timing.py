"""Cheap measurements of the governor itself: the newest few thousand samples of one duration."""

from collections import deque


class Timings:
    """
    A bounded window of durations in nanoseconds.

    One thread adds; any thread may read, because both sides only use atomic operations.
    """

    def __init__(self, window: int = 4096) -> None:
        self._samples: deque[int] = deque(maxlen=window)
        self.count = 0

    def add(self, duration_ns: int) -> None:
        """Take one sample."""
        self._samples.append(duration_ns)
        self.count += 1

    def quantile_ns(self, percent: float) -> int | None:
        """
        Give the nearest-rank quantile of the window, or ``None`` while it is empty.

        :param percent: in 0..100, for example 99.
        """
        samples = sorted(self._samples.copy())
        if not samples:
            return None
        rank = round(percent / 100 * (len(samples) - 1))
        return samples[rank]
