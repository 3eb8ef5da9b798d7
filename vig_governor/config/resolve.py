"""
File classes to core values.

Rules of the core stay in the core; here are those that only a file can break.
"""

from collections.abc import Mapping
import re
from types import MappingProxyType

from vig_core import units
from vig_core.contract import Contract, Criticality, Overflow, QueuePolicy
from vig_core.cooperative import Cooperative
from vig_core.errors import ContractError
from vig_core.model import Model, QualitySource, RuntimeProfile, System, Variant

from vig_governor.config.options import BackendOptions, SecurityOptions
from vig_governor.config.problems import Findings, Path
from vig_governor.config.resolve_contract import notice_contract, resolve_contract
from vig_governor.config.resolve_security import resolve_security
from vig_governor.config.schema import Backend
from vig_governor.config.schema_model import (
    Cooperative as CooperativeBlock, ModelBlock, VariantBlock,
)
from vig_governor.config.translate import nearest
from vig_governor.endpoints import is_loopback

_ENDPOINT = re.compile(r'(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.\-]+):(\d{1,5})\Z')


def resolve_model(name: str, block: ModelBlock, findings: Findings) -> Model:
    """Resolve one model; problems go to ``findings`` and the result then only stands in."""
    at: Path = ('models', name)
    contract = resolve_contract(block.contract, at, findings)
    variants = tuple(_variant(one, block, (*at, 'variants', index), contract, findings)
                     for index, one in enumerate(block.variants))
    kept = {variant.variant_id: variant for variant in variants}
    try:
        model = Model(
            name=name, criticality=Criticality[block.class_name.upper()], contract=contract,
            variants=variants, policy=QueuePolicy(block.queue.policy),
            capacity=block.queue.capacity, overflow=Overflow(block.queue.overflow),
            is_stateful=block.stateful,
            cooperative=_cooperative(block.cooperative, (*at, 'cooperative'), findings))
    except ContractError as error:
        findings.refuse(('models', *error.path), error.reason)
        return Model(name=name, criticality=Criticality[block.class_name.upper()],
                     contract=Contract(deadline_ns=contract.deadline_ns),
                     variants=tuple(kept.values()))
    _check_variants(model, at, findings)
    notice_contract(model, block, at, findings)
    return model


def resolve_system(backend: Backend, models: Mapping[str, Model], names: list[str],
                   streams: Mapping[str, str], findings: Findings) -> System:
    """
    Resolve what the scheduler must know besides the models.

    :param streams: stream name -> model name.
    :param names: every model that the file names, the broken ones included.
    """
    _notice_instances(backend, models, findings)
    pairs = set()
    for index, pair in enumerate(backend.no_corun):
        at: Path = ('backend', 'no_corun', index)
        for position, name in enumerate(pair):
            if name not in names:
                findings.refuse((*at, position), f'is no model; {nearest(name, names)}')
        if pair[0] == pair[1]:
            findings.refuse(at, f'names {pair[0]} twice; a pair needs two different models. To '
                            'run it once at a time, write instances: 1 at its variants')
        if pair[0] in models and pair[1] in models and pair[0] != pair[1]:
            pairs.add(frozenset(pair))
    try:
        return System(
            models=MappingProxyType(dict(models)),
            streams=MappingProxyType({stream: model for stream, model in streams.items()
                                      if model in models}), slots=backend.slots,
            pipelining_depth=backend.pipelining_depth,
            pipelining_lead_ns=(None if backend.pipelining_lead_ms is None
                                else units.ms(backend.pipelining_lead_ms)),
            learns_occupancy=backend.learn_occupancy,
            no_corun=frozenset(pairs),
            interference_ns=MappingProxyType(_interference(backend, models, names, findings)),
            margin_percent=backend.safety_margin_percent,
            inference_timeout_ns=units.ms(backend.inference_timeout_ms),
            max_inflight_bytes=backend.max_inflight_mib * 1024 * 1024,
            is_miss_aware=backend.miss_aware_policy)
    except ContractError as error:
        findings.refuse(error.path, error.reason)
        return System(models=MappingProxyType({}))


def resolve_backend(backend: Backend, folder: str, findings: Findings, *,
                    must_exist: bool) -> BackendOptions:
    """
    Resolve how the server is reached.

    :param folder: relative paths of the file start here.
    :param must_exist: whether the named certificates must be there now.
    """
    check_endpoint(backend.grpc_endpoint, ('backend', 'grpc_endpoint'), findings)
    options = resolve_security(backend.security, backend.grpc_endpoint, folder, findings,
                               must_exist=must_exist)
    if backend.http_endpoint is not None:
        _check_http_endpoint(backend.http_endpoint, options, findings)
    defaults = BackendOptions()
    return BackendOptions(
        endpoint=backend.grpc_endpoint, http_endpoint=backend.http_endpoint or '',
        inference_timeout_ns=units.ms(backend.inference_timeout_ms),
        drain_deadline_ns=units.seconds(backend.drain_deadline_s),
        model_repository=backend.model_repository, is_strict=backend.trust == 'strict',
        security=options,
        shm_key_prefix=(backend.security.shm_key_prefix if backend.security
                        else defaults.shm_key_prefix),
        max_shm_regions=(backend.security.max_shm_regions if backend.security
                         else defaults.max_shm_regions),
        shm_owner_uids=tuple(backend.security.shm_owner_uids or ()) if backend.security else ())


def check_endpoint(endpoint: str, at: Path, findings: Findings, *, usual: int = 8001,
                   mistaken: Mapping[str, str] = MappingProxyType({
                       '8000': "port 8000 is usually Triton's HTTP service; gRPC is 8001"})
                   ) -> None:
    """
    Refuse what is not ``host:port``; notice the port of another service.

    :param usual: port of the example in the sentence.
    :param mistaken: what to say to a port.
    """
    match = _ENDPOINT.match(endpoint)
    if match is None or not 1 <= int(match[2]) <= 65535:
        bare = endpoint.partition('://')[2]
        hint = f'; write {bare}' if bare and _ENDPOINT.match(bare) else ''
        findings.refuse(at, f'must be host:port, for example 127.0.0.1:{usual}{hint}')
    elif match[2] in mistaken:
        findings.notice(at, mistaken[match[2]])


def _check_http_endpoint(endpoint: str, security: SecurityOptions, findings: Findings) -> None:
    at = ('backend', 'http_endpoint')
    check_endpoint(endpoint, at, findings, usual=8000, mistaken={
        '8001': "port 8001 is usually Triton's gRPC service; HTTP is 8000"})
    if security.uses_tls:
        findings.refuse(at, "Triton's HTTP service has no TLS, and backend.security asks for it; "
                            'take this key out to send everything over gRPC')
    elif security.has_token and not is_loopback(endpoint):
        findings.refuse(at, 'the token would travel unencrypted to another host; take this key '
                            'out to send everything over gRPC')


def _cooperative(block: CooperativeBlock | None, at: Path,
                 findings: Findings) -> Cooperative | None:
    if block is None:
        return None
    try:
        return Cooperative(
            base_cost_ns=units.us(block.base_cost_us),
            per_token_ns=units.seconds(1 / block.tokens_per_second),
            prefill_per_token_ns=units.us(block.prefill_per_token_us),
            new_prompt_per_token_ns=(None if block.new_prompt_per_token_us is None
                                     else units.us(block.new_prompt_per_token_us)),
            min_tokens=block.min_tokens, max_total_tokens=block.max_total_tokens,
            max_overhead_permille=block.max_overhead_permille, is_split=block.split)
    except ContractError as error:
        findings.refuse((*at, *error.path), error.reason)
        return None


def _variant(block: VariantBlock, model: ModelBlock, at: Path, contract: Contract,
             findings: Findings) -> Variant:
    placeholder = RuntimeProfile(p50_ns=contract.deadline_ns, p99_ns=contract.deadline_ns)
    profile = placeholder
    if block.profile is not None:
        p95 = block.profile.p95_us
        try:
            profile = RuntimeProfile(
                p50_ns=units.us(block.profile.p50_us), p99_ns=units.us(block.profile.p99_us),
                p95_ns=None if p95 is None else units.us(p95))
        except ContractError as error:
            findings.refuse((*at, 'profile'), error.reason)
    return Variant(
        variant_id=block.id, backend_model=block.backend_model, profile=profile,
        quality=block.quality.value, quality_source=QualitySource(block.quality.source),
        signature='' if model.io_signature is None else model.io_signature.model_dump_json(),
        instances=block.instances)


def _check_variants(model: Model, at: Path, findings: Findings) -> None:
    for index, (one, other) in enumerate(zip(model.variants, model.variants[1:]), 1):
        if other.quality > one.quality:
            findings.refuse(
                (*at, 'variants', index, 'quality', 'value'),
                f'is better than the {one.quality:g} of the variant before it; list the variants '
                'in falling quality')
    if not model.usable_variants:
        findings.refuse(
            (*at, 'contract', 'min_quality'),
            f'no variant may run: none is approved and of quality {model.contract.min_quality:g} '
            'or better; lower min_quality or approve a better variant')
    elif model.reason_against_selection is not None:
        findings.notice((*at, 'variants'), 'variants are not selected automatically, only '
                        f'{model.runnable_variants[0].variant_id} runs: '
                        f'{model.reason_against_selection}')


def _notice_instances(backend: Backend, models: Mapping[str, Model], findings: Findings) -> None:
    """Say where the slots are fewer than the instances, so that these limit nothing."""
    for model in models.values():
        for index, variant in enumerate(model.variants):
            if variant.instances is not None and variant.instances > backend.slots:
                findings.notice(
                    ('models', model.name, 'variants', index, 'instances'),
                    f'limits nothing: backend.slots allows {backend.slots} executions at once')


def _interference(backend: Backend, models: Mapping[str, Model], names: list[str],
                  findings: Findings) -> dict[tuple[str, str], int]:
    """Spread each pair over the backend models of its two sides."""
    sides: dict[str, tuple[str, ...]] = {
        variant.backend_model: (variant.backend_model,)
        for model in models.values() for variant in model.variants}
    sides.update({name: tuple(variant.backend_model for variant in models[name].variants)
                  if name in models else () for name in names})
    table: dict[tuple[str, str], int] = {}
    for index, pair in enumerate(backend.interference):
        at: Path = ('backend', 'interference', index)
        for key, name in (('victim', pair.victim), ('co_tenant', pair.co_tenant)):
            if name not in sides:
                findings.refuse((*at, key), f'is no model; {nearest(name, names)}')
        if pair.victim == pair.co_tenant:
            findings.refuse(at, f'{pair.victim} cannot slow itself down; name two models')
        for victim in sides.get(pair.victim, ()):
            for co_tenant in sides.get(pair.co_tenant, ()):
                added = units.us(pair.added_us)
                table[victim, co_tenant] = max(added, table.get((victim, co_tenant), 0))
    return table
