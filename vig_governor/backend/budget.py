"""How many regions of shared memory this process may have registered at the server at once."""

import threading

MAX_REGIONS = 256


class RegionBudget:
    """
    Counts regions, our own and those that producers lend; safe to use from several threads.

    :param most: ``max_shm_regions`` of the configuration, at least 1.
    """

    def __init__(self, most: int = MAX_REGIONS) -> None:
        self.most = most
        self._taken = 0
        self._lock = threading.Lock()

    @property
    def taken(self) -> int:
        """How many regions there are."""
        return self._taken

    @property
    def has_room(self) -> bool:
        """Whether one more would fit."""
        return self._taken < self.most

    def take(self) -> bool:
        """Count one more region, or say that there must not be one."""
        with self._lock:
            if self._taken >= self.most:
                return False
            self._taken += 1
            return True

    def give(self) -> None:
        """Count one region less: the server has been told to forget it."""
        with self._lock:
            self._taken -= 1
