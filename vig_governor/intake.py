"""
What a subscription callback does: read the clocks, judge the stamp, hand over. Nothing else.

The message is passed on by reference. Its conversion happens later, on another thread, and only
if it is dispatched. Where the stream's encoder reads serialised messages, no message object is
made at all (``encoders.in_place``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import logging
from typing import Any

from vig_core.events import RequestArrived, Stamp
from vig_core.units import NS_PER_MS, NS_PER_S

from vig_governor.clock import judge_stamp, stamp_to_ns
from vig_governor.config.options import GenerativeOptions
from vig_governor.config.streams import StreamBinding
from vig_governor.generation import Generation
from vig_governor.messages import payload_bytes, Stamped
from vig_governor.ports import Clock, Payload
from vig_governor.prompt_room import Outlook

_log = logging.getLogger(__name__)
LOG_PERIOD_NS = 10 * NS_PER_S
CLOCK_STEP_NS = 50 * NS_PER_MS
"""A fall of ROS time against the steady clock that is a step and not the noise of two readings."""


@dataclass(slots=True)
class StampFault:
    """One kind of odd capture time on one stream, as counted since activation."""

    count: int = 0
    detail: str = ''


class CaptureOrder:
    """
    Keeps capture instants of one stream in the order of their stamps.

    Two clocks are read for each message, at slightly different instants, and simulated time stands
    still between two ``/clock`` messages. Without this rule one capture that is published twice
    would get two capture instants, and frames could change places.

    When the clock that the stamps come from is set back, older stamps are newer captures: then the
    order begins anew. It shows as a fall of ROS time against the steady clock.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._newest: tuple[int, int] | None = None
        self._ahead_ns = 0

    def forget(self) -> None:
        """Start anew: stamps before and after do not compare."""
        self._newest = None

    def place(self, stamp_ns: int, generation_ns: int, ahead_ns: int) -> int:
        """
        Give the capture instant, moved as little as the order of the stamps demands.

        :param ahead_ns: ROS time less steady time at this message's arrival.
        """
        if self._newest is not None:
            newest_stamp_ns, newest_ns = self._newest
            if stamp_ns == newest_stamp_ns:
                return newest_ns
            was_set_back = ahead_ns < self._ahead_ns - CLOCK_STEP_NS
            if stamp_ns < newest_stamp_ns and not was_set_back:
                return min(generation_ns, newest_ns - 1)
            if not was_set_back:
                generation_ns = max(generation_ns, newest_ns + 1)
        self._newest = stamp_ns, generation_ns
        self._ahead_ns = ahead_ns
        return generation_ns


class Intake:
    """
    The way in for one stream. Its methods run on the executor's thread only.

    :param ros_now_ns: the node's ROS time.
    :param numbers: gives request ids, shared by all streams.
    :param post: takes the event and its payload.
    :param read: makes of a serialised message what the encoder reads; ``None``: messages come as
        objects.
    :param generative: of the model, where the messages are prompts.
    :ivar outlook: of its jobs, the same.
    :ivar stamp_offset_ns: ROS time less the stamp of the last message; negative for one that is
        ahead, ``None`` before the first and after a zero stamp.
    """

    def __init__(self, binding: StreamBinding, *, clock: Clock, ros_now_ns: Callable[[], int],
                 numbers: Iterator[int], post: Callable[[RequestArrived, Payload], None],
                 read: Callable[[bytes], Any] | None = None,
                 generative: GenerativeOptions | None = None,
                 outlook: Outlook | None = None) -> None:
        self.binding = binding
        self.outlook = outlook
        self._generative = generative
        self._clock = clock
        self._ros_now_ns = ros_now_ns
        self._numbers = numbers
        self._post = post
        self._read = read
        self.received = 0
        self.last_arrival_ns: int | None = None
        self.mean_gap_ns: float | None = None
        self.stamp_offset_ns: int | None = None
        self.faults = {stamp: StampFault() for stamp in Stamp if stamp is not Stamp.TRUSTED}
        self.mismatch = ''
        self.order = CaptureOrder()
        self._logged_at_ns: dict[Stamp | None, int] = {}
        self._remarks = 0

    @property
    def reads_bytes(self) -> bool:
        """Whether messages have to come as the middleware delivers them."""
        return self._read is not None

    def __call__(self, message: Any) -> None:
        """Take one message; whatever is wrong with it, the executor goes on."""
        try:
            self._take(message)
        except Exception:
            _log.exception('stream %s: a message could not be accepted', self.binding.name)

    def _take(self, message: Any) -> None:
        arrived_at_ns = self._clock.now_ns()
        binding = self.binding
        if self._read is not None and isinstance(message, bytes):
            message = self._read(message)
        stamp_ns = ros_now_ns = 0
        if binding.time_source == 'stamp':
            stamp_ns = stamp_to_ns(message.header.stamp)
            ros_now_ns = self._ros_now_ns()
            self.stamp_offset_ns = ros_now_ns - stamp_ns if stamp_ns else None
        generation_ns, kind, detail = judge_stamp(
            stamp_ns, ros_now_ns, arrived_at_ns, time_source=binding.time_source,
            bad_stamp=binding.bad_stamp, max_clock_skew_ns=binding.max_clock_skew_ns)
        if stamp_ns > 0 and (kind is Stamp.AHEAD or kind is Stamp.TRUSTED and not detail):
            generation_ns = self.order.place(stamp_ns, generation_ns,
                                             ros_now_ns - arrived_at_ns)
        if kind is Stamp.INVALID and stamp_ns == 0:
            detail = getattr(message, 'fault', '') or detail
        self._count(arrived_at_ns, kind, detail)
        if self._generative is not None:
            job = Generation(self._generative, message.data)
            self._warn_of(job, arrived_at_ns, generation_ns)
            self.submit(job, generation_ns)
            return
        self._post(RequestArrived(
            request_id=next(self._numbers), model=binding.model, stream=binding.name,
            key=binding.key, generation_ns=generation_ns, payload_bytes=payload_bytes(message),
            stamp=kind, stamp_detail=detail),
            Payload(binding.name, message, detail if kind is Stamp.CLAMPED else '',
                    arrived_at_ns))

    def submit(self, job: Generation, generation_ns: int) -> int:
        """
        Hand over one generative job; its texts and its status carry the stamp of its capture.

        :returns: its number.
        """
        binding, request_id = self.binding, next(self._numbers)
        age_ns = self._clock.now_ns() - generation_ns
        message = Stamped(max(0, self._ros_now_ns() - age_ns))
        self._post(RequestArrived(
            request_id=request_id, model=binding.model, stream=binding.name, key=binding.key,
            generation_ns=generation_ns, payload_bytes=job.prompt_bytes,
            prompt_tokens=job.prompt_tokens, max_tokens=job.max_tokens),
            Payload(binding.name, message, received_at_ns=self._clock.now_ns(), job=job))
        return request_id

    def _warn_of(self, job: Generation, arrived_at_ns: int, generation_ns: int) -> None:
        """Say what becomes of a prompt whose sender gets no answer to its request."""
        remark = '' if self.outlook is None or job.problem else self.outlook.remark(
            job, arrived_at_ns - generation_ns)
        if remark:
            self._remarks += 1
            if self._may_log(None, arrived_at_ns):
                _log.warning('stream %s: %s (prompts like this so far: %d)', self.binding.name,
                             remark, self._remarks)

    def _may_log(self, kind: Stamp | None, now_ns: int) -> bool:
        last_ns = self._logged_at_ns.get(kind)
        if last_ns is not None and now_ns - last_ns < LOG_PERIOD_NS:
            return False
        self._logged_at_ns[kind] = now_ns
        return True

    def _count(self, arrived_at_ns: int, kind: Stamp, detail: str) -> None:
        self.received += 1
        self.mismatch = ''
        if self.last_arrival_ns is not None:
            gap_ns = arrived_at_ns - self.last_arrival_ns
            mean_ns = self.mean_gap_ns
            self.mean_gap_ns = gap_ns if mean_ns is None else mean_ns + (gap_ns - mean_ns) / 8
        self.last_arrival_ns = arrived_at_ns
        if kind is Stamp.TRUSTED:
            return
        fault = self.faults[kind]
        fault.count += 1
        fault.detail = detail
        if self._may_log(kind, arrived_at_ns):
            _log.warning('stream %s: %s (%s so far: %d)', self.binding.name, detail, kind.value,
                         fault.count)
