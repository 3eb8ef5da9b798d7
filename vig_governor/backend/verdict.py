"""
What an error of the server or of the connection proves about the execution.

Seen on tritonserver 2.51 with gRPC 1.85: the client library does not say who produced a status,
so the code and, where both sides use the same one, the text decide. In doubt nothing is proven:
a credit that stays taken costs throughput, one that is given back too early puts two inferences
where one belongs.
"""

from dataclasses import dataclass
from enum import Enum

from vig_core.reconcile import Ending

NEVER_SENT = ('failed to connect', 'errors resolving', 'dns resolution failed',
              'name resolution', 'domain name not found', 'no address')
"""What gRPC says, always as UNAVAILABLE, before anything has left this host."""

SERVER_WAS_NOT_READY = ('not ready', 'not at ready state', 'maximum queue size', 'stopping',
                        'stopped accepting', 'available versions', 'not available',
                        'unknown model', 'request timeout expired', 'unhealthy', 'not healthy')
"""What Triton answers as UNAVAILABLE: it has refused the request itself."""

TRANSPORT_BROKE = ('rst_stream', 'stream removed', 'socket closed', 'connection reset', 'goaway',
                   'transport', 'http2', 'broken pipe', 'keepalive')
"""What gRPC says as INTERNAL or UNKNOWN; Triton uses the same codes for failed models."""

REFUSED_UNCOUNTED = ('[request id: ', 'request for unknown model', 'shared memory region',
                     "doesn't support models with decoupled transaction policy")
"""
What Triton 2.51 says when it refuses a request before it reaches a model: no counter moves.

The code does not tell: a model may answer an error with any of them, and that is counted.
"""

QUEUE_REFUSED = ('maximum queue size', 'request timeout expired')
"""Refused by the model's queue: whether that is counted depends on the version."""

_REGION_UNKNOWN = 'unable to find shared memory region'
_CODES = {404: 'NOT_FOUND', 500: 'INTERNAL', 501: 'UNIMPLEMENTED', 503: 'UNAVAILABLE'}
"""The gRPC code that Triton would have answered, where the HTTP status stands for one only."""
_PROVES_NOTHING = ('CANCELLED', 'DEADLINE_EXCEEDED')
_MAX_DETAIL = 300


class Meaning(Enum):
    """What has happened to the request."""

    ANSWERED = 'answered'
    NEVER_SENT = 'never sent'
    BROKEN = 'broken'
    REGION_UNKNOWN = 'region unknown'


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    Meaning and one readable line.

    :ivar ending: what the server's completion counter makes of it.
    """

    meaning: Meaning
    text: str
    ending: Ending = Ending.UNCLEAR

    @property
    def is_over(self) -> bool:
        """Everything but a broken connection proves the end."""
        return self.meaning is not Meaning.BROKEN

    @classmethod
    def unanswered(cls, meaning: Meaning, text: str) -> 'Verdict':
        """Say what an HTTP connection without an answer proves: ``NEVER_SENT`` or ``BROKEN``."""
        return cls(meaning, text, _ending(meaning, '', ''))


def judge(code: str | None, message: str) -> Verdict:
    """
    Judge a gRPC status.

    :param code: for example ``StatusCode.UNAVAILABLE``; ``None`` if the client itself failed.
    :param message: what came with it, of any length.
    """
    name = (code or '').rpartition('.')[2]
    text = first_line(message)
    words = message.lower()
    meaning = _meaning(name, words)
    return Verdict(meaning, f'{text} ({name})' if name else text, _ending(meaning, name, words))


def judge_http(status: int, message: str) -> Verdict:
    """
    Judge an error that Triton's HTTP service answered: whatever it says, the request is over.

    :param status: of HTTP; 400 stands for several codes of Triton, some of them counted.
    """
    words = message.lower()
    meaning = (Meaning.REGION_UNKNOWN if _REGION_UNKNOWN in words else Meaning.ANSWERED)
    code = _CODES.get(status, '')
    return Verdict(meaning, f'{first_line(message)} ({code or f"HTTP {status}"})',
                   _ending(meaning, code, words))


def first_line(message: str) -> str:
    """Cut a server's message down to what fits into a status."""
    line = message.strip().partition('\n')[0].strip() or 'no reason given'
    return line if len(line) <= _MAX_DETAIL else line[:_MAX_DETAIL - 3] + '...'


def _meaning(name: str, words: str) -> Meaning:
    if name in _PROVES_NOTHING:
        return Meaning.BROKEN
    if name == 'UNAVAILABLE':
        if _has(words, NEVER_SENT):
            return Meaning.NEVER_SENT
        return Meaning.ANSWERED if _has(words, SERVER_WAS_NOT_READY) else Meaning.BROKEN
    if name in ('INTERNAL', 'UNKNOWN') and _has(words, TRANSPORT_BROKE):
        return Meaning.BROKEN
    if _REGION_UNKNOWN in words:
        return Meaning.REGION_UNKNOWN
    return Meaning.ANSWERED


def _ending(meaning: Meaning, name: str, words: str) -> Ending:
    if meaning is Meaning.BROKEN:
        return Ending.BROKEN
    if meaning in (Meaning.NEVER_SENT, Meaning.REGION_UNKNOWN):
        return Ending.NOT_COUNTED
    if _has(words, QUEUE_REFUSED):
        return Ending.UNCLEAR
    if _has(words, REFUSED_UNCOUNTED):
        return Ending.NOT_COUNTED
    return Ending.COUNTED if name == 'INTERNAL' else Ending.UNCLEAR


def _has(words: str, phrases: tuple[str, ...]) -> bool:
    return any(phrase in words for phrase in phrases)
