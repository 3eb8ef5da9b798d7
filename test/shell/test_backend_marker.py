"""The page by which a server is known again is taken away, busy servers included."""

import os

import pytest
from vig_governor.backend.marker import Marker
from vig_governor.backend.segments import Refused, Unreachable


class FakeServer:
    """A fake: knows the pages it was told of, and fails to forget them when told."""

    def __init__(self, *failures):
        self.pages = []
        self.asked = 0
        self._failures = list(failures)

    def register(self, name, key, byte_size):
        self.pages.append(name)

    def unregister(self, name):
        self.asked += 1
        if self._failures:
            raise self._failures.pop(0)
        self.pages.remove(name)

    def marker(self):
        return Marker(self.register, self.unregister, lambda name: name in self.pages)


@pytest.mark.parametrize('failures, left, asked', [
    ([], 0, 1), ([Unreachable('no answer')], 0, 2), ([Unreachable('no answer')] * 2, 1, 2),
    ([Refused('in use')], 1, 1)])
def test_a_page_is_taken_away_also_where_the_server_was_busy_once(failures, left, asked):
    server = FakeServer(*failures)
    marker = server.marker()
    assert marker.identity() == server.pages[0] == marker.identity()
    marker.close(attempts=2)
    marker.close()
    assert len(server.pages) == left and server.asked == asked
    assert not [name for name in os.listdir('/dev/shm') if name.startswith(f'vig_{os.getpid()}_')]


def test_at_the_end_a_server_that_stands_still_is_waited_for_once():
    server = FakeServer(Unreachable('no answer'))
    marker = server.marker()
    marker.identity()
    marker.close()
    assert server.asked == 1


def test_without_a_page_nothing_is_asked():
    server = FakeServer()
    server.marker().close()
    assert server.asked == 0
