"""
Connections whose executions nobody has seen end, kept over ``cleanup`` and ``configure``.

What runs at the server does not end with our configuration (adr/0024). So a connection stays,
with its watch, as long as a slot waits for a proof from it: its late answers and the counters of
its server are the only ones that can tell. A new connection to the same address takes over its
book and its identity, so that both count together; one to another address leaves it alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
import logging

from vig_governor.backend.triton import TritonBackend
from vig_governor.watch import Holder, ServerWatch

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Link:
    """A connection and, once it is watched, its watch."""

    backend: TritonBackend
    watch: ServerWatch | None = None

    def close(self) -> None:
        """Close both; bounded in time and idempotent."""
        if self.watch is not None:
            self.watch.close()
        self.backend.close()


class Remnants:
    """
    What earlier configurations of this node have left; used on the thread of its transitions.

    :param holder: gives who holds what is unproven; ``None`` if nobody ever did.
    """

    def __init__(self, holder: Callable[[], Holder | None]) -> None:
        self._holder = holder
        self._kept: list[Link] = []

    def __len__(self) -> int:
        """Count the connections that are kept."""
        return len(self._kept)

    def watch(self, link: Link) -> None:
        """
        Begin to watch a new connection, which goes on where one to the same address was left.

        :param link: inspected and ready; ``link.watch`` is made and not started.
        """
        assert link.watch is not None
        self.sweep()
        for before in reversed(self._kept):
            if before.backend.endpoint == link.backend.endpoint and before.watch is not None:
                before.watch.close()
                link.watch.succeed(before.watch)
                before.watch = None
                break
        holder = self._holder()
        if holder is not None:
            link.watch.attach(holder)
        link.watch.start()

    def hand_over(self, holder: Holder) -> None:
        """Tell the watches of all kept connections who holds their executions now."""
        for link in self._kept:
            if link.watch is not None:
                link.watch.attach(holder)

    def retire(self, link: Link) -> None:
        """Close a connection, or keep it while something is unproven."""
        self._kept.append(link)
        self.sweep()
        holder = self._holder()
        if link in self._kept and holder is not None:
            _log.warning('the server at %s may still compute %d inferences that have not been '
                         'seen to end; they hold their slots over cleanup and configure until '
                         'they are', link.backend.endpoint, holder.unproven_executions)

    def sweep(self) -> None:
        """Close what nobody waits for any more."""
        holder = self._holder()
        is_awaited = holder is not None and holder.unproven_executions > 0
        kept, self._kept = self._kept, []
        for link in kept:
            if is_awaited and link.backend.tally.is_anything_open:
                self._kept.append(link)
            else:
                link.close()

    def close(self) -> None:
        """Close all; idempotent."""
        kept, self._kept = self._kept, []
        for link in kept:
            link.close()
