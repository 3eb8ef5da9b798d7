"""
Why something was decided: the numbers as values, the sentence when somebody reads it.

Rules:

- A value holds what was known at that instant, as numbers and names; it never looks again.
- ``str()`` gives one sentence: what decided, with units, and what would have had to be different.
- A decision makes the value and not the sentence: nobody reads most of them.
"""

from vig_core.units import text_ms
from vig_core.values import value

KIB = 1024
MS_PER_S = 1000
MOST_VARIANTS = 3


@value
class Delivered:
    """
    A result was in time for ``max_age``.

    :ivar late_ns: after its deadline, negative before it.
    :ivar took_ns: from its begin on the slot to the answer.
    :ivar planned_ns: the plan for it; ``None`` for a job of several quanta.
    """

    late_ns: int
    waited_ns: int
    took_ns: int
    planned_ns: int | None

    def __str__(self) -> str:
        """Say how near the deadline was, and what made a late one late."""
        if self.late_ns <= 0:
            return f'{text_ms(-self.late_ns)} before its deadline'
        return (f'deadline missed by {text_ms(self.late_ns)}: '
                f'{_run_text(self.late_ns, self.waited_ns, self.took_ns, self.planned_ns)}')


@value
class TooOld:
    """
    A result was older than ``max_age`` at its delivery.

    :ivar beyond_ns: older than ``max_age`` by this.
    """

    age_ns: int
    beyond_ns: int
    waited_ns: int
    took_ns: int
    planned_ns: int | None

    def __str__(self) -> str:
        """Say by how much, and what took longer than it should."""
        return (f'{text_ms(self.age_ns)} old at delivery, {text_ms(self.beyond_ns)} beyond '
                f'max_age: '
                f'{_run_text(self.beyond_ns, self.waited_ns, self.took_ns, self.planned_ns)}')


def _run_text(late_ns: int, waited_ns: int, took_ns: int, planned_ns: int | None) -> str:
    over_ns = 0 if planned_ns is None else took_ns - planned_ns
    if planned_ns is None:
        ran = f'it ran {text_ms(took_ns)} in all'
    elif over_ns > 0:
        ran = f'it ran {text_ms(took_ns)}, {text_ms(over_ns)} longer than planned'
    else:
        ran = f'it ran {text_ms(took_ns)} of {text_ms(planned_ns)} planned'
    if over_ns > 0 and took_ns > late_ns:
        return f'{ran}; {text_ms(took_ns - late_ns)} would have done'
    ran += f' after waiting {text_ms(waited_ns)}'
    if waited_ns > late_ns:
        return f'{ran}; a wait of {text_ms(waited_ns - late_ns)} would have done'
    if waited_ns + took_ns > late_ns:
        return f'{ran}; together {text_ms(waited_ns + took_ns - late_ns)} would have done'
    return f'{ran}; it was too late when it arrived already'


@value
class Replaced:
    """A newer capture took the place of this one while it waited."""

    by_id: int
    newer_ns: int

    def __str__(self) -> str:
        """Say which."""
        if self.newer_ns == 0:
            return f'duplicate capture: request {self.by_id}, which came later, took its place'
        return f'request {self.by_id}, captured {text_ms(self.newer_ns)} later, took its place'


@value
class Overtaken:
    """
    A frame arrived after a newer one.

    :ivar has_started: whether that one was sent already; else it waits.
    """

    by_id: int
    older_ns: int
    has_started: bool

    def __str__(self) -> str:
        """Say by which one."""
        where = 'was sent already' if self.has_started else 'waits already'
        if self.older_ns == 0:
            return f'duplicate capture: as old as request {self.by_id}, which {where}'
        return f'captured {text_ms(self.older_ns)} before request {self.by_id}, which {where}'


@value
class Stale:
    """
    Even the fastest variant would end beyond ``max_age``.

    :ivar age_ns: at the earliest possible start.
    """

    variant_id: str
    median_ns: int
    late_ns: int
    age_ns: int

    def __str__(self) -> str:
        """Say by how much, and at which age it would still have been worth it."""
        text = (f'even {self.variant_id} (median {text_ms(self.median_ns)}) ends '
                f'{text_ms(self.late_ns)} beyond max_age: {text_ms(self.age_ns)} old at its start')
        if self.age_ns <= self.late_ns:
            return f'{text}, and no age would do'
        return f'{text}, {text_ms(self.age_ns - self.late_ns)} would do'


@value
class NoTimeLeft:
    """
    No variant can meet the deadline any more.

    :ivar left_ns: from the earliest possible start to the deadline.
    :ivar variants: id, median and plan of each.
    """

    left_ns: int
    variants: tuple[tuple[str, int, int], ...]

    def __str__(self) -> str:
        """Give each variant with what it lacks."""
        left = (f'at most {text_ms(self.left_ns)} are left to its deadline' if self.left_ns >= 0
                else f'it could start {text_ms(-self.left_ns)} after its deadline')
        each = [f'{variant_id} needs {text_ms(median_ns)} (planned {text_ms(planned_ns)}), '
                f'{text_ms(median_ns - self.left_ns)} too long'
                for variant_id, median_ns, planned_ns in self.variants[:MOST_VARIANTS]]
        return f'{left}: {", ".join(each)}'


@value
class QueueFull:
    """
    A bounded queue had no place.

    :ivar what: what its capacity counts: waiting requests or keys.
    :ivar gives_way_to: the request that took this one's place, 0 for none.
    """

    model: str
    capacity: int
    what: str
    longest_id: int
    longest_ns: int
    gives_way_to: int = 0

    def __str__(self) -> str:
        """Say how full, and which capacity would have done."""
        text = f'the queue of {self.model} is full with {self.capacity} {self.what}'
        if self.gives_way_to:
            return (f'{text} and this one waited longest, so it gave way to request '
                    f'{self.gives_way_to}; a capacity of {self.capacity + 1} would have done')
        return (f'{text}, request {self.longest_id} for {text_ms(self.longest_ns)}; a capacity of '
                f'{self.capacity + 1} would have done')


@value
class OverBudget:
    """The payloads that wait and run exceed their budget; all in bytes."""

    before: int
    more: int
    allowed: int

    def __str__(self) -> str:
        """Say by how much."""
        return (f'{text_bytes(self.before)} wait and run, {text_bytes(self.more)} more exceed '
                f'the budget of {text_bytes(self.allowed)} by '
                f'{text_bytes(self.before + self.more - self.allowed)}')


@value
class BadOutcomes:
    """
    The evidence of the overload controller.

    :ivar cycles: uncovered consumer cycles among the bad outcomes; the rest are requests.
    """

    permille: int
    total: int
    cycles: int
    requests: int
    reach_ms: int

    def __str__(self) -> str:
        """Say what was bad."""
        return (f'{self.permille} permille of {self.total} guarded outcomes in the last '
                f'{self.reach_ms} ms were bad ({self.cycles} uncovered cycles, {self.requests} '
                'requests late or dropped)')


@value
class ClassRefused:
    """
    The overload state does not take this class.

    :ivar evidence: for the last step up.
    :ivar leaves_permille: share of bad outcomes at which the class is taken again.
    """

    state: str
    class_name: str
    evidence: BadOutcomes
    leaves_permille: int

    def __str__(self) -> str:
        """Say what raised the state and what would lower it."""
        seen = self.evidence
        return (f'overload {self.state} refuses {self.class_name}: {seen.cycles} cycles, '
                f'{seen.requests} requests of {seen.total} bad in {seen.reach_ms / MS_PER_S:g} s '
                f'({seen.permille} permille, {self.leaves_permille} would do)')


@value
class NoAnswer:
    """The server did not answer in time."""

    limit_ns: int
    planned_ns: int

    def __str__(self) -> str:
        """Say what was planned."""
        return (f'no answer within {text_ms(self.limit_ns)}, {text_ms(self.planned_ns)} were '
                'planned; its slot stays taken until an end is proven')


def text_bytes(count: int) -> str:
    """Show an amount of memory: in bytes, from one KiB on in KiB or MiB."""
    if count < KIB:
        return f'{count} bytes'
    if count < KIB * KIB:
        return f'{count / KIB:.1f} KiB'
    return f'{count / (KIB * KIB):.1f} MiB'
