"""The node's parameters: one table that declares, documents and reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import (FloatingPointRange, IntegerRange, ParameterDescriptor,
                                SetParametersResult)

from rclpy.node import Node
from rclpy.parameter import Parameter


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """
    One parameter.

    :ivar unit: shown after the description; empty for a pure value.
    :ivar bounds: smallest and largest value of a number.
    :ivar is_read_only: fixed when the node starts.
    :ivar fixed_while: lifecycle states in which a change would have no effect and is refused.
    """

    name: str
    default: bool | int | float | str
    description: str
    unit: str = ''
    bounds: tuple[float, float] | None = None
    is_read_only: bool = False
    fixed_while: tuple[str, ...] = ()

    @property
    def descriptor(self) -> ParameterDescriptor:
        """Everything a tool such as ``ros2 param describe`` shows about it."""
        descriptor = ParameterDescriptor(
            description=f'{self.description} [{self.unit}]' if self.unit else self.description,
            read_only=self.is_read_only)
        if self.bounds is None:
            return descriptor
        low, high = self.bounds
        if isinstance(self.default, float):
            descriptor.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
        else:
            descriptor.integer_range = [
                IntegerRange(from_value=int(low), to_value=int(high), step=1)]
        return descriptor


PARAMETERS: tuple[ParameterRow, ...] = (
    ParameterRow(
        'config', '',
        'path of vig.yaml; read when the node is configured', fixed_while=('inactive', 'active')),
    ParameterRow(
        'autostart', False,
        'configure and activate without a lifecycle manager; while the inference server cannot '
        'be reached it is tried again', is_read_only=True),
    ParameterRow(
        'diagnostics_period_s', 1.0,
        'distance of /diagnostics and ~/status', unit='s', bounds=(0.1, 60.0),
        is_read_only=True),
    ParameterRow(
        'log_decisions', False,
        'write every decision to the log at level DEBUG; read when the node is activated',
        fixed_while=('active',)),
    ParameterRow(
        'record', '',
        'path of a replayable trace, *.mcap, begun anew at each activation; empty for none. '
        'Full files and those of earlier runs are kept beside it as run.1.mcap to run.3.mcap'),
    ParameterRow(
        'record_max_mb', 1000,
        'what a trace may take on the disk, all its files together; the oldest goes', unit='MB',
        bounds=(4, 1_000_000)),
    ParameterRow(
        'metrics_port', 0,
        'TCP port of Prometheus metrics (/metrics), /healthz and /readyz; 0 for none',
        bounds=(0, 65535), is_read_only=True),
    ParameterRow(
        'metrics_address', '127.0.0.1',
        'address that metrics_port is opened on; anything but a loopback address shows the names '
        'of streams and models to that network', is_read_only=True),
)


def declare_parameters(node: Node) -> None:
    """Declare every row of the table that the node does not have yet."""
    for row in PARAMETERS:
        if not node.has_parameter(row.name):
            node.declare_parameter(row.name, row.default, row.descriptor)


def refuse_without_effect(node: Any, changes: Sequence[Parameter]) -> SetParametersResult:
    """Refuse a change that would look accepted and do nothing; says what to do first."""
    fixed = {row.name: row.fixed_while for row in PARAMETERS}
    for change in changes:
        if node.state_label in fixed.get(change.name, ()):
            first = ('deactivate and cleanup' if node.state_label == 'active'
                     and 'inactive' in fixed[change.name] else
                     'deactivate' if node.state_label == 'active' else 'cleanup')
            return SetParametersResult(successful=False, reason=(
                f'{change.name} has no effect while the node is {node.state_label}; '
                f'{first} first'))
    return SetParametersResult(successful=True)


def parameter(node: Node, name: str) -> Any:
    """Give the present value of a declared parameter."""
    return node.get_parameter(name).value
