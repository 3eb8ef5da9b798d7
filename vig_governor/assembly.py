"""
From a valid file to a system that can run: the server is there, its models fit, inputs match.

Everything that can be found out before the first frame is found out here, in bounded time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
import os
import time
from types import MappingProxyType

from vig_core.errors import VigError
from vig_core.model import Model, System, Variant

from vig_governor.backend.base import Backend, BackendUnavailable, ModelSignature
from vig_governor.backend.signature import check_complete, SignatureMismatch
from vig_governor.config import Config, StreamBinding
from vig_governor.config.options import GenerativeOptions
from vig_governor.encoders import make_encoder
from vig_governor.encoders.base import EncodeError, Encoder
from vig_governor.encoders.reference import REFERENCE_TYPE
from vig_governor.instances import disagreements
from vig_governor.prompt_room import room_text

CONFIGURE_TIMEOUT_S = 4.0
"""Lifecycle managers give a transition five seconds."""

_CONNECT_TIMEOUT_S = 2.5
_COUNTS = ('INT32', 'INT64', 'UINT32', 'UINT64')


class Mismatch(VigError):
    """A stream and a model that do not fit together; says what came, where, and what fits."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """
    What ``configure`` found out.

    :ivar system: the file's system with the signatures that the server reported.
    :ivar server: name, version and address of the server.
    :ivar encoders: one for each stream, checked against its model's inputs.
    :ivar notices: what the operator should know and that stops nothing, one sentence each.
    :ivar signatures: of every backend model that may run.
    """

    system: System
    server: str
    encoders: Mapping[str, Encoder]
    notices: tuple[str, ...]
    signatures: Mapping[str, ModelSignature]


def assemble(config: Config, backend: Backend) -> Assembly:
    """
    Connect, inspect every variant that may run, check every stream, open its input memory.

    :raises BackendUnavailable: no server, or a model that is not there or not ready.
    :raises EncodeError: an encoder that does not exist or cannot feed its model.
    :raises Mismatch: a tensor that the model does not have, or with ``trust: strict`` a model of
        the server that no contract names.
    """
    end_s = time.monotonic() + CONFIGURE_TIMEOUT_S
    _check_owners(config)
    server = backend.connect(timeout_s=_CONNECT_TIMEOUT_S)
    signatures: dict[str, ModelSignature] = {}
    for model in config.system.models.values():
        for variant in model.usable_variants:
            if variant.backend_model not in signatures:
                signatures[variant.backend_model] = _inspect(
                    backend, model, variant, end_s,
                    may_stream=config.file.models[model.name].decoupled)
    if config.backend.is_strict:
        _refuse_others(config, backend, signatures, end_s)
    system = _with_signatures(config, signatures)
    notices = [*config.notices,
               *(text for signature in signatures.values() for text in signature.warnings),
               *map(str, disagreements(system.models, system.slots, {
                   name: signature.capacity for name, signature in signatures.items()
                   if signature.capacity is not None}))]
    for model in system.models.values():
        reason = model.reason_against_selection
        if reason is not None:
            notices.append(f'models.{model.name}: variants are not selected automatically, only '
                           f'the first usable one runs: {reason}')
    for name, options in config.generative.items():
        for variant in system.models[name].runnable_variants:
            _check_generative(name, options, signatures[variant.backend_model])
        waits = room_text(config, system.models[name], system.models.values())
        if waits:
            notices.append(f'models.{name}.cooperative: {waits}')
    encoders = {binding.name: _encoder(binding, system.models[binding.model], signatures)
                for binding in config.streams if not binding.is_generative}
    for binding in (*config.streams, *config.job_streams):
        backend.open_stream(binding.name, slots=binding.shm_slots,
                            transport=_transport(binding))
    return Assembly(system, server, MappingProxyType(encoders), tuple(dict.fromkeys(notices)),
                    MappingProxyType(signatures))


def _inspect(backend: Backend, model: Model, variant: Variant, end_s: float, *,
             may_stream: bool) -> ModelSignature:
    try:
        return backend.inspect(variant.backend_model, may_stream=may_stream,
                               timeout_s=max(0.1, end_s - time.monotonic()))
    except BackendUnavailable as error:
        raise BackendUnavailable(
            f'models.{model.name}.variants: variant {variant.variant_id}: {error}') from None


def _refuse_others(config: Config, backend: Backend, signatures: Mapping[str, ModelSignature],
                   end_s: float) -> None:
    """Keep the premise of all plans: nothing runs on this server that no contract names."""
    named = {*config.backend_models,
             *(step for signature in signatures.values() for step in signature.steps)}
    ready = backend.ready_models(timeout_s=max(0.1, end_s - time.monotonic()))
    others = [name for name in ready if name not in named]
    if others:
        raise Mismatch(
            f'{config.source}: backend.trust = strict: the server also serves '
            f'{", ".join(others[:8])}{" ..." if len(others) > 8 else ""}, which no contract '
            'names; unload them, name them in models, or set trust: open')


def _with_signatures(config: Config, signatures: Mapping[str, ModelSignature]) -> System:
    models = {
        name: replace(model, variants=tuple(
            replace(variant, signature=signatures[variant.backend_model].digest)
            if variant.backend_model in signatures else variant
            for variant in model.variants))
        for name, model in config.system.models.items()}
    streams = {binding.name: binding.model
               for binding in (*config.streams, *config.job_streams)}
    return replace(config.system, models=MappingProxyType(models),
                   streams=MappingProxyType(streams))


def _check_owners(config: Config) -> None:
    others = [uid for uid in config.backend.shm_owner_uids if uid != os.geteuid()]
    if others and os.geteuid() != 0:
        raise Mismatch(
            f'{config.source}: backend.security.shm_owner_uids: names user {others[0]}, but only '
            f'root may refer to the memory of other users, and the node runs as user '
            f'{os.geteuid()}; run the producers as the same user, or the node as root')


def _check_generative(model: str, options: GenerativeOptions, signature: ModelSignature) -> None:
    """Refuse a block cooperative whose tensors the model does not have, or has otherwise."""
    at = f'models.{model}.cooperative'
    inputs = {spec.name: spec for spec in signature.inputs}
    outputs = {spec.name: spec for spec in signature.outputs}
    for key, name, specs, types in (
            ('prompt_tensor', options.prompt_tensor, inputs, ('BYTES',)),
            ('max_tokens_tensor', options.max_tokens_tensor, inputs, _COUNTS),
            ('text_tensor', options.text_tensor, outputs, ('BYTES',)),
            ('tokens_tensor', options.tokens_tensor, outputs, _COUNTS),
            ('end_tensor', options.end_tensor, outputs, ('BOOL', *_COUNTS))):
        if name is None:
            continue
        where = f'{at}.{key}: model {signature.backend_model!r}'
        if name not in specs:
            kind = 'input' if specs is inputs else 'output'
            raise Mismatch(f'{where} has no {kind} {name!r}; its {kind}s are {", ".join(specs)}')
        if specs[name].datatype not in types:
            raise Mismatch(f'{where} has {name} as {specs[name].datatype}; '
                           f'{" or ".join(types)} is needed')
        if any(size > 1 for size in specs[name].shape):
            raise Mismatch(f'{where} has {name} with shape {list(specs[name].shape)}; one element '
                           'is needed')
    try:
        check_complete(signature, [options.prompt_tensor, options.max_tokens_tensor])
    except SignatureMismatch as error:
        raise Mismatch(f'{at}: {error}') from None


def _transport(binding: StreamBinding) -> str:
    if binding.message_type != REFERENCE_TYPE:
        return binding.transport
    if binding.transport == 'copy':
        raise Mismatch(f'streams.{binding.name}.transport: the frames of a {REFERENCE_TYPE} stay '
                       'in shared memory and cannot be copied; remove transport: copy')
    return 'refer'


def _encoder(binding: StreamBinding, model: Model,
             signatures: Mapping[str, ModelSignature]) -> Encoder:
    at = f'streams.{binding.name}'
    try:
        encoder = make_encoder(binding.input)
        for variant in model.runnable_variants:
            inputs = {spec.name: spec for spec in signatures[variant.backend_model].inputs}
            spec = inputs.get(binding.input.tensor)
            if spec is None:
                raise Mismatch(
                    f'{at}.input.tensor: model {variant.backend_model!r} has no input '
                    f'{binding.input.tensor!r}; its inputs are {", ".join(inputs)}')
            check_complete(signatures[variant.backend_model], [binding.input.tensor])
            encoder.check(spec, binding.message_type)
    except SignatureMismatch as error:
        raise Mismatch(f'{at}.input: {error}') from None
    except EncodeError as error:
        raise EncodeError(f'{at}.input: {error}') from None
    return encoder
