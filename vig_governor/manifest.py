"""
Whether a profile still speaks for the machine it is used on, field by field.

Rules:

- Three verdicts. ``verified``: recorded and found are equal. ``contradicted``: they differ.
  ``unknown``: one of them is missing, also where both are. Silence is not agreement.
- Only a contradiction in the first four blocks (artifact, runtime, device, resources) makes the
  profile no longer authoritative: it was measured on something else. A gap is reported as a gap
  and widens nothing.
- Nothing is summed up to a score: what differs is named.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from vig_governor.config.schema_model import Manifest

REVISION = 2
COMPARED = {
    'artifact': ('digest', 'bytes', 'versions'),
    'runtime': ('server', 'server_version', 'platform', 'library_version'),
    'device': ('name', 'compute_capability', 'memory_mib', 'driver'),
    'resources': ('partition', 'instances', 'rate_limiter'),
}
"""The blocks in which a contradiction counts, and their fields."""

MEMORY_TOLERANCE_PERMILLE = 20
"""Kernels and drivers reserve a little more or less after an update."""


class Verdict(Enum):
    """What is known of one field."""

    VERIFIED = 'verified'
    UNKNOWN = 'unknown'
    CONTRADICTED = 'contradicted'


@dataclass(frozen=True, slots=True)
class FieldVerdict:
    """One field; ``None`` is what was not recorded or cannot be found out."""

    field: str
    verdict: Verdict
    recorded: Any
    found: Any

    def __str__(self) -> str:
        """Name the field and both values."""
        return f'{self.field}: recorded {_text(self.recorded)}, found {_text(self.found)}'


def compare(recorded: Manifest | None, found: Manifest) -> tuple[FieldVerdict, ...]:
    """Judge every field of the four blocks that count, in their order."""
    return tuple(_judge(block, field, recorded, found)
                 for block, fields in COMPARED.items() for field in fields)


def contradictions(verdicts: Iterable[FieldVerdict]) -> tuple[FieldVerdict, ...]:
    """Give what differs; anything at all means that the profile is no longer authoritative."""
    return tuple(one for one in verdicts if one.verdict is Verdict.CONTRADICTED)


def _judge(block: str, field: str, recorded: Manifest | None, found: Manifest) -> FieldVerdict:
    ours, theirs = _value(recorded, block, field), _value(found, block, field)
    if ours is None or theirs is None:
        verdict = Verdict.UNKNOWN
    elif _is_same(field, ours, theirs):
        verdict = Verdict.VERIFIED
    else:
        verdict = Verdict.CONTRADICTED
    return FieldVerdict(f'{block}.{field}', verdict, ours, theirs)


def _value(manifest: Manifest | None, block: str, field: str) -> Any:
    part = None if manifest is None else getattr(manifest, block)
    value = None if part is None else getattr(part, field)
    return value if value != [] and value != '' else None


def _is_same(field: str, ours: Any, theirs: Any) -> bool:
    if field == 'memory_mib':
        return bool(abs(ours - theirs) * 1000 <= max(ours, theirs) * MEMORY_TOLERANCE_PERMILLE)
    if field == 'versions':
        return sorted(ours) == sorted(theirs)
    return bool(ours == theirs)


def _text(value: Any) -> str:
    if value is None:
        return 'nothing'
    if isinstance(value, list):
        return ', '.join(map(str, value))
    text = str(value)
    return text if len(text) <= 40 else f'{text[:37]}...'
