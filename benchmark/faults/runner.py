"""Runs registered faults in one world, judges what holds for all of them, makes the table."""

from collections import Counter
from dataclasses import dataclass, field
import time
import traceback

from benchmark.faults.registry import Fault
from benchmark.faults.staging import Footprint, PATIENCE, until
from benchmark.faults.world import World

THREADS_MORE, FILES_MORE = 6, 12
"""Sender threads and connections that may stay: there is one for each request ever in flight."""


@dataclass(slots=True)
class Outcome:
    """
    What came of one fault.

    :ivar ends: how the frames of the case ended.
    :ivar was_unready: whether the node said that it was not ready.
    :ivar recovery_s: from the repair to the first result; ``None`` where it never came.
    """

    fault: Fault
    ends: Counter[str] = field(default_factory=Counter)
    was_unready: bool = False
    recovery_s: float | None = None
    growth_mib: float = 0.0
    took_s: float = 0.0
    problem: str = ''

    @property
    def survived(self) -> bool:
        """Whether nothing was wrong."""
        return not self.problem


def stage(world: World, case: Fault) -> Outcome:
    """Run one case; whatever went wrong is in the outcome, and the world is usable again."""
    outcome = Outcome(case)
    began_s = time.monotonic()
    try:
        _run(world, case, outcome)
    except AssertionError as error:
        outcome.problem = str(error) or traceback.format_exc(limit=-1)
    except Exception:
        outcome.problem = traceback.format_exc(limit=-3)
    if outcome.problem:
        _clear_up(world)
    outcome.took_s = time.monotonic() - began_s
    return outcome


def _run(world: World, case: Fault, outcome: Outcome) -> None:
    if not world.server.is_running:
        world.server.start()
    if case.starts_itself:
        world.end_node()
    elif world.is_running:
        world.wait_until_listening()
    else:
        world.start_node()
    world.forget()
    before = None
    if not case.starts_itself:
        world.recover(5.0)
        before = Footprint(world.pid)
    pid = None if before is None else world.pid
    world.forget()
    case.body(world)
    if not world.is_running and world.recovered_s is None:
        world.start_node()
    outcome.recovery_s = (world.recover(case.recovery_s) if world.recovered_s is None
                          else world.recovered_s)
    outcome.was_unready = any(not ready for _, ready, _ in world.readiness)
    outcome.ends = world.check_accounts()
    assert outcome.recovery_s <= case.recovery_s * PATIENCE, (
        f'the first result came {outcome.recovery_s:.1f} s after the repair, '
        f'{case.recovery_s:g} s are allowed')
    assert 'Traceback' not in world.log, f'a traceback:\n{world.log[-2500:]}'
    if before is not None and pid == world.pid:
        _compare(world, case, before, outcome)
    if case.starts_itself:
        world.end_node()


def _compare(world: World, case: Fault, before: Footprint, outcome: Outcome) -> None:
    """Nothing may be left: a little time and some frames, because regions are renewed by them."""
    def is_back() -> bool:
        after = Footprint(world.pid)
        if after.names > before.names:
            world.run_one()
        outcome.growth_mib = after.rss_mib - before.rss_mib
        return (after.threads <= before.threads + THREADS_MORE
                and after.files <= before.files + FILES_MORE and after.names <= before.names
                and outcome.growth_mib <= case.growth_mib)

    def what_is_left() -> str:
        after = Footprint(world.pid)
        return '; '.join(
            f'{key} {getattr(before, key):.0f} before and {getattr(after, key):.0f} after'
            for key in ('rss_mib', 'threads', 'files', 'names'))

    until(is_back, 3.0, what_is_left)


def _clear_up(world: World) -> None:
    world.end_node()
    world.server.kill()


def plain_ends(ends: Counter[str]) -> str:
    """Write how frames ended."""
    return ', '.join(f'{count} {reason}' for reason, count in sorted(ends.items()))


def table(outcomes: list[Outcome]) -> str:
    """Write one line for each case."""
    lines = [f'{"fault":39} {"staged":6} {"ready":9} {"back in":>8} {"memory":>9}  statuses']
    for outcome in outcomes:
        recovery = '-' if outcome.recovery_s is None else f'{outcome.recovery_s:.1f} s'
        lines.append(
            f'{outcome.fault.name:39} {"fake" if outcome.fault.is_fake else "real":6} '
            f'{"lost, back" if outcome.was_unready else "kept":10}{recovery:>8} '
            f'{outcome.growth_mib:+5.1f} MiB  {plain_ends(outcome.ends)}')
        if outcome.problem:
            lines += [f'    FAILED: {line}' for line in outcome.problem.splitlines()]
    survived = sum(outcome.survived for outcome in outcomes)
    return '\n'.join([*lines, f'{survived}/{len(outcomes)} survived'])
