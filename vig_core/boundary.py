"""
The end of a quantum: what a generative job has got, and whether it waits for its next one.

Rules:

- A job ends when the model ended its text or when its bound is reached. Otherwise it is admitted
  again like an arrival, with its original capture, deadline and place in its queue; whatever
  gate refuses it then ends it, with the reason of that gate.
- An answer that breaks the chain ends it ``backend_failed``: more tokens than were asked for, or
  none and no end. What was written before is never passed off as complete.
- A job that was withdrawn ends here, unless its text is complete.
- The time of a quantum is divided into fixed cost, prefill and decode in the proportion of the
  cost model: a single duration is all that can be measured.
"""

from vig_core import freshness
from vig_core.admission import class_refused, REFUSED_CLASSES
from vig_core.claim import Claim
from vig_core.contract import QueuePolicy
from vig_core.cooperative import Cooperative, Job
from vig_core.estimate import RuntimeBook
from vig_core.events import QuantumCompleted
from vig_core.ledger import Ledger
from vig_core.overload import OverloadController
from vig_core.request import Reason, Request
from vig_core.roster import Roster


class Boundaries:
    """Takes in what quanta wrote, and lets their jobs go on or end."""

    def __init__(self, roster: Roster, ledger: Ledger, runtimes: RuntimeBook,
                 overload: OverloadController) -> None:
        """Change these parts, which the scheduler owns."""
        self._roster = roster
        self._ledger = ledger
        self._runtimes = runtimes
        self._overload = overload

    def reach(self, request: Request, event: QuantumCompleted) -> None:
        """Take in the answer of a quantum, at the roster's present instant."""
        roster, job, cooperative = self._roster, request.job, request.model.cooperative
        assert job is not None and cooperative is not None
        claim = roster.slots.end(request.request_id, now_ns=roster.now_ns)
        if event.tokens > job.asked:
            roster.end(request, Reason.BACKEND_FAILED,
                       f'the server wrote {event.tokens} tokens where at most {job.asked} were '
                       'asked for; none of them is used')
            return
        self._book(request, job, cooperative, claim, event)
        if event.is_end or not job.remaining:
            job.is_end_of_sequence = event.is_end
            roster.deliver(request, claim)
        elif not event.tokens:
            roster.end(request, Reason.BACKEND_FAILED,
                       f'the server wrote nothing after {job.tokens} of {job.bound} tokens and '
                       'did not end the text')
        else:
            self._admit_again(request, job)

    def _book(self, request: Request, job: Job, cooperative: Cooperative, claim: Claim,
              event: QuantumCompleted) -> None:
        roster, account = self._roster, self._ledger.of(request)
        # The step that finds the end of the text writes no token and takes its time all the same.
        steps = max(1, min(job.asked, event.tokens + event.is_end))
        cost_ns = cooperative.cost_ns(job.context, steps, is_new=job.was_new)
        runtime_ns = max(0, roster.now_ns - claim.begins_at_ns)
        assert request.variant is not None
        self._runtimes.observe_quantum(
            request.model, request.variant, runtime_ns, claim.neighbours, roster.now_ns,
            claim.planned_ns, cost_ns=cost_ns,
            asked_ns=cooperative.cost_ns(job.context, job.asked, is_new=job.was_new))
        spent_ns = roster.run_ns(request)
        prefill_ns = spent_ns * cooperative.reading_ns(
            job.context, is_new=job.was_new) // cost_ns
        decode_ns = spent_ns * (steps * cooperative.per_token_ns) // cost_ns
        account.prefill_ns += prefill_ns
        account.decode_ns += decode_ns
        account.fixed_ns += spent_ns - prefill_ns - decode_ns
        account.tokens += event.tokens
        account.quanta += 1
        job.tokens += event.tokens
        job.quanta += 1
        job.backend_ns += spent_ns

    def _admit_again(self, request: Request, job: Job) -> None:
        roster, model, state = self._roster, request.model, self._overload.state
        roster.pause(request)
        if job.withdrawn is not None:
            roster.drop(request, Reason.CANCELLED, job.withdrawn)
        elif (model.criticality in REFUSED_CLASSES[state]
                and model.policy is not QueuePolicy.NEVER_DROP):
            roster.drop(request, Reason.INFEASIBLE,
                        class_refused(model.criticality, self._overload))
        else:
            request.useless_from_ns = freshness.useless_from_ns(
                model, request.generation_ns, freshness.optimistic_quantum_ns(request))
            roster.enqueue(request)
