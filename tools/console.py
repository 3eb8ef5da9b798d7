"""Say what is being done, how long it took, and keep the output of commands in a log file."""

from collections.abc import Mapping, Sequence
import os
from pathlib import Path
import subprocess
import sys
import threading
import time

HEARTBEAT_S = 20.0


class SetupError(Exception):
    """One sentence for the person at the keyboard: what is missing and what to do."""


def say(text: str) -> None:
    """Print one line at once, also into a pipe."""
    print(text, flush=True)


def run_logged(title: str, command: Sequence[str], log: Path, *,
               environment: Mapping[str, str] | None = None, folder: Path | None = None) -> None:
    """
    Run a command with its output in ``log``; say that it runs, that it still runs, and its time.

    :raises SetupError: the command failed; the message ends with the last lines of its output.
    """
    say(f'  {title} ...')
    started = time.monotonic()
    finished = threading.Event()

    def beat() -> None:
        while not finished.wait(HEARTBEAT_S):
            took = f'{time.monotonic() - started:.0f} s'
            say(f'    ... still at it after {took}; output in {os.path.relpath(log)}')

    threading.Thread(target=beat, daemon=True).start()
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log.open('a') as output:
            output.write(f'$ {" ".join(command)}\n')
            output.flush()
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, env=environment,
                                  cwd=folder, check=False).returncode
    except FileNotFoundError:
        raise SetupError(f'{command[0]} is not installed') from None
    finally:
        finished.set()
    if code:
        lines = [line for line in log.read_text(errors='replace').splitlines()
                 if not line.startswith('WARNING: Location')]
        tail = '\n'.join(f'    {line}' for line in lines[-25:])
        raise SetupError(f'{title} failed with exit code {code}; all of it is in {log}, '
                         f'its end:\n{tail}')
    say(f'    done in {time.monotonic() - started:.1f} s')


def fail(error: SetupError, prefix: str) -> int:
    """Print an error for a person and give the exit code for it."""
    print(f'{prefix}: {error}', file=sys.stderr, flush=True)
    return 1
