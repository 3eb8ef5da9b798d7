"""Checks of the ROS side: topics, types, QoS, rates, stamps, and what DDS can carry."""

from collections.abc import Callable, Iterable, Iterator
from functools import wraps

from vig_core.units import NS_PER_MS, NS_PER_S, text_ms

from vig_governor.config import StreamBinding
from vig_governor.doctor.context import Context, Heard, PROFILE_VARIABLES
from vig_governor.doctor.finding import fail, Finding, ok, skip, warn

RATE_TOLERANCE_PERCENT = 20
MIN_MESSAGES = 5
LARGE_BYTES = 512 * 1024
"""Above it a message no longer fits into the default shared-memory segment of Fast DDS."""

Look = Callable[[Context], Iterable[Finding]]
_BETTER_TRANSPORT = ('dds:=shm on this host, dds:=large_data between computers (README, "Large '
                     'images over DDS"); the cameras need the same')


def _needs_graph(look: Look) -> Look:
    """Skip a check where ROS was not asked."""
    @wraps(look)
    def check(context: Context) -> Iterable[Finding]:
        if context.graph is None:
            return (skip(f'not checked: {context.why_no_graph}'),)
        return look(context)
    return check


@_needs_graph
def check_topics(context: Context) -> Iterable[Finding]:
    """Whether somebody publishes each stream's topic, with its type and a QoS that we can hear."""
    count = 0
    for binding, heard in _heard(context):
        at = f'streams.{binding.name}'
        if not heard.publishers:
            yield warn('0 publishers', 'start the camera, or correct the topic (ros2 topic list)',
                       about=f'{at} ({heard.topic})', stream=binding.name)
            continue
        count += 1
        for publisher in heard.publishers:
            if publisher.message_type != binding.message_type:
                yield fail(f'{at}: {publisher.node} publishes {publisher.message_type} on '
                           f'{heard.topic}, not {binding.message_type}',
                           f'set {at}.type, or correct the topic', stream=binding.name)
            elif publisher.incompatible:
                yield fail(f'{at}: 0 messages of {publisher.node} will arrive on {heard.topic}: '
                           f'{publisher.incompatible}', 'change one of the two by qos_overrides',
                           stream=binding.name)
    yield ok(f'{count} of {len(context.config.streams)} topics have a publisher')


@_needs_graph
def check_rates(context: Context) -> Iterable[Finding]:
    """Whether frames come as often as the contract says."""
    count, total = 0, 0
    for binding, heard in _heard(context):
        at = f'streams.{binding.name}'
        total += len(heard.arrivals_ns)
        period_ns = context.config.system.models[binding.model].contract.period_ns
        number = len(heard.arrivals_ns)
        if not number and heard.publishers:
            yield warn(f'{at}: 0 messages in {context.graph.listened_s:g} s although '
                       f'{heard.publishers[0].node} publishes {heard.topic}',
                       'see the checks of topics and transport', stream=binding.name)
        if number < MIN_MESSAGES or period_ns is None:
            continue
        count += 1
        mean_ns = (heard.arrivals_ns[-1] - heard.arrivals_ns[0]) // (number - 1)
        if abs(mean_ns - period_ns) * 100 > period_ns * RATE_TOLERANCE_PERCENT:
            yield warn(f'{at}: a frame every {text_ms(mean_ns)}, and the contract says '
                       f'{text_ms(period_ns)}: the look-ahead expects frames at wrong instants',
                       f'set models.{binding.model}.contract.period_ms to '
                       f'{round(mean_ns / NS_PER_MS)}', stream=binding.name, mean_ns=mean_ns)
    yield ok(f'{count} streams at the rate of their contract') if total else \
        skip(f'not checked: 0 messages in {context.graph.listened_s:g} s')


@_needs_graph
def check_stamps(context: Context) -> Iterable[Finding]:
    """Whether capture times can be believed: zero, from the future, or too old on arrival."""
    count = 0
    for binding, heard in _heard(context):
        at = f'streams.{binding.name}'
        if heard.zero_stamps and binding.bad_stamp == 'refuse':
            yield fail(f'{at}: {heard.zero_stamps} of {len(heard.arrivals_ns)} messages have a '
                       'zero stamp and would end invalid_stamp', 'make the driver stamp its '
                       f'frames, or set {at}.bad_stamp: arrival', stream=binding.name)
        if not heard.ages_ns:
            continue
        count += 1
        ages = sorted(heard.ages_ns)
        median_ns, oldest_ns = ages[len(ages) // 2], ages[-1]
        max_age_ns = context.config.system.models[binding.model].contract.max_age_ns
        if ages[0] < -binding.max_clock_skew_ns:
            yield fail(f'{at}: stamps lie up to {text_ms(-ages[0])} in the future, '
                       f'{text_ms(binding.max_clock_skew_ns)} are tolerated',
                       'synchronise the clocks of both computers (chrony, ptp4l), or set '
                       f'{at}.time_source: arrival', stream=binding.name, age_ns=ages[0])
        elif ages[0] < 0:
            yield warn(f'{at}: stamps lie up to {text_ms(-ages[0])} in the future',
                       'synchronise the clocks of both computers (chrony, ptp4l)',
                       stream=binding.name, age_ns=ages[0])
        elif median_ns > 3600 * NS_PER_S:
            yield fail(f'{at}: stamps are {median_ns // (3600 * NS_PER_S)} h old on arrival: '
                       'another clock, time since boot, or a replayed bag',
                       'set use_sim_time with a bag; correct the driver otherwise, or set '
                       f'{at}.time_source: arrival', stream=binding.name, age_ns=median_ns)
        elif max_age_ns is not None and median_ns > max_age_ns:
            yield fail(f'{at}: frames are {text_ms(median_ns)} old on arrival and worthless after '
                       f'{text_ms(max_age_ns)}', 'find the delay before the governor, or accept '
                       'older results', stream=binding.name, age_ns=median_ns)
        elif max_age_ns is not None and 2 * oldest_ns > max_age_ns:
            yield warn(f'{at}: frames are up to {text_ms(oldest_ns)} old on arrival, more than '
                       f'half of max_age ({text_ms(max_age_ns)})', 'find the delay before the '
                       'governor', stream=binding.name, age_ns=oldest_ns)
    yield ok(f'{count} streams with stamps that can be used') if count else \
        skip(f'not checked: 0 stamps in {context.graph.listened_s:g} s')


def check_transport(context: Context) -> Iterable[Finding]:
    """Whether DDS, as this shell sets it up, carries messages of this size."""
    environment = context.environment
    heard = [one for _, one in _heard(context)]
    largest = max((one.largest_bytes for one in heard), default=0)
    silent = [one.topic for one in heard if one.publishers and not one.arrivals_ns]
    large_data = environment.get('FASTDDS_BUILTIN_TRANSPORTS', '').startswith('LARGE_DATA')
    is_local = environment.get('ROS_AUTOMATIC_DISCOVERY_RANGE') == 'LOCALHOST'
    profiles = [name for name in PROFILE_VARIABLES if environment.get(name)]
    has_profile = bool(profiles)
    if largest:
        size = f'the largest message heard has {largest} bytes'
    else:
        size = f'0 messages of {len(heard)} streams were heard'
    if 'fastrtps' not in environment.get('RMW_IMPLEMENTATION', 'rmw_fastrtps_cpp'):
        yield ok(f'{environment["RMW_IMPLEMENTATION"]}: nothing is known against it, 0 settings '
                 'read')
    elif missing := [name for name in profiles if name in context.missing_files]:
        yield warn(f'{missing[0]}={environment[missing[0]]}: there is no such file, so Fast DDS '
                   f'uses its defaults, which lose messages above {LARGE_BYTES} bytes',
                   'correct the variable, here and where the cameras start')
    elif large_data and is_local and not has_profile:
        yield warn('FASTDDS_BUILTIN_TRANSPORTS=LARGE_DATA is ignored silently while '
                   'ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST: frames of some MB are lost',
                   'use config/fastdds_shm.xml on this host (dds:=shm), or drop one of the two')
    elif has_profile or large_data:
        how = 'a profile of its own' if has_profile else 'LARGE_DATA'
        yield ok(f'Fast DDS with {how}; {size}', bytes=largest)
    elif context.graph is None:
        yield skip(f'not checked: the size of the messages is not known ({context.why_no_graph})')
    elif largest > LARGE_BYTES:
        yield warn(f'messages of {largest} bytes, above {LARGE_BYTES}, with the default '
                   'transports of Fast DDS: all best-effort frames of 6 MB were seen to be lost',
                   _BETTER_TRANSPORT, bytes=largest)
    elif silent:
        yield warn(f'0 messages of {", ".join(silent)} in {context.graph.listened_s:g} s, with '
                   'the default transports of Fast DDS: if they are larger than '
                   f'{LARGE_BYTES} bytes, that is why', _BETTER_TRANSPORT, topics=silent)
    else:
        yield ok(f'the default transports of Fast DDS; {size}', bytes=largest)


def _heard(context: Context) -> Iterator[tuple[StreamBinding, Heard]]:
    if context.graph is not None:
        for binding in context.config.streams:
            if binding.name in context.graph.streams:
                yield binding, context.graph.streams[binding.name]
