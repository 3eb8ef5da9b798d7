"""Cases of the look-ahead's theorem for the simulator: drawn within its assumptions, or not."""

from dataclasses import dataclass, replace
from random import Random

from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.sim.engine import SimStream, simulate
from vig_core.sim.workload import RuntimeLaw, Trace
from vig_core.units import ms


@dataclass(frozen=True)
class Case:
    """
    One guarded camera and background jobs; times in milliseconds.

    :ivar shifts: capture jitter of each frame.
    :ivar delays: added to the transport of each frame.
    :ivar jobs: instant and runtime of each background job.
    :ivar rival: class of the background.
    """

    period: float
    deadline: float
    jitter: float
    plan: float
    transport: float
    max_age: float
    shifts: tuple[float, ...]
    jobs: tuple[tuple[float, float], ...]
    delays: tuple[float, ...] = ()
    actual: float | None = None
    rival: Criticality = Criticality.NORMAL
    start: float = 20.0
    slots: int = 1

    @property
    def bound(self) -> float:
        """Greatest age that the theorem allows."""
        return 2 * self.jitter + self.deadline

    @property
    def captures(self) -> list[float]:
        """Capture instants."""
        return [self.start + index * self.period + shift
                for index, shift in enumerate(self.shifts)]

    def broken(self) -> set[str]:
        """Name the assumptions of the theorem that this case does not keep."""
        first = self.captures[0] + self.transport
        kept = {
            'nothing else above normal': self.rival >= Criticality.NORMAL,
            'jitter within the envelope': all(abs(shift) <= self.jitter for shift in self.shifts),
            'constant transport': not any(self.delays),
            'runtimes within plan': self.actual is None or self.actual <= self.plan,
            'no background before the first arrival': all(at > first for at, _ in self.jobs),
            'C + delta <= D': self.plan + self.transport <= self.deadline,
            'C + 2 J <= T': self.plan + 2 * self.jitter <= self.period,
            'D + 2 J < T + C + delta':
                self.bound < self.period + self.plan + self.transport,
            '2 J + D <= A': self.bound <= self.max_age}
        return {name for name, is_kept in kept.items() if not is_kept}


def worst_age(case: Case) -> float | None:
    """Play a case; the greatest age at delivery in ms, ``None`` if a frame was not delivered."""
    camera = Model(
        'cam', Criticality.PROTECTED,
        Contract(deadline_ns=ms(case.deadline), max_age_ns=ms(case.max_age),
                 period_ns=ms(case.period), release_jitter_ns=ms(case.jitter)),
        (Variant('v', 'cam', RuntimeProfile(ms(case.plan), ms(case.plan))),))
    models, streams = {'cam': camera}, [SimStream('cam', 'cam', Trace(tuple(
        (ms(captured), ms(captured + case.transport + delay)) for captured, delay
        in zip(case.captures, case.delays or [0.0] * len(case.shifts)))))]
    for index, (at, runtime) in enumerate(case.jobs):
        name = f'job{index}'
        models[name] = Model(
            name, case.rival, Contract(deadline_ns=ms(1e6)),
            (Variant('v', name, RuntimeProfile(ms(runtime), ms(runtime))),),
            QueuePolicy.NEVER_DROP, capacity=1)
        streams.append(SimStream(name, name, Trace(((ms(at), ms(at)),))))
    system = System(models, slots=case.slots, margin_percent=100, inference_timeout_ns=ms(1e6),
                    streams={'cam': 'cam'})
    actual = ms(case.plan if case.actual is None else case.actual)
    run = simulate(Scheduler(system), system, streams, seed=0, duration_ns=ms(1e5),
                   laws={'cam': RuntimeLaw(actual, actual)})
    frames = [end for end in run.ends if end.stream == 'cam']
    assert len(frames) == len(case.shifts)
    if any(end.reason is not Reason.COMPLETED for end in frames):
        return None
    return max(end.ended_at_ns - end.captured_at_ns for end in frames) / 1e6


def breaks(case: Case) -> bool:
    """Whether a frame is late beyond the bound, or not delivered."""
    age = worst_age(case)
    return age is None or age > case.bound + 1e-6


def draw(seed: int, frames: int = 12) -> Case:
    """Draw a case within the assumptions, all quantities in quarters of a millisecond."""
    chance = Random(f'theorem {seed}')

    def quarter(low: float, high: float) -> float:
        return chance.randint(round(low * 4), round(high * 4)) / 4

    while True:
        period = quarter(15, 60)
        jitter = chance.choice([0.0, quarter(0, 4)])
        plan, transport = quarter(1, period - 2 * jitter), quarter(0, 6)
        low, high = plan + transport, period + plan + transport - 2 * jitter - 0.25
        if low > high:
            continue
        deadline = quarter(low, high)
        case = Case(
            period, deadline, jitter, plan, transport,
            2 * jitter + deadline + chance.choice([0.0, 1.0, 20.0]),
            tuple(chance.choice([-jitter, jitter, 0.0]) for _ in range(frames)), ())
        first = case.captures[0] + transport
        jobs = [(first + quarter(0.25, frames * period), quarter(0.25, 2 * period))
                for _ in range(chance.randint(1, 12))]
        case = replace(case, jobs=tuple(sorted(jobs)))
        if not case.broken():
            return case
