"""Set-up fills and removes folders of its own checkout only."""

from pathlib import Path
import shutil
import subprocess
import sys

import pytest

TOOLS = Path(__file__).resolve().parents[2] / 'tools'


@pytest.mark.parametrize('link, target', [('.vig', '.'), ('.vig/triton', 'triton'),
                                          ('build', 'build')])
def test_a_link_to_another_place_is_refused_before_anything_is_touched(tmp_path, link, target):
    other = tmp_path / 'other'
    for name in ('triton/bin', 'build/setup'):
        (other / name).mkdir(parents=True)
        (other / name / 'kept').write_text('of another checkout')
    before = sorted(other.rglob('*'))
    checkout = tmp_path / 'checkout'
    shutil.copytree(TOOLS, checkout / 'tools', ignore=shutil.ignore_patterns('__pycache__'))
    (checkout / link).parent.mkdir(exist_ok=True)
    (checkout / link).symlink_to(other / target)

    run = subprocess.run([sys.executable, 'tools/setup_environment.py', 'triton'], cwd=checkout,
                         capture_output=True, text=True, timeout=60, check=False)

    assert run.returncode == 1
    assert f'{link} is a symbolic link to {other / target}' in run.stderr
    assert f'rm {checkout / link}' in run.stderr
    assert 'Traceback' not in run.stderr and not run.stdout
    assert sorted(other.rglob('*')) == before
