"""Checks of the file itself, and of the disk that recordings would go to."""

from collections.abc import Iterable

from vig_core.units import NS_PER_S

from vig_governor.config import StreamBinding
from vig_governor.doctor.context import Context
from vig_governor.doctor.finding import fail, Finding, ok, warn
from vig_governor.recorder import DEFAULT_MAX_BYTES

BYTES_PER_FRAME = 250
"""Of a trace. Five cameras of the demo, 59 frames a second, wrote 172 for each."""

MIN_FREE_BYTES = 256 * 10**6
_ELSEWHERE = ('not enforced: ', 'has no measured runtimes')


def check_file(context: Context) -> Iterable[Finding]:
    """Tell what the file's reader noticed; a file that cannot be read never comes this far."""
    notices = [notice for notice in context.config.notices
               if not any(words in notice for words in _ELSEWHERE)]
    for notice in notices:
        yield warn(notice, 'see vig check')
    if not notices:
        config = context.config
        yield ok(f'{config.source}: {len(config.system.models)} models, '
                 f'{len(config.streams)} streams', digest=config.digest)


def check_disk(context: Context) -> Iterable[Finding]:
    """Whether a recording finds room: an hour of it, or as much as it keeps at most."""
    rates = {binding.name: _rate_hz(context, binding) for binding in context.config.streams}
    rate = sum(one for one in rates.values() if one is not None)
    unknown = sum(one is None for one in rates.values())
    hour = round(rate * BYTES_PER_FRAME * 3600)
    where = context.record_folder
    needed = (f'a recording of {rate:.0f} frames a second writes about {_mb(hour)} MB an hour '
              f'and keeps {_mb(DEFAULT_MAX_BYTES)} MB at most (record_max_mb)')
    if unknown:
        needed += f'; the rate of {unknown} streams is not known'
    facts = {'free_bytes': context.free_bytes, 'bytes_per_hour': hour}
    if context.free_bytes is None:
        yield fail(f'{where}: its free space cannot be read', 'name a folder that exists: '
                   '--record FOLDER')
    elif context.free_bytes < max(min(hour, DEFAULT_MAX_BYTES), MIN_FREE_BYTES):
        yield warn(f'{where}: {_mb(context.free_bytes)} MB free; {needed}',
                   'make room, or record elsewhere', **facts)
    else:
        yield ok(f'{where}: {_mb(context.free_bytes)} MB free; {needed}', **facts)


def _rate_hz(context: Context, binding: StreamBinding) -> float | None:
    """Frames a second as they were heard, else as the contract says, else unknown."""
    heard = context.graph.streams.get(binding.name) if context.graph is not None else None
    if heard is not None and len(heard.arrivals_ns) > 1:
        span_ns = heard.arrivals_ns[-1] - heard.arrivals_ns[0]
        return (len(heard.arrivals_ns) - 1) * NS_PER_S / max(span_ns, 1)
    period_ns = context.config.system.models[binding.model].contract.period_ns
    return None if period_ns is None else NS_PER_S / period_ns


def _mb(count: int) -> int:
    return count // 10**6
