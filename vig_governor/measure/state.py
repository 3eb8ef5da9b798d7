"""
What must stay the same while one cell is measured: the machine's state and the server's.

A measurement during which the clock governor, the throttling or the number of cores changed, in
which the server was restarted, or in which somebody else used the model, measures that instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
import time
from typing import Protocol

from vig_governor.backend.calls import ModelCounts
from vig_governor.measure.hardware import gpu_state

MAX_STEAL_PERCENT = 10
READINGS_APART_S, MOST_READINGS = 0.02, 50


class Counters(Protocol):
    """The part of the backend that counts completions."""

    def statistics(self, backend_model: str) -> ModelCounts:
        """Read the counters of one model."""


@dataclass(frozen=True, slots=True)
class MachineState:
    """
    The machine at one instant.

    :ivar facts: what must not change at all: name -> value as text.
    :ivar cpu_ticks: all time of all cores, and what of it the hypervisor took; kernel ticks.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    cpu_ticks: tuple[int, int] = (0, 0)


def read_state(root: Path = Path('/'),
               gpus: Callable[[], Mapping[str, str]] = gpu_state) -> MachineState:
    """
    Read the state of this machine; what it does not tell is left out.

    :param root: of the file system, for tests.
    :param gpus: reads the state of the GPUs.
    """
    cpu = root / 'sys/devices/system/cpu'
    facts = {}
    online = _text(cpu / 'online')
    if online:
        facts['cores online'] = online
    for name, pattern in (('clock governor', 'cpu[0-9]*/cpufreq/scaling_governor'),
                          ('clock limit', 'cpu[0-9]*/cpufreq/scaling_max_freq')):
        values = sorted({_text(path) for path in cpu.glob(pattern)} - {''})
        if values:
            facts[name] = ', '.join(values)
    throttled = [int(text) for path in cpu.glob('cpu[0-9]*/thermal_throttle/core_throttle_count')
                 if (text := _text(path)).isdigit()]
    if throttled:
        facts['times the CPU was throttled'] = str(sum(throttled))
    facts.update(gpus())
    return MachineState(facts, _cpu_ticks(_text(root / 'proc/stat')))


def changes_between(before: MachineState, after: MachineState) -> tuple[str, ...]:
    """Say what changed, one sentence each."""
    found = [f'{name} changed from {before.facts.get(name, "unknown")} to '
             f'{after.facts.get(name, "unknown")}'
             for name in dict.fromkeys((*before.facts, *after.facts))
             if before.facts.get(name) != after.facts.get(name)]
    total = after.cpu_ticks[0] - before.cpu_ticks[0]
    stolen = after.cpu_ticks[1] - before.cpu_ticks[1]
    if total > 0 and stolen * 100 > total * MAX_STEAL_PERCENT:
        found.append(f'the hypervisor took {stolen * 100 // total} % of the CPU time, at most '
                     f'{MAX_STEAL_PERCENT} % may be missing')
    return tuple(found)


def settled_counts(counters: Counters, backend_model: str,
                   pause: Callable[[float], object] = time.sleep) -> ModelCounts:
    """
    Read the counters once two readings agree: what was answered before may be counted late.

    Where somebody else never rests, the last of ``MOST_READINGS`` counts.
    """
    counts = counters.statistics(backend_model)
    for _ in range(MOST_READINGS - 1):
        pause(READINGS_APART_S)
        before, counts = counts, counters.statistics(backend_model)
        if counts == before:
            break
    return counts


def server_changes(backend_model: str, before: ModelCounts, after: ModelCounts,
                   sent: int) -> tuple[str, ...]:
    """
    Say what else happened to a model on the server while we sent it ``sent`` requests.

    Fewer completions than requests are no evidence: the server may count an answer after it.
    """
    if after.finished < before.finished:
        return (f'{backend_model} was loaded anew or the server was restarted meanwhile',)
    foreign = after.finished - before.finished - sent
    if foreign > 0:
        return (f'somebody else ran {backend_model} {foreign} times meanwhile',)
    return ()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding='utf-8', errors='replace').strip()
    except OSError:
        return ''


def _cpu_ticks(stat: str) -> tuple[int, int]:
    """Sum the first line of ``/proc/stat``; its eighth figure is what the hypervisor took."""
    words = stat.partition('\n')[0].split()
    if len(words) < 9 or words[0] != 'cpu' or not all(word.isdigit() for word in words[1:]):
        return 0, 0
    figures = [int(word) for word in words[1:9]]
    return sum(figures), figures[7]
