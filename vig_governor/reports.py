"""What the node says of itself: ``~/status``, ``/diagnostics`` and, if asked for, metrics."""

from collections.abc import Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

from std_msgs.msg import Header

from vig_core.snapshot import SystemSnapshot
from vig_core.units import NS_PER_MS

from vig_governor import diagnostics, messages
from vig_governor.metrics import Health, Metrics, MetricsServer
from vig_governor.parameters import parameter
from vig_governor.ports import Clock


NO_SLOT = 'every slot is held by an unproven execution'
CHECK_PERIOD_S = 0.2
"""Distance of the looks for a level that has changed: so many more arrays a second at most."""
CHECK_WAIT_S = 0.05


class Reports:
    """
    Reads the node and its session; changes neither.

    :param node: the ``GovernorNode``.
    :param steady: the scheduling clock.
    :param status: publisher of ``vig/msg/GovernorStatus``.
    :param array: publisher of ``diagnostic_msgs/msg/DiagnosticArray``.
    :ivar metrics: where a session counts for Prometheus, if a port is asked for.
    """

    def __init__(self, node: Any, steady: Clock, status: Any, array: Any) -> None:
        self._node = node
        self._steady = steady
        self._status = status
        self._array = array
        self._clock_warning = ''
        self._levels: dict[str, bytes] = {}
        self.metrics: Metrics | None = None
        self._metrics_server: MetricsServer | None = None
        if parameter(node, 'metrics_port'):
            self.metrics = Metrics(self._snapshot, reconciled=self._reconciled)
            self._metrics_server = MetricsServer(
                self.metrics, self._health, port=parameter(node, 'metrics_port'),
                address=parameter(node, 'metrics_address'))

    def close(self) -> None:
        """Serve no more metrics."""
        if self._metrics_server is not None:
            self._metrics_server.close()

    def _snapshot(self) -> SystemSnapshot | None:
        session = self._node.session
        return None if session is None else session.snapshot()

    def _reconciled(self) -> int:
        governed = self._node.governed
        return 0 if governed is None else governed.watch.state.reconciled

    def _health(self) -> Health:
        session = self._node.session
        if session is None:
            return Health(True, False, self._node.last_failure
                          or f'the node is {self._node.state_label}')
        snapshot = session.snapshot()
        if snapshot is None:
            return Health(False, False, 'the scheduling thread does not answer')
        reason = self._not_ready(snapshot)
        return Health(True, not reason, reason)

    def publish(self) -> None:
        """Publish both, once in each period; a failure is logged and the node goes on."""
        try:
            self._look_at_graph()
            self._publish_diagnostics(self._entries(self.publish_status()))
            for monitor in self._monitors():
                monitor.end_period()
        except Exception as error:
            self._node.get_logger().error(f'the report failed: {error!r}')

    def check(self) -> None:
        """Publish ``/diagnostics`` between two periods if the level of an entry has changed."""
        session = self._node.session
        try:
            snapshot = None if session is None else session.snapshot(timeout_s=CHECK_WAIT_S)
            if session is not None and snapshot is None:
                return
            entries = self._entries(snapshot)
            if any(entry.level != self._levels.get(entry.name, DiagnosticStatus.OK)
                   for entry in entries):
                self._publish_diagnostics(entries)
        except Exception as error:
            self._node.get_logger().error(f'the look for changed levels failed: {error!r}')

    def changed(self) -> None:
        """Publish both because something has changed; from any thread."""
        self.publish_status()
        executor = self._node.executor
        if executor is not None:
            executor.create_task(self._publish_change)

    def _publish_change(self) -> None:
        try:
            self._publish_diagnostics(self._entries(self._snapshot()))
        except Exception as error:
            self._node.get_logger().error(f'the report of a change failed: {error!r}')

    def publish_status(self) -> SystemSnapshot | None:
        """Publish ``~/status`` and give the snapshot in it; from any thread."""
        node, session = self._node, self._node.session
        snapshot = session.snapshot() if session is not None else None
        share, detail = 0.0, ''
        dispatched: dict[str, int] = {}
        reason = node.last_failure or f'the node is {node.state_label}'
        if session is not None and snapshot is not None:
            share = session.deliberate_idle_share(snapshot)
            detail = session.publishing.overload_detail
            dispatched = dict(session.publishing.dispatched)
            reason = self._not_ready(snapshot)
        self._status.publish(messages.governor_status(
            snapshot, node.streams, header=self._header(), lifecycle_state=node.state_label,
            not_ready_reason=reason, overload_detail=detail, deliberate_idle_share=share,
            dispatched=dispatched))
        return snapshot

    def _not_ready(self, snapshot: SystemSnapshot) -> str:
        governed = self._node.governed
        if governed is not None and governed.watch.state.silent_since_s is not None:
            return str(governed.watch.state.silence)
        return '' if snapshot.is_ready else NO_SLOT

    def _monitors(self) -> Sequence[diagnostics.StreamDiagnostics]:
        session = self._node.session
        return session.monitors if session is not None else ()

    def _publish_diagnostics(self, entries: Sequence[DiagnosticStatus]) -> None:
        self._levels = {entry.name: entry.level for entry in entries}
        self._array.publish(DiagnosticArray(header=self._header(), status=entries))

    def _entries(self, snapshot: SystemSnapshot | None) -> list[DiagnosticStatus]:
        node = self._node
        prefix = node.get_fully_qualified_name().lstrip('/')
        session, governed = node.session, node.governed
        entries = [diagnostics.governor_entry(
            prefix, node.state_label, node.last_failure, self._clock_warning, snapshot,
            session.publishing.overload_detail if session else '',
            {**({'config': governed.config.source, 'config_sha256': governed.config.digest}
                if governed else {}), **(session.figures() if session else {}),
             **({'overload': snapshot.overload.value,
                 'deliberate_idle_ms': round(snapshot.deliberate_idle_ns / NS_PER_MS, 1),
                 'deliberate_idle_share': f'{session.deliberate_idle_share(snapshot):.1%}'}
                if session and snapshot else {})},
            session.authority.doubts if session else {})]
        if governed is not None:
            entries.append(diagnostics.backend_entry(
                prefix, governed.config.backend.endpoint, governed.assembly.server, snapshot,
                governed.assembly.system, governed.watch.state,
                session.publishing.faults.copy() if session else {}))
        seen = {stream.stream: stream for stream in snapshot.streams} if snapshot else {}
        entries += [monitor.report(prefix, seen.get(monitor.intake.binding.name),
                                   self._steady.now_ns()) for monitor in self._monitors()]
        return entries

    def _header(self) -> Header:
        return Header(stamp=self._node.get_clock().now().to_msg())

    def _look_at_graph(self) -> None:
        for monitor in self._monitors():
            self._check_types(monitor)
        self._check_clock()

    def _check_types(self, monitor: diagnostics.StreamDiagnostics) -> None:
        """Name a publisher of another type: the middleware never connects it, silently."""
        if monitor.intake.received:
            return
        wanted = monitor.intake.binding.message_type
        others = {info.topic_type for info in self._node.get_publishers_info_by_topic(
            monitor.topic) if info.topic_type != wanted}
        if others:
            monitor.intake.mismatch = (
                f'{monitor.topic} is published as {", ".join(sorted(others))}, but streams.'
                f'{monitor.intake.binding.name}.type is {wanted}')

    def _check_clock(self) -> None:
        """Say once in the log, and always in diagnostics, where ages would lie."""
        node = self._node
        warning = ''
        if parameter(node, 'use_sim_time'):
            if node.get_clock().now().nanoseconds == 0:
                warning = ('use_sim_time is true, but no /clock message has arrived: every frame '
                           'is refused until then; start the simulator or play with --clock')
        elif node.count_publishers('/clock'):
            warning = ('/clock is published, but use_sim_time is false: the ages of simulated or '
                       'replayed frames are wrong; set use_sim_time: true')
        if warning and warning != self._clock_warning:
            node.get_logger().warning(warning)
        self._clock_warning = warning
