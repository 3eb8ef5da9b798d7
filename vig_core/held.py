"""What one look at the queues finds: what may start, and what holds the others."""

from dataclasses import dataclass, field

from vig_core.clockwork import NEVER
from vig_core.lookahead import Veto
from vig_core.patience import Wait
from vig_core.quantum import Shortage
from vig_core.request import Request
from vig_core.variants import Choice


@dataclass(slots=True)
class Held:
    """
    A candidate that had to wait although a credit is free.

    :ivar veto: the look-ahead holds it.
    :ivar wait: it waits for its own successor.
    :ivar shortage: no quantum of it fits.
    :ivar behind_id: a request that uses an instance of the backend model that it should run on,
        where none is free. Where this and the three before are ``None``, ``no_corun`` holds it.
        Only an event can end either, or another variant.
    :ivar until_ns: first later instant at which time alone can change any of this.
    :ivar because: why, where this is held for the first time in this way; made to be said.
    """

    request: Request
    choice: Choice | None
    veto: Veto | None
    wait: Wait | None = None
    shortage: Shortage | None = None
    behind_id: int | None = None
    until_ns: int = NEVER
    because: object = ''


@dataclass(slots=True)
class Selection:
    """What one look at the queues found."""

    start: Request | None = None
    choice: Choice | None = None
    held: list[Held] = field(default_factory=list)
