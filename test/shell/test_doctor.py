"""Every check of the doctor: what it says when all is well, and the number it names when not."""

from dataclasses import replace
import json

from config_text import changed, COMPLETE, load, SIMPLE
import pytest

from vig_governor import cli
from vig_governor.backend.base import ModelSignature, TensorSpec
from vig_governor.config import load_config
from vig_governor.config.schema_model import Artifact, Manifest, Resources
from vig_governor.doctor import (
    contract_checks, file_checks, graph_checks, profile_checks, server_checks, timing_checks,
)
from vig_governor.doctor.checks import CHECKS, examine
from vig_governor.doctor.context import Context, GraphView, Heard, Publisher, ServerView
from vig_governor.doctor.finding import fail, Level, ok, Result, result_of, skip, warn
from vig_governor.measure.manifest import ServerFacts

MS = 1_000_000
ONE_INSTANCE = {'instance_group': [{'count': 1}]}
LLM = """\
  writer:
    class: best_effort
    queue: {policy: fifo, capacity: 4}
    contract: {deadline_ms: 800, max_age_ms: 1500}
    variants: [{id: main, backend_model: llm, profile: {p50_us: 200000, p99_us: 260000}}]
streams:
"""


def signature(name, shape=(3, 4), warnings=()):
    return ModelSignature(name, (TensorSpec('image', 'FP32', shape),), (), 0, warnings)


@pytest.fixture
def context(tmp_path):
    """Give the simple file on a server that has all it needs."""
    def make(text=SIMPLE, **changes):
        config = load(tmp_path, text)
        server = ServerView(
            'triton 2.51.0 at here', facts=ServerFacts('triton', '2.51.0', {
                name: ONE_INSTANCE for name in config.backend_models}),
            signatures={name: signature(name) for name in config.backend_models},
            shared_memory='', grown=dict.fromkeys(config.backend_models, 0), watched_s=1.0)
        return Context(config=config, server=server, environment={}, free_bytes=2**40,
                       **changes)
    return make


def said(findings, level):
    return [one.text for one in findings if one.level is level]


def only(findings, level, *words):
    """Check that something of this level says all the words, and what to do about it."""
    found = [one for one in findings if one.level is level]
    assert found, findings
    assert all(word in found[0].text for word in words), found[0].text
    assert found[0].remedy or level in (Level.OK, Level.SKIP)
    return found[0]


def on_server(context, **changes):
    return replace(context, server=replace(context.server, **changes))


def test_a_good_file_on_a_good_server_is_ready(context):
    findings = [one for _, one in examine(context())]
    assert not said(findings, Level.FAIL)
    assert said(findings, Level.SKIP), 'ROS was not asked'


def test_the_numbers_of_the_checks_are_in_order_and_none_is_used_twice():
    assert [check.number for check in CHECKS] == [f'D{n:02}' for n in range(1, len(CHECKS) + 1)]


@pytest.mark.parametrize('findings, result, code', [
    ([ok('1'), skip('2')], Result.READY, 0),
    ([ok('1'), warn('2', 'do')], Result.READY_WITH_WARNINGS, 0),
    ([warn('1', 'do'), fail('2', 'do')], Result.NOT_READY, 1)])
def test_the_worst_finding_is_the_result(findings, result, code):
    assert result_of(findings) is result and result.exit_code == code


def test_offline_nothing_of_the_server_is_called_ok(context):
    offline = replace(context(), server=None)
    for check in (server_checks.check_reachable, server_checks.check_models,
                  server_checks.check_signatures, server_checks.check_batching,
                  server_checks.check_slots, server_checks.check_shared_memory,
                  server_checks.check_foreign_callers, profile_checks.check_manifests):
        assert [one.level for one in check(offline)] == [Level.SKIP], check


def test_a_server_that_does_not_answer_fails_once_and_the_rest_is_skipped(context):
    away = on_server(context(), problem='no Triton server answered at 127.0.0.1:1 within 3 s')
    only(server_checks.check_reachable(away), Level.FAIL, 'within 3 s')
    only(server_checks.check_models(away), Level.SKIP, 'does not answer')


@pytest.mark.parametrize('problem, text, remedy', [
    ('no answer (refused (UNAVAILABLE)): start the server', 'no answer (refused (UNAVAILABLE))',
     'start the server'),
    ('no answer (UNAUTHENTICATED): the server refuses the token',
     'no answer (UNAUTHENTICATED)', 'the server refuses the token'),
    ('backend.security.token_file: t holds no token',
     'backend.security.token_file: t holds no token', 'correct the block backend, or start the '
                                                      'server')])
def test_what_to_do_about_a_server_that_does_not_answer_is_said_once(context, problem, text,
                                                                     remedy):
    found, = server_checks.check_reachable(on_server(context(), problem=problem))
    assert (found.text, found.remedy) == (text, remedy)


def test_a_model_that_is_missing_is_named(context):
    away = on_server(context(), not_ready={'detector_large': "no model 'detector_large'"})
    only(server_checks.check_models(away), Level.FAIL, 'detector_large')


def test_variants_of_different_shape_are_told(context):
    other = on_server(context(), signatures={
        'detector_large': signature('detector_large'),
        'detector_small': signature('detector_small', (3, 8))})
    only(server_checks.check_signatures(other), Level.WARN, '2 variants')
    only(server_checks.check_signatures(context()), Level.OK, '2 signatures')


def test_a_broken_promise_of_io_signature_is_told(context):
    text = changed('    variants:', '    io_signature:\n      inputs: [{name: image, datatype: '
                   'FP32, dims: [3, 5]}]\n      outputs: [{name: y, datatype: FP32, dims: [1]}]\n'
                   '    variants:')
    findings = list(server_checks.check_signatures(context(text)))
    only(findings, Level.FAIL, 'image of detector_large is FP32 [3, 4], promised FP32 [3, 5]')
    assert any('y of detector_large is nothing' in text for text in said(findings, Level.FAIL))


def test_settings_of_the_server_that_hurt_are_told(context):
    slow = on_server(context(), signatures={'m': signature('m', warnings=(
        'model m waits up to 100 ms for a batch: set max_queue_delay_microseconds to 0',))})
    found = only(server_checks.check_batching(slow), Level.WARN, '100 ms')
    assert 'config.pbtxt of m' in found.remedy


@pytest.mark.parametrize('slots, counts, level, words', [
    (1, (1, 1), Level.OK, 'slots 1, 2 instances'),
    (2, (1, 1), Level.WARN, 'detector_large: 1 instance for 2 slots'),
    (3, (1, 1), Level.FAIL, '2 instances together'),
    (1, (2, 1), Level.WARN, 'detector_large: 2 instances for slots 1'),
    (2, (2, 2), Level.OK, 'slots 2')])
def test_slots_are_compared_with_the_instance_groups(context, slots, counts, level, words):
    made = context(changed('slots: 1', f'slots: {slots}'))
    made = on_server(made, facts=ServerFacts('triton', '2', {
        name: {'instance_group': [{'count': count}]}
        for name, count in zip(made.config.backend_models, counts)}))
    only(server_checks.check_slots(made), level, words)


@pytest.mark.parametrize('written, level, words', [
    ('1', Level.OK, 'slots 2, 2 instances of 2 models'),
    ('2', Level.WARN, 'detector_large: 2 instances in the file, 1 on the server')])
def test_instances_of_the_file_are_compared_with_the_server(context, written, level, words):
    text = changed('slots: 1', 'slots: 2')
    for name in ('detector_large', 'detector_small'):
        line = f'        backend_model: {name}\n'
        text = changed(line, f'{line}        instances: {written}\n', text)
    found = only(server_checks.check_slots(context(text)), level, words)
    assert level is Level.OK or '"instances: 1" at models.detector.variants[0]' in found.remedy


def test_shared_memory_that_is_refused_is_a_warning_or_worse_where_insisted_on(context):
    refused = on_server(context(), shared_memory='the server refuses shared memory')
    only(server_checks.check_shared_memory(refused), Level.WARN, 'refuses')
    insisting = context(SIMPLE + '    transport: shm\n')
    only(server_checks.check_shared_memory(
        on_server(insisting, shared_memory='the server refuses')), Level.FAIL, '1 streams insist')
    only(server_checks.check_shared_memory(context()), Level.OK, '1 streams')


def test_a_foreign_caller_is_seen_unless_the_governor_runs(context):
    busy = on_server(context(), grown={'detector_large': 30})
    only(server_checks.check_foreign_callers(busy), Level.WARN, 'ended 30 times in 1 s')
    running = replace(busy, graph=GraphView(governors=('/governor',)))
    only(server_checks.check_foreign_callers(running), Level.OK, '30 completions', '/governor')


def test_a_variant_without_a_profile_fails(context):
    text = changed('        profile: {p50_us: 20000, p99_us: 25000}\n', '')
    found = only(profile_checks.check_profiles(context(text)), Level.FAIL, 'detector/large',
                 '0 runtimes')
    assert found.remedy.startswith('vig calibrate')


def test_the_command_that_measures_again_never_names_its_input_as_output(tmp_path):
    text = changed('        profile: {p50_us: 20000, p99_us: 25000}\n', '')
    (tmp_path / 'measured.yaml').write_text(text)
    made = Context(config=load_config(tmp_path / 'measured.yaml'))
    found = only(profile_checks.check_profiles(made), Level.FAIL)
    assert found.remedy.endswith('measured.yaml -o measured-again.yaml')


def test_without_a_profile_there_is_no_manifest_to_compare(context):
    text = changed('        profile: {p50_us: 20000, p99_us: 25000}\n', '')
    made = context(text, manifests={'detector_large': manifest()})
    only(profile_checks.check_manifests(made), Level.SKIP, 'no variant', 'has a profile')


def test_a_p99_of_few_samples_is_told(context):
    text = changed('p99_us: 25000}', 'p99_us: 25000, samples: 45}')
    only(profile_checks.check_profiles(context(text)), Level.WARN, '45 samples')


def manifest(**blocks):
    return Manifest(revision=2, **blocks)


def with_manifest(text_of_blocks):
    return changed('p99_us: 25000}',
                   f'p99_us: 25000, manifest: {{revision: 2, {text_of_blocks}}}}}')


def test_swapped_weights_are_named_by_field_with_the_margin_they_cost(context):
    made = context(with_manifest('artifact: {digest: "sha256:aa"}'), manifests={
        'detector_large': manifest(artifact=Artifact(digest='sha256:bb'))})
    found = only(profile_checks.check_manifests(made), Level.WARN, 'artifact.digest',
                 'sha256:aa', 'sha256:bb', '40 more points')
    assert found.facts['fields']['artifact.digest']['verdict'] == 'contradicted'


def test_other_instance_groups_are_named_by_field(context):
    made = context(with_manifest('resources: {instances: 1}'), manifests={
        'detector_large': manifest(resources=Resources(instances=2))})
    only(profile_checks.check_manifests(made), Level.WARN, 'resources.instances: recorded 1')


def test_a_gap_is_told_as_a_gap(context):
    made = context(with_manifest('artifact: {digest: "sha256:aa"}'),
                   manifests={'detector_large': manifest()},
                   artifact_gaps={'detector_large': 'model_repository is not given'})
    findings = list(profile_checks.check_manifests(made))
    only(findings, Level.WARN, 'artifact.digest is unknown', 'model_repository is not given')
    only(findings, Level.OK, '0 fields verified')


def test_a_profile_that_says_nothing_of_its_origin_is_told(context):
    made = context(manifests={'detector_large': manifest()})
    only(profile_checks.check_manifests(made), Level.WARN, '0 fields recorded')


def test_more_credits_than_the_profile_was_measured_for_are_told(context):
    text = with_manifest('validity: {max_concurrent_models: 1}')
    only(profile_checks.check_operating_point(context(text)), Level.OK, 'at most 1')
    two = text.replace('slots: 1', 'slots: 2')
    only(profile_checks.check_operating_point(context(two)), Level.WARN, '1 models at once')


@pytest.mark.parametrize('period_ms, level, words', [
    (50, Level.OK, '55 %'), (33, Level.WARN, '83 %'), (7, Level.FAIL, '114 %')])
def test_what_the_guarded_streams_need_is_summed(context, period_ms, level, words):
    text = changed('period_ms: 33', f'period_ms: {period_ms}')
    only(timing_checks.check_utilisation(context(text)), level, words)


@pytest.mark.parametrize('max_age, level, words', [
    ('max_age_ms: 80', Level.OK, '1 models'), ('', Level.WARN, 'missing'),
    ('max_age_ms: 7', Level.FAIL, 'every frame ends stale'),
    ('max_age_ms: 10', Level.WARN, 'in the order of the runtime'),
    ('max_age_ms: 25', Level.WARN, 'the best variant plans 27.5 ms')])
def test_max_age_is_compared_with_the_runtimes(context, max_age, level, words):
    made = context(changed('      max_age_ms: 80\n', f'      {max_age}\n' if max_age else ''))
    only(timing_checks.check_max_age(made), level, words)


def test_a_job_that_fits_between_no_two_frames_is_told_with_three_remedies(context):
    made = context(changed('streams:\n', LLM))
    found = only(timing_checks.check_background(made), Level.WARN, '286.0 ms', '51.0 ms')
    assert all(word in found.remedy for word in ('slot', 'cooperative', 'class'))
    two = context(changed('slots: 1', 'slots: 2', changed('streams:\n', LLM)))
    only(timing_checks.check_background(two), Level.OK, '2 slots')


def test_the_supply_rule_counts_transport_where_it_was_heard(context):
    made = context()
    only(timing_checks.check_supply(made), Level.OK, '1 guarded')
    heard = Heard('/front/image', ages_ns=(10 * MS,) * 9)
    late = replace(made, graph=GraphView({'front': heard}))
    only(timing_checks.check_supply(late), Level.WARN, '83.0 ms', '3.0 ms can pass')


def test_fields_that_nobody_enforces_are_listed(context):
    found = said(contract_checks.check_unenforced(context(COMPLETE)), Level.WARN)
    assert {text.partition(':')[0].rpartition('.')[2] for text in found} == {
        'delivery_boundary', 'evidence_required', 'minimum_background_progress_pct',
        'max_input_kib', 'max_occupancy_pct'}
    only(contract_checks.check_unenforced(context()), Level.OK, '0 fields')


def extended(block, text=SIMPLE):
    """Give the simple file with an extension of so many keys."""
    return changed('      max_age_ms: 80\n', '      max_age_ms: 80\n      extension:\n'
                   '        version: 1\n' + ''.join(f'        {line}\n' for line in block), text)


def test_a_budget_that_the_runtimes_rule_out_fails_with_the_arithmetic(context):
    budget = 'miss_budget: {max_misses: 2, window_cycles: 100, max_consecutive: 1}'
    text = extended(['consumer_period_ms: 5', budget])
    # T 33 + C 8 - A 80 is no gap; with 30 ms of max_age there is one of 11 ms in every 33.
    only(contract_checks.check_budgets(context(text)), Level.OK, '1 consumers')
    finding = only(contract_checks.check_budgets(context(changed('max_age_ms: 80',
                                                                 'max_age_ms: 30', text))),
                   Level.FAIL, 'every 33.0 ms', '8.0 ms old', 'worthless after 30.0 ms',
                   'for 11.0 ms each time', '2 cycles in a row and 31 of 100',
                   'allows 1 in a row and 2 of 100')
    assert (finding.facts['in_a_row'], finding.facts['in_window']) == (2, 31)


def test_a_model_that_is_slower_than_its_camera_spaces_its_results(context):
    text = extended(['consumer_period_ms: 33', 'require_new_sample_each_cycle: true'])
    slow = changed('p50_us: 8000, p99_us: 10000', 'p50_us: 40000, p99_us: 41000', changed(
        'p50_us: 20000, p99_us: 25000', 'p50_us: 50000, p99_us: 51000', text))
    only(contract_checks.check_budgets(context(text)), Level.OK, '1 consumers')
    only(contract_checks.check_budgets(context(slow)), Level.WARN, 'every 40.0 ms',
         'needs one every 33.0 ms', '1 cycles in a row')


def test_progress_that_nothing_leaves_room_for_fails_with_the_arithmetic(context):
    background = LLM.replace('max_age_ms: 1500}', 'period_ms: 30}').replace(
        'p50_us: 200000, p99_us: 260000', 'p50_us: 15000, p99_us: 20000')
    text = changed('streams:\n', background, extended(['minimum_background_progress_pct: 80']))
    only(contract_checks.check_progress(context(text)), Level.OK,
         '1 best-effort models: 40 % of the slots beside 24 %')
    busy = changed('p50_us: 8000, p99_us: 10000', 'p50_us: 21000, p99_us: 22000', text)
    only(contract_checks.check_progress(context(busy)), Level.FAIL, 'need 63 %',
         'writer 40 %: 103 % of what there is')


def test_progress_of_a_job_that_never_starts_fails_and_of_nobody_is_a_warning(context):
    text = extended(['minimum_background_progress_pct: 5'])
    only(contract_checks.check_progress(context(text)), Level.WARN, '0 models are of class')
    only(contract_checks.check_progress(context()), Level.OK, '0 contracts')
    only(contract_checks.check_progress(context(changed('streams:\n', LLM, text))), Level.FAIL,
         'models.writer: 5 %', '286.0 ms never start while detector runs', '0 % will')


def test_the_limits_of_a_contract_are_compared_with_models_frames_and_load(context):
    text = extended(['max_input_kib: 1', 'max_occupancy_pct: 80'])
    only(contract_checks.check_limits(context(text)), Level.WARN, 'max_occupancy_pct: 80',
         'plan 83 %')
    text = text.replace('max_occupancy_pct: 80', 'max_occupancy_pct: 85')
    only(contract_checks.check_limits(context(text)), Level.OK, '2 limits')
    big = on_server(context(text), signatures={
        'detector_large': signature('detector_large', (3, 300, 300)),
        'detector_small': signature('detector_small', (3, -1, -1))})
    only(contract_checks.check_limits(big), Level.WARN, 'the input of detector_large is 1055 KiB')
    heard = replace(big, graph=GraphView({'front': Heard('/front/image', largest_bytes=4096)}))
    assert any('a message on /front/image is 4 KiB' in text
               for text in said(contract_checks.check_limits(heard), Level.WARN))


def hearing(context, **changes):
    publisher = Publisher('/camera', 'sensor_msgs/msg/Image')
    arrivals = tuple(index * 33 * MS for index in range(10))
    heard = replace(Heard('/front/image', (publisher,), arrivals, (5 * MS,) * 10), **changes)
    return replace(context(), graph=GraphView({'front': heard}, (), 1.0))


def test_without_ros_its_checks_are_skipped_with_the_reason(context):
    deaf = replace(context(), why_no_graph='ROS cannot be imported here')
    for check in (graph_checks.check_topics, graph_checks.check_rates,
                  graph_checks.check_stamps, graph_checks.check_transport):
        only(check(deaf), Level.SKIP, 'cannot be imported')


def test_a_topic_as_it_should_be(context):
    good = hearing(context)
    only(graph_checks.check_topics(good), Level.OK, '1 of 1')
    only(graph_checks.check_rates(good), Level.OK, '1 streams')
    only(graph_checks.check_stamps(good), Level.OK, '1 streams')


@pytest.mark.parametrize('publishers, level, words', [
    ((), Level.WARN, 'streams.front (/front/image): 0 publishers'),
    ((Publisher('/camera', 'sensor_msgs/msg/PointCloud2'),), Level.FAIL, 'PointCloud2'),
    ((Publisher('/camera', 'sensor_msgs/msg/Image', 'best effort against reliable'),),
     Level.FAIL, 'best effort against reliable')])
def test_a_topic_that_will_not_be_heard_is_told(context, publishers, level, words):
    only(graph_checks.check_topics(hearing(context, publishers=publishers)), level, words)


def test_another_rate_than_the_contract_says_is_told(context):
    slow = hearing(context, arrivals_ns=tuple(index * 100 * MS for index in range(10)))
    assert 'period_ms to 100' in only(graph_checks.check_rates(slow), Level.WARN, '100.0 ms',
                                      '33.0 ms').remedy
    only(graph_checks.check_rates(hearing(context, arrivals_ns=())), Level.WARN, '0 messages')


@pytest.mark.parametrize('changes, level, words', [
    ({'zero_stamps': 10, 'ages_ns': ()}, Level.FAIL, '10 of 10 messages have a zero stamp'),
    ({'ages_ns': (-200 * MS,) * 9}, Level.FAIL, '200.0 ms in the future'),
    ({'ages_ns': (-5 * MS,) * 9}, Level.WARN, '5.0 ms in the future'),
    ({'ages_ns': (10**18,) * 9}, Level.FAIL, 'another clock'),
    ({'ages_ns': (90 * MS,) * 9}, Level.FAIL, '90.0 ms old on arrival'),
    ({'ages_ns': (50 * MS,) * 9}, Level.WARN, 'more than half of max_age')])
def test_stamps_that_cannot_be_used_are_told(context, changes, level, words):
    only(graph_checks.check_stamps(hearing(context, **changes)), level, words)


@pytest.mark.parametrize('environment, largest, level, words', [
    ({}, 6_220_800, Level.WARN, '6220800 bytes'),
    ({}, 150_000, Level.OK, '150000 bytes'),
    ({'FASTDDS_DEFAULT_PROFILES_FILE': 'x.xml'}, 6_220_800, Level.OK, 'a profile of its own'),
    ({'FASTDDS_BUILTIN_TRANSPORTS': 'LARGE_DATA'}, 6_220_800, Level.OK, 'LARGE_DATA'),
    ({'FASTDDS_BUILTIN_TRANSPORTS': 'LARGE_DATA', 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'},
     1, Level.WARN, 'ignored silently'),
    ({'RMW_IMPLEMENTATION': 'rmw_zenoh_cpp'}, 6_220_800, Level.OK, 'rmw_zenoh_cpp'),
    ({'FASTDDS_DEFAULT_PROFILES_FILE': 'gone.xml'}, 6_220_800, Level.WARN, 'gone.xml')])
def test_transports_that_lose_large_images_are_told(context, environment, largest, level, words):
    made = replace(hearing(context, largest_bytes=largest), environment=environment,
                   missing_files=frozenset(
                       name for name, path in environment.items() if path == 'gone.xml'))
    only(graph_checks.check_transport(made), level, words)


def test_a_publisher_that_is_not_heard_at_all_is_no_good_transport(context):
    silent = hearing(context, arrivals_ns=(), ages_ns=())
    only(graph_checks.check_transport(silent), Level.WARN, '0 messages of /front/image')
    only(graph_checks.check_stamps(silent), Level.SKIP, '0 stamps')
    fitting = replace(silent, environment={'FASTDDS_BUILTIN_TRANSPORTS': 'LARGE_DATA'})
    only(graph_checks.check_transport(fitting), Level.OK, '0 messages of 1 streams')


def test_a_full_disk_is_told_in_numbers(context):
    only(file_checks.check_disk(replace(context(), free_bytes=10**7)), Level.WARN, '10 MB free')
    only(file_checks.check_disk(replace(context(), free_bytes=None)), Level.FAIL)
    only(file_checks.check_disk(context()), Level.OK, '30 frames a second', 'MB an hour')


def test_a_recording_needs_no_more_than_it_keeps_and_goes_by_the_rate_that_was_heard(context):
    fast = hearing(context, arrivals_ns=tuple(index * MS // 2 for index in range(10)))
    found = only(file_checks.check_disk(replace(fast, free_bytes=10**9)), Level.OK,
                 '2000 frames a second', 'keeps 1000 MB at most')
    assert found.facts['bytes_per_hour'] == 2000 * 3600 * file_checks.BYTES_PER_FRAME
    only(file_checks.check_disk(replace(fast, free_bytes=10**9 - 1)), Level.WARN, '999 MB free')


def test_a_stream_of_unknown_rate_is_counted_as_unknown(context):
    made = context(changed('      period_ms: 33\n', ''))
    only(file_checks.check_disk(made), Level.OK, 'the rate of 1 streams is not known')


def test_notices_of_the_file_are_warnings(context):
    text = changed('    class: protected', '    class: protected').replace(
        '      period_ms: 33\n', '')
    only(file_checks.check_file(context(text)), Level.WARN, 'vig.yaml:', 'without period_ms')


def run(tmp_path, capsys, text, *arguments):
    path = tmp_path / 'vig.yaml'
    path.write_text(text)
    code = cli.main(['doctor', '-c', str(path), '--record', str(tmp_path), *arguments])
    return code, capsys.readouterr().out


def test_offline_the_command_ends_with_a_result_line(tmp_path, capsys):
    code, out = run(tmp_path, capsys, SIMPLE, '--offline')
    assert code == 0 and out.splitlines()[-1].startswith('READY')
    assert 'not checked: --offline' in out


def test_a_wrong_file_is_not_ready(tmp_path, capsys):
    code, out = run(tmp_path, capsys, changed('slots: 1', 'slots: 0'), '--offline')
    assert code == 1 and 'vig.yaml:3:' in out and 'backend.slots = 0' in out
    assert out.splitlines()[-1].startswith('NOT_READY: 1 FAIL (D01)')


def test_listening_for_less_than_nothing_is_refused(tmp_path, capsys):
    assert cli.main(['doctor', '-c', str(tmp_path), '--offline', '--listen-s', '-1']) == 1
    assert capsys.readouterr().err == '--listen-s -1: between 0 and 60 are possible\n'


def test_json_holds_every_number(tmp_path, capsys):
    code, out = run(tmp_path, capsys, SIMPLE, '--offline', '--json')
    report = json.loads(out)
    assert code == report['exit_code'] == 0
    share = next(one for one in report['findings'] if one['check'] == 'utilisation')
    assert share['facts'] == {'percent': 83} and share['number'] == 'D12'


def test_a_server_that_is_away_is_one_failure_and_no_traceback(tmp_path, capsys):
    text = changed('slots: 1', 'slots: 1\n  grpc_endpoint: "127.0.0.1:9"')
    code, out = run(tmp_path, capsys, text, '--no-ros', '--listen-s', '0')
    assert code == 1 and '1 FAIL' in out.splitlines()[-1]
