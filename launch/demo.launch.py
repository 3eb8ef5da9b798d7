"""
Start the demo as separate processes: a real Triton with its models, four cameras, the governor.

``ros2 launch vig demo.launch.py seconds:=60`` from the checkout in which ``make setup`` was run.
The same load as ``vig demo``, governed, and open for your own tools: look at the topics below
/demo with ros2 topic, rviz2 or rqt. ``vig demo`` adds the table and the run without the governor.

Order: the server starts, measures every model alone and writes vig.yaml; then the governor comes
up on that file; once it is active the cameras start. When the last camera is done all ends.
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
SIZE = (640, 480)
JITTER_MS, TRANSPORT_MS = 1.0, 2.0
# Name of the stream, rate in Hz, seed, videos: the first one that is there.
CAMERAS = (
    ('face', 30, 1, ('carphone_pristine.mp4',)),
    ('pose', 10, 2, ('carphone_pristine.mp4',)),
    ('street', 10, 3, ('vtest.avi', 'bikes.mp4')),
    ('study', 10, 4, ('carphone_pristine.mp4',)),
)

ARGUMENTS = (
    DeclareLaunchArgument(
        'seconds', default_value='60',
        description='How long the cameras publish; then everything ends.'),
    DeclareLaunchArgument(
        'assets', default_value=str(Path('.vig') / 'models'),
        description='Folder with the weights and videos that `make setup` or '
                    '`python3 -m vig_governor.demo.assets prepare` fetched.'),
    DeclareLaunchArgument(
        'out', default_value=str(Path('build') / 'demo_launch'),
        description='Folder for vig.yaml, the model repository and the log of the server.'),
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


def _module(name, *arguments):
    """Give a process that runs one module of the demo, with its lines on the screen at once."""
    return ExecuteProcess(
        cmd=[sys.executable, '-u', '-m', f'vig_governor.demo.{name}', *arguments],
        name=name, output='screen', sigterm_timeout='20')


def _start_server(context):
    try:
        in_time = 0 < float(_value(context, 'seconds')) < float('inf')
    except ValueError:
        in_time = False
    if not in_time:
        raise RuntimeError(f'seconds:={_value(context, "seconds")} is no number of seconds; '
                           'write for example seconds:=60')
    server = _module('server', '--assets', _value(context, 'assets'),
                     '--out', _value(context, 'out'))
    is_up = False

    def on_output(event):
        nonlocal is_up
        if is_up or READY not in event.text.decode(errors='replace').split():
            return []
        is_up = True
        return _start_governor(context)

    return [
        RegisterEventHandler(OnProcessIO(target_action=server, on_stdout=on_output)),
        RegisterEventHandler(OnProcessExit(target_action=server, on_exit=[
            EmitEvent(event=Shutdown(reason='the inference server ended; if it did so by itself, '
                                     'its own line above says why'))])),
        server,
    ]


def _start_governor(context):
    # As in `vig demo`: the models run on the last core, all that starts from now on does not.
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:-1] or cores)
    config = Path(_value(context, 'out')) / 'vig.yaml'
    return [
        RegisterEventHandler(OnStateTransition(goal_state='active', handle_once=True, entities=[
            OpaqueFunction(function=_start_cameras)])),
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(str(GOVERNOR)),
            launch_arguments={'config': str(config), 'on_failure': 'shutdown',
                              'dds': _value(context, 'dds'),
                              'log_level': _value(context, 'log_level')}.items()),
    ]


def _start_cameras(context):
    videos = Path(_value(context, 'assets')) / 'videos'
    cameras = [_camera(context, videos, *row) for row in CAMERAS]
    running = len(cameras)

    def on_exit(event, context):
        nonlocal running
        running -= 1
        if running:
            return []
        return [EmitEvent(event=Shutdown(reason='the cameras are done'))]

    return [*(RegisterEventHandler(OnProcessExit(target_action=camera, on_exit=on_exit))
              for camera in cameras), *cameras, *_how_to_look(context)]


def _camera(context, videos, name, rate_hz, seed, files):
    width, height = SIZE
    video = next((videos / file for file in files if (videos / file).is_file()),
                 videos / files[-1])
    return _module(
        'camera', str(video), '--topic', f'/demo/{name}/image_raw',
        '--name', f'{name}_camera', '--frame-id', f'{name}_camera', '--rate', str(rate_hz),
        '--width', str(width), '--height', str(height), '--jitter-ms', str(JITTER_MS),
        '--transport-ms', str(TRANSPORT_MS), '--seed', str(seed),
        '--seconds', _value(context, 'seconds'))


def _how_to_look(context):
    lines = ['ros2 topic echo /governor/status', 'ros2 topic echo /demo/face/image_raw/vig/status']
    if _value(context, 'dds') == 'shm':
        lines.insert(0, ' '.join(['export', *(
            f'{name}={context.environment[name]}' for name in sorted(context.environment)
            if name.endswith('_DEFAULT_PROFILES_FILE'))]))
    return [LogInfo(msg='look from another terminal:\n  ' + '\n  '.join(lines))]
