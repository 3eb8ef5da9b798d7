"""What an encoder is: it turns one ROS message into the input tensors of one inference."""

from dataclasses import dataclass
from typing import Any, Protocol

from vig_core.errors import VigError

from vig_governor.backend.base import InputSlot, TensorSpec


class EncodeError(VigError):
    """A message that cannot become a tensor: one sentence with what came and what would fit."""


@dataclass(frozen=True, slots=True)
class InputOptions:
    """
    The block ``streams.<name>.input`` of vig.yaml, resolved.

    :ivar size: ``(width, height)`` in pixels the model wants, or ``None`` to keep the frame's.
    :ivar layout: ``NHWC``, ``NCHW``, ``HWC`` or ``CHW``.
    :ivar dtype: KServe v2 name of the tensor's element type.
    :ivar color: channel order that the model wants: ``RGB``, ``BGR`` or ``GRAY``.
    """

    tensor: str
    encoder: str
    size: tuple[int, int] | None = None
    layout: str = 'NHWC'
    dtype: str = 'FP32'
    color: str = 'RGB'
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    letterbox: bool = False


class Encoder(Protocol):
    """Made once per stream by a factory ``(options) -> Encoder`` from the registry."""

    def check(self, spec: TensorSpec, message_type: str) -> None:
        """
        Refuse at configure time what can never work.

        :param spec: the model's input that ``options.tensor`` names.
        :param message_type: for example ``sensor_msgs/msg/Image``.
        :raises EncodeError: wrong message type, dtype, rank or fixed size.
        """

    def encode(self, message: Any, slot: InputSlot) -> None:
        """
        Write the tensors of one message into ``slot``.

        :raises EncodeError: this message cannot be encoded; the slot's content is undefined.
        """
