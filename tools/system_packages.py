"""What must come from the system: a compiler, CMake, Ninja, and Python with venv and headers."""

from collections.abc import Callable
import ctypes
import importlib
import importlib.util
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
import sysconfig

from console import run_logged, say, SetupError

PYTHON = (3, 11)
MINIMUM_CMAKE = (3, 20)


def _has_cmake() -> bool:
    if shutil.which('cmake') is None:
        return False
    text = subprocess.run(['cmake', '--version'], capture_output=True, text=True,
                          check=False).stdout
    found = re.search(r'(\d+)\.(\d+)', text)
    return found is not None and (int(found[1]), int(found[2])) >= MINIMUM_CMAKE


def _has_headers() -> bool:
    return (Path(sysconfig.get_paths()['include']) / 'Python.h').exists()


def _has_shared_libpython() -> bool:
    name = f'libpython{PYTHON[0]}.{PYTHON[1]}.so.1.0'
    for candidate in (str(Path(sysconfig.get_config_var('LIBDIR') or '') / name), name):
        try:
            ctypes.CDLL(candidate)
        except OSError:
            continue
        return True
    return False


NEEDS: tuple[tuple[str, str, Callable[[], bool]], ...] = (
    ('CMake 3.20 or newer', 'cmake', _has_cmake),
    ('Ninja', 'ninja-build', lambda: shutil.which('ninja') is not None),
    ('a C++ compiler', 'g++', lambda: shutil.which('c++') is not None),
    ('a C compiler', 'gcc', lambda: shutil.which('cc') is not None),
    ('the Python module venv', 'python3-venv',
     lambda: importlib.util.find_spec('ensurepip') is not None),
    ('the Python headers', 'python3-dev', _has_headers),
    ('the shared Python library', 'libpython3.11', _has_shared_libpython),
)
"""What it is, the Debian package that brings it, and whether it is there."""


def require_python() -> None:
    """
    Insist on the Python version that the wheels were chosen for.

    :raises SetupError: with the way to name another interpreter.
    """
    if sys.version_info[:2] != PYTHON:
        found = f'{sys.version_info[0]}.{sys.version_info[1]}'
        raise SetupError(
            f'{sys.executable} is Python {found}, the pinned wheels are for Python 3.11; install '
            'it (Debian 12: apt-get install python3 python3-venv python3-dev) and name it: '
            'make PYTHON=/path/to/python3.11 ...')


def require_system_packages(log: Path) -> None:
    """
    Look for everything that pip cannot install; install it if that is possible.

    :raises SetupError: with the one command that installs what is missing.
    """
    missing = [(what, package) for what, package, is_there in NEEDS if not is_there()]
    if not missing:
        return
    packages = [package for _, package in missing]
    install = ['apt-get', 'install', '-y', '--no-install-recommends', *packages]
    say(f'Missing from the system: {", ".join(what for what, _ in missing)}')
    if shutil.which('apt-get') is None:
        raise SetupError('install with your package manager what Debian calls '
                         + ' '.join(packages))
    if os.geteuid() != 0:
        raise SetupError('install it with: sudo apt-get update && sudo ' + ' '.join(install))
    environment = {**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'}
    run_logged('apt-get update', ['apt-get', 'update', '-qq'], log, environment=environment)
    run_logged(' '.join(install), install, log, environment=environment)
    importlib.invalidate_caches()
    missing = [(what, package) for what, package, is_there in NEEDS if not is_there()]
    if missing:
        raise SetupError(f'apt-get ran, but {", ".join(what for what, _ in missing)} is still '
                         f'missing for {sys.executable}')
