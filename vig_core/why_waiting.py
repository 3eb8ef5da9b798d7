"""Why a request waits and how it starts: numbers as values, as in ``why``."""

from vig_core.units import text_ms
from vig_core.values import value
from vig_core.why import MOST_VARIANTS


@value
class Vetoed:
    """
    A job is held for a frame that it would make late.

    :ivar in_ns: until that frame is expected; ``None`` for one that is there and waits.
    :ivar has_ns: from its arrival, or from now, to when it must end.
    :ivar fits_ns: what this job might need at most; ``None`` where no shorter run helps.
    :ivar fits_beside: whether one more slot would have let it start as it is.
    """

    victim: str
    in_ns: int | None
    is_overdue: bool
    needs_ns: int
    has_ns: int
    late_ns: int
    planned_ns: int
    fits_ns: int | None
    fits_beside: bool

    def __str__(self) -> str:
        """Give the arithmetic of the look-ahead."""
        when = ('waits' if self.in_ns is None else 'is overdue' if self.is_overdue
                else f'is expected in {text_ms(self.in_ns)}')
        text = (f'{self.victim} {when}, needs {text_ms(self.needs_ns)} and has '
                f'{text_ms(self.has_ns)}; this job needs {text_ms(self.planned_ns)} and would '
                f'make it {text_ms(self.late_ns)} late')
        remedies = []
        if self.fits_ns is not None:
            remedies.append(f'at most {text_ms(self.fits_ns)}')
        if self.fits_beside:
            remedies.append('one more slot')
        return f'{text}; {" or ".join(remedies)} would have let it start' if remedies else text


@value
class NothingFits:
    """
    No quantum of a generative job fits before an expected frame.

    :ivar gap_ns: from the start of the job to that frame.
    :ivar tokens: of the smallest quantum, which is planned with ``needs_ns``.
    :ivar reads: tokens that the server has to read before, where that takes time.
    :ivar longest_ns: of all gaps before a frame of that stream, where none is long enough.
    """

    stream: str
    gap_ns: int
    tokens: int
    needs_ns: int
    reads: int = 0
    longest_ns: int | None = None

    def __str__(self) -> str:
        """Compare the gap with what the smallest quantum needs."""
        text = (f'{self.stream} is expected {text_ms(self.gap_ns)} after it could start; '
                f'{self.needs}')
        lacks = text_ms(self.needs_ns - self.gap_ns)
        if self.longest_ns is None:
            return f'{text}; a gap {lacks} longer would have let it start'
        return (f'{text}, {lacks} too long; no gap exceeds {text_ms(self.longest_ns)}: '
                f'waits until a frame of {self.stream} stays away')

    @property
    def needs(self) -> str:
        """Say what the smallest quantum needs."""
        holds = (f'{_count(self.reads)} to read, {self.tokens} to write' if self.reads
                 else _count(self.tokens))
        return f'its smallest quantum ({holds}) needs {text_ms(self.needs_ns)}'

    @property
    def too_short(self) -> str:
        """Say how long gaps are at most."""
        return (f'no gap before a frame of {self.stream} is longer than '
                f'{text_ms(self.longest_ns or 0)}')


@value
class NeverFits:
    """
    A job ended while no gap held its next quantum.

    :ivar why: why it ended, and how long it had waited.
    """

    why: object
    nothing_fits: NothingFits

    def __str__(self) -> str:
        """Add what it had waited for."""
        return f'{self.why}: {self.nothing_fits.needs}, and {self.nothing_fits.too_short}'


@value
class Awaiting:
    """
    A frame waits for its successor.

    :ivar late_ns: it would have started had it found a slot earlier by this.
    """

    in_ns: int
    late_ns: int

    def __str__(self) -> str:
        """Say what is expected, and when it would not have waited."""
        return (f'a fresher frame is expected in {text_ms(self.in_ns)} and this one would be too '
                f'old after a long run; a slot {text_ms(self.late_ns)} earlier would have let it '
                'start')


@value
class AfterWaiting:
    """
    How long a request waited for an instance of a backend model, when that is over.

    :ivar why: what was decided then.
    :ivar behind_id: the request that used the instance at first; ``behind_stream`` is empty for
        one from before.
    """

    why: object
    waited_ns: int
    backend_model: str
    behind_id: int
    behind_stream: str

    def __str__(self) -> str:
        """Add it to what was decided."""
        of = f' of {self.behind_stream}' if self.behind_stream else ' from before'
        return (f'{self.why}; it had waited {text_ms(self.waited_ns)} for an instance of '
                f'{self.backend_model}, which ran request {self.behind_id}{of}')


@value
class Chosen:
    """
    A variant was taken.

    :ivar left_ns: from its begin to the deadline.
    :ivar longer: id and plan of each better variant, a wait for its instance included.
    :ivar is_overloaded: the fastest had to be taken whatever the deadline.
    """

    planned_ns: int
    left_ns: int
    longer: tuple[tuple[str, int], ...] = ()
    is_overloaded: bool = False

    def __str__(self) -> str:
        """Compare the plan with the time that is left, and the better ones too."""
        text = f'{text_ms(self.left_ns)} were left to its deadline'
        if self.left_ns < 0:
            text = f'its deadline had passed {text_ms(-self.left_ns)} ago'
        elif self.planned_ns > self.left_ns:
            text = f'{text}, {text_ms(self.planned_ns - self.left_ns)} less than planned'
        if self.is_overloaded:
            return f'{text}; overload takes the fastest'
        each = [f'{variant_id} needs {text_ms(planned_ns)}'
                + (f', {text_ms(planned_ns - self.left_ns)} too long'
                   if planned_ns > self.left_ns else ' and fits, but not for variant_dwell yet')
                for variant_id, planned_ns in self.longer[:MOST_VARIANTS]]
        return f'{text}; {", ".join(each)}' if each else text


@value
class Reading:
    """A quantum was cut that has to read before it writes."""

    why: Chosen
    reads: int

    def __str__(self) -> str:
        """Add that to the choice."""
        return f'{self.why}; the server has {_count(self.reads)} to read before it writes'


@value
class Waited:
    """
    How long a request had waited when it ended, and for what.

    :ivar why: why it ended.
    :ivar held_for: the stream that it was held back for, its own for a fresher frame, or empty.
    :ivar behind_id: a request that kept the slot at the end; ``None`` where one was free.
    :ivar ran_ns: how long that one had been there.
    :ivar others: how many more there were.
    """

    why: object
    waited_ns: int
    stream: str
    held_for: str
    behind_id: int | None = None
    behind_stream: str = ''
    ran_ns: int = 0
    is_unproven: bool = False
    others: int = 0

    def __str__(self) -> str:
        """Add it to the reason."""
        return f'{self.why}; waited {text_ms(self.waited_ns)} {self._for_what()}'

    def _for_what(self) -> str:
        parts = []
        if self.held_for:
            parts.append('for a fresher frame' if self.held_for == self.stream
                         else f'held for {self.held_for}')
        if self.behind_id is not None:
            of = f' of {self.behind_stream}' if self.behind_stream else ''
            others = f' and {self.others} more' if self.others else ''
            state = ', whose end is not proven' if self.is_unproven else ''
            parts.append(f'behind request {self.behind_id}{of} (there '
                         f'{text_ms(self.ran_ns)}{state}){others}')
        return ', then '.join(parts) or 'for its turn'


def _count(tokens: int) -> str:
    return '1 token' if tokens == 1 else f'{tokens} tokens'
