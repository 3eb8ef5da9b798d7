"""The rqt perspective and the Foxglove layout name only what the demo and the messages have."""

import ast
from importlib import import_module
import json
from pathlib import Path
import re

from diagnostic_msgs.msg import DiagnosticArray

import pytest

from sensor_msgs.msg import Image

from vig.msg import GovernorStatus, InferenceResult, RequestStatus

from vig_governor.demo import plan as demo_plan

ROOT = Path(__file__).resolve().parents[2]
PERSPECTIVE = ROOT / 'config/vig_demo.perspective'
LAYOUT = ROOT / 'config/vig_demo_foxglove.json'
PANELS = {'Image', 'Plot', 'RawMessages', 'DiagnosticSummary'}
PLUGINS = {'rqt_image_view/ImageView': 'ImageViewWidget', 'rqt_plot/Plot': 'DataPlotWidget',
           'rqt_runtime_monitor/RuntimeMonitor': 'RuntimeMonitorWidget'}
"""Ids under which ROS packages export the plugins, and the Qt name of the widget of each. rqt
restores nothing at all if one id does not exist."""


class Store:
    """An asset store that has everything, so that a plan can be made without the files."""

    def path(self, name):
        return Path(name)

    def has(self, name):
        return True


@pytest.fixture(params=[{'objdet', 'pose_heavy'}, set()], ids=['whole', 'smaller'])
def plan(request, monkeypatch):
    """Give the demo's plan with all models, and with those that every machine can fetch."""
    monkeypatch.setattr(demo_plan, 'available', lambda store: request.param)
    return demo_plan.choose(Store())


def graph(plan):
    """Give topic and type of what runs in the demo, with the governor."""
    topics = {'/governor/status': GovernorStatus, '/diagnostics': DiagnosticArray}
    for stream in plan.streams:
        if not stream.lends:
            topics[stream.topic] = Image
        topics[f'{stream.topic}/vig/result'] = InferenceResult
        topics[f'{stream.topic}/vig/status'] = RequestStatus
    return topics


def follow(message, fields):
    """Walk down a path of fields; fails for one that the message does not have."""
    kind = None
    for field in fields:
        known = message.get_fields_and_field_types()
        name, _, index = field.partition('[')
        assert name in known, f'{message.__name__} has no field {name}'
        kind = known[name]
        inner = re.fullmatch(r'sequence<(.+)>', kind)
        assert bool(inner) == bool(index), f'{field} of {message.__name__}: {kind}'
        kind = inner[1] if inner else kind
        package, _, name = kind.rpartition('/')
        message = getattr(import_module(f'{package}.msg'), name) if package else None
    return kind


def tokens(layout):
    """Give all names of panels in the tree of a Foxglove layout."""
    if isinstance(layout, str):
        return [layout]
    assert layout['direction'] in ('row', 'column') and 0 < layout['splitPercentage'] < 100
    return tokens(layout['first']) + tokens(layout['second'])


def test_every_panel_of_the_foxglove_layout_stands_in_its_tree_once():
    layout = json.loads(LAYOUT.read_text())
    assert set(layout) == {
        'configById', 'globalVariables', 'userNodes', 'playbackConfig', 'layout'}
    assert sorted(tokens(layout['layout'])) == sorted(layout['configById'])
    assert {name.partition('!')[0] for name in layout['configById']} == PANELS
    for name, panel in layout['configById'].items():
        titled = name.startswith('Plot')
        assert ('foxglovePanelTitle' in panel) == ('lichtblickPanelTitle' in panel) == titled
        assert 'followingViewWidth' not in panel, 'Lichtblick draws no recording with it'


def test_every_path_of_the_foxglove_layout_is_there(plan):
    topics = graph(plan)
    panels = json.loads(LAYOUT.read_text())['configById']
    for panel in panels.values():
        for path in panel.get('paths', ()):
            topic, *fields = re.sub(r'\[:\]\{stream=="(\w+)"\}', r'[\1]', path['value']).split('.')
            assert follow(topics[topic], fields) in (
                'double', 'uint32', 'uint8', 'builtin_interfaces/Duration')
            for stream in re.findall(r'stream=="(\w+)"', path['value']):
                assert stream in {each.name for each in plan.streams}
        for topic, kind in ((panel.get('imageMode', {}).get('imageTopic'), Image),
                            (panel.get('topicToRender'), DiagnosticArray)):
            assert topic is None or topics[topic] is kind
        assert panel.get('topicPath', '/diagnostics') in topics


def settings():
    """Give the running plugins of the perspective and the settings of each instance."""
    manager = json.loads(PERSPECTIVE.read_text())['groups']['pluginmanager']
    running = ast.literal_eval(manager['keys']['running-plugins']['repr'])
    found = {}
    for name, group in manager['groups'].items():
        keys = group['groups']['plugin']['keys']
        assert all(value['type'] == 'repr' for value in keys.values())
        found[name] = {key: ast.literal_eval(value['repr']) for key, value in keys.items()}
    return running, found


def test_every_plugin_of_the_perspective_has_its_settings():
    running, found = settings()
    assert set(running) == set(PLUGINS)
    assert sorted(found) == sorted(
        f'plugin__{name.replace("/", "__")}__{number}'
        for name, numbers in running.items() for number in numbers)


def test_the_window_has_a_place_for_every_plugin():
    main = json.loads(PERSPECTIVE.read_text())['groups']['mainwindow']['keys']
    state = bytes.fromhex(
        ast.literal_eval(main['state']['repr(QByteArray.hex)']).decode())
    for plugin, numbers in settings()[0].items():
        for number in numbers:
            dock = f'{plugin.replace("/", "__")}__{number}__{PLUGINS[plugin]}'
            assert dock.encode('utf-16-be') in state, dock


def test_every_plot_begins_with_a_minute_and_the_whole_range():
    for name, keys in settings()[1].items():
        if '__Plot__' in name:
            assert keys['x_limits'] == [0.0, 60.0]
            assert keys['y_limits'][0] == 0.0 < keys['y_limits'][1]


def test_every_path_of_the_perspective_is_there(plan):
    topics = graph(plan)
    for keys in settings()[1].values():
        if 'topic' in keys:
            assert topics[keys['topic']] is Image
        for path in keys.get('topics', ()):
            topic, = (each for each in topics if path.startswith(f'{each}/'))
            fields = path[len(topic) + 1:].split('/')
            assert follow(topics[topic], fields) in ('double', 'uint32', 'uint8')
            for index in re.findall(r'streams\[(\d+)\]', path):
                assert int(index) < len(plan.streams)


def test_both_are_installed_with_the_package():
    words = ' '.join((ROOT / 'CMakeLists.txt').read_text().split())
    assert 'install(DIRECTORY launch config DESTINATION share/${PROJECT_NAME}' in words
