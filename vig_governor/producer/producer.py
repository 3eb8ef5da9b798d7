"""A ring of shared memory and the topic that says where each frame lies in it."""

from collections.abc import Iterator, Sequence
import contextlib
import grp
import math
import time
from typing import Any
import weakref

import numpy as np
from numpy.typing import NDArray

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from rclpy.time import Time

from std_msgs.msg import Header

from vig.msg import RequestStatus, TensorReference

from vig_governor.datatypes import numpy_dtype
from vig_governor.producer.memory import PREFIX, ProducerError, ProducerMemory, sweep
from vig_governor.producer.ring import Ring

STATUS_DEPTH = 100
SAY_EVERY_S = 5.0
POLL_S = 0.002


class TensorProducer:
    """
    Publishes tensors as ``vig/msg/TensorReference`` without copying them.

    The node must be spun, because statuses come in by a subscription. Any thread may write frames,
    one at a time.

    :ivar sent: frames that were published.
    :ivar dropped: frames that were not, because all memory was in use.
    :ivar unheard: frames that were not, because nobody subscribes.

    :param topic: where references are published; relative names resolve as the node's others.
    :param tensor: the name of the model's input.
    :param shape: the largest shape; a frame may be smaller.
    :param datatype: KServe v2 name of a type that numpy has.
    :param slots: frames in memory at once: those running, waiting and being written.
    :param frame_id: of the headers.
    :param statuses: topics on which the frames' terminal statuses come, one for each stream that
        reads them; default ``<topic>/vig/status``, where a governor sends them by itself.
    :param status_timeout_s: after which a missing status is no longer waited for; more than
        max_age and the server's inference timeout together.
    :param key_prefix: ``backend.security.shm_key_prefix`` of the governor's configuration.
    :param group: name or number of a group whose members may use the memory; default: only this
        user may.
    :raises ProducerError: no memory, or an argument that cannot be used.
    """

    def __init__(self, node: Node, topic: str, *, tensor: str, shape: Sequence[int],
                 datatype: str = 'UINT8', slots: int = 4, frame_id: str = '',
                 statuses: Sequence[str] = (), status_timeout_s: float = 10.0,
                 key_prefix: str = PREFIX, group: str | int | None = None) -> None:
        try:
            self._dtype = numpy_dtype(datatype)
        except ValueError as error:
            raise ProducerError(f'datatype: {error}') from None
        self._shape = _checked_shape(shape)
        if slots < 1:
            raise ProducerError(f'slots is {slots}; at least 1 is needed, usually 4')
        self._node = node
        self._tensor = tensor
        self._datatype = datatype
        self._frame_id = frame_id
        self._capacity = math.prod(self._shape) * self._dtype.itemsize
        self._scratch: NDArray[Any] | None = None
        self.sent = self.dropped = self.unheard = 0
        group_id = _group_id(group)
        left = sweep(key_prefix)
        if left:
            node.get_logger().info(f'removed {len(left)} regions that a producer left behind')

        def make() -> ProducerMemory:
            return ProducerMemory(self._capacity, key_prefix=key_prefix, group=group_id)

        self._ring = Ring(slots, make, readers=max(1, len(statuses)),
                          timeout_ns=round(status_timeout_s * 1e9))
        self._end = weakref.finalize(self, self._ring.close)
        self._ring.put_back(self._take())  # a host without memory is found now
        self._publisher = node.create_publisher(TensorReference, topic, QoSProfile(depth=slots))
        names = statuses or [f'{self._publisher.topic_name}/vig/status']
        group_of_statuses = MutuallyExclusiveCallbackGroup()
        self._statuses = [
            node.create_subscription(RequestStatus, name, self._ended,
                                     QoSProfile(depth=STATUS_DEPTH),
                                     callback_group=group_of_statuses)
            for name in names]

    @property
    def given_up(self) -> int:
        """How often memory was given up for new one: its end was not proven."""
        return self._ring.given_up

    @property
    def is_heard(self) -> bool:
        """Whether anybody subscribes."""
        return bool(self._publisher.get_subscription_count())

    @property
    def lent(self) -> int:
        """How many frames wait for their status."""
        return self._ring.lent

    @contextlib.contextmanager
    def frame(self, stamp: Any = None,
              shape: Sequence[int] | None = None) -> Iterator[tuple[NDArray[Any], Header]]:
        """
        Give an array to write one frame into; it is published at the end of the block.

        Where all memory is in use the array is private, and the frame is dropped and counted: the
        newest one, because those before it are already under way. An exception in the block
        publishes nothing. After the block the array can no longer be written.

        :param stamp: capture time as ``builtin_interfaces/Time``; default now. The header may be
            changed within the block.
        :param shape: of this frame; default the producer's.
        :returns: the array, whose content is undefined, and the header.
        :raises ProducerError: a shape that needs more than the memory, or no memory on this host.
        """
        sizes = self._shape if shape is None else _checked_shape(shape)
        byte_size = math.prod(sizes) * self._dtype.itemsize
        if byte_size > self._capacity:
            raise ProducerError(f'shape {list(sizes)} takes {byte_size} bytes, but the memory of '
                                f'this producer has {self._capacity}: it was made for shape '
                                f'{list(self._shape)}')
        header = Header(stamp=self._node.get_clock().now().to_msg() if stamp is None else stamp,
                        frame_id=self._frame_id)
        memory = self._ring.take(time.monotonic_ns())
        if memory is None and self._is_alone():
            self._ring.give_up()
            memory = self._ring.take(time.monotonic_ns())
        if memory is None:
            self._drop()
            yield self._private(sizes), header
            return
        array: NDArray[Any] = np.ndarray(sizes, self._dtype, memory.memory)
        try:
            yield array, header
        except BaseException:
            self._ring.put_back(memory)
            raise
        finally:
            array.flags.writeable = False
        if not self.is_heard:
            self.unheard += 1
            self._ring.put_back(memory)
            return
        self._ring.sent(memory, Time.from_msg(header.stamp).nanoseconds, time.monotonic_ns())
        self.sent += 1
        self._publisher.publish(TensorReference(
            header=header, region=memory.key, offset=0, byte_size=byte_size, name=self._tensor,
            datatype=self._datatype, shape=sizes))

    def close(self, *, timeout_s: float = 1.0) -> None:
        """
        Let what is lent come back, take the memory's names away, leave the topics; idempotent.

        It reads the statuses itself, so the node need not be spun meanwhile, and may be. A frame
        that has not ended by then fails if the server has yet to look for it.

        :param timeout_s: how long frames may take to end; without a governor it does not wait.
        """
        if self._end.detach() is None:
            return
        end_s = time.monotonic() + timeout_s
        while self._is_awaiting() and time.monotonic() < end_s:
            if not sum(map(self._take_status, self._statuses)):
                time.sleep(POLL_S)
        self._ring.close()
        for subscription in self._statuses:
            self._node.destroy_subscription(subscription)
        self._node.destroy_publisher(self._publisher)

    def __enter__(self) -> 'TensorProducer':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> ProducerMemory:
        memory = self._ring.take(time.monotonic_ns())
        assert memory is not None
        return memory

    def _is_alone(self) -> bool:
        """Whether nobody is there who could send a status."""
        return not any(self._node.count_publishers(subscription.topic_name)
                       for subscription in self._statuses)

    def _is_awaiting(self) -> bool:
        """Whether frames are lent and somebody is there who will say what became of them."""
        return bool(self._ring.lent and self._node.context.ok() and not self._is_alone())

    def _take_status(self, subscription: Subscription) -> bool:
        """Take one status past the executor; whether there was one."""
        with subscription.handle:
            taken = subscription.handle.take_message(subscription.msg_type, False)
        if taken is None:
            return False
        self._ended(taken[0])
        return True

    def _drop(self) -> None:
        self.dropped += 1
        self._node.get_logger().warning(
            f'{self._publisher.topic_name}: all memory is in use by frames without a status, so '
            f'the newest is dropped ({self.dropped} so far). Is this node being spun, and the '
            'governor active? More slots help where frames wait long',
            throttle_duration_sec=SAY_EVERY_S)

    def _private(self, sizes: tuple[int, ...]) -> NDArray[Any]:
        if self._scratch is None or self._scratch.shape != sizes:
            self._scratch = np.empty(sizes, self._dtype)
        return self._scratch

    def _ended(self, status: RequestStatus) -> None:
        self._ring.ended(Time.from_msg(status.header.stamp).nanoseconds,
                         holds_input=status.holds_input)


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(int(size) for size in shape)
    if not sizes or min(sizes) < 1:
        raise ProducerError(f'shape {list(sizes)} holds nothing; every axis must be 1 or more')
    return sizes


def _group_id(group: str | int | None) -> int | None:
    if not isinstance(group, str):
        return group
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ProducerError(f'group {group!r} does not exist on this host') from None
