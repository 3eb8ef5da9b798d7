"""``ros2 launch`` of governor.launch.py, with real processes."""

from pathlib import Path
import runpy
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOVERNOR = ROOT / 'launch' / 'governor.launch.py'
PROFILE = ROOT / 'config' / 'fastdds_shm.xml'
ACTIVE = '/governor is active'
NO_FILE = 'there is no such file'
UNREACHABLE = '127.0.0.1:9'


def test_the_launch_file_loads_and_describes_its_arguments(launch_packages):
    from launch import LaunchContext
    from launch.launch_description_sources import PythonLaunchDescriptionSource
    source = PythonLaunchDescriptionSource(str(GOVERNOR))
    description = source.get_launch_description(LaunchContext())
    arguments = {one.name: one for one in description.get_launch_arguments()}
    assert {'config', 'namespace', 'params_file', 'autostart', 'log_level', 'use_sim_time',
            'dds'} <= set(arguments)
    for name, argument in arguments.items():
        assert len(argument.description) > 20, name
        assert argument.default_value is not None, name


def test_a_node_whose_events_are_lost_is_asked_again_and_then_for_the_other_transition(
        launch_packages):
    from launch import LaunchContext
    from launch_ros.events.lifecycle import ChangeState
    started = runpy.run_path(str(GOVERNOR))['Autostart'](
        SimpleNamespace(node_name='/governor'), on_failure='retry')
    asked, context = 'CONFIGURE', LaunchContext()
    for expected in ('CONFIGURE', 'ACTIVATE', 'ACTIVATE', 'CONFIGURE'):
        _, request, look = started._ask_again(context, asked, 0)
        assert (ChangeState.valid_transitions[request.event.transition_id]
                == f'TRANSITION_{expected}')
        assert look.period == 10.0
        asked = expected
    context.extend_locals({'event': SimpleNamespace(start_state='unconfigured',
                                                    goal_state='configuring')})
    started._on_transition(context)
    assert started._ask_again(context, asked, 0) == []


def test_autostart_reaches_active_and_a_frame_comes_back_as_a_result(
        launch, client, triton, write_config):
    running = launch(GOVERNOR, f'config:={write_config(triton.grpc_endpoint)}')
    running.wait_for(ACTIVE)
    assert client.state('/governor') == 'active'
    result = client.first_result('/front/image_raw')
    assert result.header.frame_id == 'front_camera'
    assert (result.stream, result.model, result.variant) == ('front', 'checksum', 'only')


def test_without_autostart_the_node_waits_for_a_lifecycle_manager(
        launch, client, triton, write_config):
    running = launch(GOVERNOR, f'config:={write_config(triton.grpc_endpoint)}',
                     'autostart:=false')
    running.pid_of('governor')
    assert client.state('/governor') == 'unconfigured'
    assert ACTIVE not in running.output


def test_a_namespace_moves_the_node_and_its_relative_topics(
        launch, client, triton, write_config):
    running = launch(GOVERNOR, f'config:={write_config(triton.grpc_endpoint)}',
                     'namespace:=robot_1')
    running.wait_for('/robot_1/governor is active')
    assert client.state('/robot_1/governor') == 'active'
    assert client.first_result('/robot_1/front/image_raw').stream == 'front'


def test_a_launch_file_that_includes_this_one_can_remap_a_camera(
        launch, client, triton, write_config, tmp_path):
    bringup = tmp_path / 'bringup.launch.py'
    bringup.write_text(f"""\
from launch import LaunchDescription
from launch.actions import GroupAction, IncludeLaunchDescription
from launch_ros.actions import SetRemap


def generate_launch_description():
    return LaunchDescription([GroupAction([
        SetRemap('front/image_raw', '/camera/color/image_raw'),
        IncludeLaunchDescription({str(GOVERNOR)!r}, launch_arguments={{
            'config': {str(write_config(triton.grpc_endpoint))!r}}}.items()),
    ])])
""")
    running = launch(bringup)
    running.wait_for(ACTIVE)
    assert client.first_result('/camera/color/image_raw').stream == 'front'
    assert '/front/image_raw/vig/result' not in client.topics()
    running.interrupt(like_a_terminal=False)
    assert running.wait_for_end() == 0
    assert 'Traceback' not in running.output


def test_the_argument_config_wins_over_the_parameters_of_a_file(
        launch, triton, write_config, tmp_path):
    parameters = tmp_path / 'governor.yaml'
    parameters.write_text('/**:\n  ros__parameters:\n    config: /of/the/file.yaml\n'
                          '    autostart: true\n')
    first = launch(GOVERNOR, f'params_file:={parameters}', 'on_failure:=shutdown')
    first.wait_for(f'/of/the/file.yaml: {NO_FILE}')
    second = launch(GOVERNOR, f'params_file:={parameters}',
                    f'config:={write_config(triton.grpc_endpoint)}', 'namespace:=second')
    second.wait_for('/second/governor is active')


@pytest.mark.parametrize('distribution, names', [
    ('kilted', ['FASTDDS_DEFAULT_PROFILES_FILE']),
    ('jazzy', ['FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE']),
])
def test_dds_shm_names_the_profile_of_the_package_to_the_node(launch, distribution, names):
    running = launch(GOVERNOR, 'config:=/none.yaml', 'dds:=shm', 'autostart:=false',
                     ROS_DISTRO=distribution, FASTDDS_DEFAULT_PROFILES_FILE=None,
                     FASTRTPS_DEFAULT_PROFILES_FILE=None)
    environment = running.environment_of('governor')
    for name in names:
        assert Path(environment[name]).samefile(PROFILE), name
    assert len([name for name in environment if name.endswith('_PROFILES_FILE')]) == len(names)
    assert 'FASTDDS_BUILTIN_TRANSPORTS' not in environment
    assert 'WARNING' not in running.output


def test_dds_shm_says_which_profile_it_replaces(launch, tmp_path):
    mine = tmp_path / 'mine.xml'
    mine.write_text('<dds/>')
    running = launch(GOVERNOR, 'config:=/none.yaml', 'dds:=shm', 'autostart:=false',
                     FASTDDS_DEFAULT_PROFILES_FILE=str(mine))
    running.wait_for(f'dds:=shm replaces FASTDDS_DEFAULT_PROFILES_FILE={mine}')


def test_dds_large_data_selects_the_transports_and_keeps_quiet_where_they_work(launch):
    running = launch(GOVERNOR, 'config:=/none.yaml', 'dds:=large_data', 'autostart:=false',
                     FASTDDS_DEFAULT_PROFILES_FILE=None, FASTRTPS_DEFAULT_PROFILES_FILE=None,
                     ROS_AUTOMATIC_DISCOVERY_RANGE='OFF')
    environment = running.environment_of('governor')
    assert environment['FASTDDS_BUILTIN_TRANSPORTS'] == 'LARGE_DATA'
    assert 'has no effect' not in running.output


@pytest.mark.parametrize('variables, reason', [
    ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST', 'FASTDDS_DEFAULT_PROFILES_FILE': None},
     'ROS_AUTOMATIC_DISCOVERY_RANGE is LOCALHOST'),
    ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'OFF', 'FASTDDS_DEFAULT_PROFILES_FILE': str(PROFILE)},
     f'the Fast DDS profile {PROFILE}'),
])
def test_dds_large_data_warns_where_it_would_be_ignored(launch, variables, reason):
    running = launch(GOVERNOR, 'config:=/none.yaml', 'dds:=large_data', 'autostart:=false',
                     **variables)
    running.wait_for('dds:=large_data has no effect')
    assert reason in running.output
    assert running.environment_of('governor')['FASTDDS_BUILTIN_TRANSPORTS'] == 'LARGE_DATA'


def test_dds_keep_leaves_the_variables_as_they_are(launch):
    running = launch(GOVERNOR, 'config:=/none.yaml', 'autostart:=false',
                     FASTDDS_DEFAULT_PROFILES_FILE='/mine.xml', FASTDDS_BUILTIN_TRANSPORTS=None)
    environment = running.environment_of('governor')
    assert environment['FASTDDS_DEFAULT_PROFILES_FILE'] == '/mine.xml'
    assert 'FASTDDS_BUILTIN_TRANSPORTS' not in environment


def test_a_wrong_file_ends_the_launch_with_the_sentence_where_shutdown_is_asked_for(launch):
    running = launch(GOVERNOR, 'config:=/none.yaml', 'on_failure:=shutdown')
    running.wait_for_end()
    assert f'configure failed: /none.yaml: {NO_FILE}' in running.output
    assert '/governor did not configure' in running.output


def test_a_wrong_file_leaves_the_node_alive_where_stay_is_asked_for(
        launch, client, triton, write_config, tmp_path):
    running = launch(GOVERNOR, f'config:={tmp_path / "vig.yaml"}', 'on_failure:=stay')
    running.wait_for('ros2 lifecycle set /governor configure')
    assert NO_FILE in running.output
    assert client.state('/governor') == 'unconfigured'
    assert running.output.count(NO_FILE) == 1


def test_a_file_that_is_mended_brings_the_node_up_without_a_restart(
        launch, client, triton, write_config, tmp_path):
    running = launch(GOVERNOR, f'config:={tmp_path / "vig.yaml"}')
    running.wait_for('Trying again in 4 s')
    write_config(triton.grpc_endpoint)
    running.wait_for(ACTIVE)
    assert client.state('/governor') == 'active'


def test_a_server_that_is_not_there_is_named_and_tried_again(launch, write_config):
    running = launch(GOVERNOR, f'config:={write_config(UNREACHABLE)}')
    running.wait_for('Trying again in 4 s')
    assert running.output.count(UNREACHABLE) >= 2
    assert 'Traceback' not in running.output


@pytest.mark.parametrize('arguments, sentence', [
    ((), 'add config:=/path/vig.yaml'),
    (('params_file:=/none.yaml',), 'params_file:=/none.yaml is not a file'),
    (('config:=/none.yaml', 'dds:=fast'), "'dds' provided value 'fast' is not valid"),
    (('config:=/none.yaml', 'autostart:=yes'), "'autostart' provided value 'yes' is not valid"),
])
def test_a_wrong_argument_is_one_sentence_and_starts_nothing(launch, arguments, sentence):
    running = launch(GOVERNOR, *arguments)
    assert running.wait_for_end() == 1
    assert sentence in running.output.replace('"', "'")
    assert 'Traceback' not in running.output
    assert 'process started' not in running.output


@pytest.mark.parametrize('like_a_terminal', [True, False], ids=['Ctrl-C', 'SIGINT to the launch'])
def test_an_interrupt_ends_an_active_governor_with_code_0_and_no_traceback(
        launch, client, triton, write_config, like_a_terminal):
    running = launch(GOVERNOR, f'config:={write_config(triton.grpc_endpoint)}')
    pid = running.pid_of('governor')
    running.wait_for(ACTIVE)
    client.first_result('/front/image_raw')
    running.interrupt(like_a_terminal=like_a_terminal)
    assert running.wait_for_end() == 0
    assert f'[governor-1]: process has finished cleanly [pid {pid}]' in running.output
    assert 'Traceback' not in running.output
    assert 'escalating' not in running.output


def test_a_governor_that_dies_before_it_was_active_ends_the_launch(launch, write_config):
    running = launch(GOVERNOR, f'config:={write_config(UNREACHABLE)}')
    running.wait_for('Trying again in 2 s')
    running.kill('governor')
    running.wait_for_end()
    assert '/governor ended with code -9 before it was active' in running.output


def test_a_node_that_cannot_even_start_ends_the_launch_without_an_exception_of_it(
        launch, tmp_path):
    parameters = tmp_path / 'governor.yaml'
    parameters.write_text('governor:\n  broken: [1\n')
    running = launch(GOVERNOR, 'config:=/none.yaml', f'params_file:={parameters}')
    running.wait_for_end()
    assert '/governor ended with code 2 before it was active' in running.output
    assert 'Caught exception in launch' not in running.output
