"""The ROS side of ``vig explain``: one call of ``~/explain``."""

from builtin_interfaces.msg import Time

from vig.srv import Explain

from vig_core.errors import VigError

from vig_governor.joining import joined

WAIT_S = 5.0


def ask(node_name: str, stream: str, *, request_id: int = 0, stamp: tuple[int, int] = (0, 0),
        last: int = 0) -> list[str]:
    """
    Ask a running node.

    :raises VigError: there is no such node, it does not answer, or it knows nothing of this.
    """
    service = f'/{node_name.strip("/")}/explain'
    request = Explain.Request(stream=stream, request_id=request_id, last=last,
                              stamp=Time(sec=stamp[0], nanosec=stamp[1]))
    answer = None
    with joined('vig_explain', service) as (node, executor):
        client = node.create_client(Explain, service)
        if not client.wait_for_service(WAIT_S):
            raise VigError(f'{service}: no such service in {WAIT_S:g} s; is the node of that name '
                           'up, and ROS_DOMAIN_ID the same? Its name goes to --node')
        future = client.call_async(request)
        executor.spin_until_future_complete(future, WAIT_S)
        answer = future.result() if future.done() else None
    if answer is None:
        raise VigError(f'{service}: no answer in {WAIT_S:g} s')
    if not answer.success:
        raise VigError(answer.message)
    return list(answer.decisions)
