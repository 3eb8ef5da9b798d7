"""The parameter ``record``: what a live node was told replays to the identical decisions."""

from stage import image, Parameter

from vig_core.events import RequestArrived

from vig_governor.replay import read_trace, replay


def test_a_live_run_replays_to_the_identical_decisions(stage, tmp_path):
    trace = tmp_path / 'run.trace'
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
    path = str(tmp_path / 'no' / 'run.trace')
    stage.node.set_parameters([Parameter('record', value=path)])
    assert stage.change('configure')[0]
    assert not stage.change('activate')[0]
    assert f'{path}: the trace cannot be written' in stage.node.last_failure
    assert stage.state() == 'inactive'
