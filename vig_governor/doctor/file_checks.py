"""Checks of the file itself, and of the disk that recordings would go to."""

from collections.abc import Iterable

from vig_core.units import NS_PER_S

from vig_governor.doctor.context import Context
from vig_governor.doctor.finding import fail, Finding, ok, warn

BYTES_PER_FRAME = 1500
"""Of a trace: arrival, dispatch, end and their envelopes; an estimate on the high side."""

MIN_FREE_BYTES = 256 * 2**20
_ELSEWHERE = ('stored but not enforced', 'has no measured runtimes')


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
    """Whether a recording of an hour finds room."""
    rate = sum(NS_PER_S / period_ns for binding in context.config.streams
               if (period_ns := context.config.system.models[
                   binding.model].contract.period_ns) is not None)
    hour = round(rate * BYTES_PER_FRAME * 3600)
    where = context.record_folder
    if context.free_bytes is None:
        yield fail(f'{where}: its free space cannot be read', 'name a folder that exists: '
                   '--record FOLDER')
    elif context.free_bytes < max(hour, MIN_FREE_BYTES):
        yield warn(f'{where}: {context.free_bytes // 2**20} MiB free; a recording writes about '
                   f'{hour // 2**20} MiB an hour', 'make room, or record elsewhere',
                   free_bytes=context.free_bytes, bytes_per_hour=hour)
    else:
        yield ok(f'{where}: {context.free_bytes // 2**20} MiB free, a recording writes about '
                 f'{hour // 2**20} MiB an hour', free_bytes=context.free_bytes,
                 bytes_per_hour=hour)
