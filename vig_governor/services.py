"""What the node's services answer; errors are part of the answer."""

from typing import Any

from vig.srv import CancelRequests, Explain

from vig_governor.actor import ActorStopped


def cancel(node: Any, request: CancelRequests.Request,
           response: CancelRequests.Response) -> CancelRequests.Response:
    """Withdraw waiting requests of one stream, or of all; see ``vig/srv/CancelRequests``."""
    problem = _problem(node, request.stream, is_optional=True)
    if problem:
        response.message = problem
        return response
    try:
        response.cancelled = node.session.actor.cancel(
            lambda request_id, payload: request.stream in ('', payload.stream)
            and request.request_id in (0, request_id), 'withdrawn by the client')
    except (ActorStopped, TimeoutError) as error:
        response.message = f'not cancelled: {error or "the governor did not answer in time"}'
        return response
    response.success = bool(response.cancelled) or not request.request_id
    if not response.success:
        response.message = (f'request {request.request_id} does not wait: it has ended, runs '
                            'already, or never was')
    return response


def explain(node: Any, request: Explain.Request, response: Explain.Response) -> Explain.Response:
    """Tell the last decisions about a stream or one request; see ``vig/srv/Explain``."""
    problem = _problem(node, request.stream, is_optional=False)
    if problem:
        response.message = problem
        return response
    response.decisions = node.session.publishing.decisions.tell(
        request.stream, request.request_id)
    response.success = bool(response.decisions) or not request.request_id
    if not response.success:
        known = node.session.publishing.decisions.requests(request.stream)
        there_is = f'requests {known[0]} to {known[-1]}' if known else 'nothing yet'
        response.message = (f'nothing is remembered about request {request.request_id} of stream '
                            f'{request.stream}; remembered is {there_is}')
    return response


def _problem(node: Any, stream: str, *, is_optional: bool) -> str:
    if node.session is None:
        return 'the governor is not active'
    known = [binding.name for binding in node.streams]
    if stream in known or (is_optional and not stream):
        return ''
    return f'there is no stream {stream!r}; there are {", ".join(known) or "none"}'
