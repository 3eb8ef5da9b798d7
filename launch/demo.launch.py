"""
Start the demo as separate processes: a real Triton with its models, the governor, the cameras.

``ros2 launch vig demo.launch.py seconds:=60`` from the checkout in which ``make demo`` has run
once. The same load as ``vig demo``, governed, and open for your own tools: look at the topics
below /demo with ros2 topic, rviz2 or rqt. ``vig demo`` adds the table and the run without the
governor.

Order: the server starts, measures every model alone and writes vig.yaml; then the governor comes
up on that file; once it is active the cameras start. When they are done all ends.
"""

import os
from pathlib import Path
import sys

from launch import LaunchDescription
from launch.actions import (DeclareLaunchArgument, EmitEvent, ExecuteProcess,
                            IncludeLaunchDescription, LogInfo, OpaqueFunction,
                            RegisterEventHandler)
from launch.event_handlers import OnProcessExit, OnProcessIO
from launch.events import Shutdown
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.event_handlers import OnStateTransition

GOVERNOR = Path(__file__).with_name('governor.launch.py')
READY = 'ready'
STOP_TIMEOUT_S = '20'

ARGUMENTS = (
    DeclareLaunchArgument(
        'seconds', default_value='60',
        description='How long the cameras publish; then everything ends.'),
    DeclareLaunchArgument(
        'assets', default_value=str(Path('.vig') / 'models'),
        description='Folder with the weights and videos that `make demo` or '
                    '`python3 -m vig_governor.demo.assets prepare` fetched.'),
    DeclareLaunchArgument(
        'out', default_value=str(Path('build') / 'demo_launch'),
        description='Folder for vig.yaml, the model repository and the logs.'),
    DeclareLaunchArgument(
        'dds', default_value='shm', choices=['shm', 'large_data', 'keep'],
        description='As in governor.launch.py. With shm your own tools need the same profile; '
                    'the launch prints the line that sets it.'),
    DeclareLaunchArgument(
        'log_level', default_value='info', choices=['debug', 'info', 'warn', 'error', 'fatal'],
        description='Least severity that the governor logs.'),
)


def generate_launch_description():
    """Describe the launch."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=_start_server)])


def _value(context, name):
    return LaunchConfiguration(name).perform(context)


def _module(context, name, *arguments):
    """Give a process that runs one module of the demo, with its lines on the screen at once."""
    return ExecuteProcess(
        cmd=[sys.executable, '-u', '-m', f'vig_governor.demo.{name}',
             '--assets', _value(context, 'assets'), '--out', _value(context, 'out'), *arguments],
        name=name, output='screen', sigterm_timeout=STOP_TIMEOUT_S)


def _end_with(process, reason):
    """End everything with this process; once, as a second shutdown is an error of launch_ros."""
    def on_exit(event, context):
        if context.is_shutdown:
            return []
        return [LogInfo(msg=reason), EmitEvent(event=Shutdown(reason=reason))]

    return RegisterEventHandler(OnProcessExit(target_action=process, on_exit=on_exit))


def _start_server(context):
    try:
        is_usable = 0 < float(_value(context, 'seconds')) < float('inf')
    except ValueError:
        is_usable = False
    if not is_usable:
        raise RuntimeError(f'seconds:={_value(context, "seconds")} is no number of seconds; '
                           'write for example seconds:=60')
    server = _module(context, 'server')
    is_up = False

    def on_output(event):
        nonlocal is_up
        if is_up or READY not in event.text.decode(errors='replace').split():
            return []
        is_up = True
        return _start_governor(context)

    return [RegisterEventHandler(OnProcessIO(target_action=server, on_stdout=on_output)),
            _end_with(server, 'the inference server ended; its last line above says why'),
            server]


def _start_governor(context):
    # As in `vig demo`: the models run on the last core, all that starts from now on does not.
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:-1] or cores)
    return [
        RegisterEventHandler(OnStateTransition(goal_state='active', handle_once=True, entities=[
            OpaqueFunction(function=_start_cameras)])),
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(str(GOVERNOR)),
            launch_arguments={'config': str(Path(_value(context, 'out')) / 'vig.yaml'),
                              'on_failure': 'shutdown', 'dds': _value(context, 'dds'),
                              'log_level': _value(context, 'log_level')}.items()),
    ]


def _start_cameras(context):
    cameras = _module(context, 'cameras', '--seconds', _value(context, 'seconds'))
    look = ['ros2 topic echo /governor/status', 'ros2 topic echo /demo/face/image_raw/vig/status']
    if _value(context, 'dds') == 'shm':
        look.insert(0, ' '.join(['export', *(
            f'{name}={context.environment[name]}' for name in sorted(context.environment)
            if name.endswith('_DEFAULT_PROFILES_FILE'))]))
    return [LogInfo(msg='look from another terminal:\n  ' + '\n  '.join(look)),
            _end_with(cameras, 'the cameras are done'), cameras]
