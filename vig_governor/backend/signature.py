"""What a model's configuration says, and what a governor must know of it beforehand."""

from collections.abc import Mapping, Sequence
import math
from typing import Any

from vig_core.errors import VigError

from vig_governor.backend.base import ModelSignature, OutputTensor, TensorSpec
from vig_governor.datatypes import element_size
from vig_governor.instances import capacity_of

MAX_MESSAGE_BYTES = 2**31 - 1
"""Triton's own limit for one gRPC message, and that of protocol buffers."""

MESSAGE_OVERHEAD_BYTES = 64 * 1024


class SignatureMismatch(VigError):
    """A tensor that the model cannot take; says what the model wants."""


class NotGovernable(VigError):
    """A model that answers in a way that one request with one answer cannot serve."""


def signature_of(config: Mapping[str, Any], *, may_stream: bool = False) -> ModelSignature:
    """
    Read a model configuration in its JSON form (numbers as text, zeros left out).

    :param may_stream: whether a decoupled model is of use.
    :raises NotGovernable: a decoupled model otherwise, or one that needs sequence ids.
    """
    name = str(config['name'])
    is_decoupled = bool(config.get('model_transaction_policy', {}).get('decoupled'))
    if is_decoupled and not may_stream:
        raise NotGovernable(
            f'model {name!r} is decoupled (it answers with any number of responses): only models '
            'with one answer for each request are supported, and generative ones (decoupled: true '
            'and cooperative); set model_transaction_policy.decoupled to false in its '
            'config.pbtxt, or leave it out of the configuration')
    if 'sequence_batching' in config:
        raise NotGovernable(
            f'model {name!r} uses sequence_batching: its requests need a sequence id, which is '
            'not supported; remove the block from its config.pbtxt if single frames make sense')
    return ModelSignature(
        backend_model=name,
        inputs=tuple(_spec(entry) for entry in config.get('input', ())),
        outputs=tuple(_spec(entry) for entry in config.get('output', ())),
        max_batch_size=int(config.get('max_batch_size', 0)),
        warnings=_warnings(name, config.get('dynamic_batching')),
        steps=tuple(str(step.get('model_name', ''))
                    for step in config.get('ensemble_scheduling', {}).get('step', ())),
        is_decoupled=is_decoupled, capacity=capacity_of(config))


def check_input(signature: ModelSignature, tensor: str, datatype: str,
                shape: Sequence[int]) -> None:
    """
    Refuse an input that the server would refuse frame by frame.

    :param shape: what will be sent; ``-1`` for an axis that is only known from the frame. A
        model with ``max_batch_size`` takes it with or without the batch axis.
    :raises SignatureMismatch: unknown name, other type, other rank, other fixed axis, or too big
        for one message.
    """
    where = f'model {signature.backend_model!r}'
    spec = next((entry for entry in signature.inputs if entry.name == tensor), None)
    if spec is None:
        known = ', '.join(repr(entry.name) for entry in signature.inputs) or 'none'
        raise SignatureMismatch(f'{where} has no input {tensor!r}; its inputs are {known}')
    where += f', input {tensor!r}'
    if datatype != spec.datatype:
        raise SignatureMismatch(f'{where}: wants {spec.datatype}, not {datatype}')
    given = without_batch_axis(signature, spec, shape)
    if len(given) != len(spec.shape):
        raise SignatureMismatch(f'{where}: wants {len(spec.shape)} axes {_text(spec.shape)}, '
                                f'not {len(shape)} axes {_text(shape)}')
    for axis, (wanted, got) in enumerate(zip(spec.shape, given)):
        if wanted >= 0 and got >= 0 and wanted != got:
            raise SignatureMismatch(f'{where}: axis {axis} must be {wanted}, not {got} '
                                    f'(wants {_text(spec.shape)}, gets {_text(shape)})')
    check_message_size(signature, {tensor: (datatype, shape)})


def check_complete(signature: ModelSignature, tensors: Sequence[str]) -> None:
    """
    Refuse a set of inputs that leaves out one that the model requires.

    :raises SignatureMismatch: names what is missing.
    """
    missing = [spec.name for spec in signature.inputs
               if not spec.is_optional and spec.name not in tensors]
    if missing:
        raise SignatureMismatch(
            f'model {signature.backend_model!r} also requires the inputs '
            f'{", ".join(map(repr, missing))}, which nothing fills')


def check_message_size(signature: ModelSignature,
                       tensors: Mapping[str, tuple[str, Sequence[int]]]) -> None:
    """
    Refuse inputs that can never be sent in one message; axes of any size count as one.

    Shared memory has no such limit, but the server may refuse shared memory at any time.

    :raises SignatureMismatch: says both sizes.
    """
    total = sum(math.prod(max(axis, 1) for axis in shape) * element_size(datatype)
                for datatype, shape in tensors.values() if datatype != 'BYTES')
    if total + MESSAGE_OVERHEAD_BYTES > MAX_MESSAGE_BYTES:
        raise SignatureMismatch(
            f'model {signature.backend_model!r}: its input of {total} bytes does not fit into one '
            f'gRPC message ({MAX_MESSAGE_BYTES} bytes); send a smaller one')


def wrong_output(signature: ModelSignature, outputs: Sequence[OutputTensor]) -> str:
    """Say in what an answer breaks the promise of the model's configuration, or nothing."""
    promised = {spec.name: spec for spec in signature.outputs}
    for output in outputs:
        spec = promised.get(output.name)
        if spec is None:
            return f'answered an output {output.name!r} that its configuration does not have'
        given = without_batch_axis(signature, spec, output.shape)
        is_fitting = len(given) == len(spec.shape) and all(
            wanted < 0 or wanted == got for wanted, got in zip(spec.shape, given))
        if output.datatype != spec.datatype or not is_fitting:
            return (f'answered output {output.name!r} as {output.datatype} {_text(output.shape)}; '
                    f'its configuration promises {spec.datatype} {_text(spec.shape)}')
    return ''


def without_batch_axis(signature: ModelSignature, spec: TensorSpec,
                       shape: Sequence[int]) -> tuple[int, ...]:
    """Drop the leading batch axis of a batching model's input, if there is one."""
    axes = tuple(shape)
    if signature.max_batch_size > 0 and len(axes) == len(spec.shape) + 1:
        return axes[1:]
    return axes


def _spec(entry: Mapping[str, Any]) -> TensorSpec:
    kind = str(entry['data_type']).removeprefix('TYPE_')
    return TensorSpec(name=str(entry['name']), datatype='BYTES' if kind == 'STRING' else kind,
                      shape=tuple(int(axis) for axis in entry.get('dims', ())),
                      is_optional=bool(entry.get('optional', False)))


def _warnings(name: str, batching: Mapping[str, Any] | None) -> tuple[str, ...]:
    if batching is None:
        return ()
    found = []
    delay_us = int(batching.get('max_queue_delay_microseconds', 0))
    if delay_us:
        found.append(
            f'model {name!r} waits up to {delay_us / 1000:g} ms for a batch to fill; a governor '
            'that sends one frame at a time pays this on every frame: set '
            'dynamic_batching.max_queue_delay_microseconds to 0')
    policy = batching.get('default_queue_policy', {})
    if int(policy.get('max_queue_size', 0)):
        found.append(
            f'model {name!r} has a bounded queue on the server ({policy["max_queue_size"]}); when '
            'it is full the server rejects the newest frame and keeps the oldest: remove '
            'max_queue_size, the governor bounds what is sent')
    if int(policy.get('default_timeout_microseconds', 0)):
        found.append(
            f'model {name!r} has a default queue timeout; servers with one were seen to slow down '
            'over time: remove default_timeout_microseconds')
    if int(batching.get('priority_levels', 0)):
        found.append(
            f'model {name!r} batches with priority_levels; a server was seen to stall for 500 ms '
            'between executions with them: remove the levels, the governor decides the order')
    else:
        found.append(
            f'model {name!r} has no priority levels: a request of another client of the server '
            'that came first also runs first, whatever its class here')
    return tuple(found)


def _text(shape: Sequence[int]) -> str:
    return '[' + ', '.join('any' if axis < 0 else str(axis) for axis in shape) + ']'
