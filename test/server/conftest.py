"""Fixtures of the tests against a real Triton."""

from pathlib import Path
import sys

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from triton_fixture import Asker, CARRIERS, connected_to, triton_server  # noqa: E402

__all__ = ['asker', 'triton_server']


def pytest_collection_modifyitems(items):
    """Mark everything here as needing a server, so that it can be left out."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.server)


@pytest.fixture(params=CARRIERS)
def asker(triton_server, request):
    """Give a connected backend with the streams ``shared`` and ``copied``, four slots each."""
    backend = connected_to(triton_server, request.param)
    backend.open_stream('shared', slots=4, transport='shm')
    backend.open_stream('copied', slots=4, transport='copy')
    yield Asker(backend)
    backend.close()
