"""After activation the profiles are compared with what runs; a contradiction widens the plan."""

from config_text import changed, load
import pytest

from vig_core.events import ProfileDoubted

from vig_governor.authority import AuthorityCheck
from vig_governor.backend.base import BackendUnavailable

from waiting import wait_until

_made = []


class FakeFacts:
    """Answers like a server with one instance of each model, or not at all."""

    def __init__(self, version='2.51.0'):
        self.version = version
        self.looks = 0

    def facts(self):
        self.looks += 1
        if not self.version:
            raise BackendUnavailable('no metadata')
        return 'triton', self.version

    def model_config(self, name):
        return {'backend': 'python', 'instance_group': [{'count': 1}]}


@pytest.fixture
def config(tmp_path):
    return load(tmp_path, changed(
        'p99_us: 25000}', 'p99_us: 25000, manifest: {revision: 2, runtime: {server: triton, '
        'server_version: "2.51.0"}, resources: {instances: 1}}}'))


def looked(config, facts, caplog):
    posted = []
    caplog.set_level('INFO')
    check = AuthorityCheck(config, facts, posted.append)
    check.start()
    wait_until(lambda: any('the profile of' in record.message for record in caplog.records), 10)
    _made.append(check)
    return posted, check


@pytest.fixture(autouse=True)
def closing():
    """End what a test has made."""
    yield
    while _made:
        _made.pop().close()


def test_the_same_environment_widens_nothing(config, caplog):
    posted, check = looked(config, FakeFacts(), caplog)
    assert posted == [] and check.doubts == {}
    assert '3 fields verified' in caplog.text


def test_another_server_is_an_event_that_names_the_field(config, caplog):
    posted, check = looked(config, FakeFacts('2.52.0'), caplog)
    assert posted == [ProfileDoubted(
        'detector_large', 'runtime.server_version: recorded 2.51.0, found 2.52.0')]
    assert check.doubts == {'detector_large': posted[0].detail}
    assert '40 more points' in caplog.text


def test_a_server_that_does_not_answer_widens_nothing(config, caplog):
    posted, _ = looked(config, FakeFacts(''), caplog)
    assert posted == [] and 'cannot be compared with the server' in caplog.text


def test_a_file_without_manifests_has_nothing_to_look_at(tmp_path):
    check = AuthorityCheck(load(tmp_path, changed('p99', 'p99')), FakeFacts(), [].append)
    check.start()
    check.close()
    assert check.doubts == {}


def test_a_model_that_begins_anew_is_judged_again_and_doubted_once(config, caplog):
    facts = FakeFacts()
    posted, check = looked(config, facts, caplog)
    assert posted == []
    facts.version = '2.52.0'
    check.look_again('detector_large')
    wait_until(lambda: len(posted) == 1, 10)
    assert 'found 2.52.0' in posted[0].detail
    facts.version = '2.53.0'
    check.look_again('detector_large')
    wait_until(lambda: len(posted) == 2, 10)
    facts.version = '2.51.0'
    check.look_again('detector_large')
    wait_until(lambda: check.doubts == {}, 10)
    facts.version = '2.52.0'
    check.look_again('detector_large')
    wait_until(lambda: len(posted) == 3, 10)
    looks = facts.looks
    check.look_again('unknown')
    check.look_again('detector_large')
    wait_until(lambda: facts.looks > looks, 10)
    facts.version = '2.54.0'
    check.look_again('detector_large')
    wait_until(lambda: check.doubts == {'detector_large': posted[-1].detail}
               and 'found 2.54.0' in posted[-1].detail, 10)
    assert len(posted) == 4, 'the same contradiction widens the plan once'
