"""Overload states: on evidence, one step at a time, on a fixed grid."""

import pytest
from vig_core import overload
from vig_core.actions import OverloadState
from vig_core.overload import (ENTRY_PERMILLE, EXIT_PERMILLE, GRID_NS, MIN_DWELL_NS,
                               MIN_EVIDENCE, OverloadController, WINDOW_NS)


def judge_until(controller, end_ns):
    """Judge all grid instants up to one; the reports with their instants."""
    found = []
    while controller.next_grid_ns <= end_ns:
        at_ns = controller.next_grid_ns
        found += [(at_ns, report.before, report.after) for report in controller.judge()]
    return found


def test_levels_of_exit_lie_below_those_of_entry():
    assert all(low < high for low, high in zip(EXIT_PERMILLE, ENTRY_PERMILLE))
    assert list(ENTRY_PERMILLE) == sorted(ENTRY_PERMILLE)


def test_it_begins_normal_and_stays_so_without_evidence():
    controller = OverloadController(0)
    assert judge_until(controller, 100 * GRID_NS) == []
    assert controller.is_quiet


@pytest.mark.parametrize('bad, total, enters', [
    (1, 20, True), (1, 21, False), (19, 19, False), (MIN_EVIDENCE, MIN_EVIDENCE, True)])
def test_the_first_step_needs_enough_evidence_and_five_percent(bad, total, enters):
    controller = OverloadController(0)
    controller.note(1, good=total - bad, bad=bad)
    assert bool(judge_until(controller, GRID_NS)) is enters


def test_up_one_step_per_dwell_even_when_everything_is_bad():
    controller = OverloadController(0)
    controller.note(1, bad=1000)
    steps = judge_until(controller, GRID_NS + 3 * MIN_DWELL_NS)
    assert [at_ns for at_ns, _, _ in steps] == [
        GRID_NS + number * MIN_DWELL_NS for number in range(4)]
    assert [after for _, _, after in steps] == list(OverloadState)[1:]


def test_down_one_step_per_dwell_when_the_evidence_has_left_the_window():
    controller = OverloadController(0)
    controller.note(1, bad=1000)
    judge_until(controller, GRID_NS + 3 * MIN_DWELL_NS)
    steps = judge_until(controller, WINDOW_NS + 4 * MIN_DWELL_NS)
    first_ns = WINDOW_NS + GRID_NS
    assert [at_ns for at_ns, _, _ in steps] == [
        first_ns + number * MIN_DWELL_NS for number in range(4)]
    assert [after for _, _, after in steps] == list(reversed(OverloadState))[1:]


def test_between_exit_and_entry_the_state_stays():
    controller = OverloadController(0)
    controller.note(1, good=90, bad=10)
    assert len(judge_until(controller, GRID_NS)) == 1
    controller.note(GRID_NS + 1, good=200)
    assert judge_until(controller, 15 * GRID_NS) == []
    controller.note(15 * GRID_NS + 1, good=300)
    assert [after for _, _, after in judge_until(controller, 16 * GRID_NS)] == [
        OverloadState.NORMAL]


def test_skipping_a_quiet_time_keeps_the_grid():
    controller = OverloadController(7)
    controller.skip_to(7 + 12 * GRID_NS + 5)
    assert controller.next_grid_ns == 7 + 12 * GRID_NS
    controller.skip_to(0)
    assert controller.next_grid_ns == 7 + 12 * GRID_NS


def test_the_report_says_what_was_counted():
    controller = OverloadController(0)
    controller.note(1, good=15, bad=5, bad_cycles=2)
    report, = controller.judge()
    assert report.detail == (
        '250 permille of 20 guarded outcomes in the last 2000 ms were bad (2 uncovered cycles, '
        '3 requests late or dropped)')
    assert controller.raised_by is report.because
    assert overload.STATES[1] is controller.state


SLOW_NS = 250_000_000


def test_slow_streams_are_judged_on_their_last_twenty_outcomes():
    controller = OverloadController(0, SLOW_NS)
    for number in range(1, 20):
        controller.note(number * SLOW_NS // 2, bad=1)
    assert judge_until(controller, 10 * SLOW_NS - GRID_NS) == []
    controller.note(10 * SLOW_NS - 1, bad=1)
    [(at_ns, _, after)] = judge_until(controller, 10 * SLOW_NS)
    assert (at_ns, after) == (10 * SLOW_NS, OverloadState.FRESHNESS_PRESSURE)


def test_evidence_is_forgotten_after_twenty_slow_cycles_at_the_latest():
    controller = OverloadController(0, SLOW_NS)
    controller.note(1, bad=MIN_EVIDENCE)
    end_ns = MIN_EVIDENCE * SLOW_NS
    steps = judge_until(controller, 2 * end_ns)
    assert all(at_ns <= end_ns + 5 * MIN_DWELL_NS for at_ns, _, _ in steps)
    assert controller.is_quiet


def test_fast_streams_are_judged_on_two_seconds_whatever_else_there_is():
    fast, mixed = OverloadController(0), OverloadController(0, SLOW_NS)
    for number in range(500):
        for controller in (fast, mixed):
            controller.note(number * GRID_NS // 5, good=number % 7, bad=int(number > 200))
    assert judge_until(fast, 100 * GRID_NS) == judge_until(mixed, 100 * GRID_NS)
