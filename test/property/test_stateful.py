"""
The whole scheduler as a state machine: hypothesis chooses what happens next, seeing the state.

The laws are those of the ``Witness``; at the end everything that was accepted must have ended.
"""

from hypothesis import settings, strategies as st
from hypothesis.stateful import (initialize, precondition, rule, RuleBasedStateMachine)
from vig_core.events import (BackendFailed, CancelRequested, DispatchRefused,
                             DrainExpired, DrainStarted, ExecutionsProvenOver, RequestArrived,
                             Stamp, TimeJumped)
from vig_core.request import Reason
from vig_core.units import ms, NS_PER_S
from witness import Witness
from worlds import answer, ORIGIN_NS, systems

gaps = st.sampled_from([0, 1, ms(1), ms(4), ms(11), ms(33), ms(120), 20 * NS_PER_S])


class Governed(RuleBasedStateMachine):
    """One scheduler, its clock, and everything that may happen to it."""

    @initialize(system=systems())
    def begin(self, system):
        """Start on a random system."""
        self.witness = Witness(system, ORIGIN_NS)
        self.names = sorted(system.models)
        self.next_id = 0

    def feed(self, event, gap_ns):
        """Wake as the scheduler asks for a while, then feed."""
        at_ns = self.witness.now_ns + gap_ns
        for _ in range(50):
            wakeup_ns = self.witness.scheduler.next_wakeup_ns()
            if wakeup_ns is None or wakeup_ns >= at_ns:
                break
            self.witness.wake(wakeup_ns)
        self.witness.handle(event, at_ns)

    def running(self, data):
        """Draw one of the executions."""
        return data.draw(st.sampled_from(sorted(self.witness.occupied)))

    @rule(gap_ns=gaps, choice=st.integers(0, 20), age_ns=st.sampled_from([0, ms(2), ms(40)]),
          size=st.sampled_from([0, 100, 250]), is_invalid=st.integers(0, 9))
    def arrive(self, gap_ns, choice, age_ns, size, is_invalid):
        name, camera = self.names[choice % len(self.names)], choice // 7
        self.next_id += 1
        self.feed(RequestArrived(
            self.next_id, name, f'{name}{camera or ""}', str(camera),
            self.witness.now_ns + gap_ns - age_ns, size,
            Stamp.TRUSTED if is_invalid else Stamp.INVALID), gap_ns)

    @precondition(lambda self: self.witness.occupied)
    @rule(data=st.data(), gap_ns=gaps)
    def complete(self, data, gap_ns):
        choice = data.draw(st.integers(0, 7))
        self.feed(answer(self.witness, self.running(data), choice), gap_ns)

    @precondition(lambda self: self.witness.occupied)
    @rule(data=st.data(), gap_ns=gaps, is_over=st.booleans())
    def fail(self, data, gap_ns, is_over):
        self.feed(BackendFailed(self.running(data), 'an error', is_over), gap_ns)

    @precondition(lambda self: self.witness.occupied)
    @rule(data=st.data())
    def refuse(self, data):
        self.feed(DispatchRefused(self.running(data), Reason.CAPACITY, 'no memory'), 0)

    @precondition(lambda self: self.witness.waiting_ids)
    @rule(data=st.data(), gap_ns=gaps)
    def cancel(self, data, gap_ns):
        waiting = self.witness.waiting_ids
        self.feed(CancelRequested(data.draw(st.sampled_from(waiting))), gap_ns)

    @precondition(lambda self: self.witness.occupied & set(self.witness.ended))
    @rule()
    def prove(self):
        held = sorted(self.witness.occupied & set(self.witness.ended))
        self.feed(ExecutionsProvenOver(tuple(held), 'quiet'), 0)

    @rule(gap_ns=gaps)
    def jump(self, gap_ns):
        self.feed(TimeJumped('again'), gap_ns)

    @rule()
    def wake(self):
        wakeup_ns = self.witness.scheduler.next_wakeup_ns()
        if wakeup_ns is not None:
            self.witness.wake(wakeup_ns)

    def teardown(self):
        """Drain, answer what runs, and find everything ended."""
        if not hasattr(self, 'witness'):
            return
        self.feed(DrainStarted(), 0)
        self.feed(DrainExpired('the end'), ms(50))
        for request_id in sorted(self.witness.occupied):
            self.feed(answer(self.witness, request_id), 0)
        assert sorted(self.witness.ended) == sorted(self.witness.arrivals)
        assert self.witness.scheduler.is_idle


TestGoverned = Governed.TestCase
TestGoverned.settings = settings(stateful_step_count=40)
