"""
The one way from a path to a ``Config``.

Every block is validated by itself, so that one mistake hides no other: the message of a
``ConfigError`` is the list that the operator can work through.
"""

from collections.abc import Mapping
import hashlib
import os
from types import MappingProxyType
from typing import Any

from vig_core.model import Model

from vig_governor.config.document import read_document
from vig_governor.config.options import Config
from vig_governor.config.problems import ConfigError, Findings, Path
from vig_governor.config.resolve import (
    check_endpoint, resolve_backend, resolve_model, resolve_system,
)
from vig_governor.config.resolve_generative import job_streams, resolve_generative
from vig_governor.config.resolve_streams import resolve_streams
from vig_governor.config.schema import Backend, StreamBlock, VigFile
from vig_governor.config.schema_model import ModelBlock
from vig_governor.config.translate import BlockType, validate


def load_config(path: str | os.PathLike[str], *, require_profiles: bool = False) -> Config:
    """
    Read, check and resolve one file.

    :param require_profiles: whether a node will plan with the result. Then a variant without a
        profile is an error, and so is everything that the node does not act on yet.
    :raises ConfigError: with every problem of the file; nothing else is raised.
    """
    raw, data, findings = read_document(path)
    file = validate(VigFile, data, (), findings)
    top = data if isinstance(data, Mapping) else {}
    backend = _block(Backend, top.get('backend'), ('backend',))
    blocks = _blocks(ModelBlock, top.get('models'), 'models')
    streams = _blocks(StreamBlock, top.get('streams'), 'streams')
    models: dict[str, Model] = {}
    for name, block in blocks.items():
        models[name] = resolve_model(name, block, findings)
        if block.backend_endpoint is not None:
            check_endpoint(block.backend_endpoint, ('models', name, 'backend_endpoint'), findings)
    declared = top.get('models')
    names = list(declared) if isinstance(declared, Mapping) else []
    generative = resolve_generative(blocks)
    bindings = resolve_streams(streams, models, names, findings, generative)
    system = options = None
    if backend is not None:
        fed = {binding.name: binding.model for binding in bindings}
        system = resolve_system(backend, models, names, fed, findings)
        options = resolve_backend(backend, os.path.dirname(os.fspath(path)), findings,
                                  must_exist=require_profiles)
    unprofiled = tuple((name, variant.id) for name, block in blocks.items()
                       for variant in block.variants if variant.profile is None)
    _check_planning(backend, blocks, findings, is_required=require_profiles)
    if findings.problems or file is None or system is None or options is None:
        raise ConfigError(findings.problems)
    return Config(system=system, streams=bindings, backend=options, notices=findings.notices,
                  unprofiled=unprofiled, file=file, source=os.fspath(path),
                  digest=hashlib.sha256(raw).hexdigest(),
                  generative=MappingProxyType(generative), job_streams=job_streams(generative))


def _block(cls: type[BlockType], data: object, at: Path) -> BlockType | None:
    """Give a block that is valid by itself; its problems were found with the whole file."""
    return validate(cls, data, at, Findings(''))


def _blocks(cls: type[BlockType], data: Any, key: str) -> dict[str, BlockType]:
    if not isinstance(data, Mapping):
        return {}
    found = {name: _block(cls, one, (key, name)) for name, one in data.items()}
    return {name: one for name, one in found.items() if one is not None}


def _check_planning(backend: Backend | None, blocks: Mapping[str, ModelBlock],
                    findings: Findings, *, is_required: bool) -> None:
    """Say what a node will not plan with: as problems where one will, else as notices."""
    say = findings.refuse if is_required else findings.notice
    if backend is not None and backend.protect_supply:
        say(('backend', 'protect_supply'), 'is not supported by the node yet; set it to false')
    for name, block in blocks.items():
        at: Path = ('models', name)
        if block.decoupled and block.cooperative is None:
            say((*at, 'decoupled'), 'only generative models may answer on the streaming endpoint; '
                'add the block cooperative, or remove the model from the file that the node loads')
        if block.backend_endpoint is not None:
            say((*at, 'backend_endpoint'), 'a second server is not supported by the node yet; '
                'serve the model from backend.grpc_endpoint')
        for index, variant in enumerate(block.variants):
            if variant.profile is None:
                say((*at, 'variants', index, 'profile'),
                    f'variant {variant.id} has no measured runtimes, and the node plans with '
                    'nothing else; measure them: vig calibrate -c THIS_FILE -o NEW_FILE, or add '
                    'profile: {p50_us: ..., p95_us: ..., p99_us: ...}')
