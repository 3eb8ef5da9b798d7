"""
How many requests of a model the server runs at once, against what the file says.

Rule: a number is proposed only where one instance runs one request at a time. A decoupled model,
an instance of ``KIND_MODEL`` or a batching scheduler may run more; then only the operator knows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vig_core.model import Model, Variant


@dataclass(frozen=True, slots=True)
class Capacity:
    """
    What a model's configuration says.

    :ivar instances: over all its groups and devices.
    :ivar runs_more: why one instance may run several requests at once; empty where it does not.
    """

    instances: int
    runs_more: str = ''


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A variant whose limit is not what the server has, and what to write."""

    variant: str
    said: str
    remedy: str

    def __str__(self) -> str:
        """Say both in one sentence."""
        return f'{self.variant}: {self.said}; {self.remedy}'


def instances_of(config: Mapping[str, Any]) -> int | None:
    """Count the instances of a model configuration; ``None`` if unsaid."""
    groups = config.get('instance_group', ())
    total = sum(int(group.get('count', 1)) * max(1, len(group.get('gpus', ())))
                for group in groups)
    return total or None


def capacity_of(config: Mapping[str, Any]) -> Capacity | None:
    """Read a model configuration in its JSON form; ``None`` if it names no instances."""
    instances = instances_of(config)
    if instances is None:
        return None
    if config.get('model_transaction_policy', {}).get('decoupled'):
        return Capacity(instances, 'it is decoupled')
    if any(group.get('kind') == 'KIND_MODEL' for group in config.get('instance_group', ())):
        return Capacity(instances, 'its instances are of KIND_MODEL')
    if 'dynamic_batching' in config and int(config.get('max_batch_size', 0)) > 1:
        return Capacity(instances, 'it runs what waits as one batch')
    return Capacity(instances)


def capacities_of(configs: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Capacity]:
    """Read model configurations by backend model; those that name no instances stay out."""
    return {name: capacity for name, config in (configs or {}).items()
            if (capacity := capacity_of(config)) is not None}


def missing(models: Mapping[str, Model], slots: int,
            capacities: Mapping[str, Capacity]) -> dict[str, int]:
    """Give what a file should say, and does not say, by backend model."""
    variants = [variant for model in models.values() for variant in model.variants]
    known = {variant.backend_model for variant in variants if variant.instances is not None}
    return {name: capacity.instances for name, capacity in capacities.items()
            if name not in known and capacity.instances < slots and not capacity.runs_more}


def disagreements(models: Mapping[str, Model], slots: int,
                  capacities: Mapping[str, Capacity]) -> Iterator[Disagreement]:
    """
    Compare the variants of a file with their backend models.

    :param capacities: by backend model; what is missing is not compared.
    """
    known = {variant.backend_model: variant.instances for model in models.values()
             for variant in model.variants if variant.instances is not None}
    for model in models.values():
        for index, variant in enumerate(model.variants):
            capacity = capacities.get(variant.backend_model)
            if capacity is not None:
                yield from _compare(f'models.{model.name}.variants[{index}]', variant,
                                    known.get(variant.backend_model), slots, capacity)


def _compare(at: str, variant: Variant, said: int | None, slots: int,
             capacity: Capacity) -> Iterator[Disagreement]:
    name, real = variant.backend_model, capacity.instances
    here = f'{_text(real)} for {slots} slots'
    if said is None:
        if real < slots and capacity.runs_more:
            yield Disagreement(
                name, f'{here}, and {capacity.runs_more}: only you know whether a second request '
                'runs beside the first, or waits in the server where nothing newer replaces it',
                f'write "instances: {real}" at {at} if it waits, "instances: {slots}" if not')
        elif real < slots:
            yield Disagreement(
                name, f'{here}: a second request of it waits in the server, where nothing newer '
                'replaces it, and keeps a slot from other models',
                f'write "instances: {real}" at {at}, or raise instance_group.count')
    elif min(said, slots) > real and not capacity.runs_more:
        yield Disagreement(
            name, f'{_text(said)} in the file, {real} on the server: what is sent beyond '
            'these waits in the server', f'write "instances: {real}" at {at}, or raise '
            'instance_group.count')
    elif said < min(real, slots):
        yield Disagreement(
            name, f'{_text(said)} in the file, {real} on the server: the others are never used',
            f'write "instances: {real}" at {at}, or lower instance_group.count')


def _text(instances: int) -> str:
    return '1 instance' if instances == 1 else f'{instances} instances'
