"""The manifest of this machine, server and repository, as far as they can be known."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vig_governor.config.schema_model import (
    Artifact, Device, Manifest, Measurement, Resources, Runtime, Validity,
)
from vig_governor.instances import instances_of
from vig_governor.manifest import REVISION
from vig_governor.measure.artifact import ArtifactFacts
from vig_governor.measure.hardware import DeviceFacts

OFF = 'off'


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """
    What a server says of itself.

    :ivar configs: effective configuration of each backend model, as ``TritonBackend`` reads it.
    """

    name: str | None = None
    version: str | None = None
    configs: Mapping[str, Mapping[str, Any]] | None = None


def make_manifest(backend_model: str, server: ServerFacts, device: DeviceFacts,
                  artifact: ArtifactFacts, *, recorded_at: str | None = None,
                  measurement: Measurement | None = None,
                  validity: Validity | None = None) -> Manifest:
    """Put together what is known; what is not stays out."""
    config = (server.configs or {}).get(backend_model)
    return Manifest(
        revision=REVISION, recorded_at=recorded_at,
        artifact=Artifact(
            digest=artifact.digest, source='directory' if artifact.digest else None,
            bytes=artifact.byte_size, versions=list(artifact.versions)),
        runtime=Runtime(
            server=server.name, server_version=server.version,
            platform=None if config is None else _platform(config)),
        device=Device(
            name=device.name, compute_capability=device.compute_capability,
            memory_mib=device.memory_mib, driver=device.driver),
        resources=Resources(
            partition=device.partition,
            instances=None if config is None else instances_of(config),
            rate_limiter=None if config is None else _rate_limiter(config)),
        measurement=measurement, validity=validity)


def repository_path(path: str | None, config_file: str) -> Path | None:
    """Find the model repository; a relative path starts at the configuration's folder."""
    return None if path is None else Path(config_file).parent / Path(path).expanduser()


def _platform(config: Mapping[str, Any]) -> str | None:
    return str(config.get('platform') or config.get('backend') or '') or None


def _rate_limiter(config: Mapping[str, Any]) -> str:
    """Write what the instance groups declare; whether the server honours it cannot be asked."""
    declared = []
    for group in config.get('instance_group', ()):
        limiter = group.get('rate_limiter') or {}
        declared += [f'{one.get("name", "")}={one.get("count", 0)}'
                     for one in limiter.get('resources', ())]
        if limiter.get('priority'):
            declared.append(f'priority={limiter["priority"]}')
    return ', '.join(declared) or OFF
