"""What the demo runs: its cameras, their classes and contracts, chosen by the files at hand."""

from dataclasses import dataclass

from vig_governor.demo.assets import AssetStore
from vig_governor.demo.repository import available


@dataclass(frozen=True, slots=True)
class DemoVariant:
    """One backend model of a stream, with the quality that the operator gives it."""

    variant_id: str
    backend_model: str
    quality: float


@dataclass(frozen=True, slots=True)
class DemoStream:
    """
    One camera and the model behind it.

    :ivar criticality: ``protected``, ``high``, ``normal`` or ``best_effort``.
    :ivar variants: in falling quality.
    :ivar direct_model: the one that runs without the governor, which cannot choose.
    :ivar draws: how a result is drawn: ``face``, ``pose``, ``objects`` or ``mask``.
    :ivar jitter_ms: the capture is up to this much early or late.
    :ivar transport_ms: from capture to publication.
    :ivar lends: with the governor, the camera publishes where its frames lie, not the frames.
    """

    name: str
    video: str
    size: tuple[int, int]
    rate_hz: float
    criticality: str
    deadline_ms: int
    max_age_ms: int
    variants: tuple[DemoVariant, ...]
    direct_model: str
    draws: str
    seed: int
    jitter_ms: float = 1.0
    transport_ms: float = 2.0
    lends: bool = False

    @property
    def topic(self) -> str:
        """Where the camera publishes."""
        return f'/demo/{self.name}/image_raw'

    @property
    def governed_topic(self) -> str:
        """Where the camera publishes for the governor."""
        return f'/demo/{self.name}/tensor' if self.lends else self.topic

    @property
    def frame_id(self) -> str:
        """Coordinate frame in the header of each image."""
        return f'{self.name}_camera'

    @property
    def period_ms(self) -> int:
        """Distance of two captures, in whole milliseconds as the contract has it."""
        return round(1000 / self.rate_hz)


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """All streams, the most important first, and what had to be left out."""

    streams: tuple[DemoStream, ...]
    notes: tuple[str, ...]

    @property
    def backend_models(self) -> tuple[str, ...]:
        """Every backend model that some stream may run, each once."""
        return tuple(dict.fromkeys(variant.backend_model for stream in self.streams
                                   for variant in stream.variants))


_CARPHONE = 'videos/carphone_pristine.mp4'
_BIKES = 'videos/bikes.mp4'
_VTEST = 'videos/vtest.avi'

_FACE = (DemoVariant('full_range', 'face_full', 1.0),
         DemoVariant('short_range', 'face_short', 0.9))
_POSE = (DemoVariant('heavy', 'pose_heavy', 1.0), DemoVariant('full', 'pose_full', 0.9),
         DemoVariant('lite', 'pose_lite', 0.7))


def choose(store: AssetStore) -> DemoPlan:
    """
    Plan for the files at hand.

    :raises AssetError: not even the smaller demo is possible.
    """
    for path in (_CARPHONE, _BIKES, 'weights/face_detection_full_range_sparse.tflite',
                 'weights/pose_landmark_full.tflite', 'weights/pose_detection.tflite',
                 'weights/selfie_segmentation.tflite'):
        store.path(path)
    served, notes = available(store), list[str]()
    pose = tuple(variant for variant in _POSE if variant.backend_model in served)
    streams = [
        DemoStream('face', _CARPHONE, (640, 480), 30, 'protected', 80, 120, _FACE, 'face_full',
                   'face', seed=1),
        DemoStream('pose', _CARPHONE, (640, 480), 10, 'high', 90, 250, pose, 'pose_full',
                   'pose', seed=2),
        _third_camera(store, served, notes),
        DemoStream('study', _CARPHONE, (640, 480), 10, 'best_effort', 1000, 2000,
                   (DemoVariant('full', 'pose_study', 1.0),), 'pose_study', 'pose', seed=4)]
    if 'pose_heavy' in served:
        streams.append(DemoStream(
            'archive', _CARPHONE, (640, 480), 5, 'best_effort', 1000, 2000,
            (DemoVariant('heavy', 'pose_heavy', 1.0),), 'pose_heavy', 'pose', seed=5))
    else:
        notes.append('pose runs with the variant full alone, and so does the archive: '
                     'lite and heavy come with npm')
        streams.append(DemoStream(
            'archive', _CARPHONE, (640, 480), 10, 'best_effort', 1000, 2000,
            (DemoVariant('full', 'pose_archive', 1.0),), 'pose_archive', 'pose', seed=5))
    return DemoPlan(tuple(streams), tuple(notes))


def _third_camera(store: AssetStore, served: tuple[str, ...], notes: list[str]) -> DemoStream:
    """Watch pedestrians with the object detector, or else cut out the driver."""
    if 'objdet' not in served:
        notes.append('a segmentation takes the place of the object detector, which npm carries')
        return DemoStream('cabin', _CARPHONE, (640, 480), 5, 'normal', 200, 500,
                          (DemoVariant('mask', 'segmentation', 1.0),), 'segmentation', 'mask',
                          seed=3, lends=True)
    video, size = _VTEST, (640, 480)
    if not store.has(_VTEST):
        notes.append('no pedestrian video: vtest.avi comes with the Debian package opencv-doc')
        video, size = _BIKES, (640, 272)
    return DemoStream('street', video, size, 5, 'normal', 200, 500,
                      (DemoVariant('ssd', 'objdet', 1.0),), 'objdet', 'objects', seed=3,
                      lends=True)
