"""
Values of the core as JSON and back: events, systems, and all that they are made of.

A dataclass becomes an object that names its class, an enumeration its member; sets and mappings
are sorted, so that equal values are equal texts. Only known classes are read back.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from vig_core import contract, cooperative, events, model, request
from vig_core.errors import VigError

_CLASS = '_'

_KNOWN: dict[str, type[Any]] = {
    one.__name__: one for one in (
        contract.Contract, contract.Criticality, contract.QueuePolicy, contract.Overflow,
        contract.DeliveryBoundary, contract.DeliverySemantics, contract.Evidence,
        contract.MissBudget, cooperative.Cooperative, model.Model, model.QualitySource,
        model.RuntimeProfile, model.System, model.Variant, request.Reason, events.Stamp,
        events.RequestArrived, events.BackendCompleted, events.QuantumCompleted,
        events.BackendFailed, events.DispatchRefused, events.CancelRequested,
        events.ExecutionsProvenOver, events.ExecutionInherited, events.CyclesInherited,
        events.ProfileDoubted, events.TextsForgotten, events.TimeJumped,
        events.DrainStarted, events.DrainExpired, events.Woke)}


class NotATraceValue(VigError):
    """A text that stands for no value of the core."""


def encode(value: Any) -> Any:
    """Turn a value of the core into plain JSON values."""
    if isinstance(value, Enum):
        return {_CLASS: type(value).__name__, 'name': value.name}
    if is_dataclass(value) and not isinstance(value, type):
        return {_CLASS: type(value).__name__,
                **{one.name: encode(getattr(value, one.name)) for one in fields(value)}}
    if isinstance(value, Mapping):
        return {_CLASS: 'map', 'items': sorted(
            ([encode(key), encode(one)] for key, one in value.items()), key=repr)}
    if isinstance(value, frozenset):
        return {_CLASS: 'set', 'items': sorted((encode(one) for one in value), key=repr)}
    if isinstance(value, tuple):
        return [encode(one) for one in value]
    return value


def decode(value: Any) -> Any:
    """
    Turn what ``encode`` made into the value again.

    :raises NotATraceValue: it stands for no value of the core.
    """
    if isinstance(value, list):
        return tuple(decode(one) for one in value)
    if not isinstance(value, dict):
        return value
    name = value.get(_CLASS)
    try:
        if name == 'map':
            return MappingProxyType({decode(key): decode(one) for key, one in value['items']})
        if name == 'set':
            return frozenset(decode(one) for one in value['items'])
        known = _KNOWN[name]
        if issubclass(known, Enum):
            return known[value['name']]
        return known(**{key: decode(one) for key, one in value.items() if key != _CLASS})
    except (KeyError, TypeError, ValueError) as error:
        raise NotATraceValue(f'{name!r} with {sorted(value)} is no value of this version: '
                             f'{error}') from None
