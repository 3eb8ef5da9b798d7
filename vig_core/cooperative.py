"""
A generative job that may be cut: what a piece of it costs, and how far it has come.

Rules:

- A quantum that writes n tokens after a context of m costs
  ``base_cost + m * prefill_per_token + n * per_token``; all three are measured medians.
- A context that the server has not read last costs ``new_prompt_per_token`` for each token
  instead: that of the first quantum of a job, and that after which another job of the same
  backend model was sent, a connection broke or the server was seen to begin anew. More than one
  text a server may remember too; that is not counted on.
- The context is the prompt and all that was written before; it never shrinks.
- ``max_total_tokens`` binds whatever the client asks for, and also where a job runs whole.
"""

from dataclasses import dataclass

from vig_core.errors import ContractError


@dataclass(frozen=True, slots=True)
class Cooperative:
    """
    How a generative model may be cut into quanta, and what they cost.

    :ivar base_cost_ns: fixed cost of one backend request.
    :ivar per_token_ns: to write one token.
    :ivar max_total_tokens: longest answer, whatever was asked for.
    :ivar prefill_per_token_ns: to read one token of context; near 0 with a prefix cache.
    :ivar new_prompt_per_token_ns: to read one that the server has not read last; ``None`` where
        that is the same.
    :ivar min_tokens: smallest quantum, unless less remains to be written.
    :ivar max_overhead_permille: where splitting costs more than this on top of the whole run,
        the job runs whole; ``None`` for no limit.
    :ivar is_split: False: every job runs whole, under the same bound.
    """

    base_cost_ns: int
    per_token_ns: int
    max_total_tokens: int
    prefill_per_token_ns: int = 0
    min_tokens: int = 1
    max_overhead_permille: int | None = None
    is_split: bool = True
    new_prompt_per_token_ns: int | None = None

    def __post_init__(self) -> None:
        """Refuse costs that no execution has and bounds that leave nothing to write."""
        for name, cost_ns in (('base_cost', self.base_cost_ns),
                              ('prefill_per_token', self.prefill_per_token_ns),
                              ('new_prompt_per_token', self.new_prompt_per_token_ns or 0)):
            if cost_ns < 0:
                raise ContractError((name,), f'{cost_ns} ns is negative')
        if self.per_token_ns < 1:
            raise ContractError(('tokens_per_second',),
                                'a token must take at least a nanosecond')
        if self.max_total_tokens < 1:
            raise ContractError(('max_total_tokens',),
                                f'{self.max_total_tokens} leaves nothing to write')
        if not 1 <= self.min_tokens <= self.max_total_tokens:
            raise ContractError(
                ('min_tokens',), f'{self.min_tokens} must lie between 1 and max_total_tokens, '
                f'{self.max_total_tokens}')
        if self.max_overhead_permille is not None and self.max_overhead_permille < 0:
            raise ContractError(('max_overhead_permille',),
                                f'{self.max_overhead_permille} is negative')

    def reading_ns(self, context: int, *, is_new: bool = False) -> int:
        """
        Median cost of reading a context.

        :param is_new: the server has not read it last.
        """
        if is_new and self.new_prompt_per_token_ns is not None:
            return context * self.new_prompt_per_token_ns
        return context * self.prefill_per_token_ns

    def reads(self, job: 'Job') -> int:
        """Count the tokens that the next quantum of a job has to read, where that takes time."""
        return job.context if self.reading_ns(1, is_new=job.is_new) else 0

    def cost_ns(self, context: int, tokens: int, *, is_new: bool = False) -> int:
        """Median cost of one quantum; see ``reading_ns`` for the context."""
        return (self.base_cost_ns + self.reading_ns(context, is_new=is_new)
                + tokens * self.per_token_ns)

    @property
    def whole_ns(self) -> int:
        """Median cost of the longest answer in one piece, to an empty prompt."""
        return self.cost_ns(0, self.max_total_tokens)

    def bound(self, asked: int) -> int:
        """Tokens that a job may write at most; ``asked`` is 0 where the client left it open."""
        return min(asked or self.max_total_tokens, self.max_total_tokens)

    def overhead_permille(self, context: int, remaining: int, tokens: int, *,
                          is_new: bool = False) -> int:
        """
        Compute what quanta of ``tokens`` cost on top of the rest in one piece, in its permille.

        :param context: of the first of them.
        :param remaining: tokens that are to be written.
        :param is_new: the server has not read the context last; what follows it has.
        """
        more = -(-remaining // tokens) - 1
        read_again = more * context + tokens * more * (more + 1) // 2
        added_ns = more * self.base_cost_ns + read_again * self.prefill_per_token_ns
        return added_ns * 1000 // self.cost_ns(context, remaining, is_new=is_new)


@dataclass(slots=True)
class Job:
    """
    How far one generative request has come; owned and changed by the scheduler alone.

    :ivar prompt_tokens: estimated length of the prompt.
    :ivar bound: tokens that it may write at most.
    :ivar tokens: written so far.
    :ivar quanta: backend requests that were answered so far.
    :ivar asked: tokens of the quantum that runs, at most.
    :ivar backend_ns: time of all quanta that were answered.
    :ivar started_at_ns: dispatch of the first quantum; ``None`` before.
    :ivar withdrawn: why it ends at the next boundary; ``None`` while nobody withdrew it.
    :ivar is_new: the server has not read its context last, as far as is known.
    :ivar was_new: the same when the last of its quanta was sent.
    :ivar hopeless: why no gap holds its next quantum, while it waits for nothing else.
    :ivar is_hopeless_said: that was said before.
    """

    prompt_tokens: int
    bound: int
    tokens: int = 0
    quanta: int = 0
    asked: int = 0
    backend_ns: int = 0
    started_at_ns: int | None = None
    is_end_of_sequence: bool = False
    withdrawn: str | None = None
    is_new: bool = True
    was_new: bool = True
    hopeless: object = None
    is_hopeless_said: bool = False

    @property
    def context(self) -> int:
        """Tokens that the next quantum has to read."""
        return self.prompt_tokens + self.tokens

    @property
    def remaining(self) -> int:
        """Tokens that may still be written."""
        return self.bound - self.tokens


class TextsRead:
    """Which job's text each backend model has read last: all that a next quantum counts on."""

    def __init__(self) -> None:
        """Begin with servers that have read nothing."""
        self._last: dict[str, Job] = {}

    def send(self, backend_model: str, job: Job) -> None:
        """Note that a quantum of a job is sent: what was read before is forgotten."""
        before = self._last.get(backend_model)
        if before is not None and before is not job:
            before.is_new = True
        self._last[backend_model] = job
        job.was_new, job.is_new = job.is_new, False

    def forget(self, backend_model: str) -> None:
        """Count on nothing that this one has read."""
        before = self._last.pop(backend_model, None)
        if before is not None:
            before.is_new = True

    def forget_all(self) -> None:
        """Count on nothing any more: the server may have been started anew."""
        for backend_model in list(self._last):
            self.forget(backend_model)
