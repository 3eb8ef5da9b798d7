"""
Start the governor, bring it to ACTIVE, and make large images arrive.

``ros2 launch vig governor.launch.py config:=/path/vig.yaml``. All arguments with their meaning:
``ros2 launch vig governor.launch.py --show-args``.

When ``configure`` fails, the sentence of the governor that says why is in the output, and
``on_failure`` decides what follows: try again until it works (a server that starts later, a file
that is being mended), stay and wait for a lifecycle command, or end the launch.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import (DeclareLaunchArgument, EmitEvent, LogInfo, OpaqueFunction,
                            RegisterEventHandler, SetEnvironmentVariable, TimerAction)
from launch.event_handlers import OnProcessExit
from launch.events import matches_action, Shutdown
from launch.logging import get_logger
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.ros_adapters import get_ros_node

# The folder config/ lies beside launch/, in the source tree and in the installed package.
SHARED_MEMORY_PROFILE = Path(__file__).resolve().parent.parent / 'config' / 'fastdds_shm.xml'
PROFILE_VARIABLE = 'FASTDDS_DEFAULT_PROFILES_FILE'
# Fast DDS 2 (ROS 2 Jazzy and older) knows this name alone; the ROS 2 of Fast DDS 3 warns of it.
OLD_PROFILE_VARIABLE = 'FASTRTPS_DEFAULT_PROFILES_FILE'
OLD_DISTRIBUTIONS = ('humble', 'iron', 'jazzy')
TRANSPORTS_VARIABLE = 'FASTDDS_BUILTIN_TRANSPORTS'
LOOK_S = 0.1
UNHEARD_S = 10.0
FIRST_RETRY_S = 2.0
LONGEST_RETRY_S = 30.0
# The message class with the numbers is not ours to import; launch_ros has them by name.
TRANSITIONS = {name: number for number, name in ChangeState.valid_transitions.items()}

ARGUMENTS = (
    DeclareLaunchArgument(
        'config', default_value='',
        description='Path of the vig.yaml. Empty: the parameter config in params_file names it.'),
    DeclareLaunchArgument(
        'namespace', default_value='',
        description='ROS namespace of the node; relative topics of the streams resolve in it.'),
    DeclareLaunchArgument(
        'params_file', default_value='',
        description='YAML file with parameters of the node, for example qos_overrides. '
                    'The arguments config and use_sim_time win over it.'),
    DeclareLaunchArgument(
        'autostart', default_value='true', choices=['true', 'false'],
        description='Configure and activate the node. false: a lifecycle manager does it, or '
                    'you: ros2 lifecycle set /governor configure'),
    DeclareLaunchArgument(
        'on_failure', default_value='retry', choices=['retry', 'stay', 'shutdown'],
        description='When autostart fails: try again after 2 s, later 4, 8 ... at most 30 s; '
                    'or leave the node alive for a lifecycle command; or end the launch.'),
    DeclareLaunchArgument(
        'log_level', default_value='info', choices=['debug', 'info', 'warn', 'error', 'fatal'],
        description='Least severity that the node logs.'),
    DeclareLaunchArgument(
        'use_sim_time', default_value='', choices=['', 'true', 'false'],
        description='Take the ROS time from /clock. Empty: as params_file says, or false.'),
    DeclareLaunchArgument(
        'dds', default_value='keep', choices=['shm', 'large_data', 'keep'],
        description='Transports of Fast DDS, whose defaults lose best-effort images above 1 MB. '
                    'shm: shared memory alone; every process of the graph must use the same '
                    'profile (config/fastdds_shm.xml) and run on this computer. '
                    'large_data: TCP and a larger shared memory; for graphs that span computers. '
                    'keep: change nothing.'),
    DeclareLaunchArgument(
        'stop_timeout_s', default_value='25',
        description='Seconds that the node may take to end before it gets SIGTERM; longer than '
                    'backend.drain_deadline_s of the vig.yaml.'),
)


def generate_launch_description():
    """Describe the launch: arguments, environment, node, and the way to ACTIVE."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=_set_transports),
                              OpaqueFunction(function=_start_governor)])


def _value(context, name):
    return LaunchConfiguration(name).perform(context)


def _warn(text):
    get_logger('governor.launch').warning(text)


# ---- DDS ----

def _set_transports(context):
    """Set what the argument dds promises, for this launch and all that it starts."""
    environment, choice = context.environment, _value(context, 'dds')
    if choice == 'keep':
        return []
    middleware = environment.get('RMW_IMPLEMENTATION', '')
    if middleware and 'fastrtps' not in middleware:
        _warn(f'dds:={choice} sets up Fast DDS, but RMW_IMPLEMENTATION is {middleware}: it has '
              'no effect')
    return _use_shared_memory(environment) if choice == 'shm' else _use_large_data(environment)


def _use_large_data(environment):
    if (environment.get('ROS_AUTOMATIC_DISCOVERY_RANGE') == 'LOCALHOST'
            or environment.get('ROS_LOCALHOST_ONLY') == '1'):
        _warn('dds:=large_data has no effect while ROS_AUTOMATIC_DISCOVERY_RANGE is LOCALHOST '
              '(or ROS_LOCALHOST_ONLY is 1): that replaces the built-in transports, and large '
              'images are lost. Unset it, or use dds:=shm where the whole graph is on this '
              'computer')
    profile = environment.get(PROFILE_VARIABLE) or environment.get(OLD_PROFILE_VARIABLE)
    if profile:
        _warn(f'dds:=large_data has no effect where the Fast DDS profile {profile} replaces the '
              'built-in transports')
    return [SetEnvironmentVariable(TRANSPORTS_VARIABLE, 'LARGE_DATA')]


def _use_shared_memory(environment):
    profile, actions = str(SHARED_MEMORY_PROFILE), []
    if not SHARED_MEMORY_PROFILE.is_file():
        raise RuntimeError(f'dds:=shm needs the Fast DDS profile {profile}, which is not there; '
                           'the installation of the package vig is incomplete')
    names = [PROFILE_VARIABLE]
    if environment.get('ROS_DISTRO') in OLD_DISTRIBUTIONS:
        names.append(OLD_PROFILE_VARIABLE)
    for name in names:
        given = environment.get(name, profile)
        if not Path(given).exists() or not SHARED_MEMORY_PROFILE.samefile(given):
            _warn(f'dds:=shm replaces {name}={given}')
        actions.append(SetEnvironmentVariable(name, profile))
    return actions


# ---- the node ----

def _start_governor(context):
    parameters, config = [], _value(context, 'config')
    params_file, use_sim_time = _value(context, 'params_file'), _value(context, 'use_sim_time')
    is_autostarted = _value(context, 'autostart') == 'true'
    if not config and not params_file:
        raise RuntimeError('governor.launch.py does not know which vig.yaml to use; add '
                           'config:=/path/vig.yaml')
    if params_file:
        path = Path(params_file).expanduser().resolve()
        if not path.is_file():
            raise RuntimeError(f'params_file:={params_file} is not a file')
        parameters.append(str(path))
    if config:
        parameters.append({'config': ParameterValue(str(Path(config).expanduser().resolve()),
                                                    value_type=str)})
    if use_sim_time:
        parameters.append({'use_sim_time': use_sim_time == 'true'})
    if is_autostarted:
        # One of the two must be in charge, and here it is this launch.
        parameters.append({'autostart': False})
    node = LifecycleNode(
        package='vig', executable='governor', name='governor',
        namespace=LaunchConfiguration('namespace'), parameters=parameters,
        arguments=['--ros-args', '--log-level', LaunchConfiguration('log_level')],
        # By value: the name is gone when a launch that included this one in a group ends.
        output='screen', sigterm_timeout=_value(context, 'stop_timeout_s'))
    if not is_autostarted:
        return [node]
    return Autostart(node, on_failure=_value(context, 'on_failure')).actions()


class Autostart:
    """
    Brings one lifecycle node to ACTIVE, once; later transitions are left to whoever asks.

    :param on_failure: ``retry``, ``stay`` or ``shutdown``.
    """

    def __init__(self, node, *, on_failure):
        self._node = node
        self._on_failure = on_failure
        self._retry_s = FIRST_RETRY_S
        self._state = 'unconfigured'
        self._heard = self._unheard = 0
        self._is_done = False

    def actions(self):
        """Give the node and everything that drives it."""
        return [
            RegisterEventHandler(OnStateTransition(
                target_lifecycle_node=self._node,
                entities=[OpaqueFunction(function=self._on_transition)])),
            RegisterEventHandler(OnProcessExit(
                target_action=self._node, on_exit=self._on_exit)),
            self._node,
            self._look_soon(),
        ]

    def _look_soon(self):
        return TimerAction(period=LOOK_S, actions=[OpaqueFunction(function=self._configure)])

    def _configure(self, context):
        """
        Ask for ``configure`` as soon as the node is there.

        A request before that would block a thread of launch_ros, which then ends every launch
        that is interrupted during start-up, or whose node dies, with an exception of its own.
        """
        if self._is_done:
            return []
        if not get_ros_node(context).count_publishers(f'{self._node.node_name}/transition_event'):
            return [self._look_soon()]
        return self._request('CONFIGURE')

    def _request(self, transition):
        return [EmitEvent(event=ChangeState(
                    lifecycle_node_matcher=matches_action(self._node),
                    transition_id=TRANSITIONS[f'TRANSITION_{transition}'])),
                TimerAction(period=UNHEARD_S, actions=[OpaqueFunction(
                    function=self._ask_again, args=[transition, self._heard])])]

    def _ask_again(self, context, transition, heard):
        """
        Repeat a request of which no event came, then by turns with the other one.

        A node that has not found this launch's subscription yet tells nobody what it did. One
        that is not in the state for a request refuses it without an event.
        """
        if self._is_done or context.is_shutdown or self._heard != heard:
            return []
        self._unheard += 1
        if self._unheard % 2 == 0:
            transition = 'ACTIVATE' if transition == 'CONFIGURE' else 'CONFIGURE'
        return [LogInfo(msg=f'{self._node.node_name} has said nothing for {UNHEARD_S:g} s; asking '
                            f'it to {transition.lower()}'),
                *self._request(transition)]

    def _on_transition(self, context):
        event = context.locals.event
        self._heard += 1
        came_from, self._state = event.start_state, event.goal_state
        if self._is_done or context.is_shutdown:
            return []
        if self._state == 'active':
            self._is_done = True
            return [LogInfo(msg=f'{self._node.node_name} is active')]
        if self._state == 'inactive' and came_from == 'configuring':
            return self._request('ACTIVATE')
        if self._state == 'finalized':
            return self._end(f'{self._node.node_name} is finalized and cannot be configured again')
        if self._state in ('unconfigured', 'inactive'):
            return self._on_failed('activate' if self._state == 'inactive' else 'configure')
        return []

    def _on_failed(self, transition):
        """Say what the operator can do, and do what ``on_failure`` says."""
        name = self._node.node_name
        said = f'{name} did not {transition}; the reason is in its ERROR line above'
        if self._on_failure == 'shutdown':
            return self._end(said)
        if self._on_failure == 'stay':
            return [LogInfo(msg=f'{said}. It stays alive; once that is mended: '
                                f'ros2 lifecycle set {name} {transition}')]
        wait_s, self._retry_s = self._retry_s, min(2 * self._retry_s, LONGEST_RETRY_S)
        return [LogInfo(msg=f'{said}. Trying again in {wait_s:g} s'),
                TimerAction(period=wait_s, actions=[
                    OpaqueFunction(function=self._retry, args=[transition])])]

    def _retry(self, context, transition):
        """Ask again, unless somebody else moved the node meanwhile."""
        waits_for = 'inactive' if transition == 'activate' else 'unconfigured'
        if self._is_done or self._state != waits_for:
            return []
        return self._request(transition.upper())

    def _on_exit(self, event, context):
        """End a launch that would otherwise wait for ever for a node that is dead."""
        was_done, self._is_done = self._is_done, True
        if was_done or context.is_shutdown:
            return []
        return self._end(f'{self._node.node_name} ended with code {event.returncode} before it '
                         'was active; its last lines above say why')

    def _end(self, reason):
        self._is_done = True
        return [LogInfo(msg=f'{reason}. This launch ends'),
                EmitEvent(event=Shutdown(reason=reason))]
