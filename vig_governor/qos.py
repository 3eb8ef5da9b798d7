"""
Quality of service of every topic, and its overrides the ROS way.

Inputs are best effort by default: a reliable subscription receives nothing from the sensor
drivers that publish best effort, and says so nowhere but in an event.
"""

from typing import Any

from rclpy.exceptions import ParameterException
from rclpy.qos import (QoSDurabilityPolicy, QoSHistoryPolicy, QoSPolicyKind, QoSProfile,
                       QoSReliabilityPolicy)
from rclpy.qos_overriding_options import InvalidQosOverridesError, QoSOverridingOptions

from vig_core.errors import VigError

OVERRIDE_FAULTS = (InvalidQosOverridesError, ParameterException, RuntimeError, TypeError,
                   ValueError)
"""What rclpy raises for a ``qos_overrides`` parameter that it cannot use."""


REFERENCE_DEPTH = 64
"""References are small, and each that is dropped unseen costs its producer a slot for a while."""


class QosError(VigError):
    """A ``qos_overrides`` parameter that cannot be used."""


def input_qos(depth: int = 1) -> QoSProfile:
    """
    Sensor data: best effort.

    :param depth: 1 where only the newest frame counts; where every message does, as many as the
        governor's own queue holds, so that the middleware does not drop what the queue would keep.
    """
    return QoSProfile(history=QoSHistoryPolicy.KEEP_LAST, depth=depth,
                      reliability=QoSReliabilityPolicy.BEST_EFFORT,
                      durability=QoSDurabilityPolicy.VOLATILE)


def result_qos() -> QoSProfile:
    """Results: reliable, only the newest."""
    return QoSProfile(history=QoSHistoryPolicy.KEEP_LAST, depth=1,
                      reliability=QoSReliabilityPolicy.RELIABLE)


def status_qos() -> QoSProfile:
    """Statuses: reliable, none of the last hundred is lost to a slow reader."""
    return QoSProfile(history=QoSHistoryPolicy.KEEP_LAST, depth=100,
                      reliability=QoSReliabilityPolicy.RELIABLE)


def is_read(publisher: Any) -> bool:
    """
    Whether anybody gets what is published: a reader is there, or late ones get the last messages.

    A volatile reader gets nothing from before it came, so without one there is nothing to write.
    """
    return bool(publisher.qos_profile.durability != QoSDurabilityPolicy.VOLATILE
                or publisher.get_subscription_count())


def overridable() -> QoSOverridingOptions:
    """Let ``qos_overrides.<topic>.<publisher|subscription>.<policy>`` change these policies."""
    return QoSOverridingOptions(policy_kinds=(
        QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH, QoSPolicyKind.RELIABILITY,
        QoSPolicyKind.DURABILITY))


def refused_override(topic: str, error: Exception) -> QosError:
    """Turn one of ``OVERRIDE_FAULTS`` into a sentence for the operator."""
    hint = ''
    if 'qos' in str(error).lower():
        hint = (f'; check the parameters qos_overrides.{topic}.<publisher|subscription>.'
                '<history|depth|reliability|durability>')
    return QosError(f'topic {topic} cannot be opened: {error}{hint}')


def describe(qos: Any) -> str:
    """Say the two policies that decide whether two ends match."""
    return f'{qos.reliability.name.lower()}, {qos.durability.name.lower()}'
