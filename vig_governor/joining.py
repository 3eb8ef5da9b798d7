"""A node for as long as a command of ``vig`` looks at the ROS graph or listens to it."""

from collections.abc import Iterator
from contextlib import contextmanager

import rclpy
from rclpy.context import Context
from rclpy.exceptions import InvalidServiceNameException, InvalidTopicNameException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node

from vig_core.errors import VigError


@contextmanager
def joined(name: str, wanted: str) -> Iterator[tuple[Node, SingleThreadedExecutor]]:
    """
    Join the graph; Ctrl-C or the end of ROS ends the block.

    :param name: of the node.
    :param wanted: the topic or service that is asked for, for the sentence where it is no name.
    :raises VigError: ROS cannot be used, or ``wanted`` is no name.
    """
    try:
        rclpy.init(args=[])
    except RuntimeError as error:
        raise VigError(f'ROS cannot be used: {" ".join(str(error).split())}') from None
    executor = SingleThreadedExecutor()
    node = rclpy.create_node(name, start_parameter_services=False)
    try:
        executor.add_node(node)
        yield node, executor
    except ExternalShutdownException:
        pass
    except (InvalidTopicNameException, InvalidServiceNameException):
        raise VigError(f'{wanted} is no name of ROS: --node wants the full name of a node, such '
                       'as /robot/governor') from None
    finally:
        node.destroy_node()
        executor.shutdown()
        rclpy.try_shutdown()


@contextmanager
def listening(name: str) -> Iterator[tuple[Node, SingleThreadedExecutor]]:
    """
    Join the graph in a context of its own, unseen by whatever else of ROS runs in this process.

    :param name: of the node, which offers nothing and writes no log on a topic.
    :raises VigError: ROS cannot be used here; says why.
    """
    context = Context()
    try:
        rclpy.init(context=context)
        node = Node(name, context=context, start_parameter_services=False, enable_rosout=False)
    except Exception as error:  # middleware that does not start raises many types
        rclpy.try_shutdown(context=context)
        raise VigError(f'ROS does not start here: {error}') from None
    executor = SingleThreadedExecutor(context=context)
    try:
        executor.add_node(node)
        yield node, executor
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)
