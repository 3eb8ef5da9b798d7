"""
The watch of the server: is it there, is it the same one, has it ended what nobody answered.

A thread of its own, from ``configure`` to ``cleanup``. It looks often while an end is unproven,
the server is away or a model is not what it was, with growing pauses and a little chance in them,
and every few seconds otherwise. It tells the actors what is proven and never waits for them; no
actor ever waits for it.

When a server comes back, or a model, it is inspected again and warmed up: the first inference of
a fresh model is slow, and its answer is the proof that the new one executes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
import logging
import random
import threading
import time
from typing import Any, Protocol

from vig_governor.backend.base import BackendUnavailable, ModelSignature
from vig_governor.backend.warm_up import warm_up

_log = logging.getLogger(__name__)

QUIET_PERIOD_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 0.5
WARM_UP_TIMEOUT_S = 20.0
QUESTION_TIMEOUT_S = 1.0
READINGS_AFTER_WARM_UP, READINGS_APART_S = 3, 0.02
WARM_UP_STREAM = '~warm-up'
"""No stream can be called so: the name begins like a private topic."""

Inputs = Mapping[str, tuple[str, tuple[int, ...]]]
"""Input tensors by name: datatype and shape."""


class Holder(Protocol):
    """Who holds what is unproven: an actor."""

    @property
    def unproven_executions(self) -> int:
        """How many ends it waits for."""

    def prove_over(self, request_ids: tuple[int, ...], detail: str) -> None:
        """Take note that these are over; ids that mean nothing to it are left out."""


@dataclass(slots=True)
class ServerState:
    """
    What is known of the server, for diagnostics; written by the watch alone.

    :ivar silent_since_s: ``time.monotonic`` of the first question without answer; ``None`` while
        it answers.
    :ivar away: model to the reason why it takes no requests.
    :ivar changed: model to what is different from what was configured.
    :ivar foreign: model to executions that were not ours.
    :ivar restarts: how often the server or a model was seen to begin anew.
    :ivar reconciled: executions that a counter has proven to be over.
    """

    silent_since_s: float | None = None
    silence: str = ''
    away: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    reconciled: int = 0


class Backoff:
    """Pauses that double up to a limit, each a quarter more or less by chance."""

    def __init__(self, first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def reset(self) -> None:
        """Begin again with the shortest."""
        self._next_s = self._first_s

    def take(self) -> float:
        """Give the next pause in seconds."""
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._longest_s)
        return pause_s * random.uniform(0.75, 1.25)


class ServerWatch:
    """
    Watches the models of one server.

    :param backend: the ``TritonBackend``.
    :param signatures: what ``configure`` found, by backend model.
    :ivar on_anew: called, on the thread here, with each model that was seen to begin anew.
    :ivar on_forgotten: the same, with each that no longer knows what our requests let it read.
    """

    def __init__(self, backend: Any, signatures: Mapping[str, ModelSignature]) -> None:
        self.state = ServerState()
        self.on_anew: Callable[[str], object] = _nothing
        self.on_forgotten: Callable[[str], object] = _nothing
        self._backend = backend
        self._signatures = dict(signatures)
        self._left: set[str] = set()
        self._holders: list[Holder] = []
        self._lock = threading.Lock()
        self._poked = threading.Event()
        self._closing = threading.Event()
        self._warm = threading.Event()
        self._cold: set[str] = set(signatures)
        self._backoff = Backoff()
        self._thread = threading.Thread(target=self._run, name='vig-server-watch', daemon=True)

    def succeed(self, before: 'ServerWatch') -> None:
        """
        Go on where another watch of the same server was closed, before this one starts.

        A model that only the other one was configured with is watched until nothing of it is open.
        """
        self._backend.succeed(before._backend)
        for model, signature in before._signatures.items():
            if model not in self._signatures and self._backend.tally.has_open(model):
                self._signatures[model] = signature
                self._left.add(model)

    def start(self) -> None:
        """Begin with the warm-up of every model."""
        self._backend.open_stream(WARM_UP_STREAM, slots=2, transport='copy')
        self._backend.tally.on_broken = self.poke
        self._thread.start()

    def close(self) -> None:
        """End the thread; waits no longer than its question at the server takes."""
        self._closing.set()
        self._poked.set()
        if self._thread.is_alive():
            self._thread.join(2 * QUESTION_TIMEOUT_S)

    def poke(self) -> None:
        """Look now: something happened that a look may settle."""
        self._backoff.reset()
        self._poked.set()

    def attach(self, holder: Holder) -> None:
        """Tell this holder what is proven, for as long as it holds anything."""
        with self._lock:
            self._holders = [each for each in self._holders if each.unproven_executions]
            self._holders.append(holder)

    def wait_until_warm(self, timeout_s: float) -> bool:
        """Wait for the warm-ups that ``start`` began; whether they are over."""
        return self._warm.wait(timeout_s)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._poked.clear()
            try:
                is_settled = self._look()
            except Exception:
                _log.exception('the watch of the server failed; it goes on')
                is_settled = False
            if not self._warm.is_set():
                self._forget_the_dead()
            self._warm.set()
            if is_settled:
                self._backoff.reset()
            self._poked.wait(QUIET_PERIOD_S if is_settled else self._backoff.take())

    def _forget_the_dead(self) -> None:
        """Free what a killed governor left at the server, after its last work has run out."""
        count = self._backend.forget_the_dead()
        if count:
            _log.info('%d shared-memory regions of a killed governor were still registered at %s '
                      'and are not any more', count, self._backend.endpoint)

    def _look(self) -> bool:
        """Look at everything once; whether there is no reason to look again soon."""
        try:
            identity = self._backend.identity(timeout_s=QUESTION_TIMEOUT_S)
        except BackendUnavailable as error:
            self._note_silence(str(error))
            self._knock()
            return False
        self._note_answer()
        self._leave_the_settled()
        is_settled = True
        # A warm-up may take its time: read all counters first, and begin with what is waited for.
        models = sorted(self._signatures, key=self._backend.tally.has_broken, reverse=True)
        readable = [model for model in models if self._read(model, identity)]
        for model in readable:
            if self._closing.is_set():
                return True
            is_settled = self._settle(model, identity) and is_settled
        is_settled = is_settled and readable == models
        with self._lock:
            return is_settled and not any(each.unproven_executions for each in self._holders)

    def _knock(self) -> None:
        """See if nobody listens: what broke before ran in a process that serves no more."""
        broken = self._backend.tally.broken()
        if broken and self._backend.nobody_listens(timeout_s=QUESTION_TIMEOUT_S):
            self._backend.tally.note_nobody_listened(broken)

    def _leave_the_settled(self) -> None:
        """Watch a model no longer that is not configured any more and has nothing open."""
        for model in [each for each in self._left if not self._backend.tally.has_open(each)]:
            self._left.discard(model)
            self._cold.discard(model)
            del self._signatures[model]
            for known in (self.state.away, self.state.changed, self.state.foreign):
                known.pop(model, None)

    def _settle(self, model: str, identity: str) -> bool:
        """Warm up and read again what is cold; whether this model needs no other look soon."""
        if model in self._cold or model in self.state.changed:
            self._check_again(model)
            # The server counts a moment after it answers, and a baseline takes two readings.
            for _ in range(READINGS_AFTER_WARM_UP):
                self._closing.wait(READINGS_APART_S)
                self._read(model, identity)
        return (model not in self._cold and model not in self.state.changed
                and not self._backend.tally.has_broken(model)
                and (model in self.state.foreign or self._backend.tally.is_counting(model)))

    def _read(self, model: str, identity: str) -> bool:
        sends_before = self._backend.tally.sends(model)
        try:
            counts = self._backend.statistics(model, timeout_s=QUESTION_TIMEOUT_S)
        except BackendUnavailable as error:
            if model not in self.state.away:
                _log.error('%s', error)
            self.state.away[model] = str(error)
            self._cold.add(model)
            return False
        reading = self._backend.tally.read(model, counts.finished, identity=identity,
                                           sends_before=sends_before)
        if reading.is_new_epoch:
            self.state.restarts += 1
            self.state.foreign.pop(model, None)
            self._cold.add(model)
            _log.warning('model %r at %s was started anew', model, self._backend.endpoint)
            self.on_anew(model)
            self.on_forgotten(model)
        if reading.over:
            self._prove(model, reading.over)
        if reading.foreign > self.state.foreign.get(model, 0):
            if model not in self.state.foreign:
                _log.warning('somebody else calls model %r at %s; its counter proves nothing '
                             'any more', model, self._backend.endpoint)
            self.state.foreign[model] = reading.foreign
            self.on_forgotten(model)
        return True

    def _check_again(self, model: str) -> None:
        """Inspect a model that came back, and warm it up if it is what it was."""
        try:
            found = self._backend.inspect(model, timeout_s=QUESTION_TIMEOUT_S)
        except BackendUnavailable as error:
            self.state.away[model] = str(error)
            return
        self.state.away.pop(model, None)
        expected = self._signatures[model]
        if found.digest != expected.digest:
            if model not in self.state.changed:
                self.state.changed[model] = difference(expected, found)
                self._backend.object_to(model, self.state.changed[model])
                _log.error('model %r at %s: %s', model, self._backend.endpoint,
                           self.state.changed[model])
            return
        if self.state.changed.pop(model, None):
            self._backend.object_to(model, '')
            _log.warning('model %r at %s is what it was again', model, self._backend.endpoint)
        # Once for what is sent behind the warm-up, and once for what overtook it.
        self.on_forgotten(model)
        answer = warm_up(self._backend, WARM_UP_STREAM, model, warm_up_inputs(expected),
                         timeout_s=WARM_UP_TIMEOUT_S, is_cancelled=self._closing)
        self.on_forgotten(model)
        if answer.is_over:
            self._cold.discard(model)
        (_log.info if answer.is_good else _log.warning)('%s', answer.sentence)

    def _prove(self, model: str, over: tuple[int, ...]) -> None:
        detail = f'the completion counter of model {model!r} has seen the end of all executions'
        with self._lock:
            holders = list(self._holders)
        for holder in holders:
            holder.prove_over(over, detail)
        self.state.reconciled += len(over)
        _log.warning('%d executions that were not answered are over: %s', len(over), detail)

    def _note_silence(self, reason: str) -> None:
        if self.state.silent_since_s is None:
            self.state.silence = reason
            self.state.silent_since_s = time.monotonic()
            _log.error('%s; looking for it again and again', reason)

    def _note_answer(self) -> None:
        if self.state.silent_since_s is not None:
            _log.warning('the server at %s answers again after %.1f s', self._backend.endpoint,
                         time.monotonic() - self.state.silent_since_s)
            self.state.silent_since_s = None
            self._cold.update(self.state.away)


def difference(expected: ModelSignature, found: ModelSignature) -> str:
    """Say what changed between two signatures of one model, and what to do about it."""
    for kind, before, after in (('input', expected.inputs, found.inputs),
                                ('output', expected.outputs, found.outputs)):
        if before != after:
            return (f'its {kind}s were {_specs(before)} when the governor was configured and are '
                    f'{_specs(after)} now; load the model that was, or clean up and configure '
                    'the governor anew')
    return 'its batching was switched since the governor was configured; configure it anew'


def warm_up_inputs(signature: ModelSignature) -> Inputs:
    """Give what a warm-up sends: every input that the model requires; any size counts as one."""
    return {spec.name: (spec.datatype, spec.shape) for spec in signature.inputs
            if not spec.is_optional}


def _specs(specs: tuple[Any, ...]) -> str:
    return ', '.join(f'{spec.name} {spec.datatype} {list(spec.shape)}' for spec in specs)


def _nothing(model: str) -> None:
    """Stand in for a listener."""
