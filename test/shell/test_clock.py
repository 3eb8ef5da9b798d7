"""What a message's stamp is worth; the field cases carry their ids."""

from types import SimpleNamespace

from hypothesis import given, strategies as st
import pytest

from vig_core.events import Stamp

from vig_governor.clock import judge_stamp, stamp_to_ns, SteadyClock

MS = 1_000_000
S = 1_000 * MS
HOUR = 3_600 * S
NOW = 1_780_000_000 * S
ARRIVAL = 2 * HOUR


def judge(stamp_ns, now_ns=NOW, *, time_source='stamp', bad_stamp='refuse', skew_ns=100 * MS):
    """Judge a stamp with the defaults of vig.yaml."""
    return judge_stamp(stamp_ns, now_ns, ARRIVAL, time_source=time_source, bad_stamp=bad_stamp,
                       max_clock_skew_ns=skew_ns)


def test_the_steady_clock_starts_one_hour_ahead_and_never_falls():
    clock = SteadyClock()
    readings = [clock.now_ns() for _ in range(1000)]
    assert HOUR <= readings[0] < HOUR + S
    assert readings == sorted(readings)
    assert all(type(reading) is int for reading in readings)


def test_an_ordinary_stamp_is_captured_that_long_before_its_arrival():
    assert judge(NOW - 20 * MS) == (ARRIVAL - 20 * MS, Stamp.TRUSTED, '')


def test_a_stamp_of_this_very_instant_has_age_zero():
    assert judge(NOW) == (ARRIVAL, Stamp.TRUSTED, '')


def test_an_age_of_exactly_one_hour_is_still_believed():
    assert judge(NOW - HOUR) == (ARRIVAL - HOUR, Stamp.TRUSTED, '')
    assert judge(NOW - HOUR - 1)[:2] == (ARRIVAL - HOUR, Stamp.CLAMPED)


def test_a_stamp_ahead_within_the_tolerance_is_captured_now_and_says_the_offset():
    judged = judge(NOW + 40 * MS + 500_000)
    assert judged[:2] == (ARRIVAL, Stamp.AHEAD)
    assert '40.5 ms ahead' in judged.detail


def test_the_tolerance_itself_is_within_and_one_nanosecond_more_is_not():
    assert judge(NOW + 100 * MS).stamp is Stamp.AHEAD
    assert judge(NOW + 100 * MS + 1).stamp is Stamp.INVALID
    assert judge(NOW + 1, skew_ns=0).stamp is Stamp.INVALID


def test_s01_a_zero_stamp_is_invalid_and_names_both_fixes():
    judged = judge(0)
    assert judged.stamp is Stamp.INVALID
    assert 'zero' in judged.detail
    assert 'bad_stamp: arrival' in judged.detail
    assert 'time_source: arrival' in judged.detail


def test_s01_a_zero_stamp_is_captured_on_arrival_where_that_is_accepted():
    judged = judge(0, bad_stamp='arrival')
    assert judged[:2] == (ARRIVAL, Stamp.TRUSTED)
    assert 'bad_stamp: arrival' in judged.detail


@pytest.mark.parametrize('stamp_ns', [0, NOW + 4 * S, NOW - 10 * HOUR, NOW - 20 * MS])
def test_time_source_arrival_looks_at_no_stamp(stamp_ns):
    assert judge(stamp_ns, time_source='arrival') == (ARRIVAL, Stamp.TRUSTED, '')


def test_s03_a_stamp_since_boot_is_clamped_and_its_clock_is_named():
    judged = judge(312_400 * MS)
    assert judged[:2] == (ARRIVAL - HOUR, Stamp.CLAMPED)
    assert '312.400 s looks like time since boot' in judged.detail
    assert 'years' not in judged.detail and 'days' not in judged.detail


def test_s04_a_stamp_four_seconds_ahead_is_invalid_and_the_next_good_one_is_trusted():
    ahead = judge(685_003 * MS, 681_004 * MS)
    assert ahead.stamp is Stamp.INVALID
    assert '3.999 s ahead' in ahead.detail
    assert '100.0 ms' in ahead.detail
    assert 'NTP or PTP' in ahead.detail
    assert judge(680_990 * MS, 681_040 * MS) == (ARRIVAL - 50 * MS, Stamp.TRUSTED, '')


def test_s04_where_accepted_it_is_captured_on_arrival_not_in_the_future():
    assert judge(NOW + 4 * S, bad_stamp='arrival')[:2] == (ARRIVAL, Stamp.TRUSTED)


def test_s06_clocks_560000_seconds_apart_are_named_as_such():
    judged = judge(NOW - 560_000 * S)
    assert judged[:2] == (ARRIVAL - HOUR, Stamp.CLAMPED)
    assert 'clocks differ by 560000 s' in judged.detail
    assert 'NTP or PTP' in judged.detail


def test_c01_a_bag_of_two_years_ago_without_simulated_time_is_recognised():
    judged = judge(NOW - 730 * 86_400 * S)
    assert judged[:2] == (ARRIVAL - HOUR, Stamp.CLAMPED)
    assert '730 days old' in judged.detail
    assert 'use_sim_time' in judged.detail and '--clock' in judged.detail


def test_a_bag_of_yesterday_gets_the_replay_hint_too():
    assert '--clock' in judge(NOW - 86_400 * S).detail


def test_stamps_of_today_while_nothing_publishes_the_simulated_clock_are_explained():
    judged = judge(NOW, 0)
    assert judged.stamp is Stamp.INVALID
    assert 'nothing publishes /clock' in judged.detail


def test_stamps_of_today_in_a_running_simulation_are_explained():
    judged = judge(NOW, 12 * S)
    assert judged.stamp is Stamp.INVALID
    assert 'simulated (now 12 s)' in judged.detail


def test_simulated_time_is_judged_like_any_other():
    assert judge(99_950 * MS, 100 * S) == (ARRIVAL - 50 * MS, Stamp.TRUSTED, '')
    assert 'since boot' not in judge(S, 2 * HOUR).detail


@given(st.integers(), st.integers(), st.sampled_from(['stamp', 'arrival']),
       st.sampled_from(['refuse', 'arrival']), st.integers(min_value=0, max_value=10 * S))
def test_c08_any_two_integers_are_judged_without_an_exception(
        stamp_ns, now_ns, time_source, bad_stamp, skew_ns):
    judged = judge(stamp_ns, now_ns, time_source=time_source, bad_stamp=bad_stamp,
                   skew_ns=skew_ns)
    assert type(judged.generation_ns) is int
    assert ARRIVAL - HOUR <= judged.generation_ns <= ARRIVAL
    if judged.stamp is not Stamp.TRUSTED:
        assert judged.detail
    if bad_stamp == 'arrival':
        assert judged.stamp is not Stamp.INVALID


@given(st.integers(min_value=-2**31, max_value=2**31 - 1),
       st.integers(min_value=0, max_value=2**32 - 1))
def test_c08_a_stamp_becomes_an_exact_integer(sec, nanosec):
    value = stamp_to_ns(SimpleNamespace(sec=sec, nanosec=nanosec))
    assert value == sec * 10**9 + nanosec
    assert type(value) is int
