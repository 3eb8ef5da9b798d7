"""The policy of ``vig policy``: names that ROS could not have are refused."""

from config_text import SIMPLE
import pytest

from vig_governor.cli import main


@pytest.mark.parametrize('arguments, words', [
    (['--name', 'a b'], "--name: 'a b' is no name of ROS"),
    (['--name', ''], "--name: '' is no name of ROS"),
    (['--name', '7up'], "--name: '7up' is no name of ROS"),
    (['--namespace', '/robot 1'], "--namespace: 'robot 1' is no name of ROS"),
    (['--namespace', 'robot'], '--namespace robot: a namespace starts with a slash')])
def test_a_name_that_no_node_can_have_is_refused(tmp_path, capsys, arguments, words):
    path = tmp_path / 'vig.yaml'
    path.write_text(SIMPLE)
    assert main(['policy', '-c', str(path), *arguments]) == 1
    said = capsys.readouterr()
    assert words in said.err and not said.out


def test_a_namespace_of_two_parts_is_one_of_ros(tmp_path, capsys):
    path = tmp_path / 'vig.yaml'
    path.write_text(SIMPLE)
    assert main(['policy', '-c', str(path), '--namespace', '/fleet/robot_1/', '--name', 'g']) == 0
    assert '/fleet/robot_1/g/status' in capsys.readouterr().out
