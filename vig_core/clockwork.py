"""
Instants that move with the clock, and when time alone changes what is made of them.

Some instants move with the clock: the end of a candidate that starts now or of an execution that
overruns, the arrival of a frame that is overdue. Whenever a moving one is compared with one that
stands still, the comparison notes when its answer flips. A decision that is made of such
comparisons cannot change before the first of these, and is made again then (adr/0009).
"""

from collections.abc import Sequence

NEVER = 1 << 62

Instant = tuple[int, bool]
"""Nanoseconds, and whether it moves with the clock."""


class Clockwork:
    """
    Compares instants now, and knows when the first of the answers changes.

    :ivar until_ns: the earliest instant at which any comparison so far comes out differently.
    """

    __slots__ = ('now_ns', 'until_ns')

    def __init__(self, now_ns: int, until_ns: int = NEVER) -> None:
        """Begin with what others have noted."""
        self.now_ns = now_ns
        self.until_ns = until_ns

    def note(self, at_ns: int) -> None:
        """Take an instant at which something known begins to move, or is replaced."""
        if self.now_ns < at_ns < self.until_ns:
            self.until_ns = at_ns

    def is_later(self, one: Instant, other: Instant) -> bool:
        """Whether one instant lies after another."""
        is_later = one[0] > other[0]
        if one[1] is not other[1] and is_later is not one[1]:
            self.note(self.now_ns + abs(one[0] - other[0]) + (0 if is_later else 1))
        return is_later

    def later(self, one: Instant, other: Instant) -> Instant:
        """Give the later of two instants, of two equal ones the other."""
        return one if self.is_later(one, other) else other

    def first(self, instants: Sequence[Instant]) -> int:
        """
        Give the place of the earliest instant.

        Of several equal ones the first that stands still: those that move are later soon.
        """
        place = 0
        for other in range(1, len(instants)):
            one, two = instants[place], instants[other]
            if two < one:
                place = other
            sooner, later = (two, one) if two < one else (one, two)
            if sooner[1] and not later[1]:
                self.note(self.now_ns + later[0] - sooner[0])
        return place

    def note_order(self, instants: Sequence[Instant]) -> None:
        """Note when any of them meets or passes another."""
        for one in instants:
            for other in instants:
                self.is_later(one, other)
