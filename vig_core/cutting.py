"""
The next quantum of a generative job: as much as fits, or why nothing does.

Rules: those of ``quantum`` for the size, then the ordinary look-ahead for what came out. Where
that still finds a frame late, frames that a quantum would slow are kept apart from it too. A
frame that needs the instance which the quantum uses is kept apart like one that is banned.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from vig_core.clockwork import Clockwork, Instant
from vig_core.cooperative import Job
from vig_core.estimate import RuntimeBook
from vig_core.interference import added_ns
from vig_core.lookahead import Veto
from vig_core.model import System, Variant
from vig_core.quantum import (find_gap, frames_apart, is_worth_splitting, Shortage, tokens_within)
from vig_core.request import Request
from vig_core.reservation import Reservation
from vig_core.slots import SlotTable
from vig_core.variants import Choice


class Cutter:
    """Cuts jobs; changes nothing but the choice that it is given."""

    def __init__(self, system: System, slots: SlotTable, runtimes: RuntimeBook,
                 banned: Mapping[str, frozenset[str]]) -> None:
        """Look at the scheduler's parts; ``banned`` are the models each must not run beside."""
        self._slots = slots
        self._runtimes = runtimes
        self._interference_ns = system.interference_ns
        self._banned = banned
        self._sharing = {name: frozenset(
            model.name for model in system.models.values()
            if all(variant.backend_model == name for variant in model.runnable_variants))
            for name in system.instances}

    def rest_plans_ns(self, request: Request, job: Job, variants: Sequence[Variant],
                      co_runners: Sequence[str] | None) -> Sequence[int]:
        """
        Plan the rest of a job in one piece, beside what runs.

        :param variants: to plan; once it has begun it is planned on its own alone.
        """
        model = request.model
        assert model.cooperative is not None
        cost_ns = model.cooperative.cost_ns(job.context, job.remaining, is_new=job.is_new)
        return [self._runtimes.plan_quantum_ns(model, variant, cost_ns)
                + added_ns(self._interference_ns, variant.backend_model, co_runners or ())
                for variant in (variants if request.variant is None else (request.variant,))]

    def cut(self, request: Request, choice: Choice, free_at: Sequence[Instant],
            clock: Clockwork, expected: Callable[[], Iterable[Reservation]],
            look_ahead: Callable[[], Veto | None]) -> tuple[Veto | None, Shortage | None]:
        """
        Cut the next quantum of a job to what fits, and say what holds it if it may not start.

        :param choice: for the rest of the job in one piece; becomes that of the quantum.
        :param free_at: predicted end of what runs on each slot; the first is the job's.
        :param expected: lists the expected frames of strictly higher classes.
        :param look_ahead: judges ``choice`` as it is then.
        """
        model, variant, job, rest = request.model, choice.variant, request.job, choice.tokens
        cooperative = model.cooperative
        assert job is not None and cooperative is not None

        def alone_ns(tokens: int) -> int:
            return self._runtimes.plan_quantum_ns(
                model, variant, cooperative.cost_ns(job.context, tokens, is_new=job.is_new))

        beside_ns = choice.planned_ns - alone_ns(rest)

        def plan_ns(tokens: int) -> int:
            return beside_ns + alone_ns(tokens)

        apart = self._banned[model.name]
        if self._slots.takes_last_instance(variant.backend_model, clock):
            apart |= self._sharing[variant.backend_model]
        stopper = None
        for is_apart in frames_apart(apart, variant.backend_model, self._interference_ns):
            gap = find_gap(expected(), free_at, is_apart, clock)
            tokens = tokens_within(job, cooperative, gap.budget_ns, plan_ns)
            if not tokens:
                least = min(cooperative.min_tokens, rest)
                gap.holds(plan_ns(least), clock)
                return None, Shortage(gap, least, plan_ns(least), choice.reads, clock.until_ns)
            choice.tokens = tokens if is_worth_splitting(job, cooperative, tokens) else rest
            choice.planned_ns = plan_ns(choice.tokens)
            stopper = look_ahead()
            if stopper is None:
                return None, None
            for other in (tokens, min(tokens + 1, rest)):
                gap.holds(plan_ns(other), clock)
        if stopper is not None:
            stopper.until_ns = clock.until_ns
        return stopper, None
