"""
The second scene's ``timeline.png``: frames, pieces of text, and the words that each brought.

With the governor everything is taken from the trace that it recorded. Without it, from the answers
that the clients received: the server runs one model at a time, so that what is answered next began
when the one before it was answered, or when it was sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from vig_core.units import NS_PER_MS

from vig_governor.demo.arms import Arm
from vig_governor.demo.plan import DemoPlan, DemoWriter
from vig_governor.demo.timeline import (
    draw_panels, gaps_of, idle_spans, Life, lives, MIN_IDLE_NS, Panel)
from vig_governor.history import Frame, History, history_of
from vig_governor.recorded import read_trace

PERIODS = 8
"""Of the camera, from the left to the right."""

PANEL_HEIGHT = 3.4


class WriterLane:
    """The language model as a lane of the picture."""

    def __init__(self, writer: DemoWriter) -> None:
        self.name = writer.name
        self.criticality = 'best_effort'
        self.max_age_ms = writer.max_age_ms


def draw_text_timeline(path: Path, plan: DemoPlan, arms: Mapping[str, Arm], trace: Path) -> None:
    """
    Draw a panel for each arm that there is, from the middle of its run.

    :param trace: what the governor recorded.
    :raises TraceError: it cannot be read.
    """
    panels = []
    if 'direct' in arms:
        panels.append(direct_panel(plan, arms['direct']))
    if 'governed' in arms:
        panels.append(governed_panel(plan, arms['governed'], history_of(read_trace(trace))))
    draw_panels(path, panels, panel_height=PANEL_HEIGHT)


def direct_panel(plan: DemoPlan, arm: Arm) -> Panel:
    """Show what was answered when, on the clock of the consumer."""
    assert plan.writer is not None
    requests = lives(arm.notes)
    executions = one_at_a_time(requests)
    written = {ended: began for began, ended, stream in executions if stream == plan.writer.name}
    words = []
    for exchange in arm.notes[plan.writer.name]['exchanges']:
        for received, text, _, _ in exchange['parts']:
            end = min(written, key=lambda ended: abs(ended - received), default=received)
            words.append((written.get(end, exchange['asked']), end, text))
    span_ns = _span_ns(plan)
    start_ns = _start([began for began, _, stream in executions if stream == plan.writer.name],
                      arm.start_ns, arm.end_ns, span_ns)
    return Panel('Without the governor: an answer in one piece, and frames wait for its end',
                 (*plan.streams, WriterLane(plan.writer)), requests, start_ns, span_ns,
                 has_slot=False, executions=executions, words=words,
                 gaps=gaps_of(plan, requests))


def governed_panel(plan: DemoPlan, arm: Arm, history: History) -> Panel:
    """Show what ran when, on the clock of the trace."""
    assert plan.writer is not None
    name = plan.writer.name
    requests = [_life(frame, history) for frame in history.frames]
    runs = [Life(frame.stream, frame.captured_ns, run.begin_ns, run.begin_ns,
                 history.end_ns if run.end_ns is None else run.end_ns, 'completed')
            for frame in history.frames for run in frame.runs]
    # A text waits whenever it is open and none of its pieces runs.
    waiting = [replace(life, began_ns=None) if life.stream == name else life for life in requests]
    jobs = [frame for frame in history.frames if frame.stream == name]
    words = []
    for job, exchange in zip(jobs, arm.notes[name]['exchanges']):
        for _, text, _, number in exchange['parts']:
            words += [(run.begin_ns, run.end_ns or history.end_ns, text)
                      for run in job.runs[number - 1:number]]
    cameras = [frame.captured_ns for frame in history.frames if frame.stream != name]
    span_ns = _span_ns(plan)
    start_ns = _start([job.dispatched_ns for job in jobs if job.dispatched_ns is not None],
                      min(cameras, default=0), max(cameras, default=0), span_ns)
    return Panel(
        'With the governor: the text in pieces between the frames',
        (*plan.streams, WriterLane(plan.writer)), requests, start_ns, span_ns, has_slot=True,
        executions=[(run.arrived_ns, run.ended_ns, run.stream) for run in runs],
        idle=idle_spans([*runs, *waiting], start_ns=start_ns, end_ns=start_ns + span_ns),
        words=join(words), gaps=gaps_of(plan, requests))


def join(words: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Put together what was written without a frame in between."""
    joined: list[tuple[int, int, str]] = []
    for began, ended, text in words:
        if joined and began - joined[-1][1] < MIN_IDLE_NS:
            began, _, before = joined.pop()
            text = before + text
        joined.append((began, ended, text))
    return joined


def one_at_a_time(requests: Sequence[Life]) -> list[tuple[int, int, str]]:
    """Give what a server that runs one model at a time did: ``(begin, end, stream)`` in order."""
    ran = sorted((life.ended_ns, life.began_ns, life.stream) for life in requests
                 if life.began_ns is not None)
    return [(max(before[0], sent), ended, stream)
            for before, (ended, sent, stream) in pairwise([(0, 0, ''), *ran])]


def _span_ns(plan: DemoPlan) -> int:
    return PERIODS * plan.streams[0].period_ms * NS_PER_MS


def _start(begins: Sequence[int], first_ns: int, last_ns: int, span_ns: int) -> int:
    """Begin just before the first text behind the middle, so that one is seen from its begin."""
    middle_ns = (first_ns + last_ns - span_ns) // 2
    first = min((begin for begin in begins if begin >= middle_ns), default=middle_ns)
    return first - span_ns // 30


def _life(frame: Frame, history: History) -> Life:
    reason = '' if frame.reason is None else frame.reason.value
    return Life(frame.stream, frame.captured_ns, frame.arrived_ns, frame.dispatched_ns,
                history.end_ns if frame.ended_ns is None else frame.ended_ns, reason)
