"""
``/diagnostics``: one entry for the governor, one for the server, one for each stream.

An entry is made of findings, each a level and a sentence that says what would help. Counters are
compared with those of a few reports ago, so a finding lasts a little longer than its cause and
does not flicker.
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
    """Judges one stream from report to report."""

    intake: Intake
    model: Model
    topic: str
    last_fault: Callable[[], str]
    _past: deque[dict[str, int]] = field(default_factory=lambda: deque(maxlen=WINDOW))

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
        past = self._past[0] if self._past else dict.fromkeys(counts, 0)
        self._past.append(counts)
        recent = {key: count - past[key] for key, count in counts.items()}
        values: dict[str, Any] = {'topic': self.topic, 'model': self.model.name,
                                  'class': self.model.criticality.name.lower(), **counts}
        if seen is not None and seen.judged_cycles:
            values.update({'coverage': f'{seen.coverage:.4f}',
                           'uncovered_cycles': seen.judged_cycles - seen.covered_cycles,
                           'longest_gap': text_ms(seen.longest_gap_ns)})
        if seen is not None and seen.weakly_hard_window:
            values.update({'misses': f'{seen.weakly_hard_misses} of {seen.weakly_hard_window}',
                           'misses_left': seen.weakly_hard_left,
                           'window_observed': seen.weakly_hard_observed,
                           'contract_version': seen.contract_version})
        rate = 'no message yet'
        if self.intake.mean_gap_ns:
            rate = f'{NS_PER_S / self.intake.mean_gap_ns:.1f} Hz in'
        if seen is not None and seen.age_p50_ns is not None and seen.age_p95_ns is not None:
            values.update({'variant': seen.variant_id or '', 'age_p50': text_ms(seen.age_p50_ns),
                           'age_p95': text_ms(seen.age_p95_ns)})
            rate += f', age p50 {text_ms(seen.age_p50_ns)}, p95 {text_ms(seen.age_p95_ns)}'
        findings = [*self._link(now_ns), *self._stamps(recent), *self._variants(),
                    *self._ages(seen, recent), *self._losses(recent),
                    *self._profile(seen), *self._promises(seen, recent['starved'])]
        return entry(f'{prefix}: stream {self.intake.binding.name}', self.topic, findings, rate,
                     values)

    def _link(self, now_ns: int) -> Iterable[Finding]:
        if self.intake.mismatch:
            yield ERROR, self.intake.mismatch
        last_ns = self.intake.last_arrival_ns
        if last_ns is None:
            return
        expected_ns = max(self.model.contract.period_ns or 0, int(self.intake.mean_gap_ns or 0))
        silence_ns = now_ns - last_ns
        if expected_ns and silence_ns > max(SILENT_PERIODS * expected_ns, SHORTEST_SILENCE_NS):
            yield ERROR, (f'no message for {text_ms(silence_ns)} on {self.topic}, expected every '
                          f'{text_ms(expected_ns)}')

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
                  system: System, state: ServerState) -> DiagnosticStatus:
    """Make the entry of the inference server."""
    findings: list[Finding] = []
    values: dict[str, Any] = {'endpoint': endpoint, 'server': server, 'slots': system.slots}
    values.update({'restarts_seen': state.restarts, 'reconciled': state.reconciled})
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
