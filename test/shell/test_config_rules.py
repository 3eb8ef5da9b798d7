"""Every rule of backend and models: what is refused, where, and what would be right."""

from config_text import (
    assert_problem, assert_refused, changed, EXTENSION, load, one_notice, problems_of, SIMPLE,
)

import pytest

WITH_EXTENSION = changed('      max_age_ms: 80\n', '      max_age_ms: 80\n' + EXTENSION)


def test_an_unknown_key_is_answered_with_the_nearest_one(tmp_path):
    text = changed('deadline_ms: 40', 'deadline_ms: 40\n      max_age_sm: 5')
    assert_refused(tmp_path, text, line=11, key='models.detector.contract.max_age_sm', value='5',
                   says=['unknown key', 'did you mean max_age_ms?'])


def test_an_unknown_key_like_no_other_is_answered_with_all_of_them(tmp_path):
    text = changed('capacity: 1}', 'capacity: 1, zzz: 1}')
    assert_refused(tmp_path, text, line=7, key='models.detector.queue.zzz', value='1',
                   says=['policy, capacity, overflow'])


def test_a_missing_key_is_named_with_its_meaning(tmp_path):
    text = changed('      deadline_ms: 40\n', '')
    assert_refused(tmp_path, text, line=8, key='models.detector.contract.deadline_ms',
                   says=['is missing', 'milliseconds from capture'])


def test_the_capacity_is_mandatory(tmp_path):
    assert_refused(tmp_path, changed(', capacity: 1', ''), line=7,
                   key='models.detector.queue.capacity', says=['is missing', 'mandatory'])


def test_zero_slots_are_refused(tmp_path):
    assert_refused(tmp_path, changed('slots: 1', 'slots: 0'), line=3, key='backend.slots',
                   value='0', says=['leaves nothing to run on'])


def test_a_text_where_a_number_belongs_is_refused(tmp_path):
    assert_refused(tmp_path, changed('slots: 1', 'slots: "1"'), line=3, key='backend.slots',
                   value='"1"', says=['must be a whole number'])


def test_a_truth_value_is_no_number(tmp_path):
    assert_refused(tmp_path, changed('deadline_ms: 40', 'deadline_ms: yes'), line=10,
                   key='models.detector.contract.deadline_ms', value='yes',
                   says=['must be a number'])


@pytest.mark.parametrize('value', ['-5', '0', '.nan', '.inf', '1e99', '3600001'])
def test_a_duration_is_positive_finite_and_at_most_an_hour(tmp_path, value):
    assert_refused(tmp_path, changed('deadline_ms: 40', f'deadline_ms: {value}'), line=10,
                   key='models.detector.contract.deadline_ms', value=value, says=['must be'])


def test_a_bound_is_written_out(tmp_path):
    assert_refused(tmp_path, changed('deadline_ms: 40', 'deadline_ms: 3600001'), line=10,
                   key='models.detector.contract.deadline_ms', value='3600001',
                   says=['at most 3600000 '])


def test_a_duration_that_rounds_to_nothing_is_refused_by_the_core_at_its_key(tmp_path):
    assert_refused(tmp_path, changed('deadline_ms: 40', 'deadline_ms: 1e-9'), line=10,
                   key='models.detector.contract.deadline_ms', value='1e-9', says=['positive'])


def test_an_age_of_zero_is_refused_and_omitting_it_is_explained(tmp_path):
    assert_refused(tmp_path, changed('max_age_ms: 80', 'max_age_ms: 0'), line=11,
                   key='models.detector.contract.max_age_ms', value='0',
                   says=['omit max_age_ms', 'never worthless'])


def test_a_negative_age_is_refused(tmp_path):
    assert_refused(tmp_path, changed('max_age_ms: 80', 'max_age_ms: -1'), line=11,
                   key='models.detector.contract.max_age_ms', value='-1', says=['at least 0'])


def test_an_unknown_class_is_answered_with_the_classes(tmp_path):
    assert_refused(tmp_path, changed('protected', 'protectd'), line=6,
                   key='models.detector.class', value='protectd',
                   says=['protected, high, normal, best_effort', 'did you mean protected?'])


def test_an_unknown_version_of_the_file_is_refused(tmp_path):
    assert_refused(tmp_path, changed('version: 1', 'version: 2'), line=1, key='version',
                   value='2', says=['must be 1'])


def test_a_ban_on_an_unknown_model_is_refused(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  no_corun:\n    - [detector, detektor]')
    assert_refused(tmp_path, text, line=5, key='backend.no_corun[0][1]', value='detektor',
                   says=['is no model', 'detector'])


def test_a_ban_of_a_model_on_itself_is_refused(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  no_corun: [[detector, detector]]')
    assert_refused(tmp_path, text, line=4, key='backend.no_corun[0]',
                   says=['two different', 'write instances: 1 at its variants'])


AT_LARGE = '        backend_model: detector_large\n'
KEY = 'models.detector.variants[0].instances'


@pytest.mark.parametrize('value, says', [
    ('0', 'at least 1'), ('-1', 'at least 1'), ('1025', 'at most 1024'),
    ('1.5', 'must be a whole number'), ('one', 'must be a whole number')])
def test_a_number_of_instances_that_no_server_has_is_refused(tmp_path, value, says):
    text = changed(AT_LARGE, f'{AT_LARGE}        instances: {value}\n')
    assert_refused(tmp_path, text, line=15, key=KEY, value=value, says=[says])


def test_a_backend_model_has_one_number_of_instances(tmp_path):
    text = changed('slots: 1', 'slots: 3')
    text = changed(AT_LARGE, f'{AT_LARGE}        instances: 1\n', text)
    text = changed('detector_small\n', 'detector_large\n        instances: 2\n', text)
    assert_refused(tmp_path, text, line=12, key='models.detector.variants',
                   says=['detector_large has 2 instances here and 1 at models.detector'])


def test_instances_beyond_the_slots_are_said_to_limit_nothing(tmp_path):
    text = changed(AT_LARGE, f'{AT_LARGE}        instances: 2\n')
    one_notice(tmp_path, text, KEY, 'limits nothing', 'allows 1 executions', line=15)
    config = load(tmp_path, changed('slots: 1', 'slots: 2', text))
    assert not config.notices and not config.system.instances


def test_instances_below_the_slots_reach_the_scheduler_by_backend_model(tmp_path):
    text = changed(AT_LARGE, f'{AT_LARGE}        instances: 1\n')
    config = load(tmp_path, changed('slots: 1', 'slots: 2', text))
    assert config.system.instances == {'detector_large': 1}


def test_a_ban_needs_two_models(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  no_corun: [[detector]]')
    assert_refused(tmp_path, text, line=4, key='backend.no_corun[0]', says=['at least 2'])


def test_interference_of_an_unknown_model_is_refused(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  interference:\n'
                   '    - {victim: detector, co_tenant: detectr, added_us: 5}')
    assert_refused(tmp_path, text, line=5, key='backend.interference[0].co_tenant',
                   value='detectr', says=['is no model', 'did you mean detector?'])


def test_interference_of_a_model_with_itself_is_refused(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  interference:\n'
                   '    - {victim: detector, co_tenant: detector, added_us: 5}')
    assert_refused(tmp_path, text, line=5, key='backend.interference[0]', says=['two models'])


def test_a_margin_below_the_measurement_is_refused(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  safety_margin_percent: 90')
    assert_refused(tmp_path, text, line=4, key='backend.safety_margin_percent', value='90',
                   says=['at least 100'])


def test_approving_an_unknown_variant_is_refused(tmp_path):
    text = WITH_EXTENSION.replace('version: 1\n        c', 'version: 1\n        '
                                  'approved_variants: [huge]\n        c')
    assert_refused(tmp_path, text, line=14,
                   key='models.detector.contract.extension.approved_variants',
                   says=["'huge'", 'large, small'])


def test_approving_nothing_is_refused(tmp_path):
    text = WITH_EXTENSION.replace('version: 1\n        c', 'version: 1\n        '
                                  'approved_variants: []\n        c')
    assert_refused(tmp_path, text, line=14,
                   key='models.detector.contract.extension.approved_variants',
                   says=['approves no variant'])


def test_a_quality_that_no_variant_has_is_refused(tmp_path):
    text = changed('period_ms: 33', 'period_ms: 33\n      min_quality: 0.9').replace(
        'value: 1.0', 'value: 0.8')
    assert_refused(tmp_path, text, line=10, key='models.detector.contract.min_quality',
                   value='0.9', says=['no variant may run', 'lower min_quality'])


def test_approved_variants_below_the_quality_leave_nothing_to_run(tmp_path):
    text = WITH_EXTENSION.replace('version: 1\n        c', 'version: 1\n        '
                                  'approved_variants: [small]\n        c')
    text = changed('period_ms: 33', 'period_ms: 33\n      min_quality: 0.9', text)
    assert_refused(tmp_path, text, line=10, key='models.detector.contract.min_quality',
                   value='0.9', says=['approved'])


def test_variants_in_rising_quality_are_refused(tmp_path):
    text = changed('value: 0.7', 'value: 1.0').replace('value: 1.0', 'value: 0.5', 1)
    assert_refused(tmp_path, text, line=19, key='models.detector.variants[1].quality.value',
                   value='1.0', says=['falling quality'])


def test_repeated_variant_names_are_refused(tmp_path):
    assert_refused(tmp_path, changed('id: small', 'id: large'), line=12,
                   key='models.detector.variants', says=['large, large'])


def test_no_variant_at_all_is_refused(tmp_path):
    start, rest = SIMPLE.index('    variants:'), SIMPLE.index('streams:')
    text = SIMPLE[:start] + '    variants: []\n' + SIMPLE[rest:]
    assert_refused(tmp_path, text, line=12, key='models.detector.variants', says=['at least 1'])


def test_a_stateful_model_is_not_latest(tmp_path):
    text = changed('class: protected', 'class: protected\n    stateful: true')
    assert_refused(tmp_path, text, line=8, key='models.detector.queue.policy', value='latest',
                   says=['fifo or never_drop'])


def test_a_latest_queue_holds_one_request(tmp_path):
    assert_refused(tmp_path, changed('capacity: 1', 'capacity: 3'), line=7,
                   key='models.detector.queue.capacity', value='3', says=['one waiting'])


@pytest.mark.parametrize('old, new, key, value', [
    ('max_misses: 2', 'max_misses: 100', 'max_misses', '100'),
    ('max_consecutive: 1', 'max_consecutive: 3', 'max_consecutive', '3'),
    ('window_cycles: 100', 'window_cycles: 2000', 'window_cycles', '2000'),
])
def test_a_miss_budget_that_cannot_bind_is_refused(tmp_path, old, new, key, value):
    assert_refused(tmp_path, changed(old, new, WITH_EXTENSION), line=15,
                   key=f'models.detector.contract.extension.miss_budget.{key}', value=value)


def test_a_miss_budget_needs_the_period_of_its_consumer(tmp_path):
    text = changed('        consumer_period_ms: 50\n', '', WITH_EXTENSION)
    assert_refused(tmp_path, text, line=14,
                   key='models.detector.contract.extension.miss_budget',
                   says=['consumer_period_ms'])


def test_evidence_that_nothing_here_proves_is_refused(tmp_path):
    text = WITH_EXTENSION.replace('consumer_period_ms: 50', 'consumer_period_ms: 50\n'
                                  '        evidence_required: proven')
    assert_refused(tmp_path, text, line=15,
                   key='models.detector.contract.extension.evidence_required', value='proven',
                   says=['nothing here proves', 'observed or qualified_slo'])


def test_an_unknown_version_of_the_extension_is_refused_with_its_line(tmp_path):
    text = changed('        version: 1', '        version: 2', WITH_EXTENSION)
    assert_refused(tmp_path, text, line=13, key='models.detector.contract.extension.version',
                   value='2', says=['must be 1'])


def test_an_unknown_key_of_the_extension_is_refused_with_its_line(tmp_path):
    text = changed('consumer_period_ms', 'customer_period_ms', WITH_EXTENSION)
    problems = problems_of(tmp_path, text)
    assert_problem(problems[0], line=14, value='50',
                   key='models.detector.contract.extension.customer_period_ms',
                   says=['did you mean consumer_period_ms?'])


def test_a_profile_out_of_order_is_refused(tmp_path):
    assert_refused(tmp_path, changed('p50_us: 20000', 'p50_us: 30000'), line=16,
                   key='models.detector.variants[0].profile', says=['in order'])


@pytest.mark.parametrize('endpoint, part', [
    ('http://127.0.0.1:8001', 'write 127.0.0.1:8001'), ('127.0.0.1', 'host:port'),
    ('127.0.0.1:99999', 'host:port')])
def test_an_endpoint_that_is_no_host_and_port_is_refused(tmp_path, endpoint, part):
    text = changed('slots: 1', f'slots: 1\n  grpc_endpoint: {endpoint}')
    assert_refused(tmp_path, text, line=4, key='backend.grpc_endpoint', value=endpoint,
                   says=[part])


@pytest.mark.parametrize('backend, says', [
    ('http_endpoint: 127.0.0.1', 'must be host:port, for example 127.0.0.1:8000'),
    ('http_endpoint: 127.0.0.1:8000\n  security: {root_certificates: ca.pem}', 'has no TLS'),
    ('http_endpoint: 10.0.0.7:8000\n  security: {token_variable: SECRET}',
     'would travel unencrypted')])
def test_inferences_go_over_http_only_where_that_is_safe(tmp_path, backend, says):
    value = backend.partition('\n')[0].partition(': ')[2]
    assert_refused(tmp_path, changed('slots: 1', f'slots: 1\n  {backend}'), line=4,
                   key='backend.http_endpoint', value=value, says=[says])


def test_a_key_without_its_certificate_is_refused(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  security: {private_key: key.pem}')
    assert_refused(tmp_path, text, line=4, key='backend.security.private_key', value='key.pem',
                   says=['certificate_chain'])


def test_a_certificate_that_is_not_there_is_refused_where_a_node_would_use_it(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  security: {root_certificates: ca.pem}')
    assert load(tmp_path, text).backend.security.root_certificates == str(tmp_path / 'ca.pem')
    assert_refused(tmp_path, text, line=4, key='backend.security.root_certificates',
                   value='ca.pem', says=['no such file'], require_profiles=True)


def test_a_token_is_given_once_and_never_shown_to_the_network(tmp_path, monkeypatch):
    (tmp_path / 'token').write_text('abc')
    (tmp_path / 'token').chmod(0o644)
    text = changed('slots: 1', 'slots: 1\n  security: {token_file: token}')
    notices = ' '.join(load(tmp_path, text).notices)
    assert 'unencrypted' in notices and 'mode 0644' in notices and 'chmod 600' in notices
    afar = changed('slots: 1\n', 'slots: 1\n  grpc_endpoint: "127.robot.local:8001"\n', text)
    assert_refused(tmp_path, afar, line=5, key='backend.security.token_file', value='token',
                   says=['to another host', 'root_certificates'])
    twice = changed('token_file: token', 'token_file: token, token_variable: HERE', text)
    assert_refused(tmp_path, twice, line=4, key='backend.security.token_variable', value='HERE',
                   says=['keep one'])
    monkeypatch.delenv('VIG_NOT_SET', raising=False)
    unset = changed('token_file: token', 'token_variable: VIG_NOT_SET', text)
    load(tmp_path, unset)
    assert_refused(tmp_path, unset, line=4, key='backend.security.token_variable',
                   value='VIG_NOT_SET', says=['no such environment'], require_profiles=True)


def test_all_problems_are_reported_together_in_the_order_of_their_lines(tmp_path):
    text = changed('slots: 1', 'slots: 0')
    text = changed('class: protected', 'clas: protected', text)
    text = changed('max_age_ms: 80', 'max_age_ms: 0', text)
    text = changed('model: detector\n', 'model: nobody\n', text)
    text = changed('encoder: image', 'encoder: image, scale: 0', text)
    problems = problems_of(tmp_path, text)
    assert [problem.line for problem in problems] == [3, 5, 6, 11, 25, 26]
    assert [problem.key.rpartition('.')[2] for problem in problems] == [
        'slots', 'class', 'clas', 'max_age_ms', 'model', 'scale']
