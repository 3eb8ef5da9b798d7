"""What a server says of how many requests of a model run at once, against what the file says."""

from config_text import changed, load
import pytest

from vig_governor.instances import (
    Capacity, capacity_of, disagreements, instances_of, missing,
)

AT_LARGE = '        backend_model: detector_large\n'


def said_of(tmp_path, *, slots, written, real, runs_more=''):
    """Compare the large detector; says what is found, or None."""
    text = changed('slots: 1', f'slots: {slots}')
    if written is not None:
        text = changed(AT_LARGE, f'{AT_LARGE}        instances: {written}\n', text)
    models = load(tmp_path, text).system.models
    found = list(disagreements(models, slots, {'detector_large': Capacity(real, runs_more)}))
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize('groups, count', [
    ([], None), ([{'count': 2}], 2), ([{'count': 2, 'gpus': [0, 1]}, {'kind': 'KIND_CPU'}], 5)])
def test_instances_are_counted_over_groups_and_devices(groups, count):
    assert instances_of({'instance_group': groups}) == count


@pytest.mark.parametrize('config, why', [
    ({}, ''),
    ({'model_transaction_policy': {'decoupled': True}}, 'decoupled'),
    ({'instance_group': [{'kind': 'KIND_MODEL', 'count': 1}]}, 'KIND_MODEL'),
    ({'dynamic_batching': {}, 'max_batch_size': 8}, 'batch'),
    ({'dynamic_batching': {}, 'max_batch_size': 1}, ''),
    ({'max_batch_size': 8}, '')])
def test_where_one_instance_may_run_several_requests_the_reason_is_known(config, why):
    capacity = capacity_of({'instance_group': [{'count': 1}], **config})
    assert capacity.instances == 1
    assert bool(capacity.runs_more) is bool(why) and why in capacity.runs_more


def test_a_configuration_without_groups_says_nothing():
    assert capacity_of({'platform': 'ensemble'}) is None


@pytest.mark.parametrize('slots, written, real, words', [
    (2, None, 1, '1 instance for 2 slots'),
    (3, None, 2, '2 instances for 3 slots'),
    (2, 2, 1, '2 instances in the file, 1 on the server: what is sent beyond'),
    (3, 1, 2, '1 instance in the file, 2 on the server: the others are never used'),
    (2, None, 2, None), (1, None, 1, None), (2, 1, 1, None), (2, 5, 2, None), (2, 2, 9, None)])
def test_a_file_and_a_server_that_disagree_are_told_with_the_line_to_write(
        tmp_path, slots, written, real, words):
    found = said_of(tmp_path, slots=slots, written=written, real=real)
    if words is None:
        assert found is None
    else:
        assert found.said.startswith(words) and found.variant == 'detector_large'
        assert f'write "instances: {real}" at models.detector.variants[0]' in found.remedy


def test_where_an_instance_may_run_several_both_answers_are_offered_and_either_is_accepted(
        tmp_path):
    options = {'slots': 2, 'real': 1, 'runs_more': 'it is decoupled'}
    found = said_of(tmp_path, written=None, **options)
    assert 'it is decoupled: only you know' in str(found)
    assert '"instances: 1"' in found.remedy and '"instances: 2" if not' in found.remedy
    assert said_of(tmp_path, written=1, **options) is None
    assert said_of(tmp_path, written=2, **options) is None


def test_what_is_proposed_for_a_new_file_is_certain_and_not_written_yet(tmp_path):
    text = changed(AT_LARGE, f'{AT_LARGE}        instances: 1\n')
    models = load(tmp_path, text).system.models
    one = Capacity(1)
    assert missing(models, 2, {'detector_large': one, 'detector_small': one}) == {
        'detector_small': 1}
    assert missing(models, 2, {'detector_small': Capacity(1, 'it is decoupled')}) == {}
    assert missing(models, 1, {'detector_small': one}) == {}
