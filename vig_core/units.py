"""Time units of the core: every instant and duration is an integer number of nanoseconds."""

from collections.abc import Sequence

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

MAX_AGE_OF_A_STAMP_NS = 3600 * NS_PER_S
"""Ages are clamped to one hour; the scheduling clock starts one hour ahead for the same reason."""


def ms(value: float) -> int:
    """Nanoseconds of a value given in milliseconds, rounded to the nearest nanosecond."""
    return round(value * NS_PER_MS)


def us(value: float) -> int:
    """Nanoseconds of a value given in microseconds, rounded to the nearest nanosecond."""
    return round(value * NS_PER_US)


def seconds(value: float) -> int:
    """Nanoseconds of a value given in seconds, rounded to the nearest nanosecond."""
    return round(value * NS_PER_S)


def quantile_ns(ranked: Sequence[int], percent: int) -> int | None:
    """Nearest-rank quantile of values in rising order; ``None`` of nothing."""
    return ranked[-(-len(ranked) * percent // 100) - 1] if ranked else None


def text_ms(duration_ns: int) -> str:
    """Show a duration to a person: '12.4 ms', and with whole seconds from ten seconds on."""
    if abs(duration_ns) >= 10 * NS_PER_S:
        return f'{duration_ns / NS_PER_S:.0f} s'
    return f'{duration_ns / NS_PER_MS:.1f} ms'
