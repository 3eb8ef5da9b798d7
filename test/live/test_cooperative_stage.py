"""What the stage of the benchmark of generative jobs needs of the demo's server."""

import os

import psutil
import pytest
from triton_fixture import model_repository, require_triton

from vig_governor.demo.server import pin_models
from vig_governor.triton_server import TritonServer

pytestmark = [pytest.mark.server]


def test_only_the_processes_of_the_named_model_are_bound_to_its_core(tmp_path):
    require_triton()
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip('needs two cores')
    repository = model_repository(tmp_path / 'models', {
        'camera': ('sleeper', {}), 'writer': ('sleeper', {})})
    with TritonServer(repository) as server:
        assert pin_models(server.pid, {min(cores)}, 'writer') == 1
        assert pin_models(server.pid, {min(cores)}, 'nobody') == 0
        bound = {word: process.cpu_affinity()
                 for process in psutil.Process(server.pid).children(recursive=True)
                 for word in process.cmdline() if word.endswith('/model.py')}
        of_writer = [found for word, found in bound.items() if '/writer/' in word]
        of_camera = [found for word, found in bound.items() if '/camera/' in word]
        assert of_writer == [[min(cores)]] and set(of_camera[0]) == cores
        assert pin_models(server.pid, {max(cores)}) == 2
