"""Which scenes ``vig demo`` plays, and what it says before the first one begins."""

import argparse
import signal

import pytest

from vig_governor.demo import cli
from vig_governor.demo.assets import AssetError
from vig_governor.demo.plan import DemoPlan

NOTHING = DemoPlan((), ())


@pytest.fixture
def played(monkeypatch):
    """Give scenes that only say that they run."""
    class Scene:
        def __init__(self, options, console, plan, *_):
            self.run = lambda: console.print(self.name)

    monkeypatch.setattr(signal, 'signal', lambda *_: None)
    monkeypatch.setattr(cli, 'choose', lambda store: NOTHING)
    for name in ('CameraScene', 'TextScene'):
        monkeypatch.setattr(cli, name, type(name, (Scene,), {'name': name}))


@pytest.fixture
def without_language_model(monkeypatch):
    def refuse(store):
        raise AssetError('the language model is not there; run: make setup')

    monkeypatch.setattr(cli, 'choose_text', refuse)


def run(capsys, *arguments):
    """Give the exit code and what was printed, in lines."""
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    code = cli.run(parser.parse_args(['demo', *arguments]))
    return code, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize('scene, names', [
    ('cameras', ['CameraScene']), ('text', ['TextScene']), ('both', ['CameraScene', 'TextScene'])])
def test_the_scenes_that_were_asked_for_are_played(played, monkeypatch, capsys, scene, names):
    monkeypatch.setattr(cli, 'choose_text', lambda store: NOTHING)
    assert run(capsys, '--scene', scene) == (0, names)


def test_that_a_scene_will_be_missing_is_said_before_the_other_one_begins(
        played, without_language_model, capsys):
    code, (note, scene) = run(capsys)
    assert code == 0 and scene == 'CameraScene'
    assert note == ('note: without the scene of the language model: the language model is not '
                    'there; run: make setup')


def test_the_missing_scene_alone_is_an_error(played, without_language_model, capsys):
    assert run(capsys, '--scene', 'text') == (
        1, ['demo: the language model is not there; run: make setup'])


def test_nothing_is_said_of_a_scene_that_was_not_asked_for(
        played, without_language_model, capsys):
    assert run(capsys, '--scene', 'cameras') == (0, ['CameraScene'])
