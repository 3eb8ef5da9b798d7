"""
``vig replay``: a recorded trace through the same core, offline.

Without more it must give the same decisions, event by event. With ``--contract other.yaml`` it
says what would have happened: the same arrivals, each request costing what it cost when it was
recorded; one that did not run then costs the median of its backend model in the trace, or of
its profile. A generative job writes as much as it did, or up to its bound where it was not
completed; its quanta cost what the cost model says.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
import hashlib
import heapq
import itertools
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from vig_core.actions import Action, Dispatch, Terminate
from vig_core.errors import RefusedEvent
from vig_core.events import (
    BackendCompleted, CancelRequested, Event, QuantumCompleted, RequestArrived, TimeJumped, Woke,
)
from vig_core.model import Model, System
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.units import text_ms

from vig_governor.recorded import read_trace, Recorded
from vig_governor.recorder import digest_of
from vig_governor.trace_file import TraceError
from vig_governor.version import package_version


@dataclass
class Outcome:
    """How each request ended, what each execution took, and how long texts were."""

    ends: list[Terminate] = field(default_factory=list)
    runtimes_ns: dict[int, tuple[str, int]] = field(default_factory=dict)
    texts: dict[int, int] = field(default_factory=dict)
    dispatched: dict[int, tuple[str, int]] = field(default_factory=dict)

    def note(self, actions: Iterable[Action], now_ns: int) -> None:
        """Take in what was decided at one instant."""
        for action in actions:
            if isinstance(action, Dispatch):
                self.dispatched[action.request_id] = action.backend_model, now_ns
            elif isinstance(action, Terminate):
                self.ends.append(action)
                if action.is_end_of_sequence:
                    self.texts[action.request_id] = action.tokens
                if (action.reason in (Reason.COMPLETED, Reason.OBSOLETE)
                        and action.request_id in self.dispatched):
                    backend, began_ns = self.dispatched[action.request_id]
                    self.runtimes_ns[action.request_id] = backend, now_ns - began_ns


def replay(recorded: Recorded) -> tuple[Outcome, list[str]]:
    """
    Feed a trace through the core.

    :returns: what happened, and one sentence for each of the first events decided differently.
    """
    scheduler = recorded.scheduler()
    outcome, differences, digest = Outcome(), [], hashlib.sha256()
    for number, (at_ns, event, was) in enumerate(recorded.events, 1):
        try:
            actions: tuple[Action, ...] = scheduler.handle(event, now_ns=at_ns)
            decided = digest_of(actions)
            outcome.note(actions, at_ns)
        except RefusedEvent:
            actions, decided = (), 'refused'
        digest.update(f'{at_ns} {decided}\n'.encode())
        if decided != was:
            shown = '; '.join(map(repr, actions)) or decided
            differences.append(f'event {number} at {at_ns} ns, {event!r}: now decided: {shown}')
    if not differences and recorded.digest not in (None, digest.hexdigest()):
        differences.append('the digest of all decisions differs although that of each event does '
                           'not: the trace was changed by hand')
    return outcome, differences


def what_if(recorded: Recorded, system: System, then: Outcome) -> Outcome:
    """Play the arrivals of a trace to another system; runtimes as they were recorded."""
    by_backend: dict[str, list[int]] = {}
    for backend, runtime_ns in then.runtimes_ns.values():
        by_backend.setdefault(backend, []).append(runtime_ns)
    typical_ns = {variant.backend_model: variant.profile.p50_ns
                  for model in system.models.values() for variant in model.variants}
    typical_ns.update({backend: round(median(runs)) for backend, runs in by_backend.items()})
    scheduler = Scheduler(system, origin_ns=recorded.begin_ns)
    prompts = {event.request_id: event.prompt_tokens for _, event, _ in recorded.events
               if isinstance(event, RequestArrived)}
    written: dict[int, int] = {}
    read_last: dict[str, int] = {}
    order = itertools.count()
    heap: list[tuple[int, int, int, Event]] = [
        (at_ns, 1, next(order), event) for at_ns, event, _ in recorded.events
        if isinstance(event, RequestArrived | CancelRequested | TimeJumped)]
    heapq.heapify(heap)
    outcome = Outcome()
    while heap or not scheduler.is_idle:
        wakeup_ns = scheduler.next_wakeup_ns()
        event: Event = Woke()
        if wakeup_ns is not None and (not heap or wakeup_ns < heap[0][0]):
            at_ns = wakeup_ns
        elif not heap:
            break
        else:
            at_ns = heap[0][0]
            event = heapq.heappop(heap)[3]
        try:
            actions = scheduler.handle(event, now_ns=at_ns)
        except RefusedEvent:
            continue
        outcome.note(actions, at_ns)
        for action in actions:
            if isinstance(action, Dispatch) and action.tokens:
                is_new = read_last.get(action.backend_model) != action.request_id
                read_last[action.backend_model] = action.request_id
                answer, runtime_ns = _quantum(action, system.models[action.model], prompts,
                                              written, then.texts, is_new=is_new)
                heapq.heappush(heap, (at_ns + runtime_ns, 0, next(order), answer))
            elif isinstance(action, Dispatch):
                backend, runtime_ns = then.runtimes_ns.get(action.request_id, ('', 0))
                if backend != action.backend_model:
                    runtime_ns = typical_ns[action.backend_model]
                heapq.heappush(heap, (at_ns + runtime_ns, 0, next(order),
                                      BackendCompleted(action.request_id)))
    return outcome


def _quantum(dispatch: Dispatch, model: Model, prompts: dict[int, int], written: dict[int, int],
             texts: dict[int, int], *, is_new: bool) -> tuple[QuantumCompleted, int]:
    """Answer a quantum by the cost model; ``written`` counts the tokens of each job."""
    request_id = dispatch.request_id
    before = written.get(request_id, 0)
    left = max(0, texts[request_id] - before) if request_id in texts else None
    tokens = dispatch.tokens if left is None else min(dispatch.tokens, left)
    written[request_id] = before + tokens
    variant = next(one for one in model.variants if one.variant_id == dispatch.variant_id)
    assert model.cooperative is not None
    cost_ns = model.cooperative.cost_ns(prompts[request_id] + before, max(1, tokens),
                                        is_new=is_new)
    return (QuantumCompleted(request_id, tokens, is_end=left is not None and left <= tokens),
            model.in_proportion_ns(variant, cost_ns))


def other_system(recorded: Recorded, path: str) -> System:
    """
    Resolve another contract file for the streams of a trace.

    :raises ConfigError: the file is not valid.
    :raises TraceError: it lacks a model that the trace has requests for.
    """
    from vig_governor.config import load_config
    system = load_config(path, require_profiles=True).system
    wanted = {event.model for _, event, _ in recorded.events if isinstance(event, RequestArrived)}
    for name in sorted(wanted - system.models.keys()):
        raise TraceError(f'{path}: models: {name} is missing, but the trace has requests for it; '
                         f'there are {", ".join(sorted(system.models))}')
    signatures = {variant.backend_model: variant.signature
                  for model in recorded.system.models.values() for variant in model.variants}
    models = {name: replace(model, variants=tuple(
        replace(variant, signature=signatures.get(variant.backend_model, variant.signature))
        for variant in model.variants)) for name, model in system.models.items()}
    return replace(system, models=MappingProxyType(models), streams=recorded.system.streams)


def add_parser(subparsers: Any) -> None:
    """Add ``vig replay``."""
    parser = subparsers.add_parser('replay', help='play a recorded trace through the core again')
    parser.add_argument('trace', metavar='TRACE', help='what the parameter record wrote')
    parser.add_argument('--contract', metavar='FILE',
                        help='another vig.yaml: say what would have happened with it')


def run(arguments: argparse.Namespace) -> int:
    """Replay, say whether it is the same, and compare; 1 where it is not the same."""
    recorded = read_trace(arguments.trace)
    head = recorded.head
    print(f'{recorded.path}: {len(recorded.events)} events, recorded by version '
          f'{head["version"]} with {head["config"]} (sha256 {head["config_digest"][:12]})')
    for sentence in _notices(recorded):
        print(f'notice: {sentence}')
    outcome, differences = replay(recorded)
    if arguments.contract is not None:
        other = what_if(recorded, other_system(recorded, arguments.contract), outcome)
        _compare(outcome, other, arguments.contract)
        return 0
    if not differences:
        print('identical: every event leads to the same decisions as when it was recorded')
        return 0
    print(f'{len(differences)} events lead to other decisions than when they were recorded:')
    for sentence in differences[:10]:
        print(f'  {sentence}')
    return 1


def _notices(recorded: Recorded) -> Iterable[str]:
    head = recorded.head
    if recorded.digest is None:
        yield 'the trace has no end: the governor was killed, or the disk was full or too slow'
    if recorded.state is not None:
        yield ('the file begins in the middle of a run, with the scheduler as it was then; '
               'with --contract what waited or ran at that moment is left out')
    if head['version'] != package_version():
        yield f'this is version {package_version()}: other decisions may be meant'
    try:
        now = hashlib.sha256(Path(head['config']).read_bytes()).hexdigest()
    except OSError:
        return
    if now != head['config_digest']:
        yield (f'{head["config"]} has changed since; the trace is replayed with what was in '
               f'force then. What would happen with it now: --contract {head["config"]}')


def _compare(then: Outcome, now: Outcome, contract: str) -> None:
    print(f'as recorded, and what would have happened with {contract}:')
    rows = [('STREAM', '', 'REQUESTS', 'RESULTS', 'IN TIME', 'AGE p50', 'AGE p95', 'OTHER ENDS')]
    for stream in dict.fromkeys(end.stream for end in (*then.ends, *now.ends)):
        rows += [_row(stream, 'recorded', then.ends), _row('', 'what if', now.ends, stream)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print('  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def _row(shown: str, title: str, ends: Sequence[Terminate],
         stream: str | None = None) -> tuple[str, ...]:
    mine = [end for end in ends if end.stream == (stream or shown)]
    done = [end for end in mine if end.reason is Reason.COMPLETED]
    ages = sorted(end.age_ns for end in done)
    others = {reason.value: sum(end.reason is reason for end in mine)
              for reason in Reason if reason is not Reason.COMPLETED}
    return (shown, title, str(len(mine)), str(len(done)),
            str(sum(end.is_deadline_met for end in done)),
            *(text_ms(ages[-(-len(ages) * share // 100) - 1]) if ages else '-'
              for share in (50, 95)),
            ', '.join(f'{reason} {count}' for reason, count in others.items() if count))
