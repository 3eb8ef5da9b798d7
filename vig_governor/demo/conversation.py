"""
What whoever asks a language model knows: the open question, the text so far, and what came of it.

One question is open at a time. A text is an answer when its last part was there; one that broke
off is none, whatever was read of it. Knows nothing of ROS; instants are ns of one clock.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from vig_core.units import NS_PER_MS

RETRY_NS = 250 * NS_PER_MS
"""Whoever was refused asks again, but not at once."""

EXCHANGES_SHOWN = 3


@dataclass(slots=True)
class Exchange:
    """
    A question and what was written for it.

    :ivar parts: ``(received, text, tokens so far, requests so far)`` of each part, in order.
    :ivar ended_ns: when it was over; ``None`` while it is open.
    :ivar reason: how it ended: ``completed`` for an answer; empty while it is open.
    :ivar detail: why it is no answer.
    """

    question: str
    asked_ns: int
    parts: list[tuple[int, str, int, int]] = field(default_factory=list)
    ended_ns: int | None = None
    reason: str = ''
    detail: str = ''

    @property
    def text(self) -> str:
        """Everything that was written so far."""
        return ''.join(part[1] for part in self.parts)

    @property
    def tokens(self) -> int:
        """Tokens so far."""
        return self.parts[-1][2] if self.parts else 0

    @property
    def requests(self) -> int:
        """Requests to the server so far that brought text."""
        return self.parts[-1][3] if self.parts else 0

    def as_json(self) -> dict[str, Any]:
        """Give everything."""
        return {'question': self.question, 'asked': self.asked_ns, 'parts': self.parts,
                'ended': self.ended_ns, 'reason': self.reason, 'detail': self.detail}


class Conversation:
    """Asks one question after the other, from the first again after the last."""

    def __init__(self, questions: Sequence[str]) -> None:
        self._questions = cycle(questions)
        self._may_ask_ns = 0
        self._last_id = 0
        self.exchanges: list[Exchange] = []

    @property
    def _open(self) -> Exchange | None:
        last = self.exchanges[-1] if self.exchanges else None
        return last if last is not None and last.ended_ns is None else None

    def ask(self, now_ns: int) -> str | None:
        """Give the next question if it is time for one; it is open from now on."""
        if self._open is not None or now_ns < self._may_ask_ns:
            return None
        self.exchanges.append(Exchange(next(self._questions), now_ns))
        return self.exchanges[-1].question

    def write(self, now_ns: int, request_id: int, text: str, tokens: int, requests: int, *,
              is_last: bool) -> None:
        """Take a part of the open answer."""
        exchange = self._open
        if exchange is None or request_id <= self._last_id:
            return
        exchange.parts.append((now_ns, text, tokens, requests))
        if is_last:
            self._end(exchange, now_ns, request_id, 'completed')

    def fail(self, now_ns: int, request_id: int, reason: str, detail: str) -> None:
        """Take the end of a question that gets no answer."""
        exchange = self._open
        if exchange is None or request_id <= self._last_id:
            return
        exchange.detail = detail
        self._end(exchange, now_ns, request_id, reason)
        self._may_ask_ns = now_ns + RETRY_NS

    def _end(self, exchange: Exchange, now_ns: int, request_id: int, reason: str) -> None:
        exchange.ended_ns, exchange.reason = now_ns, reason
        self._last_id = request_id

    def snapshot(self) -> dict[str, Any]:
        """Give what is shown live."""
        answers = [each for each in self.exchanges if each.reason == 'completed']
        refused = [each for each in self.exchanges if each.reason not in ('', 'completed')]
        return {'answers': len(answers), 'tokens': sum(each.tokens for each in answers),
                'refused': dict(Counter(each.reason for each in refused)),
                'refusal': refused[-1].detail if refused else '',
                'exchanges': len(self.exchanges),
                'shown': [{'question': each.question, 'text': each.text, 'tokens': each.tokens,
                           'requests': each.requests, 'reason': each.reason}
                          for each in self.exchanges[-EXCHANGES_SHOWN:]]}
