"""Stage all faults, or those whose names are given, and print the table; ``make faults``."""

import argparse
import os
from pathlib import Path
import signal
import sys
import time

from benchmark.faults.registry import Fault, load_cases
from vig_governor.demo.arms import graph_environment

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run the command line; the exit code says whether all survived."""
    cases = load_cases_isolated()
    parser = argparse.ArgumentParser(prog='faults', description='See the module.')
    parser.add_argument('names', nargs='*', help='of faults; all by default')
    parser.add_argument('--list', action='store_true', help='say which there are')
    parser.add_argument('--http', action='store_true',
                        help='send inferences over HTTP; faults of the network and models that '
                             'stream their answers stay with gRPC')
    parser.add_argument('--output', type=Path, default=ROOT / 'build' / 'faults')
    options = parser.parse_args()
    unknown = sorted(set(options.names) - cases.keys())
    if unknown:
        parser.error(f'no such fault: {", ".join(unknown)}; see --list')
    if options.list:
        for case in cases.values():
            print(f'{case.name:39} {case.title}')
        return 0
    # As a Ctrl-C would: the world ends its node and its server.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from benchmark.faults.runner import stage, table
    from benchmark.faults.world import World
    chosen = [cases[name] for name in options.names] or list(cases.values())
    outcomes = []
    with World(options.output / time.strftime('%H%M%S'),
               is_over_http=options.http) as world:
        for number, case in enumerate(chosen, 1):
            outcome = stage(world, case)
            outcomes.append(outcome)
            print(f'[{number}/{len(chosen)}] {case.name}: '
                  f'{"survived" if outcome.survived else "FAILED"} in {outcome.took_s:.1f} s',
                  flush=True)
            if outcome.problem:
                print(outcome.problem, flush=True)
    print()
    print(table(outcomes))
    return 0 if all(outcome.survived for outcome in outcomes) else 1


def load_cases_isolated() -> dict[str, Fault]:
    """Keep DDS on this host, in this process and its children, before anything imports rclpy."""
    os.environ.update(graph_environment(ROOT / 'config', None))
    return load_cases()


if __name__ == '__main__':
    sys.exit(main())
