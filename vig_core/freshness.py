"""
Stage B, predictive freshness: when starting a request is no longer worth anything.

Rules:

- A request with a maximum age dies when even the optimistic finish is worthless:
  ``start + p50(fastest usable variant) - generation > max_age``, strictly greater.
- A request without one dies when even the fastest usable variant cannot meet its deadline.
- ``never_drop`` never dies of age.

Promise pessimistically, discard optimistically: a wrong promise costs one deadline, a wrong
discard destroys a result that can never come back. Both limits are fixed at arrival, so the
rule is a single instant.
"""

from collections.abc import Sequence

from vig_core.contract import QueuePolicy
from vig_core.model import Model
from vig_core.request import Reason, Request
from vig_core.why import NoTimeLeft, Stale


def optimistic_runtime_ns(model: Model) -> int:
    """
    Smallest median runtime among the variants that may run; 0 where there is none.

    A generative model may end its text with the first token.
    """
    if model.cooperative is not None:
        cost_ns = model.cooperative.cost_ns(0, 1)
        return min((model.in_proportion_ns(variant, cost_ns)
                    for variant in model.runnable_variants), default=0)
    return min((variant.profile.p50_ns for variant in model.runnable_variants), default=0)


def optimistic_quantum_ns(request: Request) -> int:
    """Median time of the next quantum of a job that ends with its first token."""
    job, cooperative = request.job, request.model.cooperative
    assert job is not None and cooperative is not None and request.variant is not None
    return request.model.in_proportion_ns(
        request.variant, cooperative.cost_ns(job.context, 1, is_new=job.is_new))


def useless_from_ns(model: Model, generation_ns: int, runtime_ns: int) -> int | None:
    """
    First instant at which starting is useless, or ``None`` for never.

    :param runtime_ns: what ``optimistic_runtime_ns`` says of the model.
    """
    if model.policy is QueuePolicy.NEVER_DROP:
        return None
    limit_ns = model.contract.max_age_ns
    if limit_ns is None:
        limit_ns = model.contract.deadline_ns
    return generation_ns + limit_ns - runtime_ns + 1


def verdict(request: Request, start_ns: int,
            variants: Sequence[tuple[str, int, int]]) -> tuple[Reason, Stale | NoTimeLeft]:
    """
    Say why a request ends whose earliest start is ``start_ns`` or later than useful.

    :param variants: those that may run, at least one: id, median and conservative runtime.
    """
    max_age_ns = request.model.contract.max_age_ns
    if max_age_ns is None:
        return Reason.INFEASIBLE, NoTimeLeft(request.deadline_at_ns - start_ns, tuple(variants))
    variant_id, median_ns, _ = min(variants, key=lambda variant: variant[1])
    age_ns = start_ns - request.generation_ns
    return Reason.STALE, Stale(variant_id, median_ns, age_ns + median_ns - max_age_ns, age_ns)
