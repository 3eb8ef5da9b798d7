"""The sink of the actor on the ROS side: results and statuses out, decisions remembered."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
import logging
from typing import Any

from vig_core.actions import Defer, Dispatch, ReportOverload, Terminate
from vig_core.model import System
from vig_core.request import Reason

from vig_governor import messages, qos, serialized
from vig_governor.backend.base import OutputTensor
from vig_governor.config.streams import StreamBinding
from vig_governor.decisions import DecisionLog, sentence
from vig_governor.messages import header_of
from vig_governor.ports import Payload

_log = logging.getLogger(__name__)
_FAULTS = (Reason.BACKEND_FAILED, Reason.BACKEND_TIMEOUT)


@dataclass(frozen=True, slots=True)
class StreamOutputs:
    """
    Where one stream's results and statuses go: publishers of ROS.

    :ivar result: of a generative stream, takes its text.
    """

    binding: StreamBinding
    result: Any
    status: Any


class Publishing:
    """
    Tells clients and keeps what ``~/explain`` and ``~/status`` need; on the actor's thread.

    :param on_overload: called after a change of the overload state.
    :param logs_decisions: write every decision to the log at level DEBUG.
    """

    def __init__(self, system: System, outputs: Mapping[str, StreamOutputs], *,
                 on_overload: Callable[[], object], logs_decisions: bool = False) -> None:
        self._outputs = outputs
        self._on_overload = on_overload
        self._logs_decisions = logs_decisions
        self._qualities = {
            (model.name, variant.variant_id): variant.quality
            for model in system.models.values() for variant in model.variants}
        self.decisions = DecisionLog()
        self.dispatched: Counter[str] = Counter()
        self.faults: dict[str, str] = {}
        self.overload_detail = ''

    def on_terminated(self, action: Terminate, payload: Payload,
                      outputs: tuple[OutputTensor, ...]) -> None:
        """Publish the result, if there is one, and then the status, if anybody reads them."""
        if payload.remark and action.reason is not Reason.COMPLETED:
            action = replace(action, because=f'{action.detail}; {payload.remark}')
        self.decisions.add(payload.stream, action, _stamp_of(payload))
        self._debug(action)
        if action.reason in _FAULTS:
            self.faults.pop(payload.stream, None)
            self.faults[payload.stream] = action.detail
        stream = self._outputs[payload.stream]
        is_delivered = (action.reason is Reason.COMPLETED
                        or action.reason is Reason.OBSOLETE and stream.binding.deliver_obsolete)
        try:
            if payload.job is not None:
                if is_delivered:
                    stream.result.publish(messages.generated_text(
                        stream.binding, payload, action.request_id, action))
            elif is_delivered and qos.is_read(stream.result):
                quality = self._qualities.get((action.model, action.variant_id or ''), 0.0)
                stream.result.publish(serialized.result(
                    action, stream.binding, payload.message, quality, outputs))
        finally:
            if qos.is_read(stream.status):
                stream.status.publish(serialized.status(action, stream.binding, payload.message))

    def on_written(self, request_id: int, payload: Payload) -> None:
        """Publish what a job has written since the last time, as a part."""
        stream = self._outputs[payload.stream]
        stream.result.publish(messages.generated_text(stream.binding, payload, request_id))

    def on_decided(self, action: Dispatch | Defer | ReportOverload,
                   payload: Payload | None) -> None:
        """Remember a decision; report a change of the overload state at once."""
        if isinstance(action, ReportOverload):
            self.overload_detail = action.detail
            _log.warning('overload state %s -> %s: %s', action.before.value, action.after.value,
                         action.detail)
            self._on_overload()
            return
        if payload is not None:
            self.decisions.add(payload.stream, action, _stamp_of(payload))
            self.dispatched[payload.stream] += isinstance(action, Dispatch)
            if isinstance(action, Dispatch) and payload.job is not None:
                payload.job.variant_id = action.variant_id
        self._debug(action)

    def _debug(self, action: Dispatch | Defer | Terminate) -> None:
        if self._logs_decisions:
            _log.debug('%s', sentence(action))


def _stamp_of(payload: Payload) -> tuple[int, int]:
    stamp = header_of(payload.message).stamp
    return stamp.sec, stamp.nanosec
