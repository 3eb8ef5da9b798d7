"""What is known but not supported, what only a node refuses, and what is merely noticed."""

from config_text import (
    assert_problem, assert_refused, changed, COMPLETE, EXTENSION, line_of, load, one_notice,
    problems_of, SECOND_CAMERA, SIMPLE,
)

import pytest

WITH_EXTENSION = changed('      max_age_ms: 80\n', '      max_age_ms: 80\n' + EXTENSION)


@pytest.mark.parametrize('block, given, key', [
    ('  slots: 1\n', '  preemptible_lanes: 1\n', 'backend.preemptible_lanes'),
    ('  slots: 1\n', '  domains: {b: {gpu_index: 1}}\n', 'backend.domains'),
    ('  slots: 1\n', '  hints: {authority: 1}\n', 'backend.hints'),
    ('  slots: 1\n', '  actuation: {hold_mhz: 1}\n', 'backend.actuation'),
    ('  slots: 1\n', '  prediction: active\n', 'backend.prediction'),
    ('  slots: 1\n', '  security: {tls_cert: a.pem}\n', 'backend.security.tls_cert'),
    ('  slots: 1\n', '  security: {transport: {request_timeout_ms: 5}}\n',
     'backend.security.transport'),
    ('    class: protected\n', '    preemptible: {residual_blocking_us: 5}\n',
     'models.detector.preemptible'),
    ('    class: protected\n', '    domain: second\n', 'models.detector.domain'),
])
def test_a_published_key_that_is_not_supported_is_refused_by_name(tmp_path, block, given, key):
    problems = problems_of(tmp_path, changed(block, block + given))
    assert_problem(problems[0], line=line_of(SIMPLE, block.strip()) + 1, key=key,
                   value=problems[0].value, says=['not supported', 'remove it'])


@pytest.mark.parametrize('block, given', [
    ('  slots: 1\n', '  preemptible_lanes: 0\n  domains: {}\n  hints: null\n  actuation:\n'
     '  prediction: shadow\n'),
    ('  slots: 1\n', '  security: {tls_cert: null, client_ca: , '
     'transport: {request_timeout_ms: 600000}}\n'),
    ('    class: protected\n', '    preemptible: null\n    domain: default\n'),
])
def test_a_published_key_at_its_default_is_accepted(tmp_path, block, given):
    load(tmp_path, changed(block, block + given), require_profiles=True)


@pytest.mark.parametrize('old, given, key, value', [
    ('    class: protected\n', '    backend_endpoint: "127.0.0.1:9701"\n',
     'models.detector.backend_endpoint', '"127.0.0.1:9701"'),
    ('  slots: 1\n', '  protect_supply: true\n', 'backend.protect_supply', 'true'),
])
def test_what_the_node_cannot_do_yet_is_refused_for_the_node_only(tmp_path, old, given, key,
                                                                  value):
    text, line = changed(old, old + given), line_of(SIMPLE, old.strip()) + 1
    one_notice(tmp_path, text, key, 'not supported by the node yet', line=line)
    assert_refused(tmp_path, text, line=line, key=key, value=value,
                   says=['not supported by the node yet'], require_profiles=True)


def test_a_model_that_streams_its_answers_must_be_a_generative_one(tmp_path):
    text = changed('    class: protected\n', '    class: protected\n    decoupled: true\n')
    line = line_of(SIMPLE, 'class: protected') + 1
    one_notice(tmp_path, text, 'models.detector.decoupled', 'add the block cooperative', line=line)
    assert_refused(tmp_path, text, line=line, key='models.detector.decoupled', value='true',
                   says=['only generative models', 'add the block cooperative'],
                   require_profiles=True)


def test_a_quantum_larger_than_the_answer_is_refused(tmp_path):
    text = changed('max_total_tokens: 48', 'max_total_tokens: 4', COMPLETE)
    assert_refused(tmp_path, text, line=line_of(text, 'min_tokens'),
                   key='models.summariser.cooperative.min_tokens', value='8',
                   says=['max_total_tokens'])


def test_a_variant_without_a_profile_is_for_tools_and_a_node_says_what_to_measure(tmp_path):
    text = changed('        profile: {p50_us: 20000, p99_us: 25000}\n', '')
    config = load(tmp_path, text)
    assert config.unprofiled == (('detector', 'large'),)
    assert_refused(tmp_path, text, line=13, key='models.detector.variants[0].profile',
                   says=['variant large', 'profile: {p50_us: '],
                   require_profiles=True)


def test_a_file_that_a_node_plans_with_has_no_notice(tmp_path):
    assert load(tmp_path, SIMPLE, require_profiles=True).notices == ()


@pytest.mark.parametrize('text, key, part, line', [
    (changed('max_age_ms: 80', 'max_age_ms: 30'), 'contract.max_age_ms', 'shorter than', 11),
    (changed('      period_ms: 33\n', ''), 'models.detector.contract', 'without period_ms', 8),
    (changed('max_age_ms: 80', 'max_age_ms: 7').replace('deadline_ms: 40', 'deadline_ms: 7'),
     'contract.max_age_ms', 'will end stale', 11),
    (changed('value: 1.0, source: user_declared', 'value: 1.0'), 'models.detector.variants',
     'not selected automatically', 12),
    (changed('slots: 1', 'slots: 1\n  grpc_endpoint: "127.0.0.1:8000"'),
     'backend.grpc_endpoint', 'gRPC is 8001', 4),
    (changed('slots: 1', 'slots: 1\n  http_endpoint: "127.0.0.1:8001"'),
     'backend.http_endpoint', 'HTTP is 8000', 4),
    (WITH_EXTENSION.replace('consumer_period_ms: 50', 'consumer_period_ms: 50\n'
                            '        delivery_boundary: consumer'),
     'extension.delivery_boundary', 'not enforced', 15),
    (SIMPLE + SECOND_CAMERA, 'models.detector.queue.policy', 'latest_per_key', 7),
])
def test_what_stops_nothing_but_surprises_is_noticed(tmp_path, text, key, part, line):
    one_notice(tmp_path, text, key, part, line=line)


def test_a_model_that_no_stream_feeds_is_noticed(tmp_path):
    start, end = SIMPLE.index('  detector:'), SIMPLE.index('streams:')
    text = SIMPLE[:end] + SIMPLE[start:end].replace('  detector:', '  spare:') + SIMPLE[end:]
    one_notice(tmp_path, text, 'models.spare', 'no stream feeds', line=21)
