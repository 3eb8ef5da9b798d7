"""Play a timeline to a real scheduler, as the actor would, and compare all that it does."""

from dataclasses import dataclass, replace
from itertools import zip_longest
import random

from timeline import Expected, Timeline
from vig_core.actions import Action, Defer, Dispatch, ReleaseInput, ReportOverload, Terminate
from vig_core.errors import RefusedEvent
from vig_core.units import NS_PER_MS, NS_PER_S
from witness import Witness

ORIGIN_NS = 3600 * NS_PER_S
MAX_TICKS_IN_A_GAP = 3


@dataclass(frozen=True)
class Happened:
    """An action and its instant on the timeline."""

    at_ns: int
    action: Action


def play(timeline: Timeline, *, shift_ns: int = 0, seed: int | None = None) -> list[Happened]:
    """
    Feed the events, and ``Woke`` whenever ``next_wakeup_ns`` has come.

    :param shift_ns: added to every instant.
    :param seed: of random extra ticks between the instants; ``None`` for none.
    """
    return _Player(timeline, ORIGIN_NS + shift_ns, seed).run()


def compare(timeline: Timeline, happened: list[Happened]) -> None:
    """Assert that exactly the expected actions happened, in order, at their instants."""
    pairs = list(zip_longest(timeline.expected, happened))
    if all(expected is not None and actual is not None and _matches(expected, actual)
           for expected, actual in pairs):
        return
    rows = [f'{timeline.path}: expected on the left, what happened on the right']
    for expected, actual in pairs:
        is_same = expected is not None and actual is not None and _matches(expected, actual)
        left = '' if expected is None else (
            f'{expected.line:4} at {_text(expected.at_ns)} {" ".join(expected.words)} '
            + ' '.join(f'{key} {value}' for key, value in expected.details.items()))
        right = '' if actual is None else (
            f'at {_text(actual.at_ns)} {" ".join(_words(actual.action))} '
            + ' '.join(f'{key} {value}' for key, value in _details(actual.action).items()))
        rows.append(f'{" " if is_same else ">"} {left:52} | {right}')
    raise AssertionError('\n'.join(rows))


class _Player:
    def __init__(self, timeline: Timeline, origin_ns: int, seed: int | None) -> None:
        self._timeline = timeline
        self._origin_ns = origin_ns
        self._random = None if seed is None else random.Random(seed)
        self._witness = Witness(timeline.system, origin_ns)

    def run(self) -> list[Happened]:
        for step in self._timeline.steps:
            at_ns = step.at_ns + self._origin_ns
            self._advance(at_ns)
            where = f'{self._timeline.path}:{step.line}'
            if step.event is None:
                wakeup_ns = self._witness.scheduler.next_wakeup_ns()
                actual = 'never' if wakeup_ns is None else _text(wakeup_ns - self._origin_ns)
                wanted = 'never' if step.wakeup_ns == -1 else _text(step.wakeup_ns or 0)
                assert actual == wanted, f'{where}: wakes at {actual}, not at {wanted}'
            elif step.is_refused:
                try:
                    self._witness.handle(step.event(self._origin_ns), at_ns)
                except RefusedEvent:
                    continue
                raise AssertionError(f'{where}: the event was not refused')
            else:
                self._witness.handle(step.event(self._origin_ns), at_ns)
        self._advance(self._origin_ns + self._timeline.until_ns + 1)
        return [Happened(at_ns - self._origin_ns, self._relative(action))
                for at_ns, action in self._witness.log]

    def _relative(self, action: Action) -> Action:
        if isinstance(action, Defer):
            return replace(action, until_ns=action.until_ns - self._origin_ns)
        return action

    def _advance(self, to_ns: int) -> None:
        """Wake at every instant that the scheduler names before ``to_ns``."""
        while True:
            wakeup_ns = self._witness.scheduler.next_wakeup_ns()
            is_due = wakeup_ns is not None and wakeup_ns < to_ns
            self._tick(wakeup_ns if is_due and wakeup_ns is not None else to_ns)
            if not is_due or wakeup_ns is None:
                return
            self._witness.wake(wakeup_ns)

    def _tick(self, before_ns: int) -> None:
        first_ns = self._witness.now_ns + 1
        if self._random is None or first_ns >= before_ns:
            return
        for at_ns in sorted(self._random.randrange(first_ns, before_ns)
                            for _ in range(self._random.randint(0, MAX_TICKS_IN_A_GAP))):
            self._witness.wake(at_ns)


def _matches(expected: Expected, actual: Happened) -> bool:
    words = _words(actual.action)
    details = _details(actual.action)
    return (expected.at_ns == actual.at_ns and words[:len(expected.words)] == expected.words
            and len(words) - len(expected.words) <= (words[0] == 'dispatch')
            and all(_same(details[key], value) for key, value in expected.details.items()))


def _same(actual: str, wanted: str) -> bool:
    try:
        return float(actual) == float(wanted)
    except ValueError:
        return actual == wanted


def _words(action: Action) -> tuple[str, ...]:
    if isinstance(action, Dispatch):
        return 'dispatch', str(action.request_id), action.variant_id
    if isinstance(action, Terminate):
        return 'terminate', str(action.request_id), action.reason.value
    if isinstance(action, ReleaseInput):
        return 'release', str(action.request_id)
    if isinstance(action, Defer):
        return 'defer', str(action.request_id)
    assert isinstance(action, ReportOverload)
    return 'overload', action.after.value


def _details(action: Action) -> dict[str, str]:
    if isinstance(action, Dispatch):
        return {'planned': _text(action.planned_ns), 'tokens': str(action.tokens),
                'says': action.detail}
    if isinstance(action, Terminate):
        return {'age': _text(action.age_ns), 'wait': _text(action.queue_wait_ns),
                'deadline': 'met' if action.is_deadline_met else 'missed',
                'input': 'held' if action.holds_input else 'free',
                'tokens': str(action.tokens), 'quanta': str(action.quanta),
                'says': action.detail}
    if isinstance(action, Defer):
        return {'for': action.beneficiary, 'until': _text(action.until_ns),
                'says': action.detail}
    return {'says': action.detail} if isinstance(action, ReportOverload) else {}


def _text(duration_ns: int) -> str:
    return f'{duration_ns / NS_PER_MS:.6f}'.rstrip('0').rstrip('.')
