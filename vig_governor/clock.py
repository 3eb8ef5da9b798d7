"""
The clocks: the steady one that everything is scheduled on, and what a message's stamp is worth.

Nothing here raises for any stamp, and every instant is an integer number of nanoseconds: ROS,
system and simulated time never meet as objects that refuse to be compared.
"""

import time
from typing import Any, NamedTuple

from vig_core.events import Stamp
from vig_core.units import MAX_AGE_OF_A_STAMP_NS, NS_PER_MS, NS_PER_S

_DAY_NS = 86_400 * NS_PER_S
_EPOCH_LIKE_NS = 1_000_000_000 * NS_PER_S
"""Clocks beyond 2001 count from 1970; smaller ones count from a boot or a simulation's start."""
_LONGEST_UPTIME_NS = 3_653 * _DAY_NS
"""Ten years: a smaller stamp among stamps that count from 1970 counts from somebody's boot."""
_SURELY_RECORDED_NS = 30 * _DAY_NS
"""Clocks drift and time zones err by hours or days; a month back is a recording."""


class SteadyClock:
    """
    The scheduler's clock: monotonic, one hour ahead when it is made.

    The hour is headroom: a stamp that is clamped to an age of one hour still has a capture
    instant that is not negative.
    """

    def __init__(self) -> None:
        """Start at 3600 s."""
        self._offset_ns = MAX_AGE_OF_A_STAMP_NS - time.monotonic_ns()

    def now_ns(self) -> int:
        """Nanoseconds since one hour before this clock was made; never falls."""
        return time.monotonic_ns() + self._offset_ns


class JudgedStamp(NamedTuple):
    """
    When a message was captured, and how far that is to be believed.

    :ivar generation_ns: on the scheduler's clock.
    :ivar detail: what is odd about the stamp, one sentence with its numbers; else empty.
    """

    generation_ns: int
    stamp: Stamp
    detail: str


def stamp_to_ns(stamp: Any) -> int:
    """
    Nanoseconds of a ``builtin_interfaces/Time``, also of one that is not normalised.

    :param stamp: anything with integer ``sec`` and ``nanosec``, of any sign and size.
    """
    return int(stamp.sec) * NS_PER_S + int(stamp.nanosec)


def judge_stamp(stamp_ns: int, ros_now_ns: int, arrival_ns: int, *, time_source: str,
                bad_stamp: str, max_clock_skew_ns: int) -> JudgedStamp:
    """
    Turn a message's stamp into a capture instant on the scheduler's clock.

    :param stamp_ns: of the message's header, on the ROS clock.
    :param ros_now_ns: the same ROS clock at the arrival.
    :param arrival_ns: the scheduler's clock at the arrival, at least one hour.
    :param time_source: ``arrival`` ignores the stamp altogether; else ``stamp``.
    :param bad_stamp: ``arrival`` takes a frame without a believable stamp as captured on
        arrival (``TRUSTED``, with a detail); else ``refuse``.
    :param max_clock_skew_ns: how far ahead a stamp may be and still count as captured now.
    """
    if time_source == 'arrival':
        return JudgedStamp(arrival_ns, Stamp.TRUSTED, '')
    age_ns = ros_now_ns - stamp_ns
    if stamp_ns == 0 or age_ns < -max_clock_skew_ns:
        if stamp_ns == 0:
            finding = 'the stamp is zero: the sender does not stamp its messages'
            cure = 'let it stamp them'
        else:
            finding = (f'the stamp is {_text(-age_ns)} ahead of ROS time, more than '
                       f'max_clock_skew_ms allows ({_text(max_clock_skew_ns)})')
            cure = _cure_of_a_future(stamp_ns, ros_now_ns)
        if bad_stamp == 'arrival':
            return JudgedStamp(arrival_ns, Stamp.TRUSTED,
                               f'{finding}; taken as captured on arrival (bad_stamp: arrival)')
        return JudgedStamp(
            arrival_ns, Stamp.INVALID,
            f'{finding}; {cure}, or set bad_stamp: arrival (only such frames count as captured '
            'on arrival) or time_source: arrival (all do)')
    if age_ns < 0:
        return JudgedStamp(arrival_ns, Stamp.AHEAD,
                           f'the stamp is {_text(-age_ns)} ahead of ROS time; taken as captured '
                           'now')
    if age_ns > MAX_AGE_OF_A_STAMP_NS:
        return JudgedStamp(arrival_ns - MAX_AGE_OF_A_STAMP_NS, Stamp.CLAMPED,
                           _looks_like(stamp_ns, ros_now_ns))
    return JudgedStamp(arrival_ns - age_ns, Stamp.TRUSTED, '')


def _cure_of_a_future(stamp_ns: int, ros_now_ns: int) -> str:
    """Say what to mend when stamps come from the future."""
    if ros_now_ns == 0:
        return ('ROS time is 0: use_sim_time is set but nothing publishes /clock; start the '
                'simulation or the bag player with --clock, or unset use_sim_time')
    if stamp_ns >= _EPOCH_LIKE_NS > ros_now_ns:
        return (f'ROS time is simulated (now {_text(ros_now_ns)}) while the sender stamps with '
                'the time of day; set use_sim_time on the sender too, or unset it here')
    return 'synchronise both clocks (NTP or PTP)'


def _looks_like(stamp_ns: int, ros_now_ns: int) -> str:
    """Say which clock an implausibly old stamp was probably read from."""
    age_ns = ros_now_ns - stamp_ns
    if stamp_ns < _LONGEST_UPTIME_NS and ros_now_ns >= _EPOCH_LIKE_NS:
        return (f'the stamp {_text(stamp_ns)} looks like time since boot, while ROS time counts '
                'from 1970; let the driver stamp with the ROS clock, or set time_source: arrival')
    replay = 'set use_sim_time and play with --clock'
    if age_ns >= _SURELY_RECORDED_NS:
        return (f'the stamp is {age_ns // _DAY_NS} days old, like a replayed bag without '
                f'simulated time; {replay}')
    return (f'the clocks differ by {_text(age_ns)}: synchronise them (NTP or PTP) or set '
            f'time_source: arrival; if this is a replayed bag, {replay}')


def _text(duration_ns: int) -> str:
    """Show a duration exactly: '40.0 ms', '4.000 s', '560000 s'."""
    sign, rest_ns = ('-', -duration_ns) if duration_ns < 0 else ('', duration_ns)
    if rest_ns < NS_PER_S:
        return f'{sign}{rest_ns // NS_PER_MS}.{rest_ns % NS_PER_MS // 100_000} ms'
    whole, part_ns = divmod(rest_ns, NS_PER_S)
    if part_ns < NS_PER_MS or whole >= 100_000:
        return f'{sign}{whole} s'
    return f'{sign}{whole}.{part_ns // NS_PER_MS:03d} s'
