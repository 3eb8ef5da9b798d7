"""Scenario files: ours load, and a wrong one is named with file, line, key and reason."""

from pathlib import Path

import pytest
from vig_core.sim.scenarios import UNSCALED
from vig_governor.config.problems import ConfigError
from vig_governor.config.scenario import load_scenarios

FILES = sorted((Path(__file__).resolve().parents[2] / 'benchmark' / 'scenarios').glob('*.yaml'))

GOOD = """\
version: 1
source: made up
scenarios:
  one:
    duration_s: 1
    seeds: [1]
    scaled: runtime
    loads_permille: [1000]
    models:
      cam: {class: protected, period_ms: 20, deadline_ms: 20,
            variants: [{id: main, p50_ms: 5, p99_ms: 6}]}
    streams:
      cam: {model: cam, period_ms: 20}
    references:
      goal: {counting: instant, values: {1000: 3}}
"""


def read(tmp_path, text):
    path = tmp_path / 'x.yaml'
    path.write_text(text)
    return load_scenarios(path)


@pytest.mark.parametrize('path', FILES, ids=[path.stem for path in FILES])
def test_our_files_load_and_offer_the_loads_that_they_name(path):
    for scenario in load_scenarios(path).scenarios:
        for load in scenario.loads_permille:
            if load != UNSCALED:
                assert scenario.at(load).load == pytest.approx(load / 1000, rel=1e-4)


def test_a_good_file_is_read_as_written(tmp_path):
    scenario, = read(tmp_path, GOOD).scenarios
    assert scenario.at(1000).system.models['cam'].variants[0].profile.p50_ns == 20_000_000
    assert scenario.references[0].values == {1000: 3}


@pytest.mark.parametrize('old, new, line, words', [
    ('period_ms: 20}', 'perod_ms: 20}', 13, 'unknown key; did you mean period_ms'),
    ('model: cam,', 'model: cma,', 13, 'did you mean cam?'),
    ('p99_ms: 6', 'p99_ms: 4', 11, 'below p50_ms'),
    ('period_ms: 20}', 'period_ms: 20, rate_hz: 3}', 13, 'exactly one of'),
    ('period_ms: 20}', 'rate_hz: 3, jitter_ms: 1}', 13, 'only a stream with period_ms'),
    ('period_ms: 20}', 'period_ms: 20, bursts_ms: [[9, 3]]}', 13, 'must end after it begins'),
    ('period_ms: 20}', 'trace_ms: [[5, 4]]}', 13, 'must be .capture, arrival.'),
    ('{1000: 3}', '{900: 3}', 15, 'none of loads_permille'),
    ('counting: instant, values: {1000: 3}', 'counting: instant', 15, 'exactly one of value'),
    ('    scaled: runtime\n', '', 7, 'belongs together with scaled'),
    ('seeds: [1]', 'seeds: []', 6, 'at least 1'),
    ('class: protected, period_ms: 20', 'class: protected, capacity: 2', 10,
     'latest keeps one waiting request')])
def test_a_wrong_file_is_named_with_line_key_and_reason(tmp_path, old, new, line, words):
    with pytest.raises(ConfigError, match=rf'x\.yaml:{line}: .*{words}'):
        read(tmp_path, GOOD.replace(old, new))
