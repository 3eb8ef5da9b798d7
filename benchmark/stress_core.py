"""
Ten million random transitions through the core.

Every kind of event, floods, cancellations, failures, lost answers, time jumps, drains and instants
far apart, from a seeded generator, on systems of every policy and class. Checks without keeping a
history: no exception, every accepted request ends exactly once and only after it was accepted,
never more executions than credits, what waits and runs stays bounded, memory stays flat.
``EVENTS=10000000`` by default; prints the rate.
"""

import argparse
from collections.abc import Iterator
import os
from pathlib import Path
from random import Random
import resource
import sys
import time

from vig_core.actions import Action, Dispatch, ReleaseInput, Terminate
from vig_core.contract import Contract, Criticality, MissBudget, Overflow, QueuePolicy
from vig_core.errors import RefusedEvent
from vig_core.events import (
    BackendCompleted, BackendFailed, CancelRequested, DispatchRefused, DrainExpired, DrainStarted,
    Event, ExecutionsProvenOver, RequestArrived, Stamp, TimeJumped, Woke,
)
from vig_core.model import Model, QualitySource, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.units import ms, NS_PER_MS, NS_PER_S

LIFE = 200_000
"""Events of one scheduler; then it drains to nothing and another system begins."""

GROWTH_KIB = 4096
"""Allowed growth of the greatest memory use after the first fifth."""

GAPS_NS = (0, 0, 0, 1, NS_PER_MS, 3 * NS_PER_MS, 8 * NS_PER_MS, 20 * NS_PER_MS)


class Stress:
    """One scheduler under fire, with just enough memory to hold it to its promises."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.system = make_system(self.chance)
        self.now_ns = 3600 * NS_PER_S
        self.scheduler = Scheduler(self.system, origin_ns=self.now_ns)
        self.names = sorted(self.system.models)
        self.next_id = 0
        self.waiting: dict[int, None] = {}
        self.running: dict[int, None] = {}
        self.unproven: dict[int, None] = {}
        self.events = self.accepted = self.ended = 0
        self.most_waiting = sum(model.capacity for model in self.system.models.values())
        self.credits = self.system.slots * (1 + self.system.pipelining_depth)

    def feed(self, event: Event) -> None:
        """Feed one event and hold the answer to the promises."""
        self.events += 1
        try:
            actions = self.scheduler.handle(event, now_ns=self.now_ns)
        except RefusedEvent:
            return
        if isinstance(event, RequestArrived):
            self.accepted += 1
            self.waiting[event.request_id] = None
        elif isinstance(event, BackendCompleted | DispatchRefused) or (
                isinstance(event, BackendFailed) and event.is_over):
            self.unproven.pop(event.request_id, None)
        for action in actions:
            self._book(action)
        assert len(self.waiting) <= self.most_waiting, 'more waits than the queues hold'
        assert len(self.running) + len(self.unproven) <= self.credits, 'more than the credits'

    def _book(self, action: Action) -> None:
        if isinstance(action, Dispatch):
            del self.waiting[action.request_id]
            self.running[action.request_id] = None
        elif isinstance(action, Terminate):
            self.ended += 1
            if action.request_id in self.running:
                del self.running[action.request_id]
                if action.holds_input:
                    self.unproven[action.request_id] = None
            else:
                del self.waiting[action.request_id]
        elif isinstance(action, ReleaseInput):
            self.unproven.pop(action.request_id, None)

    def live(self, events: int) -> int:
        """Feed about this many events, drain, and say how many they were."""
        for event in self._story(events):
            self.feed(event)
        self.feed(DrainStarted())
        self.now_ns += 50 * NS_PER_MS
        self.feed(DrainExpired('the end'))
        for request_id in [*self.running, *self.unproven]:
            self.feed(BackendCompleted(request_id))
        assert self.ended == self.accepted, f'{self.accepted - self.ended} requests never ended'
        assert self.scheduler.is_idle
        return self.events

    def _story(self, events: int) -> Iterator[Event]:
        chance = self.chance
        while self.events < events:
            kind = chance.random()
            if kind < 0.001:
                self.now_ns += chance.choice([NS_PER_S, 60 * NS_PER_S, 86_400 * NS_PER_S])
            elif kind < 0.01:
                for _ in range(chance.randrange(200)):
                    yield self._arrival()
            wakeup_ns = self.scheduler.next_wakeup_ns()
            if wakeup_ns is not None and chance.random() < 0.3 and (
                    wakeup_ns < self.now_ns + NS_PER_S):
                self.now_ns = max(self.now_ns, wakeup_ns)
                yield Woke()
            else:
                self.now_ns += chance.choice(GAPS_NS)
                yield self._event(chance.random())

    def _event(self, kind: float) -> Event:
        chance = self.chance
        if kind < 0.5:
            return self._arrival()
        if kind < 0.85 and self.running:
            return BackendCompleted(chance.choice(list(self.running)))
        if kind < 0.88 and self.running:
            return BackendFailed(chance.choice(list(self.running)), 'x', chance.random() < 0.5)
        if kind < 0.89 and self.running:
            return DispatchRefused(chance.choice(list(self.running)), Reason.CAPACITY, 'x')
        if kind < 0.93 and self.waiting:
            return CancelRequested(chance.choice(list(self.waiting)))
        if kind < 0.95 and self.unproven:
            return BackendCompleted(chance.choice(list(self.unproven)))
        if kind < 0.96 and self.unproven:
            return ExecutionsProvenOver(tuple(self.unproven), 'quiet')
        if kind < 0.961:
            return TimeJumped('x')
        if kind < 0.97:
            return BackendCompleted(self.next_id + chance.randint(-50, 50))
        return Woke()

    def _arrival(self) -> RequestArrived:
        chance = self.chance
        name = chance.choice(self.names)
        camera = chance.randrange(3)
        self.next_id += 1
        return RequestArrived(
            self.next_id, name, f'{name}{camera}', str(camera),
            self.now_ns - chance.choice([0, NS_PER_MS, 5 * NS_PER_MS, 70 * NS_PER_MS]),
            chance.choice([0, 1000, 10**6]),
            Stamp.INVALID if chance.random() < 0.01 else Stamp.TRUSTED)


def make_system(chance: Random) -> System:
    """Draw a system of one to six models."""
    models = {}
    for index in range(chance.randint(1, 6)):
        name, policy = f'm{index}', chance.choice(list(QueuePolicy))
        consumer_ns = chance.choice([None, ms(10), ms(33)])
        budget = None if consumer_ns is None else MissBudget(2, 20, 1)
        models[name] = Model(
            name, chance.choice(list(Criticality)),
            Contract(
                deadline_ns=ms(chance.choice([10, 33, 100])),
                max_age_ns=chance.choice([None, ms(40), ms(66), ms(200)]),
                period_ns=chance.choice([None, ms(20), ms(33)]),
                release_jitter_ns=ms(chance.choice([0, 2])), consumer_period_ns=consumer_ns,
                miss_budget=budget),
            tuple(Variant(f'v{rank}', f'{name}_{rank}', RuntimeProfile(
                ms(20 // (rank + 1)), ms(30 // (rank + 1))), 1 - rank / 10,
                QualitySource.MEASURED) for rank in range(chance.randint(1, 3))),
            policy, 1 if policy is QueuePolicy.LATEST else chance.randint(1, 4),
            chance.choice(list(Overflow)))
    return System(models, slots=chance.randint(1, 3), pipelining_depth=chance.choice([0, 0, 1]),
                  inference_timeout_ns=ms(chance.choice([25, 400])),
                  max_inflight_bytes=chance.choice([2 * 10**6, 1 << 30]),
                  is_miss_aware=chance.random() < 0.3)


def resident_kib() -> int:
    """Memory that this process uses now."""
    try:
        pages = int(Path('/proc/self/statm').read_text(encoding='ascii').split()[1])
        return pages * resource.getpagesize() // 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    """Feed the events; say rate and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--events', type=int, default=os.environ.get('EVENTS', '10000000'))
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    done = ended = lives = 0
    settled_kib: int | None = None
    most_kib = 0
    begin = told = time.monotonic()
    while done < args.events:
        stress = Stress(args.seed * 1_000_003 + lives)
        done += stress.live(min(LIFE, args.events - done))
        ended += stress.ended
        lives += 1
        if done >= args.events // 5:
            used_kib = resident_kib()
            settled_kib = used_kib if settled_kib is None else settled_kib
            most_kib = max(most_kib, used_kib)
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f'{done:>10} events, {done / (told - begin):,.0f} per second, '
                  f'{resident_kib()} KiB', flush=True)
    grown_kib = most_kib - (settled_kib or most_kib)
    rate = done / (time.monotonic() - begin)
    print(f'{done} transitions in {lives} lives, {ended} requests ended once each, '
          f'{rate:,.0f} transitions per second; memory grew by {grown_kib} KiB after the first '
          f'fifth (allowed {GROWTH_KIB})')
    return 0 if grown_kib <= GROWTH_KIB else 1


if __name__ == '__main__':
    sys.exit(main())
