"""``vig doctor``: one line for each check, what to do, and whether the node may start."""

import argparse
from collections.abc import Sequence
import json
import sys
from typing import Any

from vig_core.errors import VigError

from vig_governor.config import ConfigError, load_config
from vig_governor.doctor.checks import Check, CHECKS, examine
from vig_governor.doctor.finding import fail, Finding, Result, result_of
from vig_governor.doctor.look import look
from vig_governor.doctor.page import page_of, width_of

LONGEST_S = 60.0


def add_parser(subparsers: Any) -> None:
    """Add ``doctor`` to the command ``vig``."""
    parser = subparsers.add_parser(
        'doctor', help='check file, server, profiles, contracts and ROS topics before the start',
        description='Exit code 0 for READY and READY_WITH_WARNINGS, 1 for NOT_READY.')
    parser.add_argument('-c', '--config', required=True, metavar='FILE', help='the vig.yaml')
    parser.add_argument('--offline', action='store_true',
                        help='only what file and disk can tell: no server, no ROS')
    parser.add_argument('--no-ros', action='store_true', help='do not look at ROS topics')
    parser.add_argument('--listen-s', type=float, default=1.0, metavar='S',
                        help='how long to listen to the topics and to watch the server '
                        '(default: %(default)s)')
    parser.add_argument('--record', default='.', metavar='FOLDER',
                        help='where recordings will go (default: this folder)')
    parser.add_argument('--json', action='store_true', help='everything, for machines')


def run(options: argparse.Namespace) -> int:
    """Look, check, print."""
    if not 0 <= options.listen_s <= LONGEST_S:
        raise VigError(f'--listen-s {options.listen_s:g}: between 0 and {LONGEST_S:g} are '
                       'possible')
    try:
        config = load_config(options.config)
    except ConfigError as error:
        findings = [(CHECKS[0], fail(str(problem), 'correct it; vig check shows the same'))
                    for problem in error.problems]
    else:
        findings = examine(look(
            config, is_offline=options.offline, asks_ros=not options.no_ros,
            listen_s=options.listen_s, record_folder=options.record))
    result = result_of(finding for _, finding in findings)
    if options.json:
        print(json.dumps(_as_json(findings, result), indent=1))
    else:
        for line in page_of(findings, result, width=width_of(sys.stdout),
                            is_coloured=sys.stdout.isatty()):
            print(line)
    return result.exit_code


def _as_json(findings: Sequence[tuple[Check, Finding]], result: Result) -> dict[str, Any]:
    return {
        'result': result.value, 'exit_code': result.exit_code,
        'findings': [{'number': check.number, 'check': check.name, 'level': finding.level.value,
                      'text': finding.text, 'remedy': finding.remedy,
                      'facts': dict(finding.facts)} for check, finding in findings]}
