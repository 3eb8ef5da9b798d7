"""What the node's services answer; errors are part of the answer."""

from pathlib import Path
import time
from typing import Any

from rclpy.logging import get_logging_directory

from std_srvs.srv import SetBool

from vig.srv import CancelRequests, Explain

from vig_governor.actor import ActorStopped
from vig_governor.parameters import parameter
from vig_governor.trace_file import TraceError

BYTES_PER_MB = 1_000_000


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
    decisions = node.session.publishing.decisions
    stamp = request.stamp.sec, request.stamp.nanosec
    response.decisions = decisions.tell(request.stream, request.request_id, stamp, request.last)
    response.success = bool(response.decisions) or not (request.request_id or any(stamp))
    if not response.success:
        wanted, known = f'request {request.request_id}', decisions.requests(request.stream)
        there_is = f'requests {known[0]} to {known[-1]}' if known else 'nothing yet'
        if any(stamp):
            of = f' of {wanted}' if request.request_id else ''
            wanted, stamps = f'stamp {_text(stamp)}{of}', decisions.stamps(request.stream)
            if stamps:
                there_is += f' with stamps {_text(stamps[0])} to {_text(stamps[-1])}'
        response.message = (f'nothing is remembered about {wanted} of stream {request.stream}; '
                            f'remembered: {there_is}')
    return response


def _text(stamp: tuple[int, int]) -> str:
    return f'{stamp[0]}.{stamp[1]:09d}'


def record(node: Any, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
    """Begin or end the replayable trace; the answer names the file."""
    session = node.session
    if session is None:
        response.message = 'the governor is not active'
        return response
    running = session.recording
    if request.data == bool(running):
        response.success = not request.data
        response.message = (f'{running} is being recorded already' if running
                            else 'nothing is being recorded')
        return response
    path = parameter(node, 'record') or str(
        Path(str(get_logging_directory()))
        / f'{node.get_name()}_{time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())}.mcap')
    try:
        session.record(path if request.data else '',
                       max_bytes=parameter(node, 'record_max_mb') * BYTES_PER_MB)
    except TraceError as error:
        response.message = str(error)
        return response
    except (ActorStopped, TimeoutError) as error:
        response.message = f'no change: {error or "the governor did not answer in time"}'
        return response
    response.success = True
    response.message = f'recording {path}' if request.data else f'{running} is complete'
    return response


def _problem(node: Any, stream: str, *, is_optional: bool) -> str:
    if node.session is None:
        return 'the governor is not active'
    known = [binding.name for binding in node.streams]
    if stream in known or (is_optional and not stream):
        return ''
    return f'there is no stream {stream!r}; there are {", ".join(known) or "none"}'
