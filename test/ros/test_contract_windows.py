"""The window of a miss budget over the lifecycle: it goes on, and a new contract begins anew."""

from pathlib import Path

import pytest
from stage import config_text, image, model_text, Parameter, stream_text

from vig_core.events import CyclesInherited

from vig_governor.recorded import read_trace
from vig_governor.replay import replay

from waiting import wait_until


def write(stage, *, version=1, window=400, max_misses=300):
    """Write a file whose detector's consumer looks every 20 ms."""
    contract = (f'extension: {{version: 1, consumer_period_ms: 20, contract_version: {version}, '
                f'miss_budget: {{max_misses: {max_misses}, window_cycles: {window}, '
                'max_consecutive: 200}}')
    model = model_text('detector', 'echo').replace(
        'max_age_ms: 9000}', f'max_age_ms: 9000, {contract}}}')
    return stage.write(config_text(stage.endpoint, models=[model],
                                   streams=[stream_text('front', '/cam', 'detector')]))


def seen(stage):
    """The stream as the running scheduler sees it."""
    return stage.node.session.snapshot().streams[0]


def misses_of(stage, at_least):
    """Wait until so many cycles were missed, and give how many."""
    return wait_until(lambda: (count := seen(stage).weakly_hard_misses) >= at_least and count)


def test_a_window_goes_on_over_deactivation_and_cleanup_and_counts_the_time_between(
        stage, tmp_path):
    stage.governor(write(stage))
    stage.activate()
    misses = misses_of(stage, 5)
    before_ns = stage.node.session.began_at_ns
    assert stage.change('deactivate')[0]
    assert stage.change('cleanup')[0]
    stage.node.set_parameters([Parameter('record', value=str(tmp_path / 'run.mcap'))])
    stage.activate()
    status = seen(stage)
    passed = (stage.node.session.began_at_ns - before_ns) // 20_000_000
    assert status.weakly_hard_misses >= max(misses, min(passed, 400))
    assert status.weakly_hard_misses > status.judged_cycles, 'coverage is of this activation'
    camera = stage.camera()
    camera.publish(image())
    wait_until(lambda: seen(stage).covered_cycles)
    last = seen(stage)
    assert stage.change('deactivate')[0]
    recorded = read_trace(tmp_path / 'run.mcap')
    assert isinstance(recorded.events[0][1], CyclesInherited)
    assert replay(recorded)[1] == []
    again = recorded.scheduler()
    for at_ns, event, _ in recorded.events:
        again.handle(event, now_ns=at_ns)
    assert again.snapshot(now_ns=recorded.events[-1][0]).streams[0].weakly_hard_misses >= (
        last.weakly_hard_misses)


def test_what_nobody_enforces_is_one_line_in_the_log_of_each_start(stage, caplog):
    path = Path(write(stage))
    path.write_text(path.read_text(encoding='utf-8').replace(
        'contract_version: 1,', 'contract_version: 1, delivery_boundary: consumer, '
        'evidence_required: qualified_slo, max_occupancy_pct: 90,'), encoding='utf-8')
    stage.governor(str(path))
    said = []
    stage.node.get_logger().warning = said.append
    assert stage.change('configure')[0], stage.node.last_failure
    for key in ('delivery_boundary', 'evidence_required', 'max_occupancy_pct'):
        assert sum(f'extension.{key} = ' in line and 'not enforced' in line
                   for line in said) == 1, said


@pytest.mark.parametrize('change, sentence', [
    ({'version': 2}, 'contract_version 2 after 1: a new window of 400 cycles begins'),
    ({'max_misses': 301}, 'raise contract_version with the terms')])
def test_a_new_version_begins_a_new_window_and_so_do_other_terms_which_is_said(
        stage, caplog, change, sentence):
    caplog.set_level('INFO')
    stage.governor(write(stage))
    stage.activate()
    misses_of(stage, 5)
    for transition in ('deactivate', 'cleanup'):
        assert stage.change(transition)[0]
    write(stage, **change)
    stage.activate()
    status = seen(stage)
    assert status.weakly_hard_misses == status.judged_cycles
    assert sentence in caplog.text
