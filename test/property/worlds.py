"""Random systems and random histories for the laws, and how to live through them again."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
import random

from hypothesis import strategies as st

from vig_core.actions import Defer
from vig_core.contract import (Contract, Criticality, DeliverySemantics, MissBudget, Overflow,
                               QueuePolicy)
from vig_core.cooperative import Cooperative
from vig_core.events import (BackendCompleted, BackendFailed, CancelRequested, DispatchRefused,
                             DrainExpired, DrainStarted, Event, ExecutionsProvenOver,
                             QuantumCompleted, RequestArrived, Stamp, TimeJumped)
from vig_core.model import Model, QualitySource, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.units import NS_PER_MS, NS_PER_S
from witness import Witness

ORIGIN_NS = 3600 * NS_PER_S
Ticks = Callable[[int, int], Iterable[int]]
NAMES = 'abcd'


def _ms(*values):
    return st.sampled_from([round(value * NS_PER_MS) for value in values])


@st.composite
def variants(draw, name):
    """One to three variants of a model."""
    count = draw(st.sampled_from([1, 1, 1, 2, 3]))
    made = []
    for index in range(count):
        p50_ns = draw(_ms(2, 5, 10, 20, 30, 60))
        made.append(Variant(
            variant_id=f'v{index}', backend_model=f'{name}{index}',
            profile=RuntimeProfile(p50_ns, p50_ns + draw(_ms(0, 1, 5, 20))),
            quality=1.0 - index / 4,
            quality_source=draw(st.sampled_from([QualitySource.MEASURED] * 9
                                                + [QualitySource.UNKNOWN]))))
    return tuple(made)


def cost_models():
    """What quanta of a generative model cost; some are never split."""
    return st.builds(
        Cooperative, base_cost_ns=_ms(0, 2, 6), per_token_ns=_ms(1, 3),
        min_tokens=st.integers(1, 3), max_total_tokens=st.integers(3, 20),
        prefill_per_token_ns=_ms(0, 0.1),
        new_prompt_per_token_ns=st.one_of(st.none(), _ms(0.5, 2)),
        max_overhead_permille=st.sampled_from([None, None, 0, 300]),
        is_split=st.sampled_from([True, True, True, False]))


@st.composite
def models(draw, name):
    """A model of any policy, class and contract."""
    policy = draw(st.sampled_from(QueuePolicy))
    capacity = 1 if policy is QueuePolicy.LATEST else draw(st.integers(1, 3))
    deadline_ns = draw(_ms(10, 20, 35, 60, 100, 200))
    consumer_period_ns = draw(st.one_of(st.none(), _ms(2, 5, 40)))
    budget = (MissBudget(1, 4, 1) if consumer_period_ns is not None and draw(st.booleans())
              else None)
    made = draw(variants(name))
    contract = Contract(
        approved_variants=draw(st.one_of(st.none(), st.lists(
            st.sampled_from([each.variant_id for each in made]), min_size=1,
            unique=True).map(tuple))),
        delivery_semantics=draw(st.sampled_from(
            [DeliverySemantics.LATEST_STATE] if policy.is_latest else DeliverySemantics)),
        observation_window=draw(st.sampled_from([1, 3, 300])),
        minimum_background_progress_percent=draw(st.sampled_from([0, 20])),
        deadline_ns=deadline_ns, max_age_ns=draw(st.one_of(st.none(), _ms(20, 40, 66, 150))),
        period_ns=draw(st.one_of(st.none(), _ms(20, 33, 50, 100))),
        min_quality=draw(st.sampled_from([0, 0, 0.6])),
        variant_dwell_ns=draw(_ms(0, 30, 100)), release_jitter_ns=draw(_ms(0, 0, 2, 6)),
        consumer_period_ns=consumer_period_ns, miss_budget=budget,
        require_new_sample_each_cycle=draw(st.booleans()))
    return Model(
        name=name, criticality=draw(st.sampled_from(Criticality)), contract=contract,
        variants=made, policy=policy, capacity=capacity,
        overflow=draw(st.sampled_from(Overflow)), cooperative=draw(st.one_of(
            st.none(), st.none(), cost_models())))


@st.composite
def shared(draw, made):
    """Let some backend models have few instances, and two models share one now and then."""
    backends = sorted({each.backend_model for model in made.values() for each in model.variants})
    instances = {name: draw(st.sampled_from([None, None, None, 1, 1, 2])) for name in backends}
    alias = {backends[-1]: backends[0]} if draw(st.integers(0, 3)) == 0 else {}
    return {name: replace(model, variants=tuple(
        replace(each, backend_model=alias.get(each.backend_model, each.backend_model),
                instances=instances[alias.get(each.backend_model, each.backend_model)])
        for each in model.variants)) for name, model in made.items()}


@st.composite
def systems(draw):
    """One to four models on one to three slots."""
    names = NAMES[:draw(st.integers(1, 4))]
    made = {name: draw(models(name)) for name in names}
    made = draw(shared(made))
    pairs = [frozenset(pair) for pair in ('ab', 'ac', 'bd', 'aa') if set(pair) <= set(names)]
    backends = [each.backend_model for model in made.values() for each in model.variants]
    return System(
        models=made, streams={name: name for name in names if draw(st.booleans())},
        slots=draw(st.sampled_from([1, 1, 1, 2, 3])),
        pipelining_depth=draw(st.sampled_from([0, 0, 0, 1])),
        pipelining_lead_ns=draw(st.one_of(st.none(), _ms(0, 3, 20))),
        learns_occupancy=draw(st.booleans()),
        no_corun=frozenset(pair for pair in pairs if draw(st.integers(0, 3)) == 0),
        interference_ns=draw(st.dictionaries(
            st.tuples(st.sampled_from(backends), st.sampled_from(backends)), _ms(1, 7),
            max_size=2)),
        margin_percent=draw(st.sampled_from([100, 110])),
        inference_timeout_ns=draw(_ms(25, 70, 400)),
        max_inflight_bytes=draw(st.sampled_from([300, 1 << 30])),
        is_miss_aware=draw(st.booleans()))


@st.composite
def awaited_systems(draw):
    """Two or three guarded cameras and a long job: every wait is for an expected frame."""
    made = {}
    for name in 'abc'[:draw(st.integers(2, 3))]:
        p99_ns = draw(_ms(3, 5, 10))
        made[name] = Model(
            name=name, policy=QueuePolicy.LATEST_PER_KEY, capacity=2,
            criticality=draw(st.sampled_from([Criticality.PROTECTED, Criticality.HIGH])),
            contract=Contract(
                deadline_ns=draw(_ms(10, 14, 20, 40)), max_age_ns=draw(_ms(40, 100)),
                period_ns=draw(_ms(20, 25, 50)), release_jitter_ns=draw(_ms(0, 2, 6))),
            variants=(Variant('v', name, RuntimeProfile(p99_ns // 2, p99_ns)),))
    for name in 'xy':
        made[name] = Model(
            name=name, policy=QueuePolicy.NEVER_DROP, capacity=3,
            criticality=draw(st.sampled_from([Criticality.HIGH, Criticality.BEST_EFFORT])),
            contract=Contract(deadline_ns=draw(_ms(30, 400))),
            variants=(Variant('big', f'{name}0', RuntimeProfile(
                2 * NS_PER_MS, draw(_ms(4, 12, 17, 30))), 1.0),
                Variant('small', f'{name}1', RuntimeProfile(
                    NS_PER_MS, draw(_ms(2, 3))), 0.5))[:draw(st.integers(1, 2))])
    made = draw(shared(made))
    names = sorted(made)
    backends = [each.backend_model for model in made.values() for each in model.variants]
    bans = interference = ()
    if draw(st.booleans()):
        bans = draw(st.lists(st.lists(st.sampled_from(names), min_size=1, max_size=2), max_size=3))
        interference = draw(st.lists(st.tuples(
            st.sampled_from(backends), st.sampled_from(backends), _ms(1, 3, 7)), max_size=3))
    return System(models=made, slots=draw(st.sampled_from([1, 1, 2, 3])),
                  pipelining_depth=draw(st.sampled_from([0, 0, 1, 2])), margin_percent=100,
                  pipelining_lead_ns=draw(st.one_of(st.none(), _ms(0, 1, 3))),
                  learns_occupancy=draw(st.booleans()),
                  no_corun=frozenset(map(frozenset, bans)),
                  interference_ns={(victim, other): added for victim, other, added
                                   in interference})


@dataclass(frozen=True)
class Move:
    """What happens next, told without knowing the state: choices are indices modulo."""

    kind: str
    gap_ns: int
    wakes: bool
    choice: int
    age_ns: int
    bytes: int


KINDS = (['arrive'] * 10 + ['complete'] * 7 + ['fail', 'break', 'refuse', 'cancel', 'prove',
                                               'jump', 'invalid'])

awaited_moves = st.lists(st.builds(
    Move, kind=st.sampled_from(['arrive', 'arrive', 'complete', 'complete', 'complete']),
    gap_ns=st.sampled_from([0, 1, NS_PER_MS, 2 * NS_PER_MS, 4 * NS_PER_MS, 9 * NS_PER_MS,
                            25 * NS_PER_MS]),
    wakes=st.booleans(), choice=st.integers(0, 7),
    age_ns=st.sampled_from([0, NS_PER_MS, 5 * NS_PER_MS, 12 * NS_PER_MS]),
    bytes=st.just(0)), min_size=4, max_size=40)

moves = st.lists(st.builds(
    Move, kind=st.sampled_from(KINDS),
    gap_ns=st.sampled_from([0, 0, 1, NS_PER_MS, 3 * NS_PER_MS, 5 * NS_PER_MS, 10 * NS_PER_MS,
                            20 * NS_PER_MS, 33 * NS_PER_MS, 100 * NS_PER_MS, 400 * NS_PER_MS]),
    wakes=st.booleans(), choice=st.integers(0, 7),
    age_ns=st.sampled_from([0, 0, 0, NS_PER_MS, 4 * NS_PER_MS, 15 * NS_PER_MS, 70 * NS_PER_MS]),
    bytes=st.sampled_from([0, 100, 200])), min_size=1, max_size=50)


class Life:
    """One scheduler's history: its events, and its actions with their instants."""

    def __init__(self, system: System, origin_ns: int = ORIGIN_NS) -> None:
        self.witness = Witness(system, origin_ns)
        self.origin_ns = origin_ns
        self.events: list[tuple[int, Event]] = []

    @property
    def log(self):
        """All actions, with instants relative to the origin."""
        return [(at_ns - self.origin_ns, self._relative(action))
                for at_ns, action in self.witness.log]

    def _relative(self, action):
        if isinstance(action, Defer):
            return replace(action, until_ns=action.until_ns - self.origin_ns)
        return action

    def feed(self, event: Event, at_ns: int) -> None:
        """Wake at all instants before ``at_ns`` that the scheduler names, then feed."""
        self.wake_until(at_ns)
        self.events.append((at_ns - self.origin_ns, event))
        self.witness.handle(event, at_ns)

    def wake_until(self, before_ns: int, ticks: Ticks | None = None) -> None:
        """Wake at every named instant before this one, and at others if asked."""
        while True:
            wakeup_ns = self.witness.scheduler.next_wakeup_ns()
            is_due = wakeup_ns is not None and wakeup_ns < before_ns
            end_ns = wakeup_ns if is_due else before_ns
            if ticks is not None and self.witness.now_ns < end_ns:
                for at_ns in ticks(self.witness.now_ns, end_ns):
                    self.witness.wake(at_ns)
            if not is_due:
                return
            self.witness.wake(wakeup_ns)


def live(system: System, script: list[Move], *, ends: bool = True) -> Life:
    """Turn moves into the events that fit the state, and end with an expired drain."""
    life = Life(system)
    next_id = 0
    at_ns = ORIGIN_NS
    for move in script:
        wakeup_ns = life.witness.scheduler.next_wakeup_ns()
        if move.wakes and wakeup_ns is not None and wakeup_ns < at_ns + 500 * NS_PER_MS:
            at_ns = max(at_ns, wakeup_ns + move.choice % 3 - 1)
        else:
            at_ns += move.gap_ns
        life.wake_until(at_ns)
        event = _event(life, move, next_id, at_ns)
        if isinstance(event, RequestArrived):
            next_id += 1 + move.choice // 4
        if event is not None:
            life.feed(event, at_ns)
    if ends:
        life.feed(DrainStarted(), at_ns)
        life.feed(DrainExpired('the end of the example'), at_ns + 50 * NS_PER_MS)
        for request_id in sorted(life.witness.occupied):
            life.feed(answer(life.witness, request_id), at_ns + 60 * NS_PER_MS)
    return life


def _event(life: Life, move: Move, next_id: int, at_ns: int) -> Event | None:
    witness = life.witness
    if move.kind in ('arrive', 'invalid'):
        names = sorted(witness.system.models)
        name = names[move.choice % len(names)]
        camera = move.choice // 4
        return RequestArrived(
            request_id=next_id, model=name, stream=f'{name}{camera or ""}', key=str(camera),
            generation_ns=at_ns - move.age_ns, payload_bytes=move.bytes,
            stamp=Stamp.INVALID if move.kind == 'invalid' else Stamp.TRUSTED,
            **({} if witness.system.models[name].cooperative is None else {
                'prompt_tokens': move.bytes // 10, 'max_tokens': move.choice}))
    if move.kind == 'jump':
        return TimeJumped('again')
    running = sorted(witness.occupied)
    if move.kind == 'cancel':
        known = witness.waiting_ids + running
        return CancelRequested(known[move.choice % len(known)]) if known else None
    if move.kind == 'prove':
        over = tuple(request_id for request_id in running if request_id in witness.ended)
        return ExecutionsProvenOver(over, 'quiet') if over else None
    if not running:
        return None
    request_id = running[move.choice % len(running)]
    if move.kind == 'complete':
        return answer(witness, request_id, move.choice)
    if move.kind == 'refuse':
        return DispatchRefused(request_id, Reason.CAPACITY, 'no memory')
    return BackendFailed(request_id, 'an error', is_over=move.kind == 'fail')


def answer(witness: Witness, request_id: int, choice: int = 7) -> Event:
    """Let the server answer: a generative job with too much, all, some or none of its text."""
    asked = witness.asked.get(request_id, 0)
    if not asked:
        return BackendCompleted(request_id)
    tokens = [asked, asked, asked, asked // 2, 1, 0, asked + 1, asked][choice]
    return QuantumCompleted(request_id, tokens, is_end=choice == 7)


def a_few(seed: int) -> Ticks:
    """Tick at none to three random instants."""
    chance = random.Random(seed)
    return lambda begin_ns, end_ns: sorted(
        chance.randrange(begin_ns, end_ns) for _ in range(chance.randint(0, 3)))


def relive(life: Life, *, shift_ns: int = 0, ticks: Ticks | None = None, before=None) -> Life:
    """
    Feed the same events to a new scheduler.

    :param shift_ns: added to every instant.
    :param ticks: where to tick too, from an instant on and before another.
    :param before: called with the new life before each event.
    """
    again = Life(life.witness.system, life.origin_ns + shift_ns)
    for offset_ns, event in life.events:
        at_ns = again.origin_ns + offset_ns
        again.wake_until(at_ns, ticks)
        if before is not None:
            before(again)
        if isinstance(event, RequestArrived):
            event = replace(event, generation_ns=event.generation_ns + shift_ns)
        again.feed(event, at_ns)
    return again
