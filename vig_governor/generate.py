"""What ``~/generate`` answers: a job is checked, given a number and handed over."""

import time
from typing import Any

from vig.srv import Generate

from vig_core.units import MAX_AGE_OF_A_STAMP_NS, text_ms, us

from vig_governor.config.resolve_generative import JOB_STREAM
from vig_governor.generation import Generation


def generate(node: Any, request: Generate.Request,
             response: Generate.Response) -> Generate.Response:
    """Start a generative job; see ``vig/srv/Generate``."""
    session, governed = node.session, node.governed
    if session is None or governed is None:
        response.message = 'the governor is not active'
        return response
    options = governed.config.generative.get(request.model)
    if options is None:
        known = ', '.join(governed.config.generative) or 'none'
        kind = 'generates no text' if request.model in governed.config.system.models else (
            'is no model')
        response.message = f'{request.model!r} {kind}; models with the block cooperative: {known}'
        return response
    job = Generation(options, request.prompt, request.max_tokens)
    age_ns, problem = _age(request)
    response.message = problem or job.problem
    if not response.message:
        intake = session.intakes[f'{JOB_STREAM}{request.model}']
        response.message = intake.outlook.remark(job, age_ns)
        response.request_id = intake.submit(job, node.steady.now_ns() - age_ns)
        response.accepted = True
    return response


def _age(request: Generate.Request) -> tuple[int, str]:
    """Say how old the information is, at most an hour, or what is wrong with it."""
    if request.age_us and request.generation_ns:
        return 0, ('age_us and generation_ns both say when the information was captured; give '
                   'one of them, or none for now')
    age_ns = us(request.age_us)
    if request.generation_ns:
        age_ns = time.monotonic_ns() - request.generation_ns
        if age_ns < 0:
            return 0, (f'generation_ns lies {text_ms(-age_ns)} in the future; it is an instant of '
                       "this host's CLOCK_MONOTONIC, in nanoseconds")
    return min(age_ns, MAX_AGE_OF_A_STAMP_NS), ''
