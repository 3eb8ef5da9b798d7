"""Who goes first, and the credits on the slots."""

from itertools import permutations

from making import request
import pytest
from vig_core.clockwork import Clockwork, NEVER
from vig_core.estimate import Occupancy
from vig_core.order import ranked
from vig_core.slots import SlotTable
from vig_core.units import ms
from virtual_server import model


def test_class_then_deadline_then_capture_then_arrival():
    low = model('low', criticality='best_effort', deadline=1)
    high = model('high', criticality='high', deadline=900)
    near, far = model('near', deadline=50), model('far', deadline=60)
    expected = [request(1, high, 20), request(7, near, 0), request(8, far, -5),
                request(9, near, 5), request(10, near, 5), request(2, low, 0)]
    for mixed in permutations(expected):
        assert ranked(list(mixed)) == expected
        assert ranked(list(mixed), lambda _: True) == expected


def test_urgency_ranks_within_a_class_and_never_above_it():
    high, normal = model('high', criticality='high'), model('normal', deadline=1)
    calm, urgent = request(1, normal, 0), request(2, normal, 50)
    vip = request(3, high, 100)

    assert ranked([urgent, calm, vip]) == [vip, calm, urgent]
    assert ranked([calm, urgent, vip], lambda each: each is urgent) == [vip, urgent, calm]


def take(table, number, now=0.0, planned=20.0, optimistic=10.0, occupancy=None, of=None):
    """Dispatch a request onto the table; times in milliseconds."""
    each = request(number, model(of or f'm{number}'))
    each.variant = each.model.variants[0]
    return table.take(each, now_ns=ms(now), planned_ns=ms(planned), optimistic_ns=ms(optimistic),
                      occupancy=occupancy)


def free_ns(table, now_ns):
    """Predict when each slot is free."""
    return [at_ns for at_ns, _ in table.next_free(Clockwork(now_ns))]


def begin(table, backend_model, now_ns):
    """Predict when an execution could begin."""
    return table.begin(backend_model, Clockwork(now_ns))


@pytest.mark.parametrize('slots, depth', [(1, 0), (1, 2), (3, 0), (2, 1)])
def test_there_are_as_many_credits_as_slots_times_one_plus_depth(slots, depth):
    table = SlotTable(slots, depth)
    for number in range(slots * (1 + depth)):
        assert table.has_credit
        take(table, number)
    assert not table.has_credit
    table.end(0, now_ns=ms(5))
    assert table.has_credit


def test_a_dispatch_takes_the_slot_that_is_free_first():
    table = SlotTable(2, 1)
    assert [take(table, 0, planned=30).slot, take(table, 1, planned=20).slot,
            take(table, 2, planned=20).slot, take(table, 3).slot] == [0, 1, 1, 0]


def test_what_is_pipelined_begins_when_what_it_follows_has_ended():
    table = SlotTable(1, 1)
    take(table, 0)
    second = take(table, 1)
    assert second.begins_at_ns == ms(20)
    assert free_ns(table, ms(5)) == [ms(40)]
    table.end(0, now_ns=ms(12))
    assert second.begins_at_ns == ms(12)
    assert free_ns(table, ms(12)) == [ms(32)]


def test_an_overrun_is_free_now_at_the_earliest():
    table = SlotTable(1, 0)
    take(table, 0)
    assert free_ns(table, ms(55)) == [ms(55)]


def test_what_runs_may_end_at_any_moment_and_what_is_behind_it_takes_its_median():
    table = SlotTable(1, 2)
    take(table, 0)
    assert table.earliest_start_ns(ms(4)) == ms(4)
    take(table, 1)
    assert table.earliest_start_ns(ms(4)) == ms(14)
    assert table.too_late_from_ns(ms(50)) == ms(40)


def test_a_quarantined_slot_takes_nothing_until_its_end():
    table = SlotTable(2, 1)
    take(table, 0)
    table.quarantine(0)
    assert (table.busy, table.quarantined, table.is_fully_quarantined) == (1, 1, False)
    assert [take(table, number).slot for number in (1, 2)] == [1, 1]
    assert not table.has_credit
    table.quarantine(1)
    assert table.is_fully_quarantined
    table.end(0, now_ns=ms(1))
    assert table.has_credit
    assert not table.is_fully_quarantined


def test_where_everything_is_quarantined_the_next_start_is_assumed_now():
    table = SlotTable(1, 0)
    take(table, 0)
    table.quarantine(0)
    assert table.earliest_start_ns(ms(77)) == ms(77)


def test_neighbours_are_all_that_ran_at_the_same_time_at_any_moment():
    table = SlotTable(2, 0)
    first = take(table, 0)
    take(table, 1)
    table.end(1, now_ns=ms(1))
    third = take(table, 2)
    assert first.neighbours == {'m1_main', 'm2_main'}
    assert third.neighbours == {'m0_main'}


def test_behind_another_a_learned_occupancy_counts_and_on_an_idle_slot_the_whole():
    table = SlotTable(1, 1, ms(4))
    learned = Occupancy(ms(9), ms(7))
    take(table, 0, occupancy=learned)
    assert free_ns(table, 0) == [ms(16)]
    take(table, 1, now=5, occupancy=learned)
    assert free_ns(table, ms(5)) == [ms(25)]
    table.end(0, now_ns=ms(14))
    assert free_ns(table, ms(14)) == [ms(21)], 'from 10 on for 9, but not before 5 + 16'


def test_a_learned_occupancy_is_never_longer_than_the_plan():
    table = SlotTable(1, 1, ms(4))
    take(table, 0)
    take(table, 1, occupancy=Occupancy(ms(30), ms(25)))
    assert free_ns(table, 0) == [ms(32)]


def test_the_next_is_sent_when_the_learned_medians_have_nearly_passed():
    table = SlotTable(1, 2, ms(4))
    take(table, 0)
    assert table.opens_at_ns == ms(6)
    table.look(ms(6))
    take(table, 1, now=6, occupancy=Occupancy(ms(9), ms(3)))
    assert table.opens_at_ns == ms(12), '6 without the way, then 3, but sent at 6 not before 12'


def apart(table, number, at):
    """End a request; milliseconds since the answer that it followed."""
    apart_ns = table.end(number, now_ns=ms(at)).apart_ns(ms(at))
    return None if apart_ns is None else apart_ns / ms(1)


def test_what_was_sent_before_an_answer_followed_that_answer():
    table = SlotTable(1, 2)
    for number in range(3):
        take(table, number)
    assert [apart(table, number, at) for number, at in ((0, 20), (1, 32), (2, 40))] == [
        None, 12, 8]
    take(table, 3, now=40)
    assert apart(table, 3, 60) is None


def test_on_several_slots_it_followed_the_answer_that_freed_one():
    table = SlotTable(2, 1)
    for number in range(4):
        take(table, number)
    assert [apart(table, number, at) for number, at in ((0, 20), (1, 24), (3, 32), (2, 35))] == [
        None, None, 8, 15]


def test_behind_an_execution_without_a_proven_end_nothing_is_learned():
    table = SlotTable(2, 1)
    take(table, 0)
    table.quarantine(0)
    take(table, 1)
    take(table, 2)
    table.end(1, now_ns=ms(20))
    assert apart(table, 2, 30) is None


def test_where_what_runs_together_matters_nothing_is_learned():
    table = SlotTable(1, 1, is_apart=True)
    take(table, 0)
    take(table, 1)
    table.end(0, now_ns=ms(20))
    assert apart(table, 1, 30) is None


def test_a_model_takes_a_slot_while_an_instance_is_unused_on_the_others():
    table = SlotTable(3, 0, instances={'m_main': 2})
    assert begin(table, 'm_main', 0).behind_id is None
    take(table, 1, of='m', planned=30)
    assert not table.takes_last_instance('other_main', Clockwork(0))
    assert table.takes_last_instance('m_main', Clockwork(0))
    take(table, 2, of='m', planned=20)
    found = begin(table, 'm_main', ms(5))
    assert (found.at, found.behind_id) == ((ms(20), False), 2)
    assert begin(table, 'm_main', ms(25)).at == (ms(25), True)
    assert begin(table, 'other_main', ms(5)).behind_id is None
    table.end(1, now_ns=ms(26))
    assert begin(table, 'm_main', ms(26)).behind_id is None


def test_behind_its_own_execution_a_model_may_be_pipelined_whatever_the_limit():
    table = SlotTable(2, 1, instances={'m_main': 1})
    take(table, 1, of='m', planned=20)
    assert begin(table, 'other_main', 0).at == (0, True)
    assert begin(table, 'm_main', 0).at == (ms(20), False)
    claim = take(table, 2, of='m', planned=20)
    assert claim.slot == take(table, 3, of='n').slot ^ 1
    assert claim.ahead == -1, 'nothing is learned of how long it keeps its slot'
    found = begin(table, 'm_main', 0)
    assert (found.at, found.behind_id) == ((ms(40), False), 2)
    assert table.successor_free('n_main', Clockwork(0)) == [(ms(20), False), (ms(40), False)]


def test_what_has_no_proven_end_counts_one_by_one_and_ends_never():
    table = SlotTable(3, 1, instances={'m_main': 2})
    for number in (1, 2):
        take(table, number, of='m')
    take(table, 3, of='m')
    assert begin(table, 'm_main', 0).behind_id is None
    table.quarantine(1)
    found = begin(table, 'm_main', 0)
    assert (found.at, found.behind_id) == ((NEVER, False), 1)
    table.end(3, now_ns=ms(1))
    assert begin(table, 'm_main', ms(1)).behind_id is None
