"""
Read a golden timeline: a system, what happens to it, and everything that it must do.

Times are milliseconds with up to six decimals, captures may lie before zero. One statement a
line, ``#`` begins a comment. First the system::

    slots 1                    pipelining 1             margin 110 (100 unless said)
    timeout 300                bytes 1000               miss_aware
    lead 4 (of what is pipelined)
    no_corun detector llm      interference detector_main llm_main 5
    model NAME POLICY [class C] [p50 MS p99 MS] [capacity N] [overflow RULE] [deadline MS]
          [period MS] [jitter MS] [max_age MS] [consumer_period MS] [phase MS] [dwell MS]
          [min_quality Q] [approved ID,ID] [misses M/K/L] [new_sample] [stateful]
          [backend NAME] [instances N]
    cooperative MODEL base MS token MS most N [prefill MS] [new MS] [least N] [overhead PERMILLE]
          [whole]
    variant MODEL ID p50 MS p99 MS [quality Q] [source unknown] [signature S] [backend NAME]
            [instances N]
    stream NAME MODEL

A model with ``p50`` and ``p99`` has one variant, ``main``. Then, in order of time::

    at MS in      arrive ID MODEL [stream S] [key K] [captured MS] [bytes N] [stamp KIND]
                  [prompt TOKENS] [tokens N]
                  wrote ID TOKENS [end]
                  complete ID | fail ID [unproven] | refuse ID REASON | cancel ID
                  jump | drain | expire | proven ID ... | wake
                  doubt BACKEND_MODEL | forget BACKEND_MODEL
                  inherit ID MODEL BACKEND_MODEL
                  window STREAM +-+ next MS [newest MS] (covered and missed cycles, oldest first)
    at MS refused (an event as above that must raise RefusedEvent)
    at MS out     dispatch ID [VARIANT] [planned MS] [tokens N] | release ID | overload STATE
                  terminate ID REASON [age MS] [wait MS] [deadline met] [input held]
                  [tokens N] [quanta N]
                  defer ID [for STREAM] [until MS]
    at MS says    the sentence of the action in the line above
    at MS wakeup  MS | never
    at MS end     nothing else may happen up to here
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path

from vig_core.contract import Contract, Criticality, MissBudget, Overflow, QueuePolicy
from vig_core.cooperative import Cooperative
from vig_core.errors import VigError
from vig_core.events import (BackendCompleted, BackendFailed, CancelRequested, CyclesInherited,
                             DispatchRefused, DrainExpired, DrainStarted, Event,
                             ExecutionInherited, ExecutionsProvenOver, ProfileDoubted,
                             QuantumCompleted, RequestArrived, Stamp, TextsForgotten,
                             TimeJumped, Woke)
from vig_core.model import Model, QualitySource, RuntimeProfile, System, Variant
from vig_core.request import Reason


class TimelineError(Exception):
    """A line that says nothing the player knows."""


@dataclass(frozen=True)
class Step:
    """Something that happens to the scheduler, or is asked of it."""

    line: int
    at_ns: int
    event: Callable[[int], Event] | None = None
    is_refused: bool = False
    wakeup_ns: int | None = None


@dataclass(frozen=True)
class Expected:
    """An action that must follow, with the details that the line names."""

    line: int
    at_ns: int
    words: tuple[str, ...]
    details: dict[str, str]


@dataclass
class Timeline:
    """All that one file says."""

    path: Path
    system: System
    steps: list[Step] = field(default_factory=list)
    expected: list[Expected] = field(default_factory=list)
    until_ns: int = 0


_FLAGS = frozenset({'new_sample', 'stateful', 'unproven', 'whole', 'end'})
_OF_AN_ACTION = {'dispatch': ('planned', 'tokens'), 'release': (), 'overload': (),
                 'terminate': ('age', 'wait', 'deadline', 'input', 'tokens', 'quanta'),
                 'defer': ('for', 'until')}


def read(path: Path) -> Timeline:
    """Parse one file; raises TimelineError with file and line."""
    lines = [(number, text.split('#')[0].split())
             for number, text in enumerate(path.read_text().splitlines(), 1)]
    reader = _Reader()
    for number, words in lines:
        try:
            if words:
                reader.take(number, words)
        except (KeyError, ValueError, IndexError, InvalidOperation, VigError,
                TimelineError) as error:
            raise TimelineError(f'{path}:{number}: {" ".join(words)}: {error}') from error
    try:
        return reader.finish(path)
    except VigError as error:
        raise TimelineError(f'{path}: {error}') from error


def instant(text: str) -> int:
    """Nanoseconds of a time in milliseconds, exactly."""
    value = Decimal(text) * 1_000_000
    if value != int(value):
        raise TimelineError(f'{text} ms is finer than a nanosecond')
    return int(value)


class _Reader:
    """Collects statements until the file ends."""

    def __init__(self) -> None:
        self._system: dict = {'margin_percent': 100}
        self._models: dict[str, Model] = {}
        self._variants: dict[str, list[Variant]] = {}
        self._pending: dict[str, tuple] = {}
        self._streams: dict[str, str] = {}
        self._bans: set[frozenset[str]] = set()
        self._interference: dict[tuple[str, str], int] = {}
        self.steps: list[Step] = []
        self.expected: list[Expected] = []
        self._last_ns = 0

    def take(self, line: int, words: list[str]) -> None:
        what, *rest = words
        if what == 'at':
            self._at(line, rest)
        elif what == 'model':
            self._model(rest)
        elif what == 'cooperative':
            self._pending[rest[0]][0]['cooperative'] = _cooperative(rest[1:])
        elif what == 'variant':
            options = _options(rest[2:], ('p50', 'p99', 'quality', 'source', 'signature',
                                          'instances', 'backend'))
            self._variants[rest[0]].append(_variant(rest[0], rest[1], options))
        elif what == 'stream':
            self._streams[rest[0]] = rest[1]
        elif what == 'no_corun':
            self._bans.add(frozenset(rest))
        elif what == 'interference':
            self._interference[rest[0], rest[1]] = instant(rest[2])
        elif what == 'learns_occupancy':
            self._system['learns_occupancy'] = True
        elif what == 'miss_aware':
            self._system['is_miss_aware'] = True
        else:
            key, parse = {'slots': ('slots', int), 'pipelining': ('pipelining_depth', int),
                          'lead': ('pipelining_lead_ns', instant),
                          'margin': ('margin_percent', int), 'bytes': ('max_inflight_bytes', int),
                          'timeout': ('inference_timeout_ns', instant)}[what]
            self._system[key] = parse(rest[0])

    def finish(self, path: Path) -> Timeline:
        models = {}
        for name, (arguments, contract) in self._pending.items():
            models[name] = Model(name=name, contract=Contract(**contract),
                                 variants=tuple(self._variants[name]), **arguments)
        system = System(models=models, streams=self._streams, no_corun=frozenset(self._bans),
                        interference_ns=self._interference, **self._system)
        return Timeline(path, system, self.steps, self.expected, self._last_ns)

    def _model(self, words: list[str]) -> None:
        name, policy, *rest = words
        options = _options(rest, (
            'class', 'p50', 'p99', 'capacity', 'overflow', 'deadline', 'period', 'jitter',
            'max_age', 'consumer_period', 'phase', 'dwell', 'min_quality', 'approved', 'misses',
            'instances', 'backend'))
        self._variants[name] = [_variant(name, 'main', options)] if 'p50' in options else []
        arguments = {'policy': QueuePolicy(policy), 'is_stateful': 'stateful' in options,
                     'criticality': Criticality[options.get('class', 'normal').upper()],
                     'capacity': int(options.get('capacity', '1')),
                     'overflow': Overflow(options.get('overflow', 'reject_new'))}
        contract: dict = {'deadline_ns': instant(options.get('deadline', '1000')),
                          'require_new_sample_each_cycle': 'new_sample' in options}
        for word, key in (('period', 'period_ns'), ('max_age', 'max_age_ns'),
                          ('jitter', 'release_jitter_ns'), ('dwell', 'variant_dwell_ns'),
                          ('consumer_period', 'consumer_period_ns'), ('phase', 'phase_ns')):
            if word in options:
                contract[key] = instant(options[word])
        if 'min_quality' in options:
            contract['min_quality'] = float(options['min_quality'])
        if 'approved' in options:
            contract['approved_variants'] = tuple(options['approved'].split(','))
        if 'misses' in options:
            contract['miss_budget'] = MissBudget(*map(int, options['misses'].split('/')))
        self._pending[name] = (arguments, contract)

    def _at(self, line: int, words: list[str]) -> None:
        at_ns = instant(words[0])
        if at_ns < self._last_ns:
            raise TimelineError('lies before the line above')
        self._last_ns = at_ns
        kind, rest = words[1], words[2:]
        if kind in ('in', 'refused'):
            self.steps.append(Step(line, at_ns, _event(at_ns, rest), kind == 'refused'))
        elif kind == 'wakeup':
            self.steps.append(Step(line, at_ns, wakeup_ns=(
                -1 if rest[0] == 'never' else instant(rest[0]))))
        elif kind == 'out':
            allowed = _OF_AN_ACTION[rest[0]]
            count = 3 if rest[0] in ('dispatch', 'terminate') else 2
            if rest[0] == 'dispatch' and rest[2:] and rest[2] in allowed:
                count = 2
            self.expected.append(Expected(
                line, at_ns, tuple(rest[:count]), _options(rest[count:], allowed)))
        elif kind == 'says':
            self.expected[-1].details['says'] = ' '.join(rest)
        elif kind != 'end':
            raise TimelineError(f'{kind!r} is none of in, refused, out, says, wakeup, end')


def _options(words: list[str], allowed: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in _FLAGS:
            found[word] = 'yes'
        elif word in allowed and rest:
            found[word] = rest.pop(0)
        else:
            raise TimelineError(f'{word!r} is not understood; known: {", ".join(allowed)}')
    return found


def _variant(model: str, variant_id: str, options: dict[str, str]) -> Variant:
    return Variant(
        variant_id=variant_id, backend_model=options.get('backend', f'{model}_{variant_id}'),
        instances=int(options['instances']) if 'instances' in options else None,
        profile=RuntimeProfile(p50_ns=instant(options['p50']), p99_ns=instant(options['p99'])),
        quality=float(options.get('quality', '1')), signature=options.get('signature', ''),
        quality_source=QualitySource(options.get('source', 'measured')))


def _cooperative(words: list[str]) -> Cooperative:
    options = _options(words, ('base', 'token', 'most', 'prefill', 'new', 'least', 'overhead'))
    return Cooperative(
        instant(options['base']), instant(options['token']), int(options['most']),
        prefill_per_token_ns=instant(options.get('prefill', '0')),
        min_tokens=int(options.get('least', '1')),
        max_overhead_permille=int(options['overhead']) if 'overhead' in options else None,
        new_prompt_per_token_ns=instant(options['new']) if 'new' in options else None,
        is_split='whole' not in options)


def _event(at_ns: int, words: list[str]) -> Callable[[int], Event]:
    what, *rest = words
    if what == 'arrive':
        options = _options(rest[2:], ('stream', 'key', 'captured', 'bytes', 'stamp', 'prompt',
                                      'tokens'))
        captured_ns = instant(options['captured']) if 'captured' in options else at_ns
        arrival = RequestArrived(
            request_id=int(rest[0]), model=rest[1], stream=options.get('stream', rest[1]),
            key=options.get('key', ''), generation_ns=captured_ns,
            payload_bytes=int(options.get('bytes', '0')),
            prompt_tokens=int(options.get('prompt', '0')),
            max_tokens=int(options.get('tokens', '0')),
            stamp=Stamp(options.get('stamp', 'trusted')), stamp_detail='as the timeline says')
        return lambda origin_ns: replace(arrival, generation_ns=captured_ns + origin_ns)
    if what == 'window':
        options = _options(rest[2:], ('next', 'newest'))
        newest_ns = instant(options['newest']) if 'newest' in options else None
        return lambda origin_ns: CyclesInherited(
            rest[0], 0, instant(options['next']) + origin_ns,
            tuple(mark == '+' for mark in rest[1]),
            len(rest[1]) - len(rest[1].rstrip('-')),
            None if newest_ns is None else newest_ns + origin_ns)
    event = _plain_event(what, rest)
    return lambda _: event


def _plain_event(what: str, rest: list[str]) -> Event:
    if what == 'complete':
        return BackendCompleted(int(rest[0]))
    if what == 'wrote':
        return QuantumCompleted(int(rest[0]), int(rest[1]), rest[2:] == ['end'])
    if what == 'fail':
        return BackendFailed(int(rest[0]), 'the server said so', rest[1:] != ['unproven'])
    if what == 'refuse':
        return DispatchRefused(int(rest[0]), Reason(rest[1]), 'it never left')
    if what == 'cancel':
        return CancelRequested(int(rest[0]))
    if what == 'doubt':
        return ProfileDoubted(rest[0], 'measured elsewhere')
    if what == 'forget':
        return TextsForgotten(rest[0])
    if what == 'inherit':
        return ExecutionInherited(int(rest[0]), rest[1], rest[2])
    if what == 'proven':
        return ExecutionsProvenOver(tuple(map(int, rest)), 'the server is quiet')
    simple = {'jump': TimeJumped('time went back'), 'drain': DrainStarted(),
              'expire': DrainExpired('the drain took too long'), 'wake': Woke()}
    return simple[what]
