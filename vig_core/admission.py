"""
The door: which events contradict the history, and which arrivals end at once.

Rules:

- A refused event (``RefusedEvent``) was never said; a refused arrival is an accepted request
  that ends at once, with its reason.
- An arrival whose capture time cannot be believed never becomes "the newest" of anything.
"""

from collections.abc import Mapping

from vig_core.actions import OverloadState
from vig_core.contract import Criticality
from vig_core.errors import RefusedEvent
from vig_core.estimate import RuntimeBook
from vig_core.events import (BackendCompleted, BackendFailed, CyclesInherited, DispatchRefused,
                             Event, ExecutionInherited, ExecutionsProvenOver, ProfileDoubted,
                             QuantumCompleted, RequestArrived, Stamp, TextsForgotten)
from vig_core.ledger import Ledger, StreamLedger
from vig_core.model import Model, Variant
from vig_core.overload import OverloadController
from vig_core.request import Reason, Request, State
from vig_core.why import ClassRefused, OverBudget

REFUSED_CLASSES: Mapping[OverloadState, frozenset[Criticality]] = {
    OverloadState.NORMAL: frozenset(),
    OverloadState.FRESHNESS_PRESSURE: frozenset(),
    OverloadState.DEGRADED: frozenset(),
    OverloadState.REJECT_BEST_EFFORT: frozenset({Criticality.BEST_EFFORT}),
    OverloadState.PROTECTED_ONLY: frozenset({Criticality.BEST_EFFORT, Criticality.NORMAL}),
}
"""What each overload state no longer takes in."""

_REASONS_OF_A_REFUSED_DISPATCH = frozenset({Reason.CAPACITY, Reason.BACKEND_FAILED})


def check_event(event: Event, *, now_ns: int, last_id: int, models: Mapping[str, Model],
                ledger: Ledger, requests: Mapping[int, Request], runtimes: RuntimeBook) -> None:
    """
    Refuse an event that contradicts the history; its instant is in order.

    :param last_id: of the newest request.
    :raises RefusedEvent: it does.
    """
    if isinstance(event, RequestArrived):
        _check_arrival(event, now_ns=now_ns, last_id=last_id, models=models,
                       account=ledger.find(event.stream))
    elif isinstance(event, CyclesInherited):
        _check_cycles(event, ledger.find(event.stream), now_ns)
    elif isinstance(event, ExecutionInherited):
        inherited_variant(event, last_id=last_id, models=models, requests=requests)
    elif isinstance(event, (ProfileDoubted, TextsForgotten)):
        if not runtimes.knows(event.backend_model):
            raise RefusedEvent(f'{event.backend_model!r} is the model of no variant')
    else:
        _check_report(event, requests)


def _check_arrival(event: RequestArrived, *, now_ns: int, last_id: int,
                   models: Mapping[str, Model], account: StreamLedger | None) -> None:
    """
    Refuse an arrival that contradicts the history.

    :param account: of its stream, if that is known already.
    :raises RefusedEvent: it does.
    """
    if event.model not in models:
        raise RefusedEvent(f'{event.model!r} is no model of this system')
    if event.request_id <= last_id:
        raise RefusedEvent(f'request id {event.request_id} does not follow {last_id}')
    if event.generation_ns > now_ns:
        raise RefusedEvent(f'request {event.request_id} is captured after it arrived')
    if event.payload_bytes < 0:
        raise RefusedEvent(f'request {event.request_id} has {event.payload_bytes} bytes')
    if event.prompt_tokens < 0 or event.max_tokens < 0:
        raise RefusedEvent(f'request {event.request_id} has {event.prompt_tokens} tokens and asks '
                           f'for {event.max_tokens}')
    if (event.prompt_tokens or event.max_tokens) and models[event.model].cooperative is None:
        raise RefusedEvent(f'request {event.request_id} counts tokens, and {event.model} is not '
                           'cooperative')
    if account is not None and account.model.name != event.model:
        raise RefusedEvent(f'stream {event.stream!r} belongs to model {account.model.name!r}')


def inherited_variant(event: ExecutionInherited, *, last_id: int, models: Mapping[str, Model],
                      requests: Mapping[int, Request]) -> Variant:
    """
    Find the variant of an execution from before.

    :raises RefusedEvent: the request is known already, came after arrivals, or is of no model.
    """
    model = models.get(event.model)
    if model is None:
        raise RefusedEvent(f'{event.model!r} is no model of this system')
    if event.request_id in requests or event.request_id <= last_id:
        raise RefusedEvent(f'request id {event.request_id} is taken')
    for variant in model.variants:
        if variant.backend_model == event.backend_model:
            return variant
    raise RefusedEvent(f'{event.backend_model!r} is no variant of {event.model!r}')


def _check_cycles(event: CyclesInherited, account: StreamLedger | None, now_ns: int) -> None:
    """
    Refuse a window that the monitor of this stream cannot go on with.

    :param account: of the stream; ``None`` where it is unknown.
    :raises RefusedEvent: there is no such window, it is of another contract, or it is too late.
    """
    contract = None if account is None else account.model.contract
    if account is None or contract is None or contract.miss_budget is None:
        raise RefusedEvent(f'stream {event.stream!r} has no miss budget')
    if event.contract_version != contract.contract_version:
        raise RefusedEvent(f'stream {event.stream!r} is under contract_version '
                           f'{contract.contract_version}, not {event.contract_version}')
    budget = contract.miss_budget
    if len(event.cycles) > budget.window_cycles:
        raise RefusedEvent(f'{len(event.cycles)} cycles do not fit into a window of '
                           f'{budget.window_cycles}')
    if account.received:
        raise RefusedEvent(f'stream {event.stream!r} has had requests already')
    if (event.newest_capture_ns or 0) > now_ns:
        raise RefusedEvent(f'stream {event.stream!r} cannot have a result from the future')


def _check_report(event: Event, requests: Mapping[int, Request]) -> None:
    """
    Refuse a report about an execution that is not there.

    :raises RefusedEvent: the request is unknown, or not in a state that the report fits.
    """
    if isinstance(event, (BackendCompleted, QuantumCompleted, BackendFailed, DispatchRefused)):
        request = requests.get(event.request_id)
        if request is None or request.state is State.WAITING:
            raise RefusedEvent(f'request {event.request_id} is not running')
        if request.state is State.RUNNING:
            _check_kind(event, request)
    elif isinstance(event, ExecutionsProvenOver):
        for request_id in event.request_ids:
            request = requests.get(request_id)
            if request is None or request.state is not State.ABANDONED:
                raise RefusedEvent(f'request {request_id} holds no abandoned execution')
        if len(set(event.request_ids)) != len(event.request_ids):
            raise RefusedEvent(f'request ids repeat in {event.request_ids}')
    if (isinstance(event, DispatchRefused)
            and event.reason not in _REASONS_OF_A_REFUSED_DISPATCH):
        raise RefusedEvent(f'a dispatch cannot be refused as {event.reason.value}')


def _check_kind(event: Event, request: Request) -> None:
    if isinstance(event, BackendCompleted) and request.job is not None:
        raise RefusedEvent(f'request {request.request_id} is a generative job: its answer says '
                           'how many tokens it wrote')
    if isinstance(event, QuantumCompleted):
        if request.job is None:
            raise RefusedEvent(f'request {request.request_id} is not cut into quanta')
        if event.tokens < 0:
            raise RefusedEvent(f'request {request.request_id} wrote {event.tokens} tokens')


def refusal(event: RequestArrived, model: Model, *, overload: OverloadController,
            is_draining: bool, has_variant: bool, bytes_before: int,
            bytes_allowed: int) -> tuple[Reason, object] | None:
    """Say why an arrival ends at once, or ``None`` when it may queue."""
    if event.stamp is Stamp.INVALID:
        return Reason.INVALID_STAMP, event.stamp_detail
    if is_draining:
        return Reason.CANCELLED, 'the governor is shutting down'
    if not has_variant:
        return Reason.INFEASIBLE, no_variant_text(model)
    if model.criticality in REFUSED_CLASSES[overload.state]:
        return Reason.INFEASIBLE, class_refused(model.criticality, overload)
    if bytes_before + event.payload_bytes > bytes_allowed:
        return Reason.CAPACITY, OverBudget(bytes_before, event.payload_bytes, bytes_allowed)
    return None


def class_refused(criticality: Criticality, overload: OverloadController) -> ClassRefused:
    """Tell a client that its class is not served for now, and until when."""
    first = next(state for state in OverloadState if criticality in REFUSED_CLASSES[state])
    return ClassRefused(overload.state.value, criticality.name.lower(), overload.raised_by,
                        overload.exit_permille(first))


def no_variant_text(model: Model) -> str:
    """Say what keeps each variant of a model that has no usable one."""
    approved, least = model.contract.approved_variants, model.contract.min_quality
    each = [f'{variant.variant_id} is not approved'
            if approved is not None and variant.variant_id not in approved
            else f'{variant.variant_id} has quality {variant.quality:g} and needs {least:g}'
            for variant in model.variants]
    return f'no variant of {model.name} may run: {", ".join(each)}'
