"""The demo's models as a Triton model repository, generated from two tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
import os
from pathlib import Path
import shutil

from vig_governor.demo.assets import AssetStore
from vig_governor.demo.language_repository import LANGUAGE_MODELS, ServedLanguageModel

_DETECTOR = 'weights/pose_detection.tflite'


@dataclass(frozen=True, slots=True)
class ServedModel:
    """
    One backend model.

    :ivar kind: how ``perception.models`` builds it.
    :ivar file: its network below ``weights/``.
    :ivar output: name of the output tensor, ``datatype`` and ``shape`` describe it; -1 any size.
    :ivar also_needs: further files of the store.
    """

    name: str
    kind: str
    file: str
    output: str
    shape: tuple[int, int]
    datatype: str = 'FP32'
    also_needs: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The file that becomes its ``model.py``."""
        return 'triton_model.py'

    @property
    def needs(self) -> tuple[str, ...]:
        """Every file of the store without which the model cannot be served."""
        return ('weights/' + self.file, *self.also_needs)

    def config(self, priority: int | None = None) -> str:
        """
        Text of the model's ``config.pbtxt``; no batching: a frame waits for nobody.

        :param priority: weight in the rate limiter, which then runs one model at a time.
        """
        limited = '' if priority is None else (
            ' rate_limiter { resources [ { name: "core" global: true count: 1 } ]'
            f' priority: {priority} }}')
        dims = ', '.join(str(size) for size in self.shape)
        parameters = '\n'.join(
            f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
            for key, value in (('kind', self.kind), ('file', self.file),
                               ('output', self.output)))
        return (f'name: "{self.name}"\n'
                'backend: "python"\n'
                'max_batch_size: 0\n'
                'input [ { name: "IMAGE" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] } ]\n'
                f'output [ {{ name: "{self.output}" data_type: TYPE_{self.datatype}'
                f' dims: [ {dims} ] }} ]\n'
                f'instance_group [ {{ kind: KIND_CPU count: 1{limited} }} ]\n'
                f'{parameters}\n')


def _face(name: str, file: str) -> ServedModel:
    return ServedModel(name, name, file, 'BOXES', (-1, 17))


def _pose(name: str, size: str) -> ServedModel:
    return ServedModel(name, 'pose', f'pose_landmark_{size}.tflite', 'LANDMARKS', (-1, 5),
                       also_needs=(_DETECTOR,))


def _segmentation(name: str, file: str) -> ServedModel:
    return ServedModel(name, 'segmentation', file, 'MASK', (-1, -1), 'UINT8')


MODELS = (
    _face('face_short', 'face_detection_short_range.tflite'),
    _face('face_full', 'face_detection_full_range_sparse.tflite'),
    _pose('pose_lite', 'lite'),
    _pose('pose_full', 'full'),
    _pose('pose_heavy', 'heavy'),
    # The same network as further models: the server runs them at once, as it would others.
    _pose('pose_study', 'full'),
    _pose('pose_archive', 'full'),
    ServedModel('objdet', 'objects', 'object_detection_ssd_mobilenetv2_oidv4_fp16.tflite',
                'BOXES', (-1, 6), also_needs=('weights/oid_labelmap.txt',)),
    _segmentation('segmentation', 'selfie_segmentation.tflite'),
    _segmentation('segmentation_wide', 'selfie_segmentation_landscape.tflite'),
)


def available(store: AssetStore) -> tuple[str, ...]:
    """Name the models of perception whose files are all there."""
    return tuple(model.name for model in MODELS if store.has(*model.needs))


def write_repository(folder: Path, store: AssetStore, names: Iterable[str],
                     priorities: Mapping[str, int] | None = None) -> dict[str, str]:
    """
    Write the repository anew; whatever lay in ``folder`` is gone.

    :param names: models to serve; a model that the store cannot feed is refused by its file.
    :param priorities: of every model in the rate limiter; without it there is none.
    :returns: environment variables that the server process needs.
    :raises AssetError: a file is missing; the folder may be incomplete.
    """
    shutil.rmtree(folder, ignore_errors=True)
    wanted, here = set(names), Path(__file__).parent
    tables: tuple[ServedModel | ServedLanguageModel, ...] = (*MODELS, *LANGUAGE_MODELS)
    for model in tables:
        if model.name not in wanted:
            continue
        version = folder / model.name / '1'
        version.mkdir(parents=True)
        (folder / model.name / 'config.pbtxt').write_text(model.config(
            priorities[model.name] if priorities else None), encoding='utf-8')
        shutil.copyfile(here / model.code, version / 'model.py')
        # The weights lie with the model, so that the digest of its version sees them.
        for path in model.needs:
            file = store.path(path)
            _place(file, version / file.name)
    return {'VIG_DEMO_CODE': str(here.resolve())}


def _place(file: Path, target: Path) -> None:
    """Link a file, so that hundreds of megabytes are there at once; copy it where that fails."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)
