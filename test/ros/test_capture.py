"""``vig capture``: what the streams bring, as the models get it, in files to measure with."""

from pathlib import Path

import numpy as np
import pytest
from sensor_msgs.msg import Image

from stage import bystander, model_text, prompts, stream_text, writer_text

from vig_governor.cli import main


@pytest.fixture
def cameras():
    """Publish images at 50 Hz: size by topic; each pixel of a frame has its number."""
    with bystander('capture_cameras') as node:
        def begin(sizes):
            for topic, (height, width) in sizes.items():
                publisher = node.create_publisher(Image, topic, 1)
                frames = iter(range(10**9))

                def publish(publisher=publisher, height=height, width=width, frames=frames):
                    image = Image(height=height, width=width, encoding='rgb8', step=3 * width,
                                  data=bytes([next(frames) % 256]) * (3 * width * height))
                    image.header.stamp = node.get_clock().now().to_msg()
                    publisher.publish(image)
                node.create_timer(0.02, publish)
        yield begin


@pytest.fixture
def config(triton, tmp_path):
    """Write a file with one model ``sized`` and a stream for each topic."""
    def write(**topics):
        path = tmp_path / 'vig.yaml'
        path.write_text(
            f'version: 1\nbackend: {{grpc_endpoint: "{triton.grpc_endpoint}", slots: 1}}\n'
            'models:\n' + model_text('looker', 'quick') + 'streams:\n'
            + ''.join(stream_text(name, topic, 'looker') for name, topic in topics.items()))
        return str(path)
    return write


def test_frames_of_all_streams_of_a_model_lie_in_one_file_in_order(
        cameras, config, tmp_path, capsys):
    path = config(left='/capture/left', right='/capture/right')
    cameras({'/capture/left': (4, 5), '/capture/right': (4, 5)})
    code = main(['capture', '-c', path, '-o', str(tmp_path / 'frames'), '--count', '3'])
    said = capsys.readouterr()
    assert code == 0, said.err
    with np.load(tmp_path / 'frames' / 'looker.npz') as file:
        images = file['IMAGE']
    assert images.shape == (6, 4, 5, 3) and images.dtype == np.uint8
    numbers = images[:, 0, 0, 0].astype(int)
    assert all(np.diff(numbers[:3]) > 0) and all(np.diff(numbers[3:]) > 0)
    assert (images == numbers[:, None, None, None]).all()
    assert f'--data looker={tmp_path}/frames/looker.npz' in said.out


def test_frames_of_two_sizes_are_refused_with_the_remedy(cameras, config, tmp_path, capsys):
    path = config(left='/capture/small', right='/capture/large')
    cameras({'/capture/small': (4, 5), '/capture/large': (6, 5)})
    code = main(['capture', '-c', path, '-o', str(tmp_path / 'frames'), '--count', '2'])
    assert code == 1 and not (tmp_path / 'frames').exists()
    assert 'models.looker: its frames have different sizes' in capsys.readouterr().err


def test_a_topic_that_nobody_publishes_is_named(config, tmp_path, capsys):
    path = config(front='/capture/nobody')
    code = main(['capture', '-c', path, '-o', str(tmp_path), '--timeout-s', '0.3'])
    assert code == 1
    assert '/capture/nobody: no frame of streams.front' in capsys.readouterr().err


def test_a_stream_of_prompts_is_left_out_and_the_cameras_are_captured(
        cameras, config, tmp_path, capsys):
    path = config(front='/capture/beside_prompts')
    text = Path(path).read_text()
    Path(path).write_text(text.replace('streams:\n', writer_text() + 'streams:\n' + prompts()))
    cameras({'/capture/beside_prompts': (4, 5)})
    assert main(['capture', '-c', path, '-o', str(tmp_path / 'frames'), '--count', '2']) == 0
    assert 'note: streams.questions is left out: it brings prompts' in capsys.readouterr().out
    assert [each.name for each in (tmp_path / 'frames').iterdir()] == ['looker.npz']


@pytest.mark.parametrize('option', ['--count=0', '--count=100000', '--timeout-s=0',
                                    '--timeout-s=1e9'])
def test_an_impossible_option_is_refused_before_anything_starts(option, tmp_path, capsys):
    code = main(['capture', '-c', str(tmp_path / 'none.yaml'), '-o', str(tmp_path), option])
    assert code == 1 and 'are possible' in capsys.readouterr().err


def test_an_output_that_is_a_file_is_refused_before_anything_starts(tmp_path, capsys):
    (tmp_path / 'frames').touch()
    code = main(['capture', '-c', str(tmp_path / 'none.yaml'), '-o', str(tmp_path / 'frames')])
    assert code == 1 and 'frames: this is a file; name a folder' in capsys.readouterr().err
