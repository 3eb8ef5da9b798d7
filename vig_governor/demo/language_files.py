"""
The files of the served language model: converted once from the fetched weights, then kept.

The conversion needs packages that only Triton's environment has, so it runs there.
"""

import hashlib
import os
from pathlib import Path
import shutil
import subprocess
import tempfile

from vig_governor.demo.assets import AssetError, AssetStore
from vig_governor.triton_install import find_installation, TritonServerError

WEIGHTS = 'weights/SmolLM2-135M-Instruct.Q4_1.gguf'
FOLDER = 'language'
FILES = ('q8.onnx', 'q4.onnx', 'embeddings.npy', 'tokenizer.json', 'facts.json')
TIMEOUT_S = 600
_STAMP = 'converted-from'


def is_converted(store: AssetStore) -> bool:
    """Whether the converted files are there and belong to these weights and this converter."""
    stamp = store.folder / FOLDER / _STAMP
    return (store.has(*(f'{FOLDER}/{name}' for name in FILES)) and store.has(WEIGHTS)
            and stamp.is_file() and stamp.read_text(encoding='utf-8') == _source_digest(store))


def prepare(store: AssetStore) -> str:
    """Convert if there is need, and say how that ended; a failure leaves the model out."""
    if is_converted(store):
        return 'in place'
    try:
        convert(store)
    except (AssetError, OSError) as error:
        return f'left out: {error}'
    return 'converted'


def convert(store: AssetStore) -> None:
    """
    Convert the weights, whole or not at all; about 20 s.

    :raises AssetError: the weights or Triton's environment are missing, or the conversion failed.
    """
    weights = store.path(WEIGHTS)
    try:
        installation = find_installation()
    except TritonServerError as error:
        raise AssetError(f'the language model cannot be converted: {error}') from None
    store.folder.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix='language-', dir=store.folder))
    try:
        result = subprocess.run(
            [installation.venv / 'bin' / 'python', '-m', 'language.convert',
             str(weights.absolute()), str(part.absolute())], cwd=Path(__file__).parent,
            env={**installation.environment(), 'PYTHONDONTWRITEBYTECODE': '1'},
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if result.returncode != 0:
            said = [line for line in result.stderr.splitlines() if line.strip()]
            raise AssetError(f'the language model was not converted: '
                             f'{said[-1].strip() if said else f"code {result.returncode}"}; '
                             'if a package is missing, run: make setup')
        (part / _STAMP).write_text(_source_digest(store), encoding='utf-8')
        shutil.rmtree(store.folder / FOLDER, ignore_errors=True)
        part.chmod(0o755)
        os.rename(part, store.folder / FOLDER)
    except subprocess.TimeoutExpired:
        raise AssetError(f'the language model was not converted within {TIMEOUT_S} s') from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _source_digest(store: AssetStore) -> str:
    """Give what the result depends on: the weights' size and date, and the converter."""
    facts = store.path(WEIGHTS).stat()
    digest = hashlib.sha256(f'{facts.st_size} {facts.st_mtime_ns}'.encode())
    for name in ('weights', 'graph', 'convert'):
        digest.update((Path(__file__).parent / 'language' / f'{name}.py').read_bytes())
    return digest.hexdigest()
