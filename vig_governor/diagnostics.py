"""
``/diagnostics``: one entry for the governor, one for the server, one for each stream.

An entry is made of findings, each a level and a sentence that says what would help. Counters are
compared with those of a few periods ago, so a finding lasts a little longer than its cause and
does not flicker. docs/diagnostics.md has a table of the values and levels.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from vig_core.actions import OverloadState
from vig_core.events import Stamp
from vig_core.model import Model, System
from vig_core.request import Reason
from vig_core.snapshot import StreamSnapshot, SystemSnapshot
from vig_core.units import NS_PER_S, text_ms

from vig_governor.contract_findings import contract_findings
from vig_governor.intake import Intake
from vig_governor.watch import ServerState

Finding = tuple[bytes, str]
OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
WINDOW = 3
SILENT_PERIODS = 3
SHORTEST_SILENCE_NS = NS_PER_S
"""Of a stream whose contract names no period: what was learned from few gaps may be too short."""
SLOW_FROM, SLOW_TO = 1.5, 1.25
"""A stream counts as slow from this many periods between its messages, and down to the other."""


def entry(name: str, hardware_id: str, findings: Sequence[Finding], when_ok: str,
          values: Mapping[str, Any]) -> DiagnosticStatus:
    """Make one entry: the worst level, the sentences of what is not OK, all values as text."""
    level = max((each for each, _ in findings), default=OK)
    message = '; '.join(text for each, text in findings if each != OK) or when_ok
    return DiagnosticStatus(
        level=level, name=name, message=message, hardware_id=hardware_id,
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()])


@dataclass(slots=True)
class StreamDiagnostics:
    """Judges one stream, and remembers its counters from period to period."""

    intake: Intake
    model: Model
    topic: str
    last_fault: Callable[[], str]
    _is_slow: bool = False
    _counts: dict[str, int] = field(default_factory=dict)
    _past: deque[dict[str, int]] = field(default_factory=lambda: deque([{}], maxlen=WINDOW))

    def end_period(self) -> None:
        """Begin the next period: the oldest counters are no longer compared with."""
        self._past.append(self._counts)

    def report(self, prefix: str, seen: StreamSnapshot | None, now_ns: int) -> DiagnosticStatus:
        """
        Make the entry of this stream.

        :param seen: the scheduler's view, or ``None`` before the first message.
        :param now_ns: on the scheduling clock.
        """
        counts = {reason.value: seen.counts.get(reason, 0) if seen else 0 for reason in Reason}
        counts['received'] = self.intake.received
        counts['starved'] = seen.starved if seen is not None else 0
        counts.update({f'stamp_{kind.value}': fault.count
                       for kind, fault in self.intake.faults.items()})
        self._counts = counts
        recent = {key: count - self._past[0].get(key, 0) for key, count in counts.items()}
        values: dict[str, Any] = {'topic': self.topic, 'model': self.model.name,
                                  'class': self.model.criticality.name.lower()}
        values.update(self._arrivals(now_ns))
        rate = 'no message yet'
        if self.intake.received:
            rate = values.get('rate', 'one message so far') + ' in'
        if seen is not None:
            values.update(stream_values(seen))
            if seen.age_p50_ns is not None and seen.age_p95_ns is not None:
                rate += f', age p50 {text_ms(seen.age_p50_ns)}, p95 {text_ms(seen.age_p95_ns)}'
        findings = [*self._link(now_ns), *self._stamps(recent), *self._variants(),
                    *self._ages(seen, recent), *self._losses(recent),
                    *self._profile(seen), *self._promises(seen, recent['starved'])]
        values.update(counts)
        return entry(f'{prefix}: stream {self.intake.binding.name}', self.topic, findings, rate,
                     values)

    def _arrivals(self, now_ns: int) -> dict[str, str]:
        intake, period_ns = self.intake, self.model.contract.period_ns
        found = {}
        if intake.mean_gap_ns:
            found['rate'] = f'{NS_PER_S / intake.mean_gap_ns:.1f} Hz'
        if period_ns:
            found['rate_of_contract'] = f'{NS_PER_S / period_ns:.1f} Hz'
        if intake.last_arrival_ns is not None:
            found['last_message'] = f'{text_ms(now_ns - intake.last_arrival_ns)} ago'
        if intake.stamp_offset_ns is not None:
            found['stamp_offset'] = text_ms(intake.stamp_offset_ns)
        return found

    def _link(self, now_ns: int) -> Iterable[Finding]:
        if self.intake.mismatch:
            yield ERROR, self.intake.mismatch
        last_ns = self.intake.last_arrival_ns
        if last_ns is None:
            return
        period_ns, gap_ns = self.model.contract.period_ns, int(self.intake.mean_gap_ns or 0)
        expected_ns = max(period_ns or 0, gap_ns)
        silence_ns = now_ns - last_ns
        shortest_ns = 0 if period_ns else SHORTEST_SILENCE_NS
        if expected_ns and silence_ns > max(SILENT_PERIODS * expected_ns, shortest_ns):
            yield ERROR, (f'no message for {text_ms(silence_ns)} on {self.topic}, expected every '
                          f'{text_ms(expected_ns)}')
            return
        if not period_ns or not gap_ns:
            return
        self._is_slow = gap_ns > period_ns * (SLOW_TO if self._is_slow else SLOW_FROM)
        if self._is_slow:
            yield WARN, (f'{self.topic} comes with {NS_PER_S / gap_ns:.1f} Hz, its contract says '
                         f'{NS_PER_S / period_ns:.1f} Hz')

    def _stamps(self, recent: Mapping[str, int]) -> Iterable[Finding]:
        name = self.intake.binding.name
        for kind, fault in self.intake.faults.items():
            count = recent[f'stamp_{kind.value}']
            if not count:
                continue
            if kind is Stamp.INVALID:
                yield ERROR, f'{count} frames of streams.{name} refused: {fault.detail}'
            else:
                yield WARN, f'{count} frames with a doubtful stamp: {fault.detail}'

    def _variants(self) -> Iterable[Finding]:
        sentence = no_variant_fits(self.model)
        if sentence:
            yield ERROR, sentence

    def _ages(self, seen: StreamSnapshot | None, recent: Mapping[str, int]) -> Iterable[Finding]:
        late = recent[Reason.STALE.value] + recent[Reason.OBSOLETE.value]
        if late:
            yield WARN, f'{late} frames were older than max_age could bear'
        deadline_ns = self.model.contract.deadline_ns
        if seen is not None and (seen.age_p50_ns or 0) > deadline_ns:
            yield WARN, (f'half of the results are older than the deadline of '
                         f'{text_ms(deadline_ns)}')

    def _profile(self, seen: StreamSnapshot | None) -> Iterable[Finding]:
        if seen is not None and seen.profile_remark:
            yield WARN, f'{seen.profile_remark}; measure again: vig calibrate'

    def _promises(self, seen: StreamSnapshot | None, starved: int) -> Iterable[Finding]:
        if seen is not None:
            for sentence in contract_findings(self.model, seen, starved):
                yield WARN, sentence

    def _losses(self, recent: Mapping[str, int]) -> Iterable[Finding]:
        failed = recent[Reason.BACKEND_FAILED.value] + recent[Reason.BACKEND_TIMEOUT.value]
        if failed:
            level = WARN if recent[Reason.COMPLETED.value] else ERROR
            yield level, f'{failed} requests failed, last: {self.last_fault()}'
        if recent[Reason.CAPACITY.value]:
            yield WARN, f'{recent[Reason.CAPACITY.value]} requests found no room'


def stream_values(seen: StreamSnapshot) -> dict[str, Any]:
    """Give what the scheduler knows of a stream, as values with their units."""
    durations = {'age_p50': seen.age_p50_ns, 'age_p95': seen.age_p95_ns,
                 'age_p99': seen.age_p99_ns, 'age_of_newest_result': seen.last_result_age_ns,
                 'planned_runtime': seen.planned_ns}
    values: dict[str, Any] = {'variant': seen.variant_id or '', 'waiting': seen.waiting,
                              'running': seen.running, 'deferred': seen.deferred,
                              'waited_for_instance': seen.awaited,
                              'deadline_misses': seen.deadline_misses}
    values.update({name: text_ms(duration_ns) for name, duration_ns in durations.items()
                   if duration_ns is not None})
    if seen.variant_id is not None:
        values['margin'] = f'{seen.margin_percent} %'
    if seen.judged_cycles:
        values.update({'coverage': f'{seen.coverage:.4f}',
                       'uncovered_cycles': seen.judged_cycles - seen.covered_cycles,
                       'longest_gap': text_ms(seen.longest_gap_ns)})
    if seen.weakly_hard_window:
        values.update({'misses': f'{seen.weakly_hard_misses} of {seen.weakly_hard_window}',
                       'misses_in_a_row': seen.weakly_hard_consecutive,
                       'misses_left': seen.weakly_hard_left,
                       'window_observed': seen.weakly_hard_observed,
                       'contract_version': seen.contract_version})
    if seen.background_required_percent:
        values['background_progress'] = (f'{seen.background_progress:.0%} of '
                                         f'{seen.background_required_percent} % required')
    return values


def no_variant_fits(model: Model) -> str:
    """Say that even the fastest usable variant is slower than max_age, or nothing."""
    max_age_ns = model.contract.max_age_ns
    usable = model.usable_variants
    if max_age_ns is None or not usable:
        return ''
    fastest = min(usable, key=lambda variant: variant.profile.p50_ns)
    if fastest.profile.p50_ns <= max_age_ns:
        return ''
    return (f'no variant fits: {fastest.variant_id}, the fastest of model {model.name}, takes '
            f'{text_ms(fastest.profile.p50_ns)} and max_age is {text_ms(max_age_ns)}')


def backend_entry(prefix: str, endpoint: str, server: str, snapshot: SystemSnapshot | None,
                  system: System, state: ServerState,
                  faults: Mapping[str, str] | None = None) -> DiagnosticStatus:
    """
    Make the entry of the inference server.

    :param faults: stream to its last error, the newest stream last.
    """
    findings: list[Finding] = []
    values: dict[str, Any] = {'endpoint': endpoint, 'server': server, 'slots': system.slots}
    last_error = list(faults.values())[-1] if faults else ''
    values.update({
        'connection': 'silent' if state.silent_since_s is not None else 'up',
        'models_away': ', '.join(sorted(state.away.copy())), 'last_error': last_error,
        'foreign_executions': sum(state.foreign.copy().values()),
        'restarts_seen': state.restarts, 'reconciled': state.reconciled})
    findings += _server_findings(state)
    when_ok = server
    if snapshot is not None:
        values.update({'slots_busy': snapshot.slots_busy,
                       'slots_quarantined': snapshot.slots_quarantined,
                       'late_answers': snapshot.late_answers})
        when_ok = f'{server}, {snapshot.slots_busy} of {snapshot.slots_total} slots busy'
        if snapshot.slots_quarantined:
            level = WARN if snapshot.is_ready else ERROR
            findings.append((level, (
                f'{snapshot.slots_quarantined} of {snapshot.slots_total} slots are held: the '
                'server has not proven that it ended what it was given; a late answer, its '
                'completion counter or its restart frees them; if it hangs, restart it')))
    return entry(f'{prefix}: backend', endpoint, findings, when_ok, values)


def _server_findings(state: ServerState) -> Iterable[Finding]:
    if state.silent_since_s is not None:
        yield ERROR, (f'{state.silence} for {time.monotonic() - state.silent_since_s:.1f} s; '
                      'requests run again by themselves when it is back')
    for reason in state.away.copy().values():
        yield ERROR, reason
    for model, reason in state.changed.copy().items():
        yield ERROR, f'model {model!r}: {reason}'
    for model, count in state.foreign.copy().items():
        yield WARN, (f'model {model!r} has run {count} times for somebody else: the slots are '
                     'shared with a client that the governor does not know, and the completion '
                     'counter of this model proves nothing; let the governor be its only client')


def governor_entry(prefix: str, lifecycle_state: str, last_failure: str, clock_warning: str,
                   snapshot: SystemSnapshot | None, overload_detail: str,
                   values: Mapping[str, Any],
                   doubts: Mapping[str, str] | None = None) -> DiagnosticStatus:
    """
    Make the entry of the node itself.

    :param doubts: backend models whose profile was measured on something else, and on what.
    """
    findings: list[Finding] = []
    if last_failure:
        findings.append((ERROR, last_failure))
    if clock_warning:
        findings.append((WARN, clock_warning))
    findings += [(WARN, f'the profile of {name} was measured on something else ({detail}); '
                        'measure again with vig calibrate')
                 for name, detail in (doubts or {}).items()]
    if snapshot is not None and snapshot.overload is not OverloadState.NORMAL:
        findings.append((WARN, f'overload state {snapshot.overload.value}: {overload_detail}'))
    return entry(f'{prefix}: governor', prefix, findings, lifecycle_state, values)
