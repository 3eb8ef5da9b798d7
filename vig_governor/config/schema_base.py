"""What the file classes share: strictness, units, names, and keys that are known but refused."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema, CoreSchema

HOUR_MS = 3_600_000


class Block(BaseModel):
    """A mapping of the file: unknown keys and silent conversions are errors."""

    model_config = ConfigDict(extra='forbid', frozen=True, strict=True, allow_inf_nan=False,
                              protected_namespaces=(), hide_input_in_errors=True)


Name = Annotated[str, Field(pattern=r'^[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}$')]
"""A model, variant or stream: at most 64 letters, digits and ``_ . -``."""

BackendName = Annotated[str, Field(min_length=1, max_length=256)]

Ms = Annotated[float, Field(gt=0, le=HOUR_MS)]
"""Milliseconds, up to one hour: ages are clamped there."""

MsOrZero = Annotated[float, Field(ge=0, le=HOUR_MS)]

Us = Annotated[int, Field(gt=0, le=HOUR_MS * 1000)]

UsOrZero = Annotated[int, Field(ge=0, le=HOUR_MS * 1000)]

Percent = Annotated[float, Field(ge=0, le=100)]

Datatype = Literal['BOOL', 'UINT8', 'UINT16', 'UINT32', 'UINT64', 'INT8', 'INT16', 'INT32',
                   'INT64', 'FP16', 'FP32', 'FP64', 'BF16', 'BYTES']


@dataclass(frozen=True)
class Unsupported:
    """
    Marks a key of the published format that is not acted on here: only its default passes.

    :ivar what: what the key would do, for the refusal.
    :ivar default: a value besides null that means the same as leaving the key out.
    """

    what: str
    default: object = None

    def __get_pydantic_core_schema__(self, source: Any,
                                     handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the value against the default."""
        return core_schema.no_info_after_validator_function(self._refuse, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema,
                                     handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe the key for editors."""
        return {'description': f'Not supported ({self.what}); only its default is accepted: '
                               f'{self._shown}.'}

    @property
    def _shown(self) -> str:
        return 'null' if self.default is None else str(self.default)

    def _refuse(self, value: object) -> object:
        if not _is_default(value, self.default):
            raise ValueError(f'not supported here ({self.what}); '
                             f'remove it or leave it at its default, {self._shown}')
        return value


def _is_default(value: object, default: object) -> bool:
    if value is None or value is False or value == '' or value == [] or value == {}:
        return True
    if isinstance(value, dict) and isinstance(default, dict):
        return all(key in default and _is_default(one, default[key])
                   for key, one in value.items())
    return type(value) is type(default) and value == default
