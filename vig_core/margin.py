"""
The safety margin of one variant: wider after overruns, narrower after runs within the plan.

Rules:

- Fixed gain G = 10 points, target share of overruns q. An overrun widens by G (1 - q), any other
  run narrows by G q: where the share of overruns is q the two cancel each other. (The step of
  stochastic approximation with a constant gain; A. Benveniste, M. Metivier, P. Priouret,
  "Adaptive Algorithms and Stochastic Approximations", 1990. Its convergence theorems assume a
  vanishing gain and are not inherited: this one must follow changes.)
- q is 1 %, or the agreed miss budget M/K, at most 5 %.
- Planned is never less than the floor, the configured margin. Below it the controller keeps a
  credit of one overrun, so that overruns rarer than q widen nothing.
- Ceiling: twice the measured runtime. What needs more has a wrong profile, and that is said
  instead.
- A contradicted profile widens it by 40 points.
- While there are too few runs to learn from, it narrows by a point a second, of what never ran
  by a tenth of that: what never starts could not prove that it fits.
"""

from vig_core.contract import Contract
from vig_core.units import NS_PER_S

DOUBT_POINTS = 40
CEILING_PERCENT = 200
UNPROVEN_SHARE = 10
_PARTS = 100
"""Of a percent point: the margin is kept in hundredths."""

_GAIN = 10 * _PARTS
_USUAL_PERMILLE = 10
_HIGHEST_PERMILLE = 50
_NEVER = 1 << 62


def target_permille(contract: Contract) -> int:
    """Share of overruns that is aimed at: that of the miss budget, never 0 and at most 5 %."""
    budget = contract.miss_budget
    if budget is None:
        return _USUAL_PERMILLE
    return min(_HIGHEST_PERMILLE, max(1, 1000 * budget.max_misses // budget.window_cycles))


class MarginController:
    """The margin of one variant in percent of its high quantile; whole points are planned."""

    __slots__ = ('_floor', '_ceiling', '_value', '_target', '_narrows_from_ns', '_step_ns')

    def __init__(self, floor_percent: int, target: int) -> None:
        """
        Begin at the floor, with the credit of one overrun.

        :param target: share of overruns in permille.
        """
        self._floor = floor_percent * _PARTS
        self._ceiling = max(self._floor, CEILING_PERCENT * _PARTS)
        self._value = self._floor - _GAIN
        self._target = target
        self._narrows_from_ns = 0
        self._step_ns = UNPROVEN_SHARE * NS_PER_S // _PARTS

    def percent(self, now_ns: int) -> int:
        """Give the margin, rounded up to whole points so that plans change seldom."""
        return -(-max(self._floor, self._value_at(now_ns)) // _PARTS)

    def changes_at_ns(self, now_ns: int) -> int:
        """Say when it will be another whole percentage if nothing happens before."""
        percent = self.percent(now_ns)
        if percent * _PARTS <= self._floor:
            return _NEVER
        lost = self._value - (percent - 1) * _PARTS
        return self._narrows_from_ns + lost * self._step_ns

    def learn(self, *, is_overrun: bool) -> None:
        """Take in one run; ``settle`` comes before and ``narrow_from`` after."""
        if is_overrun:
            self._value = min(self._ceiling, self._value + _GAIN * (1000 - self._target) // 1000)
        else:
            self._value = max(self._floor - _GAIN, self._value - _GAIN * self._target // 1000)

    def doubt(self, now_ns: int) -> None:
        """Widen because the profile was measured on something else."""
        self.settle(now_ns)
        self._value = min(self._ceiling,
                          max(self._floor, self._value) + DOUBT_POINTS * _PARTS)
        self._narrows_from_ns = max(now_ns, self._narrows_from_ns)

    def settle(self, now_ns: int) -> None:
        """Keep what it has narrowed by up to now."""
        self._value = self._value_at(now_ns)
        self._narrows_from_ns = max(now_ns, self._narrows_from_ns)

    def narrow_from(self, instant_ns: int) -> None:
        """Narrow without runs from then on: it has run, so at the full rate."""
        self._narrows_from_ns = instant_ns
        self._step_ns = NS_PER_S // _PARTS

    def _value_at(self, now_ns: int) -> int:
        if self._value <= self._floor or now_ns <= self._narrows_from_ns:
            return self._value
        steps = (now_ns - self._narrows_from_ns) // self._step_ns
        return max(self._floor, self._value - steps)
