"""Who used the processor cores during a cell: our processes, and everything else."""

from collections.abc import Mapping
from dataclasses import dataclass
import os
import time

import psutil

# Above these a cell is called disturbed.
FOREIGN_PERCENT = 10.0
STEAL_PERCENT = 2.0
# Above this it is said how late the cameras were.
CAMERA_LATE_MS = 5.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor seconds until one instant, by the parts of the bench and of all programs."""

    at_s: float
    parts_s: Mapping[str, float]
    busy_s: float
    steal_s: float


def look(parts: Mapping[str, int] | None = None) -> Usage:
    """
    Read the counters now.

    :param parts: process id of the root of each part's process tree, by name; without, this
        process and all below it are one part.
    """
    if parts is None:
        seen = {'all': _tree_s(os.getpid())}
    else:
        seen = {name: _tree_s(pid) for name, pid in parts.items()}
        seen['bench'] = _process_s(psutil.Process())
    total = psutil.cpu_times()
    busy_s = (total.user + total.nice + total.system + getattr(total, 'irq', 0.0)
              + getattr(total, 'softirq', 0.0))
    return Usage(time.monotonic(), seen, busy_s, getattr(total, 'steal', 0.0))


@dataclass(frozen=True, slots=True)
class Share:
    """
    What was used between two looks.

    :ivar parts_percent: of one core, by part.
    :ivar foreign_percent: of all cores, by whatever is not ours.
    :ivar steal_percent: of all cores, taken by the hypervisor.
    """

    parts_percent: Mapping[str, float]
    foreign_percent: float
    steal_percent: float

    @property
    def disturbances(self) -> list[str]:
        """Say what of it makes a cell doubtful."""
        found = []
        if self.foreign_percent > FOREIGN_PERCENT:
            found.append(f'other programs took {self.foreign_percent:.0f} % of the machine')
        if self.steal_percent > STEAL_PERCENT:
            found.append(f'the hypervisor took {self.steal_percent:.0f} %')
        return found


def between(before: Usage, after: Usage) -> Share:
    """Compare two looks."""
    span_s = after.at_s - before.at_s
    parts = {name: after.parts_s[name] - before.parts_s.get(name, 0.0)
             for name in after.parts_s}
    cores = os.cpu_count() or 1
    foreign_s = max(0.0, after.busy_s - before.busy_s - sum(parts.values()))
    return Share({name: round(100 * used / span_s, 2) for name, used in parts.items()},
                 round(100 * foreign_s / span_s / cores, 2),
                 round(100 * (after.steal_s - before.steal_s) / span_s / cores, 2))


def _tree_s(pid: int) -> float:
    try:
        root = psutil.Process(pid)
        return _process_s(root) + sum(map(_process_s, root.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0.0


def _process_s(process: psutil.Process) -> float:
    """Give what a process used, with its children that have ended and been waited for."""
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(used.user + used.system + used.children_user + used.children_system)
