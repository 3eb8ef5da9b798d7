"""
A real Triton for tests: the test models of ``test/server/models`` and how to ask them.

Import the fixtures into a ``conftest.py``; they skip, with the command that helps, where Triton
is not installed. ``triton_server`` is shared by a whole session: leave its models loaded.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
import shutil
import threading

import numpy as np
import pytest

from vig_governor.backend.base import Answered, Outcome
from vig_governor.backend.triton import TritonBackend
from vig_governor.triton_install import find_installation, TritonServerError
from vig_governor.triton_server import TritonServer

MODELS = Path(__file__).parent / 'server' / 'models'
CARRIERS = ('grpc', 'http')
"""How inferences may travel; ``connected_to`` takes one of them."""
MODEL_NAMES = ('echo', 'failing', 'pair', 'sized', 'sleeper')


def require_triton() -> None:
    """Skip the test, with the reason, where no Triton is installed."""
    try:
        find_installation()
    except TritonServerError as error:
        pytest.skip(str(error))


def model_repository(folder: Path, models: Mapping[str, tuple[str, Mapping[str, str]]]) -> Path:
    """
    Make a repository of renamed test models, for example two variants of different speed.

    :param models: ``{'slow': ('sleeper', {'delay_ms': '400'})}``: name, template, parameters.
    """
    for name, (template, parameters) in models.items():
        shutil.copytree(MODELS / template, folder / name,
                        ignore=shutil.ignore_patterns('__pycache__'))
        with open(folder / name / 'config.pbtxt', 'a') as config:
            for key, value in parameters.items():
                config.write(f'parameters {{ key: "{key}" '
                             f'value {{ string_value: "{value}" }} }}\n')
    return folder


@pytest.fixture(scope='session')
def triton_server() -> Iterator[TritonServer]:
    """Give a server with all test models, under explicit model control."""
    require_triton()
    with TritonServer(MODELS, load=MODEL_NAMES) as server:
        yield server


def connected_to(server: TritonServer, carrier: str = 'grpc', **options) -> TritonBackend:
    """Make a backend for a server whose inferences travel as the test asks for."""
    http_endpoint = server.http_endpoint if carrier == 'http' else ''
    return TritonBackend(server.grpc_endpoint, http_endpoint=http_endpoint, **options)


class Asked:
    """One inference on its way; collects every outcome that is reported, so one too many shows."""

    def __init__(self, request_id: int) -> None:
        self.request_id = request_id
        self.outcomes: list[Outcome] = []
        self._is_over = threading.Event()

    def receive(self, outcome: Outcome) -> None:
        """Take an outcome; the ``on_end`` of the backend."""
        self.outcomes.append(outcome)
        self._is_over.set()

    def wait(self, timeout_s: float = 15.0) -> Outcome:
        """Give the outcome when it is there."""
        assert self._is_over.wait(timeout_s), f'no outcome within {timeout_s:g} s'
        return self.outcomes[0]


class Asker:
    """Sends inferences through a backend as a stream would."""

    def __init__(self, backend) -> None:
        self.backend = backend
        self._lock = threading.Lock()
        self._last_id = 0

    def send(self, stream: str, model: str, **tensors: np.ndarray) -> Asked:
        """Acquire a slot, fill it, and send it off; the caller releases it."""
        with self._lock:
            self._last_id += 1
            asked = Asked(self._last_id)
        slot = self.backend.acquire(stream, asked.request_id)
        for name, value in tensors.items():
            datatype = {'u1': 'UINT8', 'f4': 'FP32'}[value.dtype.str[1:]]
            slot.allocate(name, value.shape, datatype)[...] = value
        self.backend.infer(asked.request_id, model, slot, asked.receive)
        return asked

    def ask(self, stream: str, model: str, **tensors: np.ndarray) -> Outcome:
        """Send, wait for the outcome and release the slot."""
        asked = self.send(stream, model, **tensors)
        outcome = asked.wait()
        self.backend.release(asked.request_id)
        return outcome


def output(outcome: Outcome, name: str) -> np.ndarray:
    """Give one output of an answer as an array; fails with the server's words otherwise."""
    assert isinstance(outcome, Answered), outcome
    found = next(entry for entry in outcome.outputs if entry.name == name)
    dtype = {'UINT32': np.uint32, 'INT64': np.int64, 'FP32': np.float32}[found.datatype]
    return np.frombuffer(found.data, dtype).reshape(found.shape)
