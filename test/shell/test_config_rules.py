"""Every rule of vig.yaml: what is refused, in which line, and what is said about the remedy."""

from config_text import (
    assert_problem, assert_refused, changed, COMPLETE, line_of, load, problems_of, SIMPLE,
)

import pytest

SECOND_CAMERA = """\
  rear:
    topic: /rear/image
    type: sensor_msgs/msg/Image
    model: detector
    input: {tensor: image, encoder: image}
"""
EXTENSION = """\
      extension:
        version: 1
        consumer_period_ms: 50
        miss_budget: {max_misses: 2, window_cycles: 100, max_consecutive: 1}
"""
WITH_EXTENSION = changed('      max_age_ms: 80\n', '      max_age_ms: 80\n' + EXTENSION)


def notices(folder, text, **options):
    return load(folder, text, **options).notices


def one_notice(folder, text, *parts, line, **options):
    found = [one for one in notices(folder, text, **options) if all(part in one for part in parts)]
    assert len(found) == 1, notices(folder, text, **options)
    assert found[0].startswith(f'{folder / "vig.yaml"}:{line}: ')


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
    assert_refused(tmp_path, text, line=4, key='backend.no_corun[0]', says=['two different'])


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


def test_a_stream_to_an_unknown_model_is_refused(tmp_path):
    text = changed('model: detector\n', 'model: detectors\n')
    assert_refused(tmp_path, text, line=25, key='streams.front.model', value='detectors',
                   says=['is no model', 'did you mean detector?'])


def test_two_streams_on_one_output_topic_are_refused(tmp_path):
    text = SIMPLE + changed('/rear/image', '/front/image', SECOND_CAMERA)
    assert_refused(tmp_path, text, line=28, key='streams.rear.topic', value='/front/image',
                   says=['stream front', '/front/image/vig/result', 'another name'])


def test_topics_that_meet_in_the_root_namespace_are_noticed(tmp_path):
    text = SIMPLE + changed('/rear/image', 'front/image', SECOND_CAMERA)
    one_notice(tmp_path, text, 'streams.rear.topic', 'root namespace', line=28)


@pytest.mark.parametrize('topic', ['front image', '/front/', '//front', 'a__b', '"/1front"', '""'])
def test_a_topic_that_ros_would_refuse_is_refused(tmp_path, topic):
    assert_refused(tmp_path, changed('/front/image', topic), line=23, key='streams.front.topic',
                   value=topic, says=['is no ROS topic name', 'for example'])


def test_a_type_without_its_middle_part_is_completed(tmp_path):
    text = changed('sensor_msgs/msg/Image', 'sensor_msgs/Image')
    assert_refused(tmp_path, text, line=24, key='streams.front.type', value='sensor_msgs/Image',
                   says=['did you mean sensor_msgs/msg/Image?'])


def test_a_type_without_a_header_needs_the_arrival_as_its_time(tmp_path):
    text = changed('sensor_msgs/msg/Image', 'std_msgs/msg/Float32MultiArray')
    assert_refused(tmp_path, text, line=24, key='streams.front.type',
                   value='std_msgs/msg/Float32MultiArray', says=['time_source: arrival'])
    for remedy in ('time_source', 'bad_stamp'):
        load(tmp_path, text + f'    {remedy}: arrival\n')


@pytest.mark.parametrize('given, key, value, part', [
    ('std: [1, 0, 1]', 'std[1]', '0', 'divides by 0'),
    ('mean: [1, 2, 3], std: [1]', 'std', '', 'has 1 values and mean has 3'),
    ('mean: [1, 2]', 'mean', '', 'RGB needs 1 or 3'),
    ('color: GRAY, std: [1, 1, 1]', 'std', '', 'GRAY needs 1'),
    ('scale: 0', 'scale', '0', 'use 1'),
    ('letterbox: true', 'letterbox', 'true', 'needs size'),
    ('size: [300]', 'size', '', 'at least 2'),
    ('size: [0, 300]', 'size[0]', '0', 'at least 1'),
    ('color: rgb', 'color', 'rgb', 'RGB, BGR, GRAY'),
    ('dtype: float32', 'dtype', 'float32', 'FP32'),
])
def test_an_input_that_no_tensor_can_have_is_refused(tmp_path, given, key, value, part):
    text = changed('encoder: image', f'encoder: image, {given}')
    assert_refused(tmp_path, text, line=26, key=f'streams.front.input.{key}', value=value,
                   says=[part])


@pytest.mark.parametrize('endpoint, part', [
    ('http://127.0.0.1:8001', 'write 127.0.0.1:8001'), ('127.0.0.1', 'host:port'),
    ('127.0.0.1:99999', 'host:port')])
def test_an_endpoint_that_is_no_host_and_port_is_refused(tmp_path, endpoint, part):
    text = changed('slots: 1', f'slots: 1\n  grpc_endpoint: {endpoint}')
    assert_refused(tmp_path, text, line=4, key='backend.grpc_endpoint', value=endpoint,
                   says=[part])


def test_a_key_without_its_certificate_is_refused(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  security: {private_key: key.pem}')
    assert_refused(tmp_path, text, line=4, key='backend.security.private_key', value='key.pem',
                   says=['certificate_chain'])


def test_a_certificate_that_is_not_there_is_refused_where_a_node_would_use_it(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  security: {root_certificates: ca.pem}')
    assert load(tmp_path, text).backend.security.root_certificates == str(tmp_path / 'ca.pem')
    assert_refused(tmp_path, text, line=4, key='backend.security.root_certificates',
                   value='ca.pem', says=['no such file'], require_profiles=True)


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
    ('    class: protected\n', '    decoupled: true\n', 'models.detector.decoupled', 'true'),
    ('    class: protected\n', '    backend_endpoint: "127.0.0.1:9701"\n',
     'models.detector.backend_endpoint', '"127.0.0.1:9701"'),
    ('    class: protected\n', '    cooperative: {tokens_per_second: 9, base_cost_us: 1, '
     'max_total_tokens: 9}\n', 'models.detector.cooperative', ''),
    ('  slots: 1\n', '  protect_supply: true\n', 'backend.protect_supply', 'true'),
])
def test_what_the_node_cannot_do_yet_is_refused_for_the_node_only(tmp_path, old, given, key,
                                                                  value):
    text, line = changed(old, old + given), line_of(SIMPLE, old.strip()) + 1
    one_notice(tmp_path, text, key, 'not supported by the node yet', line=line)
    assert_refused(tmp_path, text, line=line, key=key, value=value,
                   says=['not supported by the node yet'], require_profiles=True)


def test_a_quantum_larger_than_the_answer_is_refused(tmp_path):
    text = changed('max_total_tokens: 48', 'max_total_tokens: 4', COMPLETE)
    assert_refused(tmp_path, text, line=line_of(text, 'min_tokens'),
                   key='models.summariser.cooperative.min_tokens', value='8',
                   says=['max_total_tokens'])


def test_a_variant_without_a_profile_is_for_tools_and_names_the_command_for_a_node(tmp_path):
    text = changed('        profile: {p50_us: 20000, p99_us: 25000}\n', '')
    config = load(tmp_path, text)
    assert config.unprofiled == (('detector', 'large'),)
    assert_refused(tmp_path, text, line=13, key='models.detector.variants[0].profile',
                   says=['variant large', f'vig profile -c {tmp_path / "vig.yaml"}'],
                   require_profiles=True)


def test_a_file_that_a_node_plans_with_has_no_notice(tmp_path):
    assert notices(tmp_path, SIMPLE, require_profiles=True) == ()


@pytest.mark.parametrize('text, key, part, line', [
    (changed('max_age_ms: 80', 'max_age_ms: 30'), 'contract.max_age_ms', 'shorter than', 11),
    (changed('      period_ms: 33\n', ''), 'models.detector.contract', 'without period_ms', 8),
    (changed('max_age_ms: 80', 'max_age_ms: 7').replace('deadline_ms: 40', 'deadline_ms: 7'),
     'contract.max_age_ms', 'will end stale', 11),
    (changed('value: 1.0, source: user_declared', 'value: 1.0'), 'models.detector.variants',
     'not selected automatically', 12),
    (changed('slots: 1', 'slots: 1\n  grpc_endpoint: "127.0.0.1:8000"'),
     'backend.grpc_endpoint', 'gRPC is 8001', 4),
    (WITH_EXTENSION.replace('consumer_period_ms: 50', 'consumer_period_ms: 50\n'
                            '        delivery_boundary: consumer'),
     'extension.delivery_boundary', 'stored but not enforced', 15),
    (SIMPLE + SECOND_CAMERA, 'models.detector.queue.policy', 'latest_per_key', 7),
])
def test_what_stops_nothing_but_surprises_is_noticed(tmp_path, text, key, part, line):
    one_notice(tmp_path, text, key, part, line=line)


def test_a_model_that_no_stream_feeds_is_noticed(tmp_path):
    start, end = SIMPLE.index('  detector:'), SIMPLE.index('streams:')
    text = SIMPLE[:end] + SIMPLE[start:end].replace('  detector:', '  spare:') + SIMPLE[end:]
    one_notice(tmp_path, text, 'models.spare', 'no stream feeds', line=21)


def test_more_keys_than_the_queue_keeps_are_refused(tmp_path):
    text = changed('policy: latest', 'policy: latest_per_key') + SECOND_CAMERA
    assert_refused(tmp_path, text, line=7, key='models.detector.queue.capacity', value='1',
                   says=['at least 2'])
    load(tmp_path, changed('capacity: 1', 'capacity: 2', text))


def test_two_streams_with_one_key_are_noticed(tmp_path):
    text = (changed('policy: latest', 'policy: latest_per_key') + '    key: same\n'
            + SECOND_CAMERA + '    key: same\n')
    one_notice(tmp_path, text, 'streams.rear.key', 'stream front has the same key', line=33)


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


def test_a_name_that_could_not_be_a_label_is_refused(tmp_path):
    text = changed('  front:', '  "front camera":')
    assert_refused(tmp_path, text, line=22, key='streams.front camera',
                   says=['letters, digits'])
