"""
Write the tables of docs/reference.md: keys of vig.yaml, parameters of the node, metrics.

``python tools/write_reference.py`` replaces what stands between the markers of that file by what
the code says of itself; a test holds the two together.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
import re
from typing import Any

from vig_core.model import System
from vig_core.scheduler import Scheduler

from vig_governor.config.schema import json_schema
from vig_governor.metrics import Metrics
from vig_governor.parameters import ParameterRow, PARAMETERS

REFERENCE = Path(__file__).resolve().parent.parent / 'docs' / 'reference.md'
_UNSUPPORTED = 'Not supported'


def tables() -> Mapping[str, str]:
    """Give the text of each marked part by the name of its marker."""
    return {'keys': '\n'.join(_keys()), 'parameters': '\n'.join(_parameters()),
            'metrics': '\n'.join(_metrics())}


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Put each part between its markers, ``<!-- keys -->`` and ``<!-- end of keys -->``."""
    for name, part in parts.items():
        begin, end = f'<!-- {name} -->\n', f'\n<!-- end of {name} -->'
        text, count = re.subn(f'{begin}.*?{end}', lambda _, new=begin + part + end: new, text,
                              flags=re.DOTALL)
        assert count == 1, f'{REFERENCE.name} has {count} parts {name}'
    return text


# ---- keys of vig.yaml ----

def _keys() -> Iterator[str]:
    schema = json_schema()
    yield from _block('', schema, schema['$defs'])


def _block(path: str, block: Mapping[str, Any], defs: Mapping[str, Any]) -> Iterator[str]:
    """Give the table of one block, then those of the blocks in it."""
    inner = []
    if path:
        yield f'\n**`{path}`**: {_cell(block["description"])}\n'
    yield '| key | default | value | meaning |'
    yield '|---|---|---|---|'
    for key, value in block['properties'].items():
        description = value.get('description', '')
        if description.startswith(_UNSUPPORTED):
            continue
        default = 'mandatory' if key in block.get('required', ()) else _default(value)
        yield f'| `{key}` | {default} | {_value(value)} | {_cell(description)} |'
        suffix, name = _inner(value)
        if name:
            inner.append((f'{path}.{key}{suffix}'.lstrip('.'), defs[name]))
    refused = [key for key, value in block['properties'].items()
               if value.get('description', '').startswith(_UNSUPPORTED)]
    if refused:
        yield ('\nOf the published format, refused by name unless they hold their defaults: '
               + ', '.join(f'`{key}`' for key in refused) + '.')
    for below, found in inner:
        yield from _block(below, found, defs)


def _inner(value: Mapping[str, Any]) -> tuple[str, str]:
    """Give how a value holds another block, and the name of that block; empty if it does not."""
    for one in (value, *value.get('anyOf', ())):
        for suffix, held in (('', one), ('[]', one.get('items', {})),
                             ('.<name>', one.get('additionalProperties', {})),
                             ('.<name>', next(iter(one.get('patternProperties', {}).values()),
                                              {}))):
            if isinstance(held, Mapping) and '$ref' in held:
                return suffix, held['$ref'].rpartition('/')[2]
    return '', ''


def _default(value: Mapping[str, Any]) -> str:
    default = value.get('default')
    return '-' if default is None or isinstance(default, dict | list) else _as_yaml(default)


def _as_yaml(value: Any) -> str:
    return f'`{str(value).lower() if isinstance(value, bool) else value}`'


def _value(value: Mapping[str, Any]) -> str:
    """Say which values a key takes."""
    if 'anyOf' in value:
        return ' or '.join(_value(one) for one in value['anyOf'] if one != {'type': 'null'})
    if 'const' in value:
        return _as_yaml(value['const'])
    if 'enum' in value:
        return ', '.join(map(_as_yaml, value['enum']))
    suffix, name = _inner(value)
    if name:
        return {'': 'block', '[]': 'list of blocks', '.<name>': 'blocks by name'}[suffix]
    if value.get('type') == 'array':
        return f'list of {_value(value["items"])}'
    if value.get('type') == 'object':
        return 'mapping'
    kind = {'string': 'text', 'boolean': '`true`, `false`'}.get(value['type'], value['type'])
    return f'{kind}{_bounds(value)}'


def _bounds(value: Mapping[str, Any]) -> str:
    low, above = value.get('minimum'), value.get('exclusiveMinimum')
    high = value.get('maximum')
    if low is not None and high is not None:
        return f', {low:g} to {high:g}' if high < 1e6 else f', {low:g} to {high:.0f}'
    words = [f'{what} {number:.10g}' for what, number in (
        ('at least', low), ('above', above), ('at most', high)) if number is not None]
    return f', {", ".join(words)}' if words else ''


# ---- parameters and metrics ----

def _parameters() -> Iterator[str]:
    yield '| parameter | default | range | changed | meaning |'
    yield '|---|---|---|---|---|'
    for row in PARAMETERS:
        default = 'empty' if row.default == '' else _as_yaml(row.default)
        bounds = ' to '.join(f'{one:g}' if one < 1e6 else f'{one:.0f}' for one in row.bounds or ())
        unit = f' {row.unit}' if row.unit and bounds else ''
        yield (f'| `{row.name}` | {default} | {bounds}{unit} | {_changed(row)} | '
               f'{_cell(row.description)} |')


def _changed(row: ParameterRow) -> str:
    if row.is_read_only:
        return 'at the start only'
    return f'not while {" or ".join(row.fixed_while)}' if row.fixed_while else 'at any time'


def _metrics() -> Iterator[str]:
    scheduler = Scheduler(System({}))
    metrics = Metrics(lambda: scheduler.snapshot(now_ns=0))
    yield '| metric | kind | meaning |'
    yield '|---|---|---|'
    for family in sorted(metrics.registry.collect(), key=lambda one: one.name):
        name = f'{family.name}_total' if family.type == 'counter' else family.name
        yield f'| `{name}` | {family.type} | {_cell(family.documentation)} |'


def _cell(text: str) -> str:
    return ' '.join(text.split()).rstrip('.').replace('|', '\\|').replace('<', '&lt;')


def main() -> None:
    """Write the file anew."""
    text = REFERENCE.read_text(encoding='utf-8')
    REFERENCE.write_text(filled(text, tables()), encoding='utf-8')


if __name__ == '__main__':
    main()
