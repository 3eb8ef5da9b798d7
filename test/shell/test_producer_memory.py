"""A producer's memory and its rules of ownership, without ROS."""

import gc
import os
import subprocess
import sys

from hypothesis import settings, strategies as st
from hypothesis.stateful import invariant, precondition, rule, RuleBasedStateMachine
import numpy as np
import pytest

from vig_governor.producer import memory as module
from vig_governor.producer.memory import ProducerError, ProducerMemory, sweep
from vig_governor.producer.ring import Ring

PREFIX = '/vig_ring_test_'
SECOND = 10**9


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    gc.collect()
    left = [name for name in os.listdir('/dev/shm') if name.startswith(PREFIX[1:])]
    for name in left:
        os.unlink(f'/dev/shm{"/" + name}')
    assert not left


def exists(key):
    return os.path.exists(f'/dev/shm{key}')


def test_memory_is_private_to_its_user_and_really_there():
    memory = ProducerMemory(10_000, key_prefix=PREFIX)
    facts = os.stat(f'/dev/shm{memory.key}')
    assert facts.st_mode & 0o777 == 0o600 and facts.st_blocks * 512 >= 10_000
    assert memory.key.startswith(f'{PREFIX}producer_{os.getpid()}_')
    memory.close()
    memory.close()
    assert not exists(memory.key)


def test_a_group_may_be_let_in():
    memory = ProducerMemory(10, key_prefix=PREFIX, group=os.getegid())
    facts = os.stat(f'/dev/shm{memory.key}')
    assert facts.st_mode & 0o777 == 0o660 and facts.st_gid == os.getegid()
    memory.close()


def test_an_array_outlives_the_name():
    memory = ProducerMemory(10, key_prefix=PREFIX)
    array = np.ndarray((10,), np.uint8, memory.memory)
    memory.close()
    del memory
    array[...] = 7
    assert array.sum() == 70


def test_memory_that_nobody_holds_any_more_loses_its_name():
    memory = ProducerMemory(10, key_prefix=PREFIX)
    key = memory.key
    del memory
    gc.collect()
    assert not exists(key)


def test_no_space_is_said_and_leaves_nothing(monkeypatch):
    def no_space(file, offset, length):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, 'posix_fallocate', no_space)
    files = len(os.listdir('/proc/self/fd'))
    with pytest.raises(ProducerError, match='no shared memory of 4096 bytes: .*No space left'):
        ProducerMemory(10, key_prefix=PREFIX)
    assert len(os.listdir('/proc/self/fd')) == files


def test_what_a_killed_producer_left_behind_is_removed_and_nothing_else(monkeypatch):
    monkeypatch.setattr(module, '_YOUNG_S', 0.0)
    alive = ProducerMemory(10, key_prefix=PREFIX)
    program = (
        'import os, signal, sys\n'
        'from vig_governor.producer.memory import ProducerMemory\n'
        f'memory = ProducerMemory(10, key_prefix={PREFIX!r})\n'
        'print(memory.key, flush=True)\n'
        'os.kill(os.getpid(), signal.SIGKILL)\n')
    key = subprocess.run([sys.executable, '-c', program], capture_output=True,
                         text=True).stdout.strip()
    other = f'/dev/shm{PREFIX}producer_x'
    open(other, 'w').close()
    try:
        assert exists(key) and exists(alive.key)
        assert sweep(PREFIX) == [key]
        assert exists(alive.key) and os.path.exists(other) and not exists(key)
    finally:
        os.unlink(other)
        alive.close()


def test_what_was_made_a_moment_ago_is_left_alone():
    memory = ProducerMemory(10, key_prefix=PREFIX)
    stray = memory.key[:-1] + ('0' if memory.key[-1] != '0' else '1')
    os.close(os.open(f'/dev/shm{stray}', os.O_CREAT | os.O_EXCL, 0o600))
    assert sweep(PREFIX) == []
    os.unlink(f'/dev/shm{stray}')
    memory.close()


def make_ring(slots=2, **options):
    return Ring(slots, lambda: ProducerMemory(10, key_prefix=PREFIX), **{
        'readers': 1, 'timeout_ns': SECOND, **options})


@pytest.fixture
def ring():
    made = make_ring()
    yield made
    made.close()


def test_memory_is_used_again_after_its_status_and_not_before(ring):
    one, two = ring.take(0), ring.take(0)
    ring.sent(one, 1, 0)
    ring.sent(two, 2, 0)
    assert ring.take(0) is None and ring.lent == 2
    ring.ended(2, holds_input=False)
    assert ring.take(0) is two and ring.take(0) is None
    ring.ended(2, holds_input=False)
    ring.ended(77, holds_input=False)
    assert ring.take(0) is None, 'a second status, and one of nobody, free nothing'


def test_memory_that_the_server_may_still_read_is_given_up_for_new(ring):
    memory = ring.take(0)
    ring.sent(memory, 1, 0)
    ring.ended(1, holds_input=True)
    assert not exists(memory.key) and ring.given_up == 1
    others = [ring.take(0), ring.take(0)]
    assert None not in others and memory not in others


def test_a_status_that_never_comes_costs_the_memory_and_not_the_slot(ring):
    memory = ring.take(0)
    ring.sent(memory, 1, 0)
    second = ring.take(SECOND)
    assert exists(memory.key) and ring.take(SECOND) is None
    assert ring.take(SECOND + 1).key != memory.key
    assert not exists(memory.key) and ring.given_up == 1
    ring.ended(1, holds_input=False)
    assert ring.take(SECOND + 1) is None, 'the late status is of memory that is gone'
    ring.put_back(second)


def test_all_that_is_lent_is_given_up_when_the_governor_is_gone(ring):
    for stamp_ns in (1, 2):
        ring.sent(ring.take(0), stamp_ns, 0)
    ring.give_up()
    assert ring.given_up == 2 and ring.lent == 0
    assert ring.take(0) and ring.take(0)


def test_frames_of_one_stamp_become_free_with_the_last_of_their_statuses(ring):
    for _ in range(2):
        ring.sent(ring.take(0), 1, 0)
    ring.ended(1, holds_input=False)
    assert ring.take(0) is None
    ring.ended(1, holds_input=False)
    assert ring.take(0) and ring.take(0) and ring.given_up == 0


def test_a_late_status_of_a_frame_that_was_given_up_frees_no_other_of_its_stamp(ring):
    ring.sent(ring.take(0), 1, 0)
    ring.give_up()
    ring.sent(ring.take(0), 1, 0)
    ring.sent(ring.take(0), 2, 0)
    ring.ended(1, holds_input=False)
    assert ring.take(0) is None
    ring.ended(1, holds_input=False)
    assert ring.take(0) is not None


def test_a_frame_of_two_readers_ends_with_the_second_and_one_that_holds_is_enough():
    ring = make_ring(readers=2)
    memory = ring.take(0)
    ring.sent(memory, 1, 0)
    ring.ended(1, holds_input=True)
    assert exists(memory.key) and ring.lent == 1
    ring.ended(1, holds_input=False)
    assert not exists(memory.key) and ring.given_up == 1
    ring.close()


def test_closing_takes_every_name_away_and_nothing_is_lent_afterwards(ring):
    free, lent = ring.take(0), ring.take(0)
    ring.put_back(free)
    ring.sent(lent, 1, 0)
    ring.close()
    ring.close()
    assert not exists(free.key) and not exists(lent.key) and ring.take(0) is None


class Ownership(RuleBasedStateMachine):
    """Whatever happens in whatever order, memory that somebody may read is never given out."""

    def __init__(self):
        super().__init__()
        self.made = 0
        self.now_ns = 0
        self.writing = []
        self.read = set()  # memory that the server may look at
        self.owed = []  # (memory, stamp) of each status that may still come, once
        self.ring = Ring(3, self.make, readers=1, timeout_ns=SECOND)

    def make(self):
        self.made += 1
        return StagedMemory(self.made)

    @rule()
    def take(self):
        memory = self.ring.take(self.now_ns)
        if memory is not None:
            assert memory not in self.read and memory not in self.writing and memory.is_there
            self.writing.append(memory)

    @precondition(lambda self: self.writing)
    @rule(stamp_ns=st.integers(0, 3))
    def send(self, stamp_ns):
        memory = self.writing.pop()
        self.ring.sent(memory, stamp_ns, self.now_ns)
        self.read.add(memory)
        self.owed.append((memory, stamp_ns))

    @precondition(lambda self: self.writing)
    @rule()
    def put_back(self):
        self.ring.put_back(self.writing.pop())

    @precondition(lambda self: self.owed)
    @rule(which=st.integers(0), holds=st.booleans())
    def end(self, which, holds):
        memory, stamp_ns = self.owed.pop(which % len(self.owed))
        if not holds:
            self.read.remove(memory)
        self.ring.ended(stamp_ns, holds_input=holds)

    @precondition(lambda self: self.owed)
    @rule(which=st.integers(0))
    def lose_a_status(self, which):
        self.owed.pop(which % len(self.owed))

    @rule(passed_ns=st.integers(0, 2 * SECOND))
    def pass_time(self, passed_ns):
        self.now_ns += passed_ns

    @rule()
    def lose_the_governor(self):
        self.ring.give_up()

    @invariant()
    def no_more_memory_than_slots(self):
        assert self.ring.lent + len(self.writing) <= 3


class StagedMemory:
    """A memory without memory."""

    def __init__(self, number):
        self.number = number
        self.is_there = True

    def close(self):
        self.is_there = False


TestOwnership = Ownership.TestCase
TestOwnership.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
