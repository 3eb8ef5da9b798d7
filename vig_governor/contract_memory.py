"""
The windows of the miss budgets from one activation to the next.

Rules:

- A window belongs to a stream and its ``contract_version``. It goes on over deactivation, cleanup
  and a new configuration file, also where a file in between did not name the stream.
- The consumer's cycles do not stop while the governor is inactive: they are judged like any other.
- A new ``contract_version`` begins a new window. So do other terms under an old version, which is
  a mistake of whoever wrote the file, and is said.
- It lives as long as the process. Knows nothing of ROS.
"""

from collections.abc import Iterable, Iterator
import logging

from vig_core.contract import Contract
from vig_core.events import CyclesInherited
from vig_core.model import System

_log = logging.getLogger(__name__)


class ContractMemory:
    """What the last scheduler saw of each contract's cycles."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._seen: dict[str, tuple[Contract, CyclesInherited]] = {}

    def keep(self, system: System, windows: Iterable[CyclesInherited]) -> None:
        """Keep what a scheduler of this system has seen."""
        for window in windows:
            model = system.models[system.streams[window.stream]]
            self._seen[window.stream] = model.contract, window

    def resume(self, system: System) -> Iterator[CyclesInherited]:
        """Give what a new scheduler of this system goes on from; say where it cannot."""
        for stream, name in system.streams.items():
            contract = system.models[name].contract
            if contract.miss_budget is None or stream not in self._seen:
                continue
            before, window = self._seen[stream]
            if contract.contract_version != before.contract_version:
                _log.info('stream %s: contract_version %d after %d: a new window of %d cycles '
                          'begins', stream, contract.contract_version, before.contract_version,
                          contract.miss_budget.window_cycles)
            elif contract.cycle_terms != before.cycle_terms:
                _log.warning('stream %s: the terms of its contract have changed under '
                             'contract_version %d, so its misses cannot be counted on: a new '
                             'window of %d cycles begins; raise contract_version with the terms',
                             stream, contract.contract_version,
                             contract.miss_budget.window_cycles)
            else:
                yield window
