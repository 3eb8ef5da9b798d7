"""How ROS reaches the models: the resolved block ``streams`` of vig.yaml."""

from dataclasses import dataclass

from vig_governor.encoders.base import InputOptions


@dataclass(frozen=True, slots=True)
class StreamBinding:
    """
    One topic bound to one logical model.

    :ivar message_type: ``package/msg/Type``.
    :ivar output: results go to ``<output>/result``; empty means ``<resolved topic>/vig``.
    :ivar time_source: ``stamp`` or ``arrival``.
    :ivar bad_stamp: ``refuse`` or ``arrival``.
    :ivar transport: ``auto``, ``shm`` or ``copy``.
    :ivar is_generative: its messages are prompts, and text comes back in pieces.
    """

    name: str
    topic: str
    message_type: str
    model: str
    key: str
    input: InputOptions
    output: str = ''
    time_source: str = 'stamp'
    bad_stamp: str = 'refuse'
    max_clock_skew_ns: int = 100_000_000
    transport: str = 'auto'
    shm_slots: int = 4
    deliver_obsolete: bool = False
    is_generative: bool = False
