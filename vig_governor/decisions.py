"""The last decisions about each stream, kept as they were made and told on request."""

from collections import defaultdict, deque
from functools import partial

from vig_core.actions import Defer, Dispatch, Terminate
from vig_core.units import text_ms

Decision = Dispatch | Defer | Terminate
KEPT = 128


class DecisionLog:
    """
    A bounded ring of decisions per stream.

    The actor's thread writes, any thread reads. A decision costs one append; sentences are made
    when somebody asks.
    """

    def __init__(self, kept: int = KEPT) -> None:
        """Keep ``kept`` decisions of each stream."""
        self._rings: defaultdict[str, deque[Decision]] = defaultdict(partial(deque, maxlen=kept))

    def add(self, stream: str, decision: Decision) -> None:
        """Remember one decision."""
        self._rings[stream].append(decision)

    def tell(self, stream: str, request_id: int = 0) -> list[str]:
        """
        Say one sentence per remembered decision, oldest first.

        :param request_id: 0 for the whole stream.
        """
        if stream not in self._rings:
            return []
        return [sentence(decision) for decision in self._rings[stream].copy()
                if request_id in (0, decision.request_id)]

    def requests(self, stream: str) -> list[int]:
        """Give the numbers of the remembered requests of a stream, sorted."""
        ring = self._rings[stream].copy() if stream in self._rings else ()
        return sorted({decision.request_id for decision in ring})


def sentence(decision: Decision) -> str:
    """Say a decision with the numbers that belong to it."""
    who = f'request {decision.request_id}'
    if isinstance(decision, Dispatch):
        return (f'{who} was sent to {decision.backend_model} as variant {decision.variant_id}, '
                f'planned for {text_ms(decision.planned_ns)}')
    if isinstance(decision, Defer):
        return f'{who} was held back for stream {decision.beneficiary}: {decision.detail}'
    text = (f'{who} ended {decision.reason.value} at age {text_ms(decision.age_ns)} after '
            f'waiting {text_ms(decision.queue_wait_ns)}')
    if decision.backend_ns is not None:
        text += f' and {text_ms(decision.backend_ns)} at the server'
    return f'{text}: {decision.detail}' if decision.detail else text
