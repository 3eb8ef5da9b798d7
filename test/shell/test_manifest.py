"""A profile is judged field by field: equal, different, or not known."""

import pytest

from vig_governor.config.schema_model import Artifact, Device, Manifest, Resources
from vig_governor.manifest import compare, contradictions, Verdict
from vig_governor.measure.artifact import read_artifact
from vig_governor.measure.hardware import DeviceFacts
from vig_governor.measure.manifest import make_manifest, ServerFacts

CONFIG = {'backend': 'python', 'instance_group': [{'kind': 'KIND_CPU', 'count': 1}]}


@pytest.fixture
def repository(tmp_path):
    write(tmp_path, 'net/1/model.plan', b'weights')
    write(tmp_path, 'net/config.pbtxt', b'name: "net"')
    return tmp_path


def write(root, path, content):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)


def manifest(repository, *, config=CONFIG, version='2.51.0', device=DeviceFacts('GPU', '8.6')):
    return make_manifest('net', ServerFacts('triton', version, {'net': config}), device,
                         read_artifact(repository, 'net'))


def contradicted(recorded, found):
    return [one.field for one in contradictions(compare(recorded, found))]


def test_the_same_machine_verifies_what_it_knows(repository):
    verdicts = {one.field: one.verdict for one in
                compare(manifest(repository), manifest(repository))}
    assert verdicts['artifact.digest'] is verdicts['device.name'] is Verdict.VERIFIED
    assert verdicts['device.driver'] is Verdict.UNKNOWN, 'nobody recorded or found a driver'
    assert Verdict.CONTRADICTED not in verdicts.values()


def test_weights_exchanged_under_the_same_version_are_seen(repository):
    before = manifest(repository)
    write(repository, 'net/1/model.plan', b'wEights')
    assert contradicted(before, manifest(repository)) == ['artifact.digest']


@pytest.mark.parametrize('path', ['net/config.pbtxt', 'net/1/README.md', 'net/labels.txt',
                                  'net/1/__pycache__/model.pyc', 'net/1/.hidden'])
def test_what_is_not_the_model_changes_nothing(repository, path):
    before = manifest(repository)
    write(repository, path, b'other')
    assert contradicted(before, manifest(repository)) == []


def test_a_moved_byte_between_two_files_is_seen(repository):
    write(repository, 'net/1/a', b'xy')
    write(repository, 'net/1/b', b'z')
    before = read_artifact(repository, 'net')
    write(repository, 'net/1/a', b'x')
    write(repository, 'net/1/b', b'yz')
    assert read_artifact(repository, 'net').digest != before.digest


def test_a_new_version_and_other_instances_are_named(repository):
    before = manifest(repository)
    write(repository, 'net/2/model.plan', b'more')
    found = manifest(repository, config={**CONFIG, 'instance_group': [{'count': 2}]})
    assert contradicted(before, found) == [
        'artifact.digest', 'artifact.bytes', 'artifact.versions', 'resources.instances']


def test_another_server_and_device_are_named(repository):
    found = manifest(repository, version='2.52.0', device=DeviceFacts('GPU 2', '8.6'))
    assert contradicted(manifest(repository), found) == ['runtime.server_version', 'device.name']


def test_a_gap_on_either_side_contradicts_nothing(repository):
    empty = Manifest(revision=2)
    assert contradicted(empty, manifest(repository)) == []
    assert contradicted(manifest(repository), empty) == []
    assert contradicted(None, manifest(repository)) == []
    verdicts = {one.verdict for one in compare(None, manifest(repository))}
    assert verdicts == {Verdict.UNKNOWN}


def test_the_same_memory_after_a_driver_update_is_the_same():
    def of(mib):
        return Manifest(revision=2, device=Device(memory_mib=mib))
    assert contradicted(of(12288), of(12200)) == []
    assert contradicted(of(12288), of(8192)) == ['device.memory_mib']


def test_a_verdict_tells_both_values():
    found = compare(Manifest(revision=2, resources=Resources(instances=1)),
                    Manifest(revision=2, resources=Resources(instances=2)))
    assert 'resources.instances: recorded 1, found 2' in [str(one) for one in found]


@pytest.mark.parametrize('make, words', [
    (lambda root: None, 'backend.model_repository is not given'),
    (lambda root: root / 'nowhere', 'cannot be read'),
    (lambda root: root, 'has no version folder')])
def test_an_artifact_that_cannot_be_read_is_unknown_and_says_why(tmp_path, make, words):
    (tmp_path / 'net').mkdir()
    facts = read_artifact(make(tmp_path), 'net')
    assert facts.digest is None and words in facts.why_unknown


def test_a_loaded_manifest_compares_with_a_found_one(repository):
    recorded = Manifest(revision=2, artifact=Artifact(
        digest=read_artifact(repository, 'net').digest, bytes=7, versions=['1']))
    verdicts = {one.field: one.verdict for one in compare(recorded, manifest(repository))}
    assert verdicts['artifact.digest'] is verdicts['artifact.versions'] is Verdict.VERIFIED
