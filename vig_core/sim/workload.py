"""
What arrives and what it costs: the only place that draws random numbers.

Every draw is a pure function of a seed and names, never of the order of events, so that the same
frame arrives at the same instant and costs the same under every policy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import Protocol

from vig_core.model import RuntimeProfile, Variant
from vig_core.units import NS_PER_MS, NS_PER_S

Z99 = 2.3263478740408408
"""The 99 % quantile of the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One capture and its arrival at the governor, both in ns; ``index`` counts from 0."""

    index: int
    captured_at_ns: int
    arrives_at_ns: int


class ArrivalProcess(Protocol):
    """Makes the frames of one stream; arrival order is the order of iteration."""

    def frames(self, seed: int, stream: str, duration_ns: int) -> Iterator[Frame]:
        """Give every frame that is captured before ``duration_ns``."""


@dataclass(frozen=True, slots=True)
class Periodic:
    """
    A sensor on its own clock: capture ``k`` at ``phase + k * period`` plus uniform jitter.

    :ivar jitter_ns: half width of the uniform distribution around the nominal capture.
    :ivar transport_ns: constant time from capture to arrival.
    :ivar windows: ``(begin, end)`` in ns in which the sensor is on; empty means always (bursts).
    """

    period_ns: int
    phase_ns: int = 0
    jitter_ns: int = 0
    transport_ns: int = 0
    windows: tuple[tuple[int, int], ...] = ()

    def frames(self, seed: int, stream: str, duration_ns: int) -> Iterator[Frame]:
        """Give every frame whose nominal capture lies before ``duration_ns``."""
        for index in range(max(0, -(-(duration_ns - self.phase_ns) // self.period_ns))):
            nominal_ns = self.phase_ns + index * self.period_ns
            if self.windows and not any(begin <= nominal_ns < end for begin, end in self.windows):
                continue
            shift_ns = (Random(f'{seed}/{stream}/{index}/jitter').randint(
                -self.jitter_ns, self.jitter_ns) if self.jitter_ns else 0)
            captured_ns = max(0, nominal_ns + shift_ns)
            yield Frame(index, captured_ns, captured_ns + self.transport_ns)


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent captures at a mean rate, the first at ``phase_ns``."""

    rate_hz: float
    phase_ns: int = 0
    transport_ns: int = 0

    def frames(self, seed: int, stream: str, duration_ns: int) -> Iterator[Frame]:
        """Give every frame that is captured before ``duration_ns``."""
        draws = Random(f'{seed}/{stream}/poisson')
        captured_ns, index = self.phase_ns, 0
        while captured_ns < duration_ns:
            yield Frame(index, captured_ns, captured_ns + self.transport_ns)
            captured_ns += max(1, round(draws.expovariate(self.rate_hz) * NS_PER_S))
            index += 1


@dataclass(frozen=True, slots=True)
class Trace:
    """Recorded ``(capture, arrival)`` pairs in arrival order."""

    instants_ns: tuple[tuple[int, int], ...]

    def frames(self, seed: int, stream: str, duration_ns: int) -> Iterator[Frame]:
        """Give every frame that is captured before ``duration_ns``."""
        for index, (captured_ns, arrives_ns) in enumerate(self.instants_ns):
            if captured_ns < duration_ns:
                yield Frame(index, captured_ns, arrives_ns)


@dataclass(frozen=True, slots=True)
class Continuous:
    """
    A closed loop: the next release is the end of the last request.

    :ivar retry_ns: pause of a client whose request ended without having been run.
    """

    phase_ns: int = 0
    retry_ns: int = NS_PER_MS

    def frames(self, seed: int, stream: str, duration_ns: int) -> Iterator[Frame]:
        """Give the first frame only; the others depend on the answers."""
        if self.phase_ns < duration_ns:
            yield Frame(0, self.phase_ns, self.phase_ns)


@dataclass(frozen=True, slots=True)
class RuntimeLaw:
    """
    Lognormal runtimes fitted to a median and a 99 % quantile, clamped to [p50 / 2, 3 p99].

    :ivar is_constant: every run takes exactly p50.
    """

    p50_ns: int
    p99_ns: int
    is_constant: bool = False

    @classmethod
    def of(cls, profile: RuntimeProfile) -> 'RuntimeLaw':
        """Take reality to be exactly as profiled."""
        return cls(profile.p50_ns, profile.p99_ns)

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return log(self.p99_ns / self.p50_ns) / Z99

    def draw_ns(self, seed: int, stream: str, index: int, variant: Variant) -> int:
        """Runtime of one frame on one variant; a pure function of its arguments."""
        if self.is_constant or self.p99_ns == self.p50_ns:
            return self.p50_ns
        draws = Random(f'{seed}/{stream}/{index}/{variant.variant_id}/runtime')
        runtime_ns = round(self.p50_ns * exp(self.sigma * draws.gauss(0.0, 1.0)))
        return min(max(runtime_ns, self.p50_ns // 2), 3 * self.p99_ns)
