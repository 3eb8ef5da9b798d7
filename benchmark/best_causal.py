"""
What a governor that cannot see ahead can reach at best: one camera on one slot.

The scenario A-freshness as a Markov decision process in steps of 0.25 ms, solved backwards in
time. State while the slot is free: the time since the last consumer instant, which frame is the
newest that arrived, whether it waits and with which jitter, how many coming instants are covered
already, and whether the present window has a result. Actions: start the waiting frame, or wait for
its successor. Jitter is uniform, runtimes are lognormal and clamped as in ``vig_core.sim``. An
uncovered instant costs 1 and an empty window a price; one price gives one point of the frontier.

    python benchmark/best_causal.py --load 1000 --prices 0.4 0.6 0.8 1

Needs numpy (it comes with matplotlib). About 20 s for a point.
"""

import argparse
from math import erf, log, sqrt

import numpy

STEP_MS = 0.25
PERIOD = 132
TRANSPORT = 12
MAX_AGE = 264
JITTER = numpy.arange(-7, 8, 2)
FIRST, LAST = TRANSPORT + JITTER[0], TRANSPORT + JITTER[-1]
P50_MS, P99_MS, Z99 = 30 * 1.1, 45 * 1.1, 2.3263478740408408
"""At 100 % load."""

DONE, DONE_BEFORE = 0, 1
"""The frame of this period has been started; it has not arrived, the one before was started."""
WAITS, WAITS_BEFORE = 2, 2 + len(JITTER)
"""One state per jitter: this period's frame waits, or it has not come and the one before waits."""
STATES = 2 + 2 * len(JITTER)
COVERS, WINDOW = 3, 2

COST, INSTANTS, WINDOWS, RESULTS = range(4)
"""What is summed up along the best policy; each value below has these four."""


def runtimes(load: float) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Give the possible runtimes in steps and their probabilities."""
    p50_ms, p99_ms = P50_MS * load, P99_MS * load
    sigma = log(p99_ms / p50_ms) / Z99

    def below(runtime_ms: float) -> float:
        if runtime_ms < p50_ms / 2:
            return 0.0
        return min(1.0, 0.5 * (1 + erf(log(runtime_ms / p50_ms) / sigma / sqrt(2))))

    edges = [(index - 0.5) * STEP_MS for index in range(int(3 * p99_ms / STEP_MS) + 2)]
    shares = numpy.diff([below(edge) for edge in edges])
    steps = numpy.nonzero(shares > 1e-9)[0]
    return steps, shares[steps] / shares[steps].sum()


class Frontier:
    """One point of it: the best policy at one load and one price of an empty window."""

    def __init__(self, load: float, price: float, periods: int) -> None:
        """Prepare to go back over so many periods; only the later half of them counts."""
        self._runs, self._shares = runtimes(load)
        self._price = price
        self._end = periods * PERIOD
        depth = int(self._runs.max()) + PERIOD
        self._value = numpy.zeros((depth, STATES, COVERS, WINDOW, 4))
        self._waited = numpy.zeros_like(self._value)
        self._unknown = numpy.zeros((depth, COVERS, WINDOW, 4))
        self._known = numpy.zeros((depth, COVERS, WINDOW, 4))

    def solve(self) -> tuple[float, float, float]:
        """Give uncovered instants, empty windows and results, in permille of the periods."""
        begins = []
        for now in range(self._end - 1, -1, -1):
            here, phase = now % len(self._value), now % PERIOD
            waited = self._waited[here] = self._wait(now, phase)
            value = waited.copy()
            if phase >= FIRST:
                self._start(now, phase, value, waited, is_before=False)
            if phase < LAST:
                self._start(now, phase, value, waited, is_before=True)
            self._value[here] = value
            arrived = TRANSPORT + JITTER <= phase
            some = value[WAITS:WAITS_BEFORE][arrived].sum(0) / len(JITTER)
            left = 1 - arrived.mean()
            self._unknown[here] = some + left * value[WAITS_BEFORE:].mean(0)
            self._known[here] = some + left * value[DONE_BEFORE]
            if phase == 0:
                begins.append(self._unknown[here, 0, 0].copy())
        half = len(begins) // 2
        gain = 1000 * (begins[-1] - begins[half - 1]) / (len(begins) - half)
        return gain[INSTANTS], gain[WINDOWS], gain[RESULTS]

    def _wait(self, now: int, phase: int) -> numpy.ndarray:
        """Let one step pass; a frame that waits may start only when its successor is there."""
        after = (now + 1) % len(self._value)
        value, waited = self._value[after], self._waited[after]
        result = waited.copy()
        if phase + 1 == PERIOD:
            result[DONE] = value[DONE_BEFORE]
            result[WAITS:WAITS_BEFORE] = waited[WAITS_BEFORE:]
            result = result[:, [0, 0, 1]][:, :, [0, 0]]
            result[:, 0, :, INSTANTS] += 1
            result[:, :, 0, WINDOWS] += 1
            result[:, 0, :, COST] += 1
            result[:, :, 0, COST] += self._price
            return result
        result[DONE], result[DONE_BEFORE] = value[DONE], value[DONE_BEFORE]
        arrivals = TRANSPORT + JITTER
        if phase + 1 in arrivals:
            chance = 1 / (arrivals > phase).sum()
            fresh = value[WAITS + int(numpy.nonzero(arrivals == phase + 1)[0][0])]
            for state in (DONE_BEFORE, *range(WAITS_BEFORE, STATES)):
                result[state] = chance * fresh + (1 - chance) * result[state]
        return result

    def _start(self, now: int, phase: int, value: numpy.ndarray, waited: numpy.ndarray, *,
               is_before: bool) -> None:
        """Take the better of starting and waiting where a frame waits."""
        ends = phase + self._runs
        passed = ends // PERIOD
        then = self._after_the_run(now, phase, ends, is_before)
        rows = numpy.arange(len(ends))
        shares = self._shares.copy()
        edges = numpy.nonzero(ends[1:] % PERIOD == 0)[0] + 1
        shares[edges - 1] += shares[edges] / 2  # half of what is rounded to an instant was in time
        shares[edges] /= 2
        arrived = TRANSPORT + JITTER <= phase
        for index, jitter in enumerate(JITTER):
            if not is_before and not arrived[index]:
                continue
            state = (WAITS_BEFORE if is_before else WAITS) + index
            is_fresh = ends - (jitter - PERIOD * is_before) <= MAX_AGE
            covers = (2 if jitter > 0 else 1) - is_before - passed
            for covered in range(COVERS):
                left = numpy.maximum(covered - passed, 0)
                left = numpy.where(is_fresh, numpy.maximum(left, covers), left)
                for has_result in range(WINDOW):
                    costs = numpy.zeros((len(ends), 4))
                    costs[:, INSTANTS] = numpy.maximum(0, passed - covered)
                    costs[:, WINDOWS] = numpy.where(passed > 0, passed - has_result, 0)
                    costs[:, RESULTS] = is_fresh
                    costs[:, COST] = costs[:, INSTANTS] + self._price * costs[:, WINDOWS]
                    hit = numpy.where(is_fresh, 1, numpy.where(passed > 0, 0, has_result))
                    total = shares @ (then[rows, left, hit] + costs)
                    if total[COST] < waited[state, covered, has_result, COST]:
                        value[state, covered, has_result] = total

    def _after_the_run(self, now: int, phase: int, ends: numpy.ndarray,
                       is_before: bool) -> numpy.ndarray:
        """Give the value after each runtime, over what may have arrived meanwhile."""
        at = (now + self._runs) % len(self._value)
        passed, phases = ends // PERIOD, ends % PERIOD
        value = self._value
        then = self._unknown[at]
        arrived = (TRANSPORT + JITTER[None, :] <= phases[:, None])[..., None, None, None]
        coming = TRANSPORT + JITTER > phase
        this, following = passed == 0, passed == 1
        if is_before:
            came = numpy.where(arrived, value[at, WAITS:WAITS_BEFORE],
                               value[at, DONE_BEFORE][:, None])
            then[this] = came[:, coming].mean(1)[this]
            came = numpy.where(arrived, value[at, WAITS:WAITS_BEFORE],
                               value[at, WAITS_BEFORE:][:, coming].mean(1)[:, None])
            then[following] = came.mean(1)[following]
        else:
            then[this] = value[at, DONE][this]
            then[following] = self._known[at][following]
        then[now + self._runs >= self._end] = 0
        return then


def main() -> None:
    """Print one line per load and price."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument('--load', type=int, nargs='+', default=[900, 1000, 1100, 1250, 1500],
                        help='permille')
    parser.add_argument('--prices', type=float, nargs='+', default=[0.4, 0.6, 0.8, 1, 1.5],
                        help='of an empty window; an uncovered instant costs 1')
    parser.add_argument('--periods', type=int, default=24)
    args = parser.parse_args()
    print('load  price  instants  windows  results, permille')
    for load in args.load:
        for price in args.prices:
            point = Frontier(load / 1000, price, args.periods).solve()
            print(f'{load / 10:g} %  {price:g}  ' + '  '.join(f'{one:.1f}' for one in point),
                  flush=True)


if __name__ == '__main__':
    main()
