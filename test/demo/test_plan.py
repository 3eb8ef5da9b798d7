"""The plan follows the files at hand, and its vig.yaml is one that the governor accepts."""

import pytest

from vig_core.contract import Criticality

from vig_governor.config import load_config
from vig_governor.demo import plan as plan_module
from vig_governor.demo.assets import AssetError, AssetStore, CARRIERS
from vig_governor.demo.contract import render
from vig_governor.demo.plan import at_rate, choose, choose_text, rate_beside
from vig_governor.demo.repository import available, write_repository
from vig_governor.demo.writer_costs import WriterCosts
from vig_governor.measure.runtime import RuntimeSamples


def store_with(folder, carriers):
    for carrier in carriers:
        for asset in carrier.assets:
            path = folder / asset.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b'content')
    return AssetStore(folder)


@pytest.fixture
def full(tmp_path):
    return store_with(tmp_path / 'full', CARRIERS)


@pytest.fixture
def small(tmp_path):
    return store_with(tmp_path / 'small', [each for each in CARRIERS if each.is_default])


def test_everything_gives_three_pose_variants_and_the_object_detector(full):
    plan = choose(full)
    assert plan.notes == ()
    assert {stream.name: [variant.backend_model for variant in stream.variants]
            for stream in plan.streams} == {
        'face': ['face_full', 'face_short'], 'pose': ['pose_heavy', 'pose_full', 'pose_lite'],
        'street': ['objdet'], 'study': ['pose_study'], 'archive': ['pose_heavy']}


def test_pypi_alone_gives_a_smaller_plan_that_says_what_is_missing(small):
    plan = choose(small)
    assert plan.backend_models == ('face_full', 'face_short', 'pose_full', 'segmentation',
                                   'pose_study', 'pose_archive')
    assert len(plan.notes) == 2
    assert all('npm' in note for note in plan.notes)


def test_without_the_videos_the_missing_one_is_named(tmp_path):
    with pytest.raises(AssetError, match='carphone_pristine.mp4 is missing'):
        choose(AssetStore(tmp_path))


def test_every_backend_model_of_a_plan_can_be_served(full, small):
    for store in (full, small):
        assert set(choose(store).backend_models) <= set(available(store))


def test_a_model_is_served_only_if_all_its_files_exist(full):
    full.path('weights/pose_detection.tflite').unlink()
    assert not [name for name in available(full) if name.startswith('pose')]
    assert 'face_full' in available(full)


def test_the_repository_holds_the_wanted_models_and_nothing_from_before(full, tmp_path):
    folder = tmp_path / 'repository'
    write_repository(folder, full, ['objdet', 'pose_lite'])
    environment = write_repository(folder, full, ['face_full'])
    assert [path.name for path in folder.iterdir()] == ['face_full']
    assert 'name: "face_full"' in (folder / 'face_full' / 'config.pbtxt').read_text()
    assert (folder / 'face_full' / '1' / 'model.py').is_file()
    assert set(environment) == {'VIG_DEMO_CODE'}


def test_the_governor_accepts_the_contract_of_either_plan(full, small, tmp_path):
    for store in (full, small):
        plan = choose(store)
        path = tmp_path / 'vig.yaml'
        path.write_text(render(plan, {
            name: RuntimeSamples(name, ((1_000_000, 2_000_000, 3_000_000),))
            for name in plan.backend_models}, '127.0.0.1:18150'))
        config = load_config(path)
        assert config.system.slots == 1
        face = config.system.models['face']
        assert face.criticality is Criticality.PROTECTED
        assert face.variants[0].profile.p99_ns == 3_000_000
        assert [binding.topic for binding in config.streams] == [
            stream.governed_topic for stream in plan.streams]
        lent, = (binding for binding in config.streams if binding.input.encoder == 'reference')
        assert lent.message_type == 'vig/msg/TensorReference'
        assert lent.output == f'/demo/{lent.name}/image_raw/vig'


def test_without_the_language_model_there_is_no_second_scene_and_a_command_that_helps(small):
    with pytest.raises(AssetError, match='the language model is not there; run: make setup'):
        choose_text(small)


def test_the_governor_accepts_the_contract_of_the_language_model(small, tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, 'is_converted', lambda store: True)
    plan = choose_text(small)
    assert plan.backend_models == ('face_full', 'smollm2_q8')
    path = tmp_path / 'vig.yaml'
    path.write_text(render(
        plan, {'face_full': RuntimeSamples('face_full', ((1_000_000, 2_000_000),))},
        '127.0.0.1:18150', WriterCosts(70_000, 80_000, 2400, 55.5, 12.5, 2600.0)))
    config = load_config(path, require_profiles=True)
    writer = config.system.models['assistant']
    assert writer.criticality is Criticality.BEST_EFFORT
    assert writer.cooperative.base_cost_ns == 2_400_000
    assert writer.cooperative.max_total_tokens == plan.writer.max_tokens
    options = config.generative['assistant']
    assert (options.tokens_tensor, options.end_tensor) == ('TOKENS', 'END')
    assert options.template == plan.writer.template
    assert [(binding.topic, binding.is_generative) for binding in config.streams] == [
        ('/demo/face/image_raw', False), ('/demo/assistant/question', True)]


@pytest.mark.parametrize('token_ms, read_ms, rate_hz', [
    # 4 tokens and at most 26 tokens to read, each planned with 110 %, behind a frame of 10 ms.
    (1.0, 0.1, 30), (5.0, 1.0, 15), (8.0, 1.5, 10), (12.0, 2.5, 5), (40.0, 4.0, 5)])
def test_the_camera_is_as_fast_as_the_text_allows(small, monkeypatch, token_ms, read_ms, rate_hz):
    monkeypatch.setattr(plan_module, 'is_converted', lambda store: True)
    plan = choose_text(small)
    costs = WriterCosts(50_000, 50_000, 0, 1000 / token_ms, 0.0, 1000 * read_ms)
    assert rate_beside(plan, 10.0, costs) == rate_hz
    camera, = at_rate(plan, rate_hz).streams
    assert camera.rate_hz == rate_hz
    # Each result covers the cycle behind it and not the one after that.
    assert camera.period_ms < camera.max_age_ms < 2 * camera.period_ms
    assert camera.deadline_ms < camera.period_ms
    # A frame counts as lost after twice the envelope; that has to be well before the next one.
    assert 3 <= camera.envelope_ms and 4 * camera.envelope_ms < camera.period_ms
