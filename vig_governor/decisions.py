"""The last decisions about each stream, kept as they were made and told on request."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable
from functools import partial
from typing import NamedTuple

from vig_core.actions import Defer, Dispatch, Terminate
from vig_core.units import text_ms

Decision = Dispatch | Defer | Terminate
KEPT = 128
NO_STAMP = (0, 0)


class Kept(NamedTuple):
    """A decision, with the stamp of its request's header in seconds and nanoseconds."""

    decision: Decision
    stamp: tuple[int, int]


class DecisionLog:
    """
    A bounded ring of decisions per stream.

    The actor's thread writes, any thread reads. A decision costs one append; sentences are made
    when somebody asks.
    """

    def __init__(self, kept: int = KEPT) -> None:
        """Keep ``kept`` decisions of each stream."""
        self._rings: defaultdict[str, deque[Kept]] = defaultdict(partial(deque, maxlen=kept))

    def add(self, stream: str, decision: Decision, stamp: tuple[int, int] = NO_STAMP) -> None:
        """Remember one decision."""
        self._rings[stream].append(Kept(decision, stamp))

    def tell(self, stream: str, request_id: int = 0, stamp: tuple[int, int] = NO_STAMP,
             last: int = 0) -> list[str]:
        """
        Say one sentence per remembered decision, oldest first.

        :param request_id: 0 for the whole stream.
        :param stamp: only requests whose header has it; zero for any.
        :param last: only the newest requests, as many as this; 0 for all.
        """
        found = [kept.decision for kept in self._remembered(stream)
                 if request_id in (0, kept.decision.request_id)
                 and stamp in (NO_STAMP, kept.stamp)]
        return list(map(sentence, newest(found, last)))

    def requests(self, stream: str) -> list[int]:
        """Give the numbers of the remembered requests of a stream, sorted."""
        return sorted({kept.decision.request_id for kept in self._remembered(stream)})

    def stamps(self, stream: str) -> list[tuple[int, int]]:
        """Give the stamps of the remembered requests of a stream, sorted."""
        return sorted({kept.stamp for kept in self._remembered(stream)})

    def _remembered(self, stream: str) -> Collection[Kept]:
        return self._rings[stream].copy() if stream in self._rings else ()


def newest(decisions: Iterable[Decision], last: int) -> list[Decision]:
    """Keep the decisions about the newest ``last`` requests; 0 keeps all."""
    found = list(decisions)
    if not last:
        return found
    wanted = set(sorted({decision.request_id for decision in found})[-last:])
    return [decision for decision in found if decision.request_id in wanted]


def sentence(decision: Decision) -> str:
    """Say a decision with the numbers that belong to it."""
    who = f'request {decision.request_id}'
    if isinstance(decision, Dispatch):
        text = (f'{who} was sent to {decision.backend_model} as variant {decision.variant_id}, '
                f'planned for {text_ms(decision.planned_ns)}')
        return f'{text}: {decision.detail}' if decision.detail else text
    if isinstance(decision, Defer):
        return f'{who} was held back for stream {decision.beneficiary}: {decision.detail}'
    text = f'{who} ended {decision.reason.value} at age {text_ms(decision.age_ns)}'
    if decision.variant_id is not None:
        text += f' after waiting {text_ms(decision.queue_wait_ns)}'
    if decision.backend_ns is not None:
        text += f' and {text_ms(decision.backend_ns)} at the server'
    return f'{text}: {decision.detail}' if decision.detail else text
