"""
A synchronous client: at most one request in flight.

Rule: when it is free it takes the newest release that has passed and gives up the older ones;
where none has passed it waits for the next.
"""

from vig_core.sim.workload import ArrivalProcess, Continuous, Frame


class Client:
    """
    One closed loop.

    :ivar given_up: releases that were never asked for.
    """

    def __init__(self, arrivals: ArrivalProcess, seed: int, stream: str,
                 duration_ns: int) -> None:
        """Begin before the first release."""
        self._frames = list(arrivals.frames(seed, stream, duration_ns))
        self._endless = arrivals if isinstance(arrivals, Continuous) else None
        self._duration_ns = duration_ns
        self._next = 0
        self.given_up = 0

    def next_frame(self, now_ns: int, *, was_run: bool) -> Frame | None:
        """
        Say what a client that is free now asks for next, or ``None`` when it is done.

        :param was_run: whether its last request ran; a refused one is not repeated at once.
        """
        if self._endless is not None and self._next > 0:
            release_ns = now_ns if was_run else now_ns + self._endless.retry_ns
            if release_ns >= self._duration_ns:
                return None
            self._next += 1
            return Frame(self._next - 1, release_ns, release_ns)
        following = self._frames[self._next + 1:self._next + 2]
        while following and following[0].arrives_at_ns <= now_ns:
            self.given_up += 1
            self._next += 1
            following = self._frames[self._next + 1:self._next + 2]
        if self._next >= len(self._frames):
            return None
        self._next += 1
        return self._frames[self._next - 1]
