"""Checks of the inference server: there, ready, its models fit, its settings do not hurt."""

from collections.abc import Iterable

from vig_governor.backend.base import ModelSignature
from vig_governor.config.schema_model import TensorBlock
from vig_governor.doctor.context import Context
from vig_governor.doctor.finding import fail, Finding, ok, skip, warn
from vig_governor.endpoints import is_loopback
from vig_governor.instances import capacities_of, disagreements

OFFLINE = 'not checked: --offline'
UNREACHABLE = 'not checked: the server does not answer'


def check_reachable(context: Context) -> Iterable[Finding]:
    """Whether the server answers, and which it is."""
    server = context.server
    if server is None:
        yield skip(OFFLINE)
    elif server.problem:
        said, comma, remedy = server.problem.rpartition('): ')
        yield fail(f'{said})' if comma else server.problem,
                   remedy if comma else 'correct the block backend, or start the server',
                   endpoint=context.config.backend.endpoint)
    else:
        yield ok(server.text, name=server.facts.name, version=server.facts.version)


def check_models(context: Context) -> Iterable[Finding]:
    """Whether every model of the file is there and ready."""
    server = context.server
    if server is None or server.problem:
        yield skip(OFFLINE if server is None else UNREACHABLE)
        return
    for name, why in server.not_ready.items():
        yield fail(why, f'load {name} on the server, or correct backend_model', model=name)
    if not server.not_ready:
        yield ok(f'{len(server.signatures)} of {len(context.config.backend_models)} models are '
                 'ready', models=list(server.signatures))


def check_signatures(context: Context) -> Iterable[Finding]:
    """Whether variants are interchangeable, or meet the interface that the file promises."""
    server = context.server
    if server is None or server.problem:
        yield skip(OFFLINE if server is None else UNREACHABLE)
        return
    count = 0
    for name, block in context.config.file.models.items():
        known = [server.signatures[variant.backend_model] for variant in block.variants
                 if variant.backend_model in server.signatures]
        count += len(known)
        if block.io_signature is not None:
            for signature in known:
                yield from _against(f'models.{name}', signature, 'inputs',
                                    block.io_signature.inputs)
                yield from _against(f'models.{name}', signature, 'outputs',
                                    block.io_signature.outputs)
        elif len({signature.digest for signature in known}) > 1:
            yield warn(
                f'models.{name}: its {len(known)} variants have different inputs or outputs, so '
                'only the first usable one ever runs',
                'serve variants with one interface, or split them into two models', model=name)
    yield ok(f'{count} signatures read')


def _against(where: str, signature: ModelSignature, side: str,
             promised: Iterable[TensorBlock]) -> Iterable[Finding]:
    real = {spec.name: spec for spec in getattr(signature, side)}
    for tensor in promised:
        spec = real.get(tensor.name)
        wanted = f'{tensor.datatype} {tensor.dims}'
        found = 'nothing' if spec is None else f'{spec.datatype} {list(spec.shape)}'
        if wanted != found:
            yield fail(f'{where}.io_signature.{side}: {tensor.name} of {signature.backend_model} '
                       f'is {found}, promised {wanted}',
                       'correct io_signature, or serve the model that it describes',
                       model=signature.backend_model, tensor=tensor.name)


def check_batching(context: Context) -> Iterable[Finding]:
    """Whether the server waits for batches, bounds its queue or ignores classes."""
    server = context.server
    if server is None or server.problem:
        yield skip(OFFLINE if server is None else UNREACHABLE)
        return
    sentences = [(name, sentence) for name, signature in server.signatures.items()
                 for sentence in signature.warnings]
    for name, sentence in sentences:
        yield warn(sentence, f'change config.pbtxt of {name} accordingly', model=name)
    if not sentences:
        yield ok(f'{len(server.signatures)} models, 0 settings that hurt')


def check_slots(context: Context) -> Iterable[Finding]:
    """Whether ``slots`` and ``instances`` are what the server really runs at once."""
    server = context.server
    if server is None or server.problem:
        yield skip(OFFLINE if server is None else UNREACHABLE)
        return
    slots = context.config.system.slots
    capacities = capacities_of(server.facts.configs)
    instances = {name: capacity.instances for name, capacity in capacities.items()}
    total = sum(instances.values())
    is_certain = not any(capacity.runs_more for capacity in capacities.values())
    if instances and slots > total and is_certain:
        yield fail(f'slots {slots}, but the models have {total} instances together: the rest '
                   'waits in a queue of the server that nobody sees', f'set backend.slots to '
                   f'{total} or less', slots=slots, instances=instances)
        return
    found = list(disagreements(context.config.system.models, slots, capacities))
    for one in found:
        yield warn(one.said, one.remedy, about=one.variant, slots=slots, instances=instances)
    more = {name: count for name, count in instances.items() if count > slots}
    for name, count in more.items() if not found else ():
        yield warn(f'{count} instances for slots {slots}: the others are never used',
                   'raise backend.slots if the device really runs them at once, or lower '
                   'instance_group.count', about=name, slots=slots, instances=instances)
    if not found and not more:
        yield ok(f'slots {slots}, {total} instances of {len(instances)} models', slots=slots,
                 instances=instances)


def check_shared_memory(context: Context) -> Iterable[Finding]:
    """Whether frames reach the server without a copy through the connection."""
    server = context.server
    transports = {binding.name: binding.transport for binding in context.config.streams}
    if server is None or server.problem:
        yield skip(OFFLINE if server is None else UNREACHABLE)
    elif not transports or set(transports.values()) == {'copy'}:
        yield ok(f'not used by any of the {len(transports)} streams')
    elif not is_loopback(context.config.backend.endpoint) and 'shm' not in transports.values():
        yield ok(f'the server is on another host: {len(transports)} streams are copied')
    elif server.shared_memory:
        named = [name for name, transport in transports.items() if transport == 'shm']
        say = fail if named else warn
        yield say(f'{server.shared_memory} ({len(named)} streams insist on it)',
                  'give both the same /dev/shm and do not start the server with '
                  '--allow-client-shared-memory=false; or set transport: copy', streams=named)
    else:
        yield ok(f'works for {len(transports)} streams')


def check_foreign_callers(context: Context) -> Iterable[Finding]:
    """Whether somebody else uses our models: then the server's counters prove nothing."""
    server = context.server
    if server is None or server.problem:
        yield skip(OFFLINE if server is None else UNREACHABLE)
        return
    busy = {name: count for name, count in server.grown.items() if count}
    running = context.graph.governors if context.graph is not None else ()
    if not busy:
        yield ok(f'0 completions in {server.watched_s:g} s')
    elif running:
        yield ok(f'{sum(busy.values())} completions in {server.watched_s:g} s while {running[0]} '
                 'runs; they cannot be told apart from its own', completions=busy)
    else:
        yield warn(f'{_counts(busy)} in {server.watched_s:g} s, and no governor is seen running',
                   'let the governor be the only caller of its models: others take its slots '
                   'and spoil the proof that an execution has ended', completions=busy)


def _counts(counts: dict[str, int]) -> str:
    return ', '.join(f'{name} ended {count} times' for name, count in counts.items())
