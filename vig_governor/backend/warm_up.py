"""
Run a model once before its first frame matters.

The first inference of a freshly loaded model was seen to take fifty times as long as the second
(allocation, kernel selection, lazy imports). It must neither delay a frame nor be learned from.
"""

from collections.abc import Mapping, Sequence
import itertools
import threading
import time

from vig_governor.backend.base import Answered, Backend, NoFreeSlot, Outcome

_ids = itertools.count(-1, -1)
"""Requests of the scheduler count upwards from zero, so these never meet them."""


def warm_up(backend: Backend, stream: str, backend_model: str,
            inputs: Mapping[str, tuple[str, Sequence[int]]], *, timeout_s: float) -> str:
    """
    Send zeros and wait for the answer; call it while nothing else of ours runs.

    :param inputs: name to datatype and shape; ``-1`` counts as 1. BYTES becomes empty texts.
    :returns: one sentence about what happened. A failed or late warm-up is no reason to refuse
        service: the first frame then pays for it, and ends with a status like any other.
    """
    request_id = next(_ids)
    is_over = threading.Event()
    outcomes: list[Outcome] = []

    def end(outcome: Outcome) -> None:
        outcomes.append(outcome)
        backend.release(request_id)
        is_over.set()

    begin_s = time.monotonic()
    try:
        slot = backend.acquire(stream, request_id)
    except NoFreeSlot as error:
        return f'model {backend_model!r} was not warmed up: {error}'
    for name, (datatype, shape) in inputs.items():
        axes = [max(1, axis) for axis in shape]
        if datatype == 'BYTES':
            count = 1
            for axis in axes:
                count *= axis
            slot.put_bytes(name, axes, [b''] * count)
        else:
            slot.allocate(name, axes, datatype).fill(0)
    backend.infer(request_id, backend_model, slot, end)
    if not is_over.wait(timeout_s):
        return (f'model {backend_model!r} did not answer its warm-up within {timeout_s:g} s; it '
                'may still be running')
    took_ms = (time.monotonic() - begin_s) * 1000
    if isinstance(outcomes[0], Answered):
        return f'model {backend_model!r} answered its warm-up after {took_ms:.0f} ms'
    return f'model {backend_model!r} failed its warm-up: {outcomes[0].detail}'
