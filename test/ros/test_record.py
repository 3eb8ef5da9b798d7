"""The parameter ``record``: what a live node was told replays to the identical decisions."""

from stage import image, Parameter
from std_srvs.srv import SetBool

from vig_core.events import RequestArrived

from vig_governor.recorded import read_trace
from vig_governor.replay import replay


def test_a_live_run_replays_to_the_identical_decisions(stage, tmp_path):
    trace = tmp_path / 'run.mcap'
    _, statuses = stage.one_camera()
    stage.node.set_parameters([Parameter('record', value=str(trace))])
    stage.activate()
    camera = stage.camera()
    for count in range(1, 4):
        camera.publish(image())
        statuses.wait_for(count)
    assert stage.change('deactivate')[0]
    recorded = read_trace(str(trace))
    outcome, differences = replay(recorded)
    assert differences == [] and recorded.digest is not None
    assert sum(isinstance(event, RequestArrived) for _, event, _ in recorded.events) == 3
    assert [end.reason.value for end in outcome.ends] == ['completed'] * 3


def test_a_trace_that_cannot_be_written_is_a_failure_that_names_it(stage, tmp_path):
    stage.one_camera()
    path = str(tmp_path / 'no' / 'run.mcap')
    stage.node.set_parameters([Parameter('record', value=path)])
    assert stage.change('configure')[0]
    assert not stage.change('activate')[0]
    assert f'{path}: the trace cannot be written' in stage.node.last_failure
    assert stage.state() == 'inactive'


def test_the_service_begins_and_ends_a_trace_in_the_middle_of_a_run(stage, tmp_path):
    path = tmp_path / 'later.mcap'
    _, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    service = stage.client.create_client(SetBool, '/governor/record')
    camera.publish(image())
    statuses.wait_for(1)
    stage.node.set_parameters([Parameter('record', value=str(path))])
    begun = stage.call(service, SetBool.Request(data=True))
    assert begun.success and begun.message == f'recording {path}'
    again = stage.call(service, SetBool.Request(data=True))
    assert not again.success and 'is being recorded already' in again.message
    camera.publish(image())
    statuses.wait_for(2)
    ended = stage.call(service, SetBool.Request(data=False))
    assert ended.success and ended.message == f'{path} is complete'
    recorded = read_trace(path)
    outcome, differences = replay(recorded)
    assert differences == [] and recorded.digest is not None and recorded.state is not None
    assert [end.reason.value for end in outcome.ends] == ['completed']


def test_a_trace_that_cannot_be_begun_changes_nothing(stage, tmp_path):
    path = tmp_path / 'no' / 'later.mcap'
    stage.one_camera()
    stage.node.set_parameters([Parameter('record', value=str(path))])
    service = stage.client.create_client(SetBool, '/governor/record')
    assert stage.call(service, SetBool.Request(data=True)).message == (
        'the governor is not active')
    stage.node.set_parameters([Parameter('record', value='')])
    stage.activate()
    stage.node.set_parameters([Parameter('record', value=str(path))])
    answer = stage.call(service, SetBool.Request(data=True))
    assert not answer.success and f'{path}: the trace cannot be written' in answer.message
    assert stage.node.session.recording == ''
