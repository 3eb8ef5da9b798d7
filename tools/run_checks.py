"""
Everything that ``make test`` does, step by step, each bounded in time, with a summary at the end.

A step that fails does not keep the next ones from running, except where they need its result.
"""

from dataclasses import dataclass
import os
from pathlib import Path
import signal
import subprocess
import sys
import time
from xml.etree import ElementTree

from console import say

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / 'build' / 'test-results'
HANG_GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Step:
    """
    One command.

    :ivar command: for bash, in the checkout.
    :ivar report: the JUnit file that the command writes below ``RESULTS``, or empty.
    :ivar is_needed: whether later steps make no sense without this one.
    """

    title: str
    command: str
    timeout_s: float
    report: str = ''
    is_needed: bool = False


def pytest_step(title: str, report: str, arguments: str, *, timeout_s: float,
                distribution: str = 'kilted') -> Step:
    """Make a step that runs pytest in a ROS environment and reports to ``report``."""
    return Step(title, f'source tools/env.sh {distribution} && exec python -m pytest '
                       f'--junit-xml={RESULTS / report} {arguments}', timeout_s, report)


SETUP = f'{sys.executable} tools/setup_environment.py'
STEPS = (
    Step('set up ROS 2 Kilted and Triton', f'{SETUP} kilted triton', 1200, is_needed=True),
    Step('fetch the demo models', 'source tools/env.sh && '
         'python -m vig_governor.demo.assets prepare', 900),
    pytest_step('linters and package consistency', 'lint.xml', '-q test/lint', timeout_s=300),
    pytest_step('tests', 'tests.xml', '-q --ignore=test/lint', timeout_s=1200),
    Step('colcon build on Kilted', 'exec tools/colcon_build.sh kilted', 1200),
    Step('set up ROS 2 Jazzy', f'{SETUP} jazzy', 1200),
    pytest_step('round trip on Jazzy', 'jazzy.xml', '-q test/ros/test_interfaces_round_trip.py',
                timeout_s=120, distribution='jazzy'),
)


def run(step: Step) -> str:
    """
    Run a step in a process group of its own, so that nothing of it outlives the time limit.

    :returns: why it failed, or an empty string.
    """
    process = subprocess.Popen(['bash', '-c', step.command], cwd=ROOT, stdin=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        code = process.wait(timeout=step.timeout_s)
        return f'exit code {code}' if code else ''
    except subprocess.TimeoutExpired:
        return f'not done after {step.timeout_s:.0f} s'
    finally:
        if process.poll() is None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                os.killpg(process.pid, number)
                try:
                    process.wait(timeout=HANG_GRACE_S)
                    break
                except subprocess.TimeoutExpired:
                    continue


def counts(report: str) -> dict[str, int]:
    """Read how many tests ran, failed and were skipped from a JUnit file."""
    totals = {'tests': 0, 'failures': 0, 'errors': 0, 'skipped': 0}
    path = RESULTS / report
    if report and path.exists():
        for suite in ElementTree.parse(path).getroot().iter('testsuite'):
            for name in totals:
                totals[name] += int(suite.get(name, '0'))
    return totals


def main() -> int:
    """Run all steps and print the summary as the last thing."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for old in RESULTS.glob('*.xml'):
        old.unlink()
    began = time.monotonic()
    lines, failed, totals = [], 0, dict.fromkeys(('tests', 'failures', 'errors', 'skipped'), 0)
    for number, step in enumerate(STEPS, 1):
        say(f'\n== {number}/{len(STEPS)} {step.title}')
        started = time.monotonic()
        problem = run(step)
        failed += bool(problem)
        for name, value in counts(step.report).items():
            totals[name] += value
        lines.append(f'  {"FAILED" if problem else "ok":7}{time.monotonic() - started:6.0f} s  '
                     f'{step.title}{f": {problem}" if problem else ""}')
        if problem and step.is_needed:
            lines.append('  the remaining steps need this one and did not run')
            break
    say('\n== summary\n' + '\n'.join(lines))
    bad = totals['failures'] + totals['errors']
    passed = totals['tests'] - bad - totals['skipped']
    say(f'{"FAILED" if failed else "PASSED"}: {passed} tests passed, {bad} failed, '
        f'{totals["skipped"]} skipped in {time.monotonic() - began:.0f} s')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
