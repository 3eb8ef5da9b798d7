"""The quick part of ``make faults``: each fault is survived, with everything that this means."""

from benchmark.faults.registry import load_cases
import pytest

pytest.importorskip(
    'rclpy', reason='rclpy is not installed: run `make setup`, or source a ROS installation')
CASES = load_cases()


@pytest.mark.parametrize('name', [name for name, case in CASES.items() if case.is_fast])
def test_the_node_survives(name, world):
    from benchmark.faults.runner import stage
    outcome = stage(world, CASES[name])
    assert outcome.survived, outcome.problem
