"""
Worlds so small that every instant can be tried: their millisecond is one nanosecond.

Plain random draws, not hypothesis: thousands of whole histories in which streams arrive with
jitter and a server answers what was dispatched. What the core measures in seconds is scaled
alike while ``small`` holds.
"""

from contextlib import contextmanager, ExitStack
from unittest.mock import patch

from vig_core import estimate, margin, overload, scheduler
from vig_core.contract import Contract, Criticality, MissBudget, QueuePolicy
from vig_core.cooperative import Cooperative
from vig_core.events import (BackendCompleted, BackendFailed, CancelRequested, ProfileDoubted,
                             QuantumCompleted, RequestArrived, TimeJumped, Woke)
from vig_core.model import Model, QualitySource, RuntimeProfile, System, Variant
from vig_core.units import NS_PER_MS
from worlds import Life

ORIGIN_NS = 3_600_000
KINDS = {
    'alone': {}, 'coupled': {'is_coupled': True}, 'learned': {'learns': True},
    'rare': {'slowness': 20}}
"""Nothing coupled; bans, interference, few instances; learned occupancies; seldom frames."""

_SCALED = ((estimate, 'HORIZON_NS'), (scheduler, 'HORIZON_NS'), (estimate, 'LONG_PAUSE_NS'),
           (estimate, 'COLD_HORIZON_NS'), (estimate, 'OCCUPANCY_HORIZON_NS'),
           (margin, 'NS_PER_S'), (overload, 'WINDOW_NS'), (overload, 'GRID_NS'),
           (overload, 'MIN_DWELL_NS'))


@contextmanager
def small(min_runs):
    """Scale the core's constants, and let so many runs be enough to learn from."""
    with ExitStack() as stack:
        for module, name in _SCALED:
            stack.enter_context(patch.object(module, name, getattr(module, name) // NS_PER_MS))
        stack.enter_context(patch.object(estimate, 'MIN_RUNS', min_runs))
        yield


def draw_system(chance, *, is_coupled=False, learns=False, slowness=1):
    """Two to four models, the first guarded and the last in the background, on some slots."""
    names = 'abcd'[:chance.randint(2, 4)]
    models = {name: _draw_model(chance, name, name == names[-1], slowness,
                                [None, None, 1, 1, 2] if is_coupled else [None]) for name in names}
    pairs = [frozenset(chance.choices(names, k=2)) for _ in range(chance.randrange(3))]
    backends = [each.backend_model for model in models.values() for each in model.variants]
    slowed = {(chance.choice(backends), chance.choice(backends)): chance.choice([1, 3, 7])
              for _ in range(chance.randrange(3))}
    return System(
        models, slots=chance.choice([1, 1, 2, 2, 3]),
        pipelining_depth=chance.choice([1, 1, 2] if learns else [0, 0, 1, 1, 2]),
        pipelining_lead_ns=chance.choice([None, 0, 1, 3, 6]), learns_occupancy=learns,
        no_corun=frozenset(pairs if is_coupled else ()),
        interference_ns=slowed if is_coupled else {}, margin_percent=chance.choice([100, 110]),
        inference_timeout_ns=chance.choice([60, 5000]), is_miss_aware=chance.random() < 0.2)


def _draw_model(chance, name, is_last, slowness, instances):
    is_first = name == 'a'
    criticality = Criticality(chance.choice(
        [0, 1] if is_first else [1, 2, 3, 3] if is_last else [0, 0, 1, 1, 2, 3]))
    is_guarded = is_first or (criticality.is_guardable and chance.random() < 0.9)
    policy = chance.choice([QueuePolicy.LATEST, *QueuePolicy])
    p99_ns = chance.choice([3, 5, 8, 10, 15, 20] if is_guarded else [4, 8, 12, 20, 30, 45])
    p99_ns *= chance.choice([1, slowness])
    profiles = [p99_ns, max(1, p99_ns // 3)][:chance.choice([1, 1, 2])]
    has_cycles = chance.random() < 0.3
    is_generative = not is_first and chance.random() < 0.2
    return Model(
        name, criticality,
        Contract(
            deadline_ns=chance.choice([10, 14, 20, 35] if is_guarded else [20, 40, 80, 400])
            * chance.choice([1, slowness]),
            max_age_ns=chance.choice([None, None, 20, 30, 60, 100]),
            period_ns=slowness * chance.choice([20, 25, 33, 50]) if is_guarded else None,
            release_jitter_ns=chance.choice([0, 0, 2, 5, 10]),
            variant_dwell_ns=chance.choice([0, 10, 30, 100]),
            consumer_period_ns=chance.choice([7, 20, 40]) if has_cycles else None,
            require_new_sample_each_cycle=chance.random() < 0.4,
            miss_budget=MissBudget(1, 4, 1) if has_cycles and chance.random() < 0.5 else None),
        tuple(Variant(f'v{rank}', f'{name}{rank}', RuntimeProfile(
            max(1, each_ns * chance.choice([5, 8, 10]) // 10), each_ns), 1 - rank / 4,
            QualitySource.MEASURED, instances=chance.choice(instances))
            for rank, each_ns in enumerate(profiles)),
        policy, 1 if policy is QueuePolicy.LATEST else chance.randint(1, 3),
        cooperative=None if not is_generative else Cooperative(
            base_cost_ns=chance.choice([0, 2, 6]), per_token_ns=chance.choice([1, 3]),
            max_total_tokens=chance.choice([3, 8, 20]), min_tokens=chance.randint(1, 3),
            max_overhead_permille=chance.choice([None, None, 0, 300]),
            prefill_per_token_ns=chance.choice([0, 0, 1])))


class _Story:
    """Streams that arrive and a server that answers, for one scheduler."""

    def __init__(self, chance, system, slowness):
        self.chance = chance
        self.system = system
        self.life = Life(system, ORIGIN_NS)
        self.oddity = chance.choice([0, 0, 0.05])
        self.answers = {}
        self.seen = {}
        self.next_id = 0
        self.streams = []
        for model in system.models.values():
            period_ns = model.contract.period_ns or slowness * chance.choice([10, 25, 60])
            for key in range(1 if model.policy is QueuePolicy.LATEST else chance.randint(1, 2)):
                self.streams.append({
                    'model': model, 'key': str(key), 'period': period_ns,
                    'due': ORIGIN_NS + chance.randrange(period_ns),
                    'jitter': chance.choice([0, 1, 3, 6]), 'lost': chance.choice([0, 0.1, 0.3]),
                    'transport': chance.choice([0, 0, 1, 3, 8])})

    def tell(self, until_ns):
        """Go on until an instant."""
        while True:
            stream = min(self.streams, key=lambda each: each['due'])
            answered = min(self.answers, key=self.answers.__getitem__, default=None)
            at_ns = min(stream['due'], self.answers.get(answered, until_ns))
            if at_ns >= until_ns:
                return
            self.life.wake_until(at_ns)
            if self._expect_answers():
                continue
            if answered is not None and self.answers[answered] == at_ns:
                del self.answers[answered]
                self._feed(self._answer(answered, at_ns), at_ns)
            elif self.chance.random() < self.oddity:
                self._feed(self._oddity(), at_ns)
            else:
                self._arrive(stream, at_ns)

    def _feed(self, event, at_ns):
        if event is not None:
            self.life.feed(event, at_ns)
            self._expect_answers()

    def _expect_answers(self):
        """Let the server take its time for what is new; says whether anything is."""
        witness, chance, is_any = self.life.witness, self.chance, False
        for request_id in sorted(witness.occupied):
            began_ns, action = witness.dispatched[request_id]
            if self.seen.get(request_id) == began_ns:
                continue
            self.seen[request_id], is_any = began_ns, True
            if len(self.answers) >= self.system.slots and chance.random() < 0.8:
                began_ns = max(began_ns, *self.answers.values())
            took_ns = max(1, action.planned_ns * chance.choice(
                [4, 6, 8, 9, 10, 10, 11, 15, 25]) // 10)
            self.answers[request_id] = max(witness.now_ns + 1, began_ns + took_ns)
        return is_any

    def _answer(self, request_id, at_ns):
        witness, chance = self.life.witness, self.chance
        if request_id not in witness.occupied:
            return None
        if chance.random() < 0.02:
            self.answers[request_id] = at_ns + 50
            return BackendFailed(request_id, 'x', is_over=False)
        tokens = witness.asked[request_id]
        if not tokens:
            return BackendCompleted(request_id)
        return QuantumCompleted(request_id, chance.choice([tokens, tokens, -(-tokens // 2)]),
                                is_end=chance.random() < 0.1)

    def _oddity(self):
        chance = self.chance
        return chance.choice([
            ProfileDoubted(f'{chance.choice(sorted(self.system.models))}0', 'x'),
            CancelRequested(chance.randrange(self.next_id + 1), 'x'), TimeJumped('x')])

    def _arrive(self, stream, at_ns):
        chance, model = self.chance, stream['model']
        stream['due'] += max(1, stream['period'] + chance.randint(-stream['jitter'],
                                                                  stream['jitter']))
        if chance.random() < stream['lost']:
            return
        self.next_id += 1
        self._feed(RequestArrived(
            self.next_id, model.name, model.name + stream['key'], stream['key'],
            at_ns - stream['transport'], **({} if model.cooperative is None else {
                'prompt_tokens': chance.choice([0, 3]), 'max_tokens': chance.choice([0, 2, 6])})),
            at_ns)


def tell(chance, kind):
    """Draw a world of a kind and live through a while of it."""
    options = KINDS[kind]
    slowness = options.get('slowness', 1)
    story = _Story(chance, draw_system(chance, **options), slowness)
    until_ns = ORIGIN_NS + (chance.choice([100, 200, 400]) if slowness == 1 else 2500)
    story.tell(until_ns)
    story.life.feed(Woke(), until_ns)
    return story.life
