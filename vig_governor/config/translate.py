"""Turns what pydantic found into sentences, and gives every block that is valid by itself."""

from collections.abc import Mapping
import difflib
from typing import Any, cast, get_args, get_origin, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vig_governor.config.problems import Findings, Path

BlockType = TypeVar('BlockType', bound=BaseModel)

_PLAIN = {
    'int_type': 'must be a whole number',
    'int_from_float': 'must be a whole number',
    'float_type': 'must be a number',
    'string_type': 'must be a text; put it in quotes',
    'bool_type': 'must be true or false',
    'list_type': 'must be a list: [ ... ]',
    'dict_type': 'must be a block of keys',
    'model_type': 'must be a block of keys',
    'model_attributes_type': 'must be a block of keys',
    'finite_number': 'must be a finite number',
}
_BOUNDS = {
    'greater_than': ('gt', 'must be greater than'),
    'greater_than_equal': ('ge', 'must be at least'),
    'less_than': ('lt', 'must be less than'),
    'less_than_equal': ('le', 'must be at most'),
}


def validate(cls: type[BlockType], data: object, at: Path,
             findings: Findings) -> BlockType | None:
    """
    Validate one block.

    :param at: where the block stands in the file.
    :returns: the block, or ``None`` with every problem added to ``findings``.
    """
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            _translate(cls, detail, at, findings)
        return None


def nearest(word: str, known: Mapping[str, Any] | list[str]) -> str:
    """Say which known word was probably meant, or which there are."""
    words = list(known)
    match = difflib.get_close_matches(word, words, 1, 0.6)
    if match:
        return f'did you mean {match[0]}?'
    return f'there are {", ".join(words)}' if words else 'there are none'


def _translate(cls: type[BaseModel], detail: ErrorDetails, at: Path,
               findings: Findings) -> None:
    kind, context = detail['type'], detail.get('ctx', {})
    location: Path = detail['loc']
    if location[-1:] == ('[key]',):
        findings.refuse((*at, *location[:-1]), 'a name starts with a letter or digit and has at '
                        'most 64 letters, digits and _ . -')
        return
    path = (*at, *location)
    if kind == 'extra_forbidden':
        block = _block_at(cls, location[:-1])
        keys = _keys(block) if block else []
        findings.refuse(path, f'unknown key; {nearest(str(location[-1]), keys)}')
        return
    description = _description(cls, location)
    if kind == 'missing':
        findings.refuse(path, f'is missing: {description}' if description else 'is missing')
    elif kind == 'value_error':
        findings.refuse(path, str(context['error']))
    else:
        reason = _reason(kind, context, detail['msg'], findings.texts.get(path, ''))
        findings.refuse(path, f'{reason} ({description})' if description else reason)


def _reason(kind: str, context: Mapping[str, Any], message: str, text: str) -> str:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f'{words} {_number(context[name])}'
    if kind == 'literal_error':
        expected = str(context['expected']).replace("'", '').replace(' or ', ', ')
        match = difflib.get_close_matches(text.strip('"'), expected.split(', '), 1, 0.6)
        hint = f'; did you mean {match[0]}?' if match else ''
        return f'must be one of {expected}{hint}' if ',' in expected else f'must be {expected}'
    if kind == 'too_short':
        return f'needs at least {context["min_length"]} entries'
    if kind == 'too_long':
        return f'takes at most {context["max_length"]} entries'
    if kind == 'string_too_short':
        return 'must not be empty'
    if kind == 'string_pattern_mismatch':
        return 'is not a valid name here'
    return message[:1].lower() + message[1:]


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _keys(block: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in block.model_fields.items()]


def _block_at(cls: type[BaseModel], location: Path) -> type[BaseModel] | None:
    """Find the class of the block that a location inside ``cls`` leads to."""
    current: Any = cls
    for part in location:
        current = _step(current, part)
    found = _bare(current)
    return cast('type[BaseModel]', found) if _is_block(found) else None


def _description(cls: type[BaseModel], location: Path) -> str:
    block = _block_at(cls, location[:-1]) if location else None
    if block is None:
        return _description(cls, location[:-1]) if len(location) > 1 else ''
    for name, field in block.model_fields.items():
        if (field.alias or name) == location[-1]:
            return field.description or ''
    return ''


def _step(annotation: Any, part: str | int) -> Any:
    bare = _bare(annotation)
    if _is_block(bare):
        for name, field in bare.model_fields.items():
            if (field.alias or name) == part:
                return field.annotation
        return None
    arguments = get_args(bare)
    return arguments[-1] if get_origin(bare) in (dict, list) and arguments else None


def _bare(annotation: Any) -> Any:
    """Strip ``Annotated`` and ``| None``."""
    while True:
        if hasattr(annotation, '__metadata__'):
            annotation = annotation.__origin__
            continue
        arguments = get_args(annotation)
        if type(None) in arguments:
            annotation = next(one for one in arguments if one is not type(None))
            continue
        return annotation


def _is_block(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
