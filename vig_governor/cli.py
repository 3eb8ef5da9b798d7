"""
The command ``vig``: small tools around one configuration file.

Exit codes: 0 done, 1 what was asked for cannot be done (the sentence on stderr says why), 2 the
command line is wrong, 130 interrupted.
"""

import argparse
from collections.abc import Sequence
import importlib
import io
import json
import os
import sys
from typing import Any

from vig_core import units
from vig_core.errors import VigError

from vig_governor.version import NOT_INSTALLED, package_version

MODULES: dict[str, tuple[str, str]] = {
    'calibrate': ('vig_governor.measure.calibrate_cli',
                  'measure profiles and interference, write a new file with them'),
    'capture': ('vig_governor.capture',
                'write what the streams bring into files for vig calibrate --data'),
    'demo': ('vig_governor.demo.cli', 'the main job on this computer: real server, real models'),
    'doctor': ('vig_governor.doctor.cli',
               'check file, server, profiles, contracts and ROS topics before the start'),
    'explain': ('vig_governor.explain', 'say why the frames of a stream ran or did not'),
    'profile': ('vig_governor.measure.profile_cli', 'measure every variant alone on the server'),
    'policy': ('vig_governor.sros_policy', 'print the SROS 2 policy with the least rights'),
    'replay': ('vig_governor.replay', 'play a recorded trace through the core again, or what if'),
    'report': ('vig_governor.report_page', 'a recorded trace as a page to read'),
    'timeline': ('vig_governor.timeline', 'draw a recorded trace'),
    'top': ('vig_governor.top', 'watch a running governor in the terminal'),
    'trace': ('vig_governor.trace_show', 'look into a recorded trace'),
}
"""
Subcommands of other parts: name -> (module, help).

The module is imported only when its command is used. It offers ``add_parser(subparsers)``, which
adds a parser of that name, and ``run(arguments) -> int``, which gives the exit code.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; no mistake of an operator ends in a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors='backslashreplace')
    try:
        code = _run(given)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except VigError as error:
        print(error, file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition('.')[0] in ('vig_core', 'vig_governor'):
            raise
        print(f'this command needs the Python module {error.name}, which is not installed; '
              'the README names the packages of each command', file=sys.stderr)
        return 1


def _run(given: list[str]) -> int:
    # Each parser of argparse has its own idea of options, so only a leading word is a command.
    name = given[0] if given else ''
    module = _load(name) if name in MODULES else None
    parser = _parser(module, name)
    try:
        parsed = parser.parse_args(given)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 2
    run = module.run if module is not None else parsed.run
    return int(run(parsed))


def _load(name: str) -> Any:
    path = MODULES[name][0]
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name not in (path, path.rpartition('.')[0]):
            raise
        raise VigError(f'vig {name} is not part of this installation') from None


def _parser(module: Any, name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='vig', description='Tools of the Vigilant Inference Governor.')
    commands = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    check = commands.add_parser('check', help='check a configuration file and show what it says')
    check.add_argument('-c', '--config', required=True, metavar='FILE', help='the vig.yaml')
    check.add_argument('--node', action='store_true',
                       help='also refuse what the node could not plan with')
    check.set_defaults(run=_check)
    schema = commands.add_parser('schema', help='print the JSON Schema of the file, for editors')
    schema.set_defaults(run=_schema)
    version = commands.add_parser('version', help='print the version')
    version.set_defaults(run=_version)
    for other, (_, text) in MODULES.items():
        if module is not None and other == name:
            module.add_parser(commands)
        else:
            commands.add_parser(other, help=text, add_help=False)
    return parser


def _check(arguments: argparse.Namespace) -> int:
    from vig_governor.config import load_config
    config = load_config(arguments.config, require_profiles=arguments.node)
    unchecked = _check_types(config) if arguments.node else ()
    for notice in (*config.notices, *unchecked):
        print(f'notice: {notice}')
    unprofiled = set(config.unprofiled)
    rows = [('MODEL', 'CLASS', 'QUEUE', 'PERIOD', 'DEADLINE', 'MAX AGE', 'VARIANTS (plan)')]
    for model in config.system.models.values():
        contract = model.contract
        plans = ', '.join(
            f'{one.variant_id} (not measured)' if (model.name, one.variant_id) in unprofiled else
            f'{one.variant_id} ({_plan(one.profile.p99_ns, config.system.margin_percent)})'
            for one in model.variants)
        rows.append((model.name, model.criticality.name.lower(),
                     f'{model.policy.value} {model.capacity}', _duration(contract.period_ns),
                     _duration(contract.deadline_ns), _duration(contract.max_age_ns), plans))
    _print_table(rows)
    if config.streams:
        _print_table([('STREAM', 'TOPIC', 'TYPE', 'MODEL', 'KEY', 'CAPTURE TIME'),
                      *((one.name, one.topic, one.message_type, one.model, one.key,
                         one.time_source) for one in config.streams)])
    print(f'{config.source}: valid, {config.system.slots} slot(s) on {config.backend.endpoint}')
    return 0


def _check_types(config: Any) -> tuple[str, ...]:
    """
    See that each stream's message type exists here and fits; a notice where ROS does not.

    :raises VigError: one does not.
    """
    try:
        from vig_governor.messages import message_class
    except ImportError as error:
        return (f'message types are not checked: {error.name} is not here; source the workspace',)
    for binding in config.streams:
        message_class(binding)
    return ()


def _schema(_: argparse.Namespace) -> int:
    from vig_governor.config.schema import json_schema
    print(json.dumps(json_schema(), indent=2))
    return 0


def _version(_: argparse.Namespace) -> int:
    if package_version() == NOT_INSTALLED:
        raise VigError('vig runs from its source folder and is not installed, so it has no '
                       'version; build the package first')
    print(f'vig {package_version()}')
    return 0


def _plan(p99_ns: int, margin_percent: int) -> str:
    return units.text_ms(p99_ns * margin_percent // 100)


def _duration(value_ns: int | None) -> str:
    return '-' if value_ns is None else units.text_ms(value_ns)


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print('  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print()


def _silence_stdout() -> None:
    """Keep the interpreter from complaining again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == '__main__':
    sys.exit(main())
