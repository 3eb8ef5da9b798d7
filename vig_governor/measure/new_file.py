"""
The complete new file of ``vig calibrate``; the operator's own is never touched.

Everything is copied but what was measured. Comments cannot be: they stay in the file that the
new one was made from, and the new one says which that was.
"""

from collections.abc import Mapping, Sequence
import copy
from dataclasses import dataclass, field
import os
from pathlib import Path
import tempfile
from typing import Any

from vig_core.errors import VigError

from vig_governor.config.document import read_document
from vig_governor.config.schema_model import Profile
from vig_governor.measure.lines import QuantumCost

import yaml

_SECURITY_PATHS = ('root_certificates', 'private_key', 'certificate_chain', 'token_file')


class CannotWrite(VigError):
    """An output that must not or cannot be written; says why."""


@dataclass(frozen=True, slots=True)
class Figures:
    """
    What replaces values of the old file.

    :ivar profiles: by backend model.
    :ivar cooperative: by logical model.
    :ivar instances: by backend model, where the old file names none.
    :ivar interference: entries of ``backend.interference``; ``None`` keeps the old ones.
    """

    profiles: Mapping[str, Profile]
    interference: Sequence[Mapping[str, Any]] | None = None
    cooperative: Mapping[str, QuantumCost] = field(default_factory=dict)
    instances: Mapping[str, int] = field(default_factory=dict)


def check_output(source: Path, output: Path, *, may_replace: bool) -> None:
    """
    Refuse an output before anything is measured for it.

    :raises CannotWrite: it is the input, exists, or its folder does not.
    """
    if output.exists() and source.exists() and os.path.samefile(source, output):
        raise CannotWrite(f'-o {output}: this is the input; vig calibrate never changes it, name '
                          'a new file')
    if output.exists() and not may_replace:
        raise CannotWrite(f'-o {output}: exists already; name a new file, or add --force')
    if not output.absolute().parent.is_dir():
        raise CannotWrite(f'-o {output}: there is no folder {output.absolute().parent}')


def new_content(source: Path, output: Path, figures: Figures) -> dict[str, Any]:
    """Give the values of the new file."""
    _, data, _ = read_document(source)
    content: dict[str, Any] = copy.deepcopy(data)
    for name, model in content['models'].items():
        if name in figures.cooperative:
            model['cooperative'].update(_rounded(figures.cooperative[name]))
        for variant in model['variants']:
            profile = figures.profiles.get(variant['backend_model'])
            if profile is not None:
                variant['profile'] = _plain(profile.model_dump(exclude_none=True))
            if variant['backend_model'] in figures.instances:
                variant['instances'] = figures.instances[variant['backend_model']]
    backend = content['backend']
    if figures.interference is not None:
        backend['interference'] = [dict(entry) for entry in figures.interference]
    if output.absolute().parent != source.absolute().parent:
        _make_absolute(backend, source.absolute().parent)
    return content


def write_file(output: Path, content: Mapping[str, Any], comments: Sequence[str]) -> None:
    """
    Write the file as a whole or not at all.

    :param comments: its first lines, without the ``#``.
    :raises CannotWrite: the disk refuses, or what would be read back is not what was meant.
    """
    head = ''.join(f'# {line}\n' for line in comments)
    body = yaml.dump(dict(content), Dumper=_Dumper, sort_keys=False, default_flow_style=None,
                     width=98, allow_unicode=True)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile('w', encoding='utf-8', dir=output.absolute().parent,
                                         prefix=f'.{output.name}.', delete=False) as file:
            temporary = file.name
            file.write(head + body)
        os.chmod(temporary, 0o644)
        _, data, findings = read_document(temporary)
        if data != content or findings.problems:
            raise CannotWrite(f'{output}: the values do not survive being written; this is a '
                              'fault of vig, please report it with the file')
        os.replace(temporary, output)
        temporary = None
    except OSError as error:
        raise CannotWrite(f'{output} cannot be written: {error.strerror}') from None
    finally:
        if temporary is not None:
            os.unlink(temporary)


class _Dumper(yaml.SafeDumper):
    """Quotes texts that our reader, unlike YAML 1.1, would take for numbers (``1e-3``)."""

    def represent_text(self, value: str) -> yaml.ScalarNode:
        """Write one text."""
        style = '"' if value[:1] in '0123456789+-.' else None
        return self.represent_scalar('tag:yaml.org,2002:str', value, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def _rounded(cost: QuantumCost) -> dict[str, Any]:
    """Give the keys of a cost; no figure is more exact than its measurement."""
    return {'tokens_per_second': round(cost.tokens_per_second, 3),
            'base_cost_us': cost.base_cost_us,
            'prefill_per_token_us': round(cost.prefill_per_token_us, 1),
            'new_prompt_per_token_us': round(cost.new_prompt_per_token_us, 1)}


def _plain(block: dict[str, Any]) -> dict[str, Any]:
    """Leave out blocks and lists with nothing in them."""
    found = {key: _plain(value) if isinstance(value, dict) else value
             for key, value in block.items()}
    return {key: value for key, value in found.items() if value not in ({}, [])}


def _make_absolute(backend: dict[str, Any], folder: Path) -> None:
    for block, keys in ((backend, ('model_repository',)),
                        (backend.get('security') or {}, _SECURITY_PATHS)):
        for key in keys:
            if isinstance(block.get(key), str):
                block[key] = str(folder / Path(block[key]).expanduser())
