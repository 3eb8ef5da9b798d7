"""Look at everything once, in bounded time, so that the checks themselves only compute."""

from collections.abc import Callable, Mapping
import importlib
import os
import shutil
import time

from vig_core.errors import VigError

from vig_governor.backend.base import BackendUnavailable
from vig_governor.backend.credentials import UnusableCredentials
from vig_governor.backend.opening import open_backend
from vig_governor.backend.triton import TritonBackend
from vig_governor.config import Config, StreamBinding
from vig_governor.config.schema_model import Manifest
from vig_governor.doctor.context import (
    Context, GraphView, PROFILE_VARIABLES, ServerView,
)
from vig_governor.endpoints import is_loopback
from vig_governor.measure.artifact import read_artifact
from vig_governor.measure.hardware import device_facts
from vig_governor.measure.manifest import make_manifest, repository_path, ServerFacts

CONNECT_TIMEOUT_S = 3.0
_PROBE_STREAM = 'doctor'

Probe = Callable[[tuple[StreamBinding, ...], float], GraphView]


def look(config: Config, *, is_offline: bool, asks_ros: bool, listen_s: float,
         record_folder: str) -> Context:
    """
    Collect what the checks need; what cannot be reached is a finding, never an exception.

    :param listen_s: how long to listen to the topics and to watch the server's counters.
    """
    graph, why_no_graph = None, '--offline' if is_offline else '--no-ros'
    if asks_ros and not is_offline:
        graph, why_no_graph = _ask_ros(config, listen_s)
    server = None if is_offline else _ask_server(config, listen_s)
    device = device_facts(is_local=is_loopback(config.backend.endpoint))
    repository = repository_path(config.backend.model_repository, config.source)
    manifests: dict[str, Manifest] = {}
    gaps = {}
    if server is not None and not server.problem or repository is not None:
        for name in config.backend_models:
            artifact = read_artifact(repository, name)
            gaps[name] = artifact.why_unknown
            facts = server.facts if server is not None else ServerFacts()
            manifests[name] = make_manifest(name, facts, device, artifact)
    return Context(
        config=config, server=server, graph=graph, why_no_graph=why_no_graph,
        manifests=manifests, artifact_gaps=gaps, environment=dict(os.environ),
        missing_files=frozenset(name for name in PROFILE_VARIABLES if os.environ.get(name)
                                and not os.path.isfile(os.environ[name])),
        record_folder=record_folder, free_bytes=_free_bytes(record_folder))


def _ask_server(config: Config, watch_s: float) -> ServerView:
    try:
        backend = open_backend(config.backend)
    except UnusableCredentials as error:
        return ServerView(problem=str(error))
    try:
        text = backend.connect(timeout_s=CONNECT_TIMEOUT_S)
        name, version = backend.facts()
    except BackendUnavailable as error:
        backend.close()
        return ServerView(problem=str(error))
    try:
        signatures, not_ready, configs = {}, {}, {}
        decoupled = {variant.backend_model for block in config.file.models.values()
                     if block.decoupled for variant in block.variants}
        for model in config.backend_models:
            try:
                signatures[model] = backend.inspect(model, timeout_s=CONNECT_TIMEOUT_S,
                                                    may_stream=model in decoupled)
                configs[model] = backend.model_config(model)
            except BackendUnavailable as error:
                not_ready[model] = str(error)
        return ServerView(
            text=text, facts=ServerFacts(name, version, configs), signatures=signatures,
            not_ready=not_ready, shared_memory=_shared_memory(backend),
            grown=_watch(backend, tuple(signatures), watch_s), watched_s=watch_s)
    finally:
        backend.close()


def _shared_memory(backend: TritonBackend) -> str:
    try:
        backend.open_stream(_PROBE_STREAM, slots=1, transport='shm')
    except BackendUnavailable as error:
        return str(error)
    return ''


def _watch(backend: TritonBackend, models: tuple[str, ...], watch_s: float) -> Mapping[str, int]:
    """Count what ends on the server while we send nothing."""
    def counts() -> dict[str, int]:
        found = {}
        for model in models:
            try:
                found[model] = backend.statistics(model).finished
            except BackendUnavailable:
                continue
        return found

    before = counts()
    time.sleep(watch_s)
    after = counts()
    return {model: max(0, after[model] - before[model]) for model in after if model in before}


def _ask_ros(config: Config, listen_s: float) -> tuple[GraphView | None, str]:
    """Ask the ROS graph by a module that is only imported here: without ROS all else works."""
    try:
        probe: Probe = importlib.import_module('vig_governor.graph_probe').probe
    except ImportError as error:
        return None, f'ROS cannot be imported here ({error})'
    try:
        return probe(config.streams, listen_s), ''
    except VigError as error:
        return None, str(error)


def _free_bytes(folder: str) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
