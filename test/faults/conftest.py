"""One world for all faults that are quick enough for every test run."""

import os

import pytest

os.environ.setdefault('VIG_FAULTS_PATIENCE', '4')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """Give a real server and a node that each case starts or takes over."""
    from triton_fixture import require_triton
    require_triton()
    from benchmark.faults.world import World
    with World(tmp_path_factory.mktemp('faults')) as made:
        yield made
