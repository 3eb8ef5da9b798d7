"""Find Triton in its Python environment and give its parts the layout that the server expects."""

from dataclasses import dataclass
import os
from pathlib import Path
import subprocess

from vig_core.errors import VigError

VENV_VARIABLE = 'VIG_TRITON_VENV'
DEFAULT_VENV = Path('.vig') / 'triton'

_ASK_INTERPRETER = (
    'import sys, sysconfig; print(sysconfig.get_path("purelib")); '
    'print(sysconfig.get_config_var("LIBDIR")); print("%d.%d" % sys.version_info[:2])')
_STUB = 'triton_python_backend_stub'


class TritonServerError(VigError):
    """The server is not installed, did not start, or ended; says why and what would help."""


@dataclass(frozen=True, slots=True)
class TritonInstallation:
    """
    A server package in a virtual environment.

    :ivar package: folder with ``bin``, ``backends`` and ``python_backend_stubs``.
    :ivar library_folder: where the interpreter's own libpython lies. Without it the Python
        backend silently loads the system's.
    :ivar python_version: for example ``3.11``.
    """

    venv: Path
    package: Path
    library_folder: str
    python_version: str

    @property
    def executable(self) -> Path:
        """The server program."""
        return self.package / 'bin' / 'tritonserver'

    def environment(self) -> dict[str, str]:
        """Give the variables that the server needs, and none that would mislead its Python."""
        variables = {name: value for name, value in os.environ.items()
                     if name not in ('PYTHONPATH', 'PYTHONHOME', 'VIRTUAL_ENV')}
        variables['PATH'] = f'{self.venv / "bin"}{os.pathsep}{os.environ.get("PATH", "")}'
        variables['LD_LIBRARY_PATH'] = self.library_folder
        return variables

    def link_backends(self, folder: Path) -> Path:
        """
        Link the Python backend and its stub side by side into a new folder.

        :raises TritonServerError: the package has no stub for this interpreter.
        """
        stub = self.package / 'python_backend_stubs' / self.python_version / _STUB
        if not stub.exists():
            raise TritonServerError('the Triton package has no Python backend for Python '
                                    f'{self.python_version}')
        target = folder / 'python'
        target.mkdir(parents=True)
        for file in (self.package / 'backends' / 'python').iterdir():
            if file.name != '__pycache__':
                (target / file.name).symlink_to(file)
        (target / stub.name).symlink_to(stub)
        return folder


def find_installation(venv: Path | None = None) -> TritonInstallation:
    """
    Look at the argument, then ``VIG_TRITON_VENV``, then ``.vig/triton`` in the working folder.

    :raises TritonServerError: there is no server; names the command that installs one.
    """
    chosen = (venv or Path(os.environ.get(VENV_VARIABLE) or DEFAULT_VENV)).absolute()
    python = chosen / 'bin' / 'python'
    if not python.exists():
        raise TritonServerError(
            f'no Triton environment at {chosen}: run `make setup` in the project, or name one '
            f'with the environment variable {VENV_VARIABLE}')
    answer = subprocess.run([str(python), '-c', _ASK_INTERPRETER], capture_output=True, text=True,
                            timeout=30, check=False)
    facts = answer.stdout.split('\n')
    found = TritonInstallation(chosen, Path(facts[0]) / 'pytriton' / 'tritonserver',
                               *(facts[1:3] if len(facts) > 2 else ('', '')))
    if answer.returncode != 0 or not found.executable.exists():
        raise TritonServerError(
            f'{chosen} holds no Triton server (package nvidia-pytriton): run `make setup`')
    return found
