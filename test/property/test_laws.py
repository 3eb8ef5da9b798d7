"""
Laws that hold for every system and every history.

What holds after each single call is checked by the ``Witness`` that every history here passes
through: conservation, credits, one waiting request per key, no idle slot without a reason.
"""

import copy
from dataclasses import replace
from unittest.mock import patch

from hypothesis import given, strategies as st
import pytest
from vig_core import estimate
from vig_core.errors import RefusedEvent
from vig_core.events import (BackendCompleted, BackendFailed, CancelRequested, DispatchRefused,
                             ExecutionsProvenOver, QuantumCompleted, RequestArrived,
                             TimeJumped, Woke)
from vig_core.request import Reason
from worlds import (a_few, answer, awaited_moves, awaited_systems, live, moves, ORIGIN_NS, relive,
                    systems)

shifts = st.sampled_from([1, 999_999_999, 86_400_000_000_001, 7 << 50])


@given(systems(), moves)
def test_every_accepted_request_ends_exactly_once(system, script):
    life = live(system, script)
    witness = life.witness
    assert sorted(witness.ended) == sorted(witness.arrivals)
    assert not witness.occupied
    assert witness.scheduler.is_idle
    snapshot = witness.scheduler.snapshot(now_ns=witness.now_ns)
    assert sum(sum(stream.counts.values()) for stream in snapshot.streams) == len(
        witness.arrivals)


@given(systems(), moves)
def test_the_same_history_gives_the_same_actions(system, script):
    life = live(system, script)
    assert relive(life).log == life.log


@given(systems(), moves, shifts)
def test_a_shift_in_time_changes_nothing(system, script, shift_ns):
    life = live(system, script)
    assert relive(life, shift_ns=shift_ns).log == life.log


@given(systems(), moves, st.integers(0, 1 << 30))
def test_extra_ticks_change_nothing(system, script, seed):
    life = live(system, script)
    assert relive(life, ticks=a_few(seed)).log == life.log


@given(awaited_systems(), awaited_moves, st.integers(0, 1 << 30))
def test_extra_ticks_change_nothing_while_frames_are_awaited(system, script, seed):
    life = live(system, script)
    assert relive(life, ticks=a_few(seed)).log == life.log


@given(awaited_systems(), awaited_moves, st.integers(0, 1 << 30))
def test_extra_ticks_change_nothing_where_occupancies_are_learned_at_once(system, script, seed):
    system = replace(system, learns_occupancy=True)
    with patch.object(estimate, 'MIN_RUNS', 1):
        life = live(system, script)
        assert relive(life, ticks=a_few(seed)).log == life.log


@given(systems(), moves)
def test_looking_changes_nothing(system, script):
    life = live(system, script)

    def look(again):
        again.witness.scheduler.snapshot(now_ns=again.witness.now_ns + 12_345_678)
        again.witness.scheduler.next_wakeup_ns()
    assert relive(life, before=look).log == life.log


def wrong_events(witness):
    """Events that contradict the history, whatever it was, each with an instant."""
    now_ns = witness.now_ns
    last_id = max(witness.arrivals, default=-1)
    model = sorted(witness.system.models)[0]
    good = {'request_id': last_id + 1, 'model': model, 'stream': model, 'key': '',
            'generation_ns': now_ns}
    yield Woke(), now_ns - 1
    yield RequestArrived(**good), now_ns - 1
    for change in ({'request_id': last_id}, {'model': 'nobody'}, {'generation_ns': now_ns + 1},
                   {'payload_bytes': -1}):
        if change != {'request_id': -1}:
            yield RequestArrived(**{**good, **change}), now_ns
    strangers = witness.waiting_ids[:1] + sorted(
        set(witness.ended) - witness.occupied)[-1:] + [last_id + 7]
    for request_id in strangers:
        yield BackendCompleted(request_id), now_ns + 5
        yield QuantumCompleted(request_id, 1, False), now_ns
        yield BackendFailed(request_id, 'x'), now_ns
        yield BackendFailed(request_id, 'x', is_over=False), now_ns
        yield DispatchRefused(request_id, Reason.CAPACITY, 'x'), now_ns
        yield ExecutionsProvenOver((request_id,), 'x'), now_ns
    for request_id in sorted(witness.occupied - set(witness.ended)):
        if witness.asked[request_id]:
            yield BackendCompleted(request_id), now_ns
            yield QuantumCompleted(request_id, -1, True), now_ns
        else:
            yield QuantumCompleted(request_id, 1, True), now_ns
    for request_id in sorted(witness.occupied)[:1]:
        yield DispatchRefused(request_id, Reason.STALE, 'x'), now_ns
        if request_id in witness.ended:
            yield ExecutionsProvenOver((request_id, request_id), 'x'), now_ns
        else:
            yield ExecutionsProvenOver((request_id,), 'x'), now_ns
    yield None, now_ns
    yield 'arrived', now_ns


@given(systems(), moves)
def test_refused_events_change_nothing(system, script):
    life = live(system, script)

    def provoke(again):
        for event, at_ns in wrong_events(again.witness):
            with pytest.raises(RefusedEvent):
                again.witness.scheduler.handle(event, now_ns=at_ns)
    assert relive(life, before=provoke).log == life.log


ids = st.integers(-1, 40)
any_event = st.one_of(
    st.builds(RequestArrived, request_id=ids, model=st.sampled_from('abcdx'),
              stream=st.sampled_from('abcdx'), key=st.sampled_from(['', '0', '1']),
              generation_ns=st.integers(ORIGIN_NS - 10**8, ORIGIN_NS + 10**9),
              payload_bytes=st.integers(-1, 400)),
    st.builds(BackendCompleted, ids),
    st.builds(QuantumCompleted, ids, st.integers(-1, 30), st.booleans()),
    st.builds(BackendFailed, ids, st.just('x'), st.booleans()),
    st.builds(DispatchRefused, ids, st.sampled_from(Reason), st.just('x')),
    st.builds(CancelRequested, ids), st.just(TimeJumped('x')), st.just(Woke()),
    st.builds(ExecutionsProvenOver, st.lists(ids, max_size=3).map(tuple), st.just('x')))


@given(systems(), moves, st.lists(st.tuples(any_event, st.integers(-10**9, 10**9)), max_size=8))
def test_any_event_at_any_instant_is_taken_or_refused_without_a_trace(system, script, probes):
    life = live(system, script, ends=False)
    scheduler, now_ns = life.witness.scheduler, life.witness.now_ns
    memo = {id(each): each for each in (system, *system.models.values())}
    untouched = copy.deepcopy(scheduler, dict(memo))
    for event, offset_ns in probes:
        trial = copy.deepcopy(scheduler, dict(memo))
        try:
            trial.handle(event, now_ns=now_ns + offset_ns)
        except RefusedEvent:
            with pytest.raises(RefusedEvent):
                scheduler.handle(event, now_ns=now_ns + offset_ns)
    for request_id in sorted(life.witness.occupied):
        now_ns += 3_000_000
        event = answer(life.witness, request_id)
        assert scheduler.handle(event, now_ns=now_ns) == untouched.handle(event, now_ns=now_ns)
        assert scheduler.next_wakeup_ns() == untouched.next_wakeup_ns()
    assert scheduler.snapshot(now_ns=now_ns) == untouched.snapshot(now_ns=now_ns)
