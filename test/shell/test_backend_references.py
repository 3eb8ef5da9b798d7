"""Regions of producers: what is lent and what is not, against a server of a few lines: staged."""

from collections import namedtuple
import os

from hypothesis import given, settings, strategies as st
import pytest

from vig_governor.backend import references as module
from vig_governor.backend.base import NoFreeSlot, ReferenceRefused
from vig_governor.backend.budget import RegionBudget
from vig_governor.backend.references import References
from vig_governor.backend.segments import Refused, Unreachable
from waiting import wait_until

PREFIX = '/vig_lent_test_'
KEY = f'{PREFIX}front'


class StagedServer:
    """Opens regions as a server does, by the key it is given; fails the next calls as told."""

    def __init__(self):
        self.regions = {}
        self.opened = []
        self.failures = []

    def register(self, name, key, byte_size):
        if self.failures:
            raise self.failures.pop(0)
        facts = os.stat(f'/dev/shm{key}')
        assert facts.st_size >= byte_size
        self.regions[name] = facts.st_ino
        self.opened.append(facts.st_ino)

    def unregister(self, name):
        del self.regions[name]


@pytest.fixture
def server():
    return StagedServer()


@pytest.fixture
def budget():
    return RegionBudget(3)


@pytest.fixture
def references(server, budget, monkeypatch):
    monkeypatch.setattr(module, 'HOUSEKEEPING_S', 0.02)
    open_before = len(os.listdir('/proc/self/fd'))
    made = References(server.register, server.unregister, endpoint='staged:1', budget=budget,
                      key_prefix=PREFIX)
    yield made
    made.close(timeout_s=2.0)
    left = [name for name in os.listdir('/dev/shm') if name.startswith(PREFIX[1:])]
    for name in left:
        os.unlink(f'/dev/shm/{name}')
    assert not [name for name in left if name.startswith(f'{PREFIX[1:]}{os.getpid()}_')]
    assert len(os.listdir('/proc/self/fd')) == open_before


def make(key=KEY, size=100, mode=0o600):
    """Create a region as a producer would and give its inode."""
    file = os.open(f'/dev/shm{key}', os.O_CREAT | os.O_EXCL | os.O_RDWR)
    os.ftruncate(file, size)
    os.fchmod(file, mode)
    inode = os.fstat(file).st_ino
    os.close(file)
    return inode


def remove(key=KEY):
    os.unlink(f'/dev/shm{key}')


def refused(references, key=KEY, offset=0, byte_size=1):
    with pytest.raises(ReferenceRefused) as caught:
        references.lend(key, offset, byte_size)
    return str(caught.value)


def test_a_region_is_registered_once_for_all_its_tensors(references, server, budget):
    inode = make()
    lent = [references.lend(KEY, offset, 10) for offset in (0, 50, 90)]
    assert server.opened == [inode] and budget.taken == 1
    assert server.regions == {lent[0].name: inode} and {each.name for each in lent} == {
        lent[0].name}
    assert KEY[1:] not in lent[0].name, 'the server knows it by a name of ours'


def test_two_names_of_one_prefix_are_two_regions(references, server):
    inodes = [make(f'{PREFIX}{name}') for name in 'ab']
    names = [references.lend(f'{PREFIX}{name}', 0, 1).name for name in 'ab']
    assert [server.regions[name] for name in names] == inodes


@pytest.mark.parametrize('offset, byte_size', [
    (0, 101), (100, 1), (1, 100), (2**64 - 1, 1), (2**64 - 1, 2**64 - 1), (0, 2**64 - 1), (0, 0)])
def test_a_tensor_beyond_the_region_is_refused_with_both_sizes(references, server, offset,
                                                               byte_size):
    make()
    said = refused(references, KEY, offset, byte_size)
    assert 'holds 100 bytes' in said and f'takes {byte_size} from byte {offset} on' in said
    assert not server.opened


@pytest.mark.parametrize('key', [
    '', '/', PREFIX, '/other', 'vig_lent_test_x', f'{PREFIX}a/b', f'{PREFIX}../../etc/passwd',
    f'/..{KEY}', f'{PREFIX}a\0b', f'{PREFIX}a b', f'{PREFIX}ä', f'{PREFIX}a\n',
    PREFIX + 'a' * 200])
def test_a_name_outside_the_allowed_form_is_never_looked_up(references, monkeypatch, key):
    monkeypatch.setattr(os, 'stat', None)
    said = refused(references, key)
    assert 'is no allowed name' in said and PREFIX in said and len(said) < 400


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=300), st.text('./~ab\0', max_size=20)), st.booleans(),
       st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_whatever_a_message_says_only_names_of_the_allowed_form_are_looked_at(
        rest, has_prefix, offset, byte_size):
    looked_at = []

    def look(path, *, follow_symlinks):
        looked_at.append(path)
        assert not follow_symlinks
        raise FileNotFoundError

    references = References(None, None, endpoint='staged:1', budget=RegionBudget(),
                            key_prefix=PREFIX)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, 'stat', look)
        refused(references, PREFIX + rest if has_prefix else rest, offset, byte_size)
    for path in looked_at:
        assert os.path.normpath(path) == path and os.path.dirname(path) == '/dev/shm'
        assert os.path.basename(path).startswith(PREFIX[1:]) and path.isprintable()


def test_a_region_that_is_not_there_is_refused(references):
    assert 'is not there' in refused(references)


@pytest.mark.parametrize('make_it', [
    lambda path: os.mkdir(path), lambda path: os.symlink('/etc/passwd', path),
    lambda path: os.mkfifo(path, 0o600)], ids=['folder', 'link', 'pipe'])
def test_what_is_no_plain_object_is_refused(references, make_it):
    path = f'/dev/shm{KEY}'
    make_it(path)
    try:
        assert 'is no plain shared-memory object' in refused(references)
    finally:
        (os.rmdir if os.path.isdir(path) else os.unlink)(path)


def test_a_region_of_another_user_is_refused_unless_the_file_names_that_user(
        references, server, budget, monkeypatch):
    make()
    real = os.stat
    Facts = namedtuple('Facts', 'st_mode st_uid st_size st_dev st_ino')

    def of_another(path, **options):
        facts = real(path, **options)
        return Facts(facts.st_mode, os.geteuid() + 7, facts.st_size, facts.st_dev, facts.st_ino)

    monkeypatch.setattr(os, 'stat', of_another)
    said = refused(references)
    assert f'belongs to user {os.geteuid() + 7}' in said and 'shm_owner_uids' in said
    named = References(server.register, server.unregister, endpoint='staged:1', budget=budget,
                       key_prefix=PREFIX, owners=(os.geteuid() + 7,))
    assert named.lend(KEY, 0, 1).name in server.regions
    named.close(timeout_s=1.0)


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can give a region away; run as root')
def test_a_region_given_to_another_user_is_refused(references):
    make()
    os.chown(f'/dev/shm{KEY}', 12345, 12345)
    assert 'belongs to user 12345' in refused(references)


def test_a_region_that_everybody_may_write_is_refused(references):
    make(mode=0o666)
    assert 'may be written by everybody' in refused(references)


def test_a_replaced_region_is_registered_anew_even_while_the_old_one_is_read(references, server):
    old = make()
    first = references.lend(KEY, 0, 1)
    remove()
    new = make()
    assert new != old
    second = references.lend(KEY, 0, 1)
    assert second is not first and server.regions == {first.name: old, second.name: new}
    references.give_back(first)
    wait_until(lambda: server.regions == {second.name: new}, what='the end of the old one')


def test_a_region_that_grew_is_registered_at_its_new_size(references, server):
    make()
    first = references.lend(KEY, 0, 100)
    os.truncate(f'/dev/shm{KEY}', 200)
    assert references.lend(KEY, 0, 100) is first
    assert references.lend(KEY, 100, 100).byte_size == 200


def test_a_region_that_shrank_is_refused_by_its_new_size(references):
    make()
    references.give_back(references.lend(KEY, 0, 100))
    os.truncate(f'/dev/shm{KEY}', 50)
    assert 'holds 50 bytes' in refused(references, KEY, 0, 100)


def test_a_vanished_region_is_unregistered_without_a_further_frame(references, server, budget):
    make()
    references.give_back(references.lend(KEY, 0, 1))
    remove()
    wait_until(lambda: not server.regions and not budget.taken)
    assert 'is not there' in refused(references)


def test_a_vanished_region_stays_registered_while_an_execution_may_read_it(references, server):
    make()
    lent = references.lend(KEY, 0, 1)
    other = references.lend(KEY, 0, 1)
    remove()
    references.give_back(other)
    with pytest.raises(AssertionError):
        wait_until(lambda: not server.regions, 0.2)
    references.give_back(lent)
    wait_until(lambda: not server.regions)


def test_beyond_the_limit_the_one_least_recently_used_gives_way(references, server, budget):
    inodes = {name: make(f'{PREFIX}{name}') for name in 'abcd'}
    for name in 'abcab':
        references.give_back(references.lend(f'{PREFIX}{name}', 0, 1))
    references.lend(f'{PREFIX}d', 0, 1)
    assert set(server.regions.values()) == {inodes[name] for name in 'abd'}
    assert budget.taken == 3


def test_beyond_the_limit_nothing_in_use_gives_way(references):
    for name in 'abcd':
        make(f'{PREFIX}{name}')
    lent = [references.lend(f'{PREFIX}{name}', 0, 1) for name in 'abc']
    with pytest.raises(NoFreeSlot, match='3 shared-memory regions.*max_shm_regions.*in use'):
        references.lend(f'{PREFIX}d', 0, 1)
    references.give_back(lent[1])
    assert references.lend(f'{PREFIX}d', 0, 1).name


def test_a_server_that_refuses_is_quoted_and_nothing_is_kept(references, server, budget):
    make()
    server.failures = [Refused('cannot open')]
    said = refused(references)
    assert 'staged:1 does not take' in said and 'cannot open' in said
    assert not budget.taken and not server.regions
    assert references.lend(KEY, 0, 1).name in server.regions, 'the next frame tries again'


def test_a_server_that_does_not_answer_is_asked_later_to_forget(references, server, budget):
    make()
    server.failures = [Unreachable('deadline exceeded')]
    forgotten = []
    references._unregister = forgotten.append
    assert 'did not answer' in refused(references)
    assert not budget.taken
    references.lend(KEY, 0, 1)
    wait_until(lambda: len(forgotten) == 1)


def test_a_region_is_registered_again_when_the_server_forgot_it_but_once_for_two_frames(
        references, server):
    make()
    lent = references.lend(KEY, 0, 1)
    forgotten = lent.name
    server.regions.clear()
    references.renew(lent, forgotten)
    again = lent.name
    references.renew(lent, forgotten)
    assert lent.name == again != forgotten and set(server.regions) == {again}


def test_a_region_that_vanished_before_the_server_forgot_it_is_refused(references, server):
    make()
    lent = references.lend(KEY, 0, 1)
    remove()
    server.regions.clear()
    with pytest.raises(ReferenceRefused, match='is not there'):
        references.renew(lent, lent.name)


def test_closing_unregisters_what_nobody_reads_and_leaves_the_rest_to_the_server(
        references, server):
    for name in 'ab':
        make(f'{PREFIX}{name}')
    used, unused = (references.lend(f'{PREFIX}{name}', 0, 1) for name in 'ab')
    references.give_back(unused)
    references.close(timeout_s=2.0)
    references.close(timeout_s=2.0)
    assert set(server.regions) == {used.name}
    assert 'is closed' in refused(references, f'{PREFIX}a')
