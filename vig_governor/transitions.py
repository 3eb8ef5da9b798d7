"""
What becomes of an exception in a lifecycle transition.

rclpy turns it into ERROR without a word. Here whoever can fix it is told: the operator's mistake
is one sentence and FAILURE, so the node stays where it was and can be tried again; our own bug is
a traceback and ERROR, so ``on_error`` clears up.
"""

from collections.abc import Callable
import functools
import traceback
from typing import Any, TypeVar

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

from vig_core.errors import VigError

_Node = TypeVar('_Node', bound=Any)
Body = Callable[[_Node, LifecycleState], None]
Callback = Callable[[_Node, LifecycleState], TransitionCallbackReturn]


def transition(name: str) -> Callable[[Body[_Node]], Callback[_Node]]:
    """
    Make a lifecycle callback of a method that returns nothing and raises what went wrong.

    The node keeps the sentence in ``last_failure`` and the error in ``last_error`` until a
    transition succeeds.

    :param name: how log lines call the transition, for example ``configure``.
    """
    def decorate(body: Body[_Node]) -> Callback[_Node]:
        @functools.wraps(body)
        def callback(node: _Node, state: LifecycleState) -> TransitionCallbackReturn:
            try:
                body(node, state)
            except VigError as error:
                node.last_error = error
                node.last_failure = f'{name} failed: {error}'
                node.get_logger().error(node.last_failure)
                return TransitionCallbackReturn.FAILURE
            except Exception as error:
                node.last_error = error
                node.last_failure = (f'{name} ended by an internal error: '
                                     f'{type(error).__name__}: {error}')
                node.get_logger().error(f'{name} ended by an internal error:\n'
                                        f'{traceback.format_exc()}')
                return TransitionCallbackReturn.ERROR
            node.last_failure, node.last_error = '', None
            return TransitionCallbackReturn.SUCCESS
        return callback
    return decorate
