"""
The lifecycle node: transitions and wiring. It decides nothing about requests.

``configure`` reads the file, reaches the server, checks everything, opens the outputs.
``activate`` starts a session and opens the inputs. ``deactivate`` closes the inputs, drains, and
only then lets the publishers go inactive. Each undoes what it made when it fails.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
import itertools
import sys
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray

from rclpy.clock import Clock, JumpThreshold
from rclpy.clock_type import ClockType
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from std_srvs.srv import SetBool

from vig.msg import GovernorStatus
from vig.srv import CancelRequests, Explain, Generate

from vig_core.units import NS_PER_S

from vig_governor import messages, qos, topics
from vig_governor.actor import Actor
from vig_governor.assembly import assemble
from vig_governor.backend.base import BackendUnavailable
from vig_governor.backend.opening import open_backend
from vig_governor.clock import SteadyClock
from vig_governor.config import load_config, StreamBinding
from vig_governor.contract_memory import ContractMemory
from vig_governor.generate import generate
from vig_governor.logs import RosLogHandler
from vig_governor.parameters import declare_parameters, parameter, refuse_without_effect
from vig_governor.process import run
from vig_governor.remnants import Link, Remnants
from vig_governor.reports import CHECK_PERIOD_S, Reports
from vig_governor.ros_time import RosTime
from vig_governor.services import BYTES_PER_MB, cancel, explain, record
from vig_governor.session import Governed, Session
from vig_governor.topics import CannotStart
from vig_governor.transitions import transition
from vig_governor.wall_clock import WallClockWatch
from vig_governor.watch import ServerWatch

AUTOSTART_RETRY_S = 2.0
FLUSH_NS = NS_PER_S
WARM_UP_WAIT_S = 3.0
"""Lifecycle managers give a transition five seconds."""


class GovernorNode(LifecycleNode):
    """Decides, between cameras and an inference server, which frame is still worth running."""

    def __init__(self, **kwargs: Any) -> None:
        """Make the node with its parameters, services, ``~/status`` and ``/diagnostics``."""
        super().__init__('governor', **kwargs)
        self.last_failure = ''
        self.last_error: Exception | None = None
        self._log_handler = RosLogHandler(self.get_logger())
        self._steady = SteadyClock()
        self._numbers = itertools.count(1)
        self._governed: Governed | None = None
        self._session: Session | None = None
        self._last_actor: Actor | None = None
        self._remnants = Remnants(lambda: self._last_actor)
        self._memory = ContractMemory()
        self._made_for_life = ExitStack()
        self._made_for_life.callback(self._remnants.close)
        self._made_by_configure = ExitStack()
        self._made_by_activate = ExitStack()
        self._ros_time = RosTime(self.get_clock())
        self._made_for_life.callback(self._ros_time.close)
        declare_parameters(self)
        self.add_on_set_parameters_callback(partial(refuse_without_effect, self))
        self._reports = Reports(
            self, self._steady,
            self.create_publisher(GovernorStatus, '~/status', qos.status_qos()),
            self.create_publisher(DiagnosticArray, '/diagnostics', 10))
        self._made_for_life.callback(self._reports.close)
        self.create_service(CancelRequests, '~/cancel', partial(cancel, self))
        self.create_service(Generate, '~/generate', partial(generate, self))
        self.create_service(Explain, '~/explain', partial(explain, self))
        self.create_service(SetBool, '~/record', partial(record, self))
        self._steady_ros = Clock(clock_type=ClockType.STEADY_TIME)
        for period_s, report in ((parameter(self, 'diagnostics_period_s'), self._reports.publish),
                                 (CHECK_PERIOD_S, self._reports.check)):
            self.create_timer(period_s, report, clock=self._steady_ros)
        self._autostart_timer = self.create_timer(AUTOSTART_RETRY_S, self._autostart,
                                                  clock=self._steady_ros)
        if parameter(self, 'autostart'):
            self._autostart()
        else:
            self._autostart_timer.cancel()
        self._made_for_life.callback(WallClockWatch(self._wait_anew).close)

    # ---- lifecycle ----

    @transition('configure')
    def on_configure(self, state: LifecycleState) -> None:
        """Read the file, reach the server, check everything, open the outputs; under 5 s."""
        path = parameter(self, 'config')
        if not path:
            raise CannotStart('the parameter config is empty; give the path of a vig.yaml: '
                              '--ros-args -p config:=/path/vig.yaml')
        with ExitStack() as made:
            config = load_config(path, require_profiles=True)
            backend = open_backend(config.backend)
            link = Link(backend)
            made.callback(self._remnants.retire, link)
            classes = {binding.name: messages.message_class(binding)
                       for binding in config.streams}
            assembly = assemble(config, backend)
            watch = link.watch = ServerWatch(backend, assembly.signatures)
            governed = Governed(config, assembly, backend, watch, classes)
            topics.resolve(self, governed)
            for binding in config.streams:
                topics.open_outputs(self, governed, binding, made)
            topics.open_job_outputs(self, governed, made)
            self._remnants.watch(link)
            self._governed = governed
            self._made_by_configure = made.pop_all()
        for notice in governed.assembly.notices:
            self.get_logger().warning(notice)
        self.get_logger().info(f'configured from {path} with {governed.assembly.server}')

    @transition('activate')
    def on_activate(self, state: LifecycleState) -> None:
        """Start a session, then open the inputs."""
        governed = self._governed
        assert governed is not None
        if not governed.watch.wait_until_warm(WARM_UP_WAIT_S):
            self.get_logger().warning(
                f'not all models have answered their warm-up within {WARM_UP_WAIT_S:g} s; the '
                'first frames may wait behind it')
        with ExitStack() as made:
            super().on_activate(state)
            made.callback(super().on_deactivate, state)
            session = Session(
                governed, clock=self._steady, ros_now_ns=self._ros_time.now_ns,
                numbers=self._numbers, on_overload=self._reports.changed,
                logs_decisions=parameter(self, 'log_decisions'),
                record=parameter(self, 'record'),
                record_max_bytes=parameter(self, 'record_max_mb') * BYTES_PER_MB,
                metrics=self._reports.metrics, memory=self._memory,
                before=self._last_actor)
            self._last_actor = session.actor
            self._remnants.hand_over(session.actor)
            made.callback(session.close)
            made.callback(self._flush)
            made.callback(session.drain)
            for binding in governed.config.streams:
                topics.open_input(self, governed, session, binding, made)
            handle = self.get_clock().create_jump_callback(
                JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-1)),
                post_callback=lambda jump: session.jump(jump.delta.nanoseconds))
            made.callback(handle.unregister)
            self._session = session
            self._made_by_activate = made.pop_all()
        self.get_logger().info(f'active with {len(governed.config.streams)} streams')

    @transition('deactivate')
    def on_deactivate(self, state: LifecycleState) -> None:
        """Close the inputs, let accepted work end, then let the publishers go inactive."""
        self._made_by_activate.close()
        self._session = None

    @transition('cleanup')
    def on_cleanup(self, state: LifecycleState) -> None:
        """Destroy everything that ``configure`` made."""
        self._made_by_configure.close()
        self._governed = None

    @transition('shutdown')
    def on_shutdown(self, state: LifecycleState) -> None:
        """Deactivate if active, then clean up."""
        self._autostart_timer.cancel()
        self._tear_down()

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Destroy everything after a bug of ours, so that ``configure`` can be tried again."""
        try:
            self._tear_down()
        except Exception as error:
            self.get_logger().error(f'clearing up failed: {error!r}')
            return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS

    def destroy_node(self) -> None:
        """End what is still running, then the node itself."""
        self._tear_down()
        self._made_for_life.close()
        self._log_handler.detach()
        super().destroy_node()
        # rclpy 9.1.2 does not, and then the node stays in the graph until the process ends.
        self._state_machine.destroy_when_not_in_use()

    @property
    def session(self) -> Session | None:
        """The running session while the node is active."""
        return self._session

    @property
    def last_actor(self) -> Actor | None:
        """The actor of the running session or of the last one."""
        return self._last_actor

    @property
    def governed(self) -> Governed | None:
        """What ``configure`` made, while it exists."""
        return self._governed

    @property
    def streams(self) -> Sequence[StreamBinding]:
        """The configured streams and those of ``~/generate``; empty before ``configure``."""
        config = self._governed.config if self._governed is not None else None
        return (*config.streams, *config.job_streams) if config is not None else ()

    @property
    def steady(self) -> SteadyClock:
        """The scheduling clock."""
        return self._steady

    @property
    def state_label(self) -> str:
        """Name of the present lifecycle state."""
        return str(self._state_machine.current_state[1])

    def _tear_down(self) -> None:
        self._made_by_activate.close()
        self._session = None
        self._made_by_configure.close()
        self._governed = None

    def _autostart(self) -> None:
        """Configure and activate once; again only while no server answers."""
        self._autostart_timer.cancel()
        if self._governed is None and self.trigger_configure() != TransitionCallbackReturn.SUCCESS:
            if isinstance(self.last_error, BackendUnavailable):
                self._autostart_timer.reset()
            return
        self.trigger_activate()

    def _wait_anew(self, set_back_ns: int) -> None:
        """Let no timer wait for the wall clock to be again where it was."""
        self.get_logger().warning(f'the wall clock was set back by {set_back_ns / NS_PER_S:.1f} s')
        for timer in self.timers:
            if not timer.is_canceled():
                timer.reset()

    def _flush(self) -> None:
        """Let reliable readers take the last statuses before the publishers go inactive."""
        end_ns = self._steady.now_ns() + FLUSH_NS
        if self._governed is not None and self.context.ok():
            for stream in self._governed.outputs.values():
                left_ns = max(0, end_ns - self._steady.now_ns())
                stream.status.wait_for_all_acked(Duration(nanoseconds=left_ns))


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until a signal; the entry point ``governor``."""
    return run(GovernorNode, args)


if __name__ == '__main__':
    sys.exit(main())
