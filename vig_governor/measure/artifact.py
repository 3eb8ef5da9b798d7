"""
Which files a model is: a SHA-256 over its version folders.

The only way to see weights that were exchanged under the same version number: nothing in the
inference protocol reveals it. What is not the model stays out of it: ``config.pbtxt`` and
everything else beside the version folders, notes, hidden files, Python's caches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
import hashlib
import os
from pathlib import Path

_CHUNK = 1 << 20
_NOTES = ('.md', '.rst')
_CACHE = '__pycache__'


@dataclass(frozen=True, slots=True)
class ArtifactFacts:
    """
    What lies in the repository.

    :ivar digest: ``sha256:...``, or ``None`` where it cannot be known.
    :ivar why_unknown: one sentence where it is ``None``.
    """

    digest: str | None = None
    byte_size: int | None = None
    versions: tuple[str, ...] = ()
    why_unknown: str = ''


def read_artifact(repository: Path | None, backend_model: str) -> ArtifactFacts:
    """Read every file of a model's version folders once, in pieces; never raises."""
    if repository is None:
        return ArtifactFacts(why_unknown='backend.model_repository is not given, so exchanged '
                             'weights cannot be seen')
    folder = repository / backend_model
    try:
        versions = sorted((entry.name for entry in os.scandir(folder)
                           if entry.name.isdigit() and entry.is_dir()), key=int)
        digest, total = hashlib.sha256(), 0
        for version in versions:
            for name, path in _files(folder / version):
                size = path.stat().st_size
                digest.update(f'{version}/{name}\0{size}\0'.encode('utf-8', 'surrogateescape'))
                with open(path, 'rb') as file:
                    while chunk := file.read(_CHUNK):
                        digest.update(chunk)
                total += size
    except OSError as error:
        return ArtifactFacts(why_unknown=f'{error.filename or folder} cannot be read: '
                             f'{error.strerror}')
    if not total:
        return ArtifactFacts(why_unknown=f'{folder} has no version folder with a file in it')
    return ArtifactFacts(f'sha256:{digest.hexdigest()}', total, tuple(versions))


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Give the files below a folder by their relative names, in the order of these."""
    found = []
    for place, folders, names in os.walk(folder, onerror=_fail, followlinks=True):
        folders[:] = [name for name in folders if name != _CACHE and not name.startswith('.')]
        found += [Path(place) / name for name in names
                  if not name.startswith('.') and not name.lower().endswith(_NOTES)]
    yield from sorted((path.relative_to(folder).as_posix(), path) for path in found)


def _fail(error: OSError) -> None:
    """Let a folder that cannot be read be no silent gap in the digest."""
    raise error
