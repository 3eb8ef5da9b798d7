"""
For nodes that make frames: publish where a frame lies instead of the frame.

``TensorProducer`` is all that a node needs. It works in a plain rclpy node, and needs neither
Triton nor the rest of the governor.
"""

from vig_governor.producer.memory import ProducerError
from vig_governor.producer.producer import TensorProducer

__all__ = ['ProducerError', 'TensorProducer']
