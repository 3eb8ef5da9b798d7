"""
Run a model once before its first frame matters.

The first inference of a freshly loaded model was seen to take fifty times as long as the second
(allocation, kernel selection, lazy imports). It must neither delay a frame nor be learned from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import itertools
import math
import threading
import time

from vig_governor.backend.base import Answered, Backend, NoFreeSlot, Outcome

_ids = itertools.count(-1, -1)
"""Requests of the scheduler count upwards from zero, so these never meet them."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """
    What came of it, and one sentence about that.

    :ivar is_over: whether the server answered, in whatever way.
    :ivar is_good: whether it answered with outputs.
    """

    sentence: str
    is_over: bool
    is_good: bool = False


def warm_up(backend: Backend, stream: str, backend_model: str,
            inputs: Mapping[str, tuple[str, Sequence[int]]], *, timeout_s: float,
            is_cancelled: threading.Event) -> WarmUp:
    """
    Send zeros and wait for the answer.

    A failed or late warm-up is no reason to refuse service: the first frame then pays for it, and
    ends with a status like any other.

    :param inputs: name to datatype and shape; ``-1`` counts as 1. BYTES becomes empty texts.
    :param is_cancelled: ends the wait early.
    """
    request_id = next(_ids)
    is_over = threading.Event()
    outcomes: list[Outcome] = []

    def end(outcome: Outcome) -> None:
        outcomes.append(outcome)
        backend.release(request_id)
        is_over.set()

    begin_s = time.monotonic()
    who = f'model {backend_model!r}'
    try:
        slot = backend.acquire(stream, request_id)
    except NoFreeSlot as error:
        return WarmUp(f'{who} was not warmed up: {error}', False)
    for name, (datatype, shape) in inputs.items():
        axes = [max(1, axis) for axis in shape]
        if datatype == 'BYTES':
            slot.put_bytes(name, axes, [b''] * math.prod(axes))
        else:
            slot.allocate(name, axes, datatype).fill(0)
    backend.infer(request_id, backend_model, slot, end)
    while not is_over.wait(0.05):
        if is_cancelled.is_set() or time.monotonic() - begin_s > timeout_s:
            return WarmUp(f'{who} has not answered its warm-up within '
                          f'{time.monotonic() - begin_s:.1f} s; it may still be running', False)
    took_ms = (time.monotonic() - begin_s) * 1000
    outcome = outcomes[0]
    if isinstance(outcome, Answered):
        return WarmUp(f'{who} answered its warm-up after {took_ms:.0f} ms', True, True)
    return WarmUp(f'{who} failed its warm-up: {outcome.detail}', outcome.is_over)
