"""
Read a YAML file into plain values and remember the line of each of them.

Only the plain subset of YAML is read: no tags, no anchors, one document. So each value has exactly
one place in the file, and a small file cannot grow large.
"""

import os
from pathlib import Path as FilePath
import re
from typing import Any

from vig_governor.config.problems import ConfigError, dotted, Findings, Path, Problem

import yaml

MAX_BYTES = 1024 * 1024
MAX_NODES = 20_000
MAX_DEPTH = 32
MAX_SHOWN_VALUE = 60

_FLOAT = re.compile(r'[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\Z')
"""Wider than YAML 1.1, for which ``1e-3`` is a text."""


class _Refused(yaml.YAMLError):
    """A construct of YAML that this format does not use."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class _Loader(yaml.SafeLoader):
    """Composes nodes; refuses tags, anchors, great depth and great numbers of nodes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose one node within the limits."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _Refused(line, f'the anchor or alias {event.anchor!r} is not supported; '
                                 'write the values out, so that each has one place in the file')
        if event.tag is not None:
            raise _Refused(line, f'the tag {_short(event.tag)} is not supported; '
                                 'write a plain value (quote it if it starts with !)')
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _Refused(line, f'more than {MAX_NODES} values; this cannot be a vig.yaml')
        if self.depth >= MAX_DEPTH:
            raise _Refused(line, f'nested deeper than {MAX_DEPTH} levels; '
                                 'this cannot be a vig.yaml')
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_document(path: str | os.PathLike[str]) -> tuple[bytes, Any, Findings]:
    """
    Read one YAML file.

    :returns: the bytes of the file, its plain values, and the findings that know all lines;
        duplicate keys are already among them.
    :raises ConfigError: the file cannot be read or is not the YAML that we accept.
    """
    name = os.fspath(path)
    raw = _read(name)
    findings = Findings(name)
    text = _decode(name, raw)
    try:
        node = _Loader(text).get_single_node()
    except _Refused as error:
        raise ConfigError([Problem(name, error.line, '', '', error.reason)]) from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_syntax_problem(name, error)]) from None
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        reason = f'not valid YAML: {" ".join(str(error).split())}'
        raise ConfigError([Problem(name, 0, '', '', reason)]) from None
    if node is None:
        raise ConfigError([Problem(name, 0, '', '', _EMPTY)])
    findings.lines[()] = 1
    return raw, _plain(node, (), findings), findings


_EMPTY = ('the file is empty; it needs at least the keys version, backend and models '
          '(see the examples in config/)')


def _read(name: str) -> bytes:
    path = FilePath(name)
    try:
        if not name:
            reason = 'the path is empty; give the path of a vig.yaml'
        elif path.is_dir():
            reason = 'this is a directory; name the YAML file in it'
        elif path.exists() and not path.is_file():
            reason = 'this is not a regular file'
        else:
            with path.open('rb') as file:
                raw = file.read(MAX_BYTES + 1)
            if len(raw) <= MAX_BYTES:
                return raw
            reason = f'larger than {MAX_BYTES // 1024} KiB; this cannot be a vig.yaml'
    except FileNotFoundError:
        reason = 'there is no such file; give the path of a vig.yaml'
    except PermissionError:
        reason = 'the file may not be read by this user; check its owner and mode'
    except (OSError, ValueError) as error:
        reason = f'the file cannot be read: {getattr(error, "strerror", None) or error}'
    raise ConfigError([Problem(name, 0, '', '', reason)])


def _decode(name: str, raw: bytes) -> str:
    if b'\0' in raw:
        raise ConfigError([Problem(name, raw.count(b'\n', 0, raw.index(b'\0')) + 1, '', '',
                                   'this is a binary file; a text file in UTF-8 is needed')])
    try:
        text = raw.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        line = raw.count(b'\n', 0, error.start) + 1
        raise ConfigError([Problem(
            name, line, '', '', f'byte 0x{raw[error.start]:02x} is not UTF-8; '
            'save the file as UTF-8')]) from None
    if not text.strip():
        raise ConfigError([Problem(name, 0, '', '', _EMPTY)])
    return text


def _syntax_problem(name: str, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    parts = [part for part in (error.context, error.problem) if part]
    what = ', '.join(parts)
    hint = ''
    if "'\\t'" in what:
        hint = '; indent with spaces, not tabs'
    elif 'mapping values are not allowed' in what:
        hint = '; check the indentation, and quote a text that contains ": "'
    elif 'single document' in what:
        hint = '; one file holds one configuration, without a second ---'
    column = f' in column {mark.column + 1}' if mark else ''
    return Problem(name, mark.line + 1 if mark else 0, '', '',
                   f'not valid YAML{column}: {what}{hint}')


def _plain(node: yaml.Node, path: Path, findings: Findings) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, findings)
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            findings.lines[(*path, index)] = item.start_mark.line + 1
            items.append(_plain(item, (*path, index), findings))
        return items
    assert isinstance(node, yaml.ScalarNode)
    text = str(node.value)
    findings.texts[path] = _short(text) if node.style is None else f'"{_short(text)}"'
    if not _is_encodable(text):
        findings.refuse(path, 'contains half of a surrogate pair, which is no character')
        return ''
    return _scalar(node, text)


def _mapping(node: yaml.MappingNode, path: Path, findings: Findings) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode) or not _is_encodable(key_node.value):
            at = (*path, '?')
            findings.lines[at] = line
            findings.refuse(at, 'a key must be a plain text')
            continue
        key = str(key_node.value)
        at = (*path, key)
        if key in result:
            first = findings.lines[at]
            value = _short(value_node.value) if isinstance(value_node, yaml.ScalarNode) else ''
            findings.problems.append(Problem(
                findings.file, line, dotted(at), value,
                f'the key is given twice, in line {first} and in line {line}; keep one of them'))
            continue
        findings.lines[at] = line
        result[key] = _plain(value_node, at, findings)
    return result


def _scalar(node: yaml.ScalarNode, text: str) -> Any:
    """
    Give null, bool, int and float for what YAML resolves to them, else the text.

    Octal and base-60 numbers of YAML 1.1 stay texts: nobody means 8 by ``010``.
    """
    kind = node.tag.rpartition(':')[2]
    if kind == 'null':
        return None
    if kind == 'bool':
        return text.lower() in ('yes', 'true', 'on')
    is_number = kind in ('int', 'float') or (node.style is None and _FLOAT.match(text))
    if not is_number or ':' in text:
        return text
    digits = text.replace('_', '').lower()
    try:
        if kind == 'int':
            return int(digits, 0)
        return float(digits.replace('.inf', 'inf').replace('.nan', 'nan'))
    except (ValueError, OverflowError):
        return text


def _is_encodable(text: str) -> bool:
    return not any('\ud800' <= character <= '\udfff' for character in text)


def _short(text: str) -> str:
    line = ' '.join(text.split())
    line = line.encode('utf-8', 'replace').decode('utf-8')
    return line if len(line) <= MAX_SHOWN_VALUE else line[:MAX_SHOWN_VALUE - 3] + '...'
