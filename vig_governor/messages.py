"""
From core values to ROS messages, and the message types that a configuration names.

The two messages of every frame are in ``serialized``.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
import importlib
from types import MappingProxyType
from typing import Any

from builtin_interfaces.msg import Duration

from std_msgs.msg import Header

from vig.msg import GeneratedText, GovernorStatus, RequestStatus, StreamStatus

from vig_core.actions import OverloadState, Terminate
from vig_core.errors import VigError
from vig_core.request import Reason
from vig_core.snapshot import StreamSnapshot, SystemSnapshot
from vig_core.units import NS_PER_S

from vig_governor.config.streams import StreamBinding
from vig_governor.encoders.in_place import Header as HeaderInPlace
from vig_governor.ports import Payload

REASONS = MappingProxyType(
    {reason: getattr(RequestStatus, reason.name) for reason in Reason})
OVERLOAD = MappingProxyType(
    {state: getattr(GovernorStatus, f'OVERLOAD_{state.name}') for state in OverloadState})


class UnusableMessageType(VigError):
    """A message type that is not there or that a stream cannot use."""


def message_class(binding: StreamBinding) -> type[Any]:
    """
    Import the message type of a stream and see that it fits.

    :raises UnusableMessageType: unknown package or type, or no header where a stamp is needed.
    """
    where = f'streams.{binding.name}.type: {binding.message_type!r}'
    package, _, rest = binding.message_type.partition('/')
    kind, _, name = rest.rpartition('/')
    if kind not in ('', 'msg') or not package or not name:
        raise UnusableMessageType(f'{where} is no message type; write package/msg/Type, for '
                                  'example sensor_msgs/msg/Image')
    try:
        module = importlib.import_module(f'{package}.msg')
    except ImportError:
        raise UnusableMessageType(
            f'{where}: package {package!r} has no messages here; install it and source its '
            'workspace') from None
    known = [each for each in vars(module) if not each.startswith('_') and each[0].isupper()]
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f'did you mean {package}/msg/{near[0]}?' if near else f'it has {", ".join(known)}'
        raise UnusableMessageType(f'{where}: package {package!r} has no message {name!r}; {hint}')
    found: type[Any] = getattr(module, name)
    fields = list(found.get_fields_and_field_types().items())
    if binding.time_source == 'stamp' and fields[:1] != [('header', 'std_msgs/Header')]:
        raise UnusableMessageType(
            f'{where} does not begin with a std_msgs/Header, so it has no capture time; set '
            f'streams.{binding.name}.time_source: arrival')
    return found


class Stamped:
    """
    Stands in for a message that has no header.

    :param stamp_ns: ROS time, not negative.
    """

    def __init__(self, stamp_ns: int) -> None:
        self.header = Header()
        self.header.stamp.sec, self.header.stamp.nanosec = divmod(stamp_ns, NS_PER_S)


def duration(duration_ns: int) -> Duration:
    """Convert nanoseconds."""
    whole, rest = divmod(duration_ns, NS_PER_S)
    return Duration(sec=whole, nanosec=rest)


def header_of(message: Any) -> Any:
    """Give the message's own header, by reference, or an empty one if its type has none."""
    header = getattr(message, 'header', None)
    return header if isinstance(header, (Header, HeaderInPlace)) else Header()


def payload_bytes(message: Any) -> int:
    """Say how many bytes the message's bulk field ``data`` has; 0 where there is none."""
    data: Any = getattr(message, 'data', None)
    try:
        return len(data) * getattr(data, 'itemsize', 1)
    except TypeError:
        return 0


def generated_text(binding: StreamBinding, payload: Payload, request_id: int,
                   end: Terminate | None = None) -> GeneratedText:
    """
    Make the next piece of a job's text.

    :param end: how the job ended, where its text is whole.
    """
    job = payload.job
    assert job is not None
    message = GeneratedText(
        header=header_of(payload.message), stream=binding.name, model=binding.model,
        variant=job.variant_id, request_id=request_id,
        text=job.take_text(is_last=end is not None), tokens=job.tokens, quanta=job.quanta)
    if end is not None:
        message.finished = True
        message.finish_reason = (GeneratedText.FINISH_END_OF_SEQUENCE if end.is_end_of_sequence
                                 else GeneratedText.FINISH_LENGTH)
    return message


def governor_status(snapshot: SystemSnapshot | None, bindings: Sequence[StreamBinding], *,
                    header: Header, lifecycle_state: str, not_ready_reason: str,
                    overload_detail: str, deliberate_idle_share: float,
                    dispatched: Mapping[str, int]) -> GovernorStatus:
    """
    Make the status of the node.

    :param snapshot: ``None`` while no scheduler exists: slots and streams are left out then.
    :param bindings: every configured stream; the snapshot has each of them from the start.
    :param dispatched: requests sent, by stream.
    """
    message = GovernorStatus(
        header=header, lifecycle_state=lifecycle_state, ready=not not_ready_reason,
        not_ready_reason=not_ready_reason, overload_detail=overload_detail,
        deliberate_idle_share=deliberate_idle_share)
    if snapshot is None:
        return message
    message.overload_state = OVERLOAD[snapshot.overload]
    message.slots_total = snapshot.slots_total
    message.slots_busy = snapshot.slots_busy
    message.slots_quarantined = snapshot.slots_quarantined
    seen = {stream.stream: stream for stream in snapshot.streams}
    message.streams = [
        stream_status(seen[binding.name], dispatched.get(binding.name, 0))
        for binding in bindings]
    return message


def stream_status(stream: StreamSnapshot, dispatched: int) -> StreamStatus:
    """Make the status of one stream."""
    message = StreamStatus(
        stream=stream.stream, model=stream.model, criticality=int(stream.criticality),
        received=stream.received, waiting=stream.waiting, running=stream.running,
        dispatched=dispatched, deadline_misses=stream.deadline_misses,
        deferred_for_protected=stream.deferred,
        cycles_covered=stream.covered_cycles, cycles_total=stream.judged_cycles,
        coverage=stream.coverage, longest_gap=duration(stream.longest_gap_ns),
        age_p50=duration(stream.age_p50_ns or 0), age_p95=duration(stream.age_p95_ns or 0),
        age_p99=duration(stream.age_p99_ns or 0),
        has_result=stream.last_result_age_ns is not None,
        last_result_age=duration(stream.last_result_age_ns or 0),
        variant=stream.variant_id or '', planned_runtime=duration(stream.planned_ns or 0),
        margin_percent=stream.margin_percent,
        weakly_hard_observed=stream.weakly_hard_observed,
        weakly_hard_misses=stream.weakly_hard_misses,
        weakly_hard_consecutive=stream.weakly_hard_consecutive,
        weakly_hard_misses_left=stream.weakly_hard_left or 0,
        weakly_hard_violated=stream.weakly_hard_violated,
        weakly_hard_window=stream.weakly_hard_window, contract_version=stream.contract_version,
        tokens=stream.tokens, quanta=stream.quanta, prefill_time=duration(stream.prefill_ns),
        decode_time=duration(stream.decode_ns), fixed_time=duration(stream.fixed_ns),
        background_progress=stream.background_progress,
        background_progress_required_percent=stream.background_required_percent,
        starved=stream.starved)
    for reason, count in stream.counts.items():
        setattr(message, reason.value, count)
    return message
