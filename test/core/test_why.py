"""The sentences that no timeline tells: what decided, and what would have had to be different."""

import pytest
from vig_core.actions import OverloadState
from vig_core.admission import class_refused, no_variant_text
from vig_core.contract import Criticality
from vig_core.overload import GRID_NS, OverloadController
from vig_core.units import ms
from vig_core.why import (
    BadOutcomes, ClassRefused, NoTimeLeft, QueueFull, Stale, text_bytes, TooOld,
)
from vig_core.why_waiting import Awaiting, Chosen, NothingFits, Vetoed, Waited
from virtual_server import model, variant


def raised(steps):
    """Climb that many states; each for 600 permille of bad outcomes."""
    controller, at_ns = OverloadController(0), 1
    while list(OverloadState).index(controller.state) < steps:
        controller.note(at_ns, good=8, bad=12, bad_cycles=7)
        controller.judge()
        at_ns += GRID_NS
    return controller


@pytest.mark.parametrize('criticality, exit_permille', [
    (Criticality.BEST_EFFORT, 150), (Criticality.NORMAL, 250)])
def test_a_refused_class_is_told_what_raised_the_state_and_when_it_comes_in_again(
        criticality, exit_permille):
    text = str(class_refused(criticality, raised(4)))
    assert text.startswith(f'overload protected_only refuses {criticality.name.lower()}: ')
    assert ' cycles, ' in text and ' bad in 2 s (' in text
    assert text.endswith(f' (600 permille, {exit_permille} would do)')


def test_the_evidence_of_the_last_climb_outlives_a_fall():
    controller = raised(1)
    evidence, at_ns = controller.raised_by, controller.next_grid_ns
    while controller.state is not OverloadState.NORMAL:
        controller.note(at_ns, good=100)
        controller.judge()
        at_ns += GRID_NS
    assert controller.raised_by is evidence and evidence.permille == 600


def test_each_variant_that_may_not_run_says_why():
    three = (variant('m', 'a', p50=5, quality=0.9), variant('m', 'b', p50=5, quality=0.5))
    assert no_variant_text(model('m', variants=three, min_quality=0.8, approved_variants=('b',))
                           ) == ('no variant of m may run: a is not approved, b has quality 0.5 '
                                 'and needs 0.8')


def test_infeasible_names_at_most_three_variants_with_their_plans():
    text = str(NoTimeLeft(ms(5), tuple((name, ms(10), ms(12)) for name in 'abcd')))
    assert text.count('(planned 12.0 ms), 5.0 ms too long') == 3 and 'd needs' not in text


def test_a_frame_that_no_age_could_save_says_so():
    assert str(Stale('main', ms(80), ms(40), ms(10))).endswith('and no age would do')


@pytest.mark.parametrize('waited, took, planned, remedy', [
    (5, 50, 20, 'it ran 50.0 ms, 30.0 ms longer than planned; 40.0 ms would have done'),
    (30, 20, 20, 'a wait of 20.0 ms would have done'),
    (6, 8, 20, 'it ran 8.0 ms of 20.0 ms planned after waiting 6.0 ms; together 4.0 ms would have '
     'done'),
    (1, 8, 20, 'it was too late when it arrived already')])
def test_a_result_that_is_too_old_names_what_took_longest_and_what_would_have_done(
        waited, took, planned, remedy):
    text = str(TooOld(ms(60), ms(10), ms(waited), ms(took), ms(planned)))
    assert text.startswith('60.0 ms old at delivery, 10.0 ms beyond max_age: ')
    assert text.endswith(remedy)


def test_a_veto_without_a_remedy_promises_none():
    text = str(Vetoed('front', ms(8), False, ms(17), ms(24), ms(33), ms(40), None, False))
    assert text == ('front is expected in 8.0 ms, needs 17.0 ms and has 24.0 ms; this job needs '
                    '40.0 ms and would make it 33.0 ms late')


@pytest.mark.parametrize('in_ns, is_overdue, begin', [
    (None, False, 'front waits, needs'), (0, True, 'front is overdue, needs')])
def test_a_veto_says_where_its_frame_is(in_ns, is_overdue, begin):
    text = str(Vetoed('front', in_ns, is_overdue, 1, 2, 3, 4, ms(7), True))
    assert text.startswith(begin)
    assert text.endswith('; at most 7.0 ms or one more slot would have let it start')


def test_a_frame_that_awaits_its_successor_names_the_slot_that_it_lacked():
    assert str(Awaiting(ms(12), ms(3))).endswith('a slot 3.0 ms earlier would have let it start')


@pytest.mark.parametrize('chosen, text', [
    (Chosen(ms(20), ms(12)), '12.0 ms were left to its deadline, 8.0 ms less than planned'),
    (Chosen(ms(9), ms(12), is_overloaded=True),
     '12.0 ms were left to its deadline; overload takes the fastest'),
    (Chosen(ms(9), ms(12), (('large', ms(10)),)),
     '12.0 ms were left to its deadline; large needs 10.0 ms and fits, but not for '
     'variant_dwell yet')])
def test_a_dispatch_compares_its_plan_with_the_time_that_is_left(chosen, text):
    assert str(chosen) == text


def test_what_a_request_waited_for_is_told_in_order():
    assert str(Waited('gone', ms(9), 'front', 'front')).endswith('9.0 ms for a fresher frame')
    assert str(Waited('gone', ms(9), 'front', '')).endswith('9.0 ms for its turn')
    assert str(Waited('gone', ms(9), 'job', 'front', 4, '', ms(7), True, 2)) == (
        'gone; waited 9.0 ms held for front, then behind request 4 (there 7.0 ms, '
        'whose end is not proven) and 2 more')


@pytest.mark.parametrize('why', [
    Stale('short_range', ms(45.3), ms(129.9), ms(1234.7)),
    ClassRefused('reject_best_effort', 'best_effort', BadOutcomes(504, 117, 41, 18, 2000), 150)])
def test_a_status_with_all_its_numbers_fits_into_two_hundred_characters(why):
    text = str(Waited(why, ms(722.1), 'archive', 'pose', 13372, 'face', ms(18.4)))
    assert len(text) <= 200, len(text)
    for number in ('722.1 ms', '13372', '18.4 ms'):
        assert number in text


def test_a_job_that_fits_no_gap_says_so_in_two_hundred_characters():
    text = str(NothingFits('face', ms(139.8), 1, ms(263.4), 21, ms(189.9)))
    assert '21 tokens to read, 1 to write' in text and '123.6 ms too long' in text
    assert len(text) <= 200, len(text)


def test_a_queue_that_gives_the_oldest_up_names_the_one_that_took_its_place():
    assert 'gave way to request 8; a capacity of 3 would have done' in str(
        QueueFull('m', 2, 'requests', 5, ms(10), gives_way_to=8))


@pytest.mark.parametrize('count, text', [
    (1023, '1023 bytes'), (1024, '1.0 KiB'), (1024 ** 2 * 3 // 2, '1.5 MiB')])
def test_memory_is_shown_in_the_unit_that_reads_best(count, text):
    assert text_bytes(count) == text
