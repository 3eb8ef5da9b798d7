"""What a valid file becomes: values of the core, bindings, options; the examples among them."""

import hashlib
from pathlib import Path

from config_text import changed, COMPLETE, load, SIMPLE

import pytest

from vig_core.contract import Criticality, DeliveryBoundary, MissBudget, QueuePolicy
from vig_core.model import QualitySource, RuntimeProfile
from vig_governor.config import BackendOptions, load_config, SecurityOptions
from vig_governor.config.schema import json_schema
from vig_governor.encoders.base import InputOptions

EXAMPLES = Path(__file__).resolve().parents[2] / 'config'
MS = 1_000_000


def test_every_key_of_the_published_format_is_read(tmp_path):
    config = load(tmp_path, COMPLETE)
    detector = config.system.models['detector']
    assert detector.criticality is Criticality.PROTECTED
    assert detector.policy is QueuePolicy.LATEST
    contract = detector.contract
    assert (contract.period_ns, contract.deadline_ns, contract.max_age_ns) == (
        33 * MS, 33 * MS, 66 * MS)
    assert (contract.min_quality, contract.variant_dwell_ns) == (0.9, 200 * MS)
    assert (contract.consumer_period_ns, contract.release_jitter_ns) == (33 * MS, 2 * MS)
    assert contract.miss_budget == MissBudget(2, 100, 1)
    assert contract.approved_variants == ('large',)
    assert contract.delivery_boundary is DeliveryBoundary.CONSUMER
    assert (contract.minimum_background_progress_percent, contract.contract_version) == (5, 4)
    variant = detector.variants[0]
    assert variant.profile == RuntimeProfile(14_916_000, 17_470_000, 17_081_000)
    assert variant.quality_source is QualitySource.MEASURED
    assert variant.backend_model == 'detector_large'
    system = config.system
    assert system.no_corun == {frozenset({'detector', 'summariser'})}
    assert system.interference_ns == {('detector_large', 'llm'): 900_000}
    assert (system.slots, system.pipelining_depth, system.margin_percent) == (1, 0, 110)
    assert system.inference_timeout_ns == 5000 * MS
    assert system.max_inflight_bytes == 512 * 1024 * 1024
    assert config.unprofiled == (('summariser', 'main'),)
    assert config.backend_models == ('detector_large', 'llm')
    assert config.file.models['summariser'].cooperative.base_cost_us == 6277
    cost = config.system.models['summariser'].cooperative
    assert cost.cost_ns(1000, 258) == 6_277_000 + 1_000_000 + 258 * 3_875_969
    assert (cost.min_tokens, cost.max_total_tokens, cost.max_overhead_permille) == (8, 48, 300)
    assert config.file.models['detector'].variants[0].profile.manifest.device.driver == (
        '560.35.03')


def test_the_bindings_and_options_of_the_complete_file(tmp_path):
    config = load(tmp_path, COMPLETE)
    binding = config.streams[0]
    assert (binding.name, binding.topic, binding.message_type, binding.model, binding.key) == (
        'front', '/camera/front/image_raw', 'sensor_msgs/msg/Image', 'detector', 'front')
    assert binding.max_clock_skew_ns == 100 * MS
    assert binding.input == InputOptions(
        tensor='image', encoder='image', size=(300, 300), layout='NCHW', scale=0.003921569,
        mean=(0, 0, 0), std=(1, 1, 1), letterbox=True)
    assert config.backend == BackendOptions(
        endpoint='127.0.0.1:8001', inference_timeout_ns=5000 * MS,
        drain_deadline_ns=20_000 * MS, model_repository='/models', is_strict=True,
        security=SecurityOptions(), shm_key_prefix='/vig_', max_shm_regions=256)


def test_inferences_go_over_grpc_unless_an_http_service_is_named(tmp_path):
    assert load(tmp_path, COMPLETE).backend.http_endpoint == ''
    text = COMPLETE.replace('  grpc_endpoint:', '  http_endpoint: "localhost:8000"\n'
                                                '  grpc_endpoint:')
    assert load(tmp_path, text).backend.http_endpoint == 'localhost:8000'


def test_the_defaults_of_a_short_file_are_those_of_the_core(tmp_path):
    config = load(tmp_path, SIMPLE)
    assert config.backend == BackendOptions()
    assert config.system.inference_timeout_ns == 5000 * MS
    assert config.streams[0].key == 'front'
    assert config.streams[0].input == InputOptions(tensor='image', encoder='image')
    gray = load(tmp_path, changed('encoder: image', 'encoder: image, color: GRAY'))
    assert gray.streams[0].input.mean == (0.0,)


def test_the_digest_is_that_of_the_bytes(tmp_path):
    config = load(tmp_path, SIMPLE)
    assert config.digest == hashlib.sha256(SIMPLE.encode()).hexdigest()
    assert config.source == str(tmp_path / 'vig.yaml')


def test_a_file_without_streams_is_valid(tmp_path):
    text = SIMPLE[:SIMPLE.index('streams:')]
    assert load(tmp_path, text).streams == ()
    assert load(tmp_path, text + 'streams:\n').streams == ()


def test_fractions_of_a_millisecond_are_kept(tmp_path):
    config = load(tmp_path, changed('period_ms: 33', 'period_ms: 33.333333'))
    assert config.system.models['detector'].contract.period_ns == 33_333_333


def test_interference_may_name_models_of_the_server(tmp_path):
    text = changed('slots: 1', 'slots: 1\n  interference: '
                   '[{victim: detector_large, co_tenant: detector_small, added_us: 7}]')
    assert load(tmp_path, text).system.interference_ns == {
        ('detector_large', 'detector_small'): 7000}


def test_variants_share_the_promised_interface(tmp_path):
    config = load(tmp_path, COMPLETE)
    assert 'boxes' in config.system.models['detector'].variants[0].signature
    assert config.system.models['summariser'].variants[0].signature == ''


@pytest.mark.parametrize('name', ['one_camera.yaml', 'four_cameras.yaml',
                                  'camera_and_llm.yaml'])
def test_an_example_is_what_the_node_accepts_without_a_notice(name):
    assert load_config(EXAMPLES / name, require_profiles=True).notices == ()


@pytest.mark.parametrize('path', sorted(EXAMPLES.glob('*.yaml')), ids=lambda path: path.name)
def test_every_profile_of_an_example_is_marked_as_a_placeholder(path):
    if 'models:' not in path.read_text():
        pytest.skip('not a vig.yaml')
    lines = path.read_text().splitlines()
    for before, line in zip(lines, lines[1:]):
        if 'profile: {' in line:
            assert 'PLACEHOLDER' in before + line


def resolved(schema, node):
    while '$ref' in node:
        node = schema['$defs'][node['$ref'].rpartition('/')[2]]
    return node


def blocks_of(schema, node, seen):
    """Yield every object of the schema once."""
    node = resolved(schema, node)
    if id(node) in seen:
        return
    seen.add(id(node))
    if node.get('type') == 'object' and 'properties' in node:
        yield node
    children = [*node.get('properties', {}).values(), *node.get('anyOf', [])]
    children += [node[key] for key in ('items', 'additionalProperties')
                 if isinstance(node.get(key), dict)]
    children += list(node.get('patternProperties', {}).values())
    for child in children:
        yield from blocks_of(schema, child, seen)


def test_the_schema_closes_every_block_and_describes_every_key():
    schema = json_schema()
    blocks = list(blocks_of(schema, schema, set()))
    assert len(blocks) > 15
    for block in blocks:
        assert block['additionalProperties'] is False
        for key, value in block['properties'].items():
            assert value.get('description') or resolved(schema, value).get('description'), key


def test_the_schema_accepts_the_examples_and_refuses_an_unknown_key():
    jsonschema = pytest.importorskip(
        'jsonschema', reason='jsonschema is not installed: pip install jsonschema')
    yaml = pytest.importorskip('yaml')
    validator = jsonschema.Draft202012Validator(json_schema())
    for text in (SIMPLE, COMPLETE, *(path.read_text() for path in EXAMPLES.glob('*.yaml'))):
        validator.validate(yaml.safe_load(text))
    assert not validator.is_valid(yaml.safe_load(changed('slots: 1', 'slotz: 1')))
