"""What the documents say is what happens: their links, pictures, programs and commands."""

from pathlib import Path
import re
import shlex
import subprocess
import sys

import pytest
from triton_fixture import require_triton

from vig_core.request import Reason

from vig_governor.cli import MODULES
from vig_governor.demo.assets import AssetStore, DEFAULT_FOLDER
from vig_governor.triton_server import free_port
from waiting import wait_until
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools'))
from draw_figures import cut, play, SITUATIONS  # noqa: E402,I100,I201

DOCUMENTS = sorted([ROOT / 'README.md', *(ROOT / 'docs').glob('*.md')])
START = (ROOT / 'docs' / 'getting-started.md').read_text(encoding='utf-8')
BLOCK = re.compile(r'^```(\w*)\n(.*?)^```$', re.MULTILINE | re.DOTALL)
LINK = re.compile(r'\]\(([^)#\s]+)(?:#[^)]*)?\)')


def blocks(kind):
    return [text for found, text in BLOCK.findall(START) if found == kind]


@pytest.mark.parametrize('path', DOCUMENTS, ids=lambda path: path.name)
def test_links_of_a_document_lead_somewhere(path):
    links = LINK.findall(path.read_text(encoding='utf-8'))
    dead = [link for link in links if '://' not in link and not (path.parent / link).exists()]
    assert not dead


@pytest.mark.parametrize('path', DOCUMENTS, ids=lambda path: path.name)
def test_commands_that_a_document_names_exist(path):
    named = set(re.findall(r'(?:^|`)vig ([a-z]+)', path.read_text(encoding='utf-8'), re.MULTILINE))
    assert named <= {*MODULES, 'check', 'schema', 'version'}


def ages_ms(name, stream):
    return [frame.age_ns / 1e6 for frame in play(SITUATIONS[name]).frames
            if frame.stream == stream and frame.reason is Reason.COMPLETED]


def test_a_queue_makes_each_result_older_and_newest_only_does_not():
    assert ages_ms('how-queue', 'camera')[:4] == [53, 70, 87, 104]
    ages = ages_ms('how-newest', 'camera')
    assert min(ages) == 53 and max(ages) == 72


def test_the_frame_that_waited_for_another_job_is_stale():
    frames = [frame for frame in play(SITUATIONS['how-stale']).frames if frame.stream == 'camera']
    assert [frame.reason for frame in frames] == [
        Reason.COMPLETED, Reason.STALE, Reason.COMPLETED]
    assert frames[1].ended_ns + 20_000_000 - frames[1].captured_ns == 85_000_000


def test_the_slot_idles_six_milliseconds_and_no_cycle_is_uncovered():
    idle = play(SITUATIONS['how-idle'])
    assert all(cycle.is_covered for cycle in idle.cycles['detector'])
    assert idle.deliberate_idle_ns == 12_000_000 and len(idle.holds) == 2
    unguarded = play(SITUATIONS['how-unguarded'])
    assert sum(not cycle.is_covered for cycle in unguarded.cycles['detector']) == 2
    assert unguarded.deliberate_idle_ns == 0


def test_the_small_variant_runs_during_the_burst_and_the_large_one_comes_back():
    variants = [frame.variant for frame in play(SITUATIONS['how-variants']).frames
                if frame.stream == 'camera']
    assert variants[:3] == ['large'] * 3 and variants[3:6] == ['small'] * 3
    assert variants[-1] == 'large'


def test_a_frame_that_waits_gives_its_place_to_the_fresher_one():
    patient = play(SITUATIONS['how-patience'])
    old, fresh = [frame for frame in patient.frames if frame.stream == 'camera'][2:4]
    assert old.reason is Reason.SUPERSEDED and old.captured_ns == 65_000_000
    assert fresh.dispatched_ns == fresh.arrived_ns == old.ended_ns == 101_000_000
    hold, = patient.holds
    assert (hold.begin_ns, hold.end_ns) == (92_000_000, 101_000_000)


def test_a_job_in_pieces_writes_all_its_tokens_and_no_frame_waits():
    whole, pieces = play(cut(is_split=False)), play(SITUATIONS['how-cut'])
    assert not any(frame.runs for frame in whole.frames if frame.stream == 'text')
    text, = (frame for frame in pieces.frames if frame.stream == 'text')
    assert text.reason is Reason.COMPLETED
    assert [run.tokens for run in text.runs] == [4, 5, 5, 2]
    assert all(frame.dispatched_ns == frame.arrived_ns for frame in pieces.frames
               if frame.stream == 'camera')


def test_the_program_of_the_first_steps_compiles():
    program, = blocks('python')
    compile(program, 'getting-started.md', 'exec')


@pytest.mark.server
@pytest.mark.ros
def test_the_commands_of_the_first_steps_work_on_the_robot_to_practise_on(tmp_path):
    require_triton()
    if not AssetStore(DEFAULT_FOLDER).has('videos/carphone_pristine.mp4'):
        pytest.skip('no videos: python -m vig_governor.demo.assets prepare')
    port = free_port()
    first, models, streams = blocks('yaml')
    config = yaml.safe_load(first)
    config['backend']['grpc_endpoint'] = f'127.0.0.1:{port}'
    config['models'].update(yaml.safe_load(models))
    config['streams'].update(yaml.safe_load(streams))
    (tmp_path / 'vig.yaml').write_text(yaml.safe_dump(config), encoding='utf-8')
    log = tmp_path / 'robot.log'
    with open(log, 'wb') as output:
        robot = subprocess.Popen(
            [sys.executable, '-m', 'vig_governor.demo.robot', '--grpc-port', str(port),
             '--minutes', '4', '--out', str(tmp_path / 'robot')], stdout=output, stderr=output)
    try:
        wait_until(lambda: 'Ctrl-C ends everything' in log.read_text() or robot.poll() is not None,
                   timeout=90)
        assert robot.poll() is None, log.read_text()
        said = ''
        for line in ''.join(blocks('bash')).splitlines():
            _, command, *arguments = shlex.split(line)
            if command == 'calibrate':  # both models now, and shorter than on a robot
                arguments += ['--data', 'pose=frames/pose.npz', '--samples', '100', '--runs', '1']
            done = subprocess.run([sys.executable, '-m', 'vig_governor.cli', command, *arguments],
                                  cwd=tmp_path, capture_output=True, text=True, timeout=150)
            said = done.stdout + done.stderr
            # Whether a contract can be kept is up to the machine, and doctor is right to say so.
            assert done.returncode == 0 or command == 'doctor', f'{line}\n{said}'
        failed = [each for each in said.splitlines() if each.startswith('FAIL')]
        assert 'READY' in said and all('utilisation' in each for each in failed), said
    finally:
        robot.terminate()
        assert robot.wait(timeout=30) == 0
    measured = yaml.safe_load((tmp_path / 'measured.yaml').read_text())
    profile = measured['models']['pose']['variants'][0]['profile']
    assert profile['manifest']['measurement']['dataset'].startswith('pose.npz')
