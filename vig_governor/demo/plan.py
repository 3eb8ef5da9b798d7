"""What the demo runs: its cameras, their classes and contracts, chosen by the files at hand."""

from dataclasses import dataclass, replace

from vig_governor.demo.assets import AssetError, AssetStore
from vig_governor.demo.language_files import is_converted
from vig_governor.demo.language_repository import OPTIONS
from vig_governor.demo.repository import available
from vig_governor.demo.writer_costs import WriterCosts
from vig_governor.generation import Generation

GUARDED = ('protected', 'high')
"""The classes whose frames the governor expects and keeps the slot free for."""


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
    :ivar envelope_ms: how much early or late the contract lets a frame come.
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
    envelope_ms: int = 2
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
class DemoWriter:
    """
    A language model beside the cameras, which is asked one question after the other.

    :ivar template: contains ``{prompt}`` once, in the place of the question.
    :ivar questions: asked in turn, and again from the first after the last.
    """

    name: str
    backend_model: str
    template: str
    questions: tuple[str, ...]
    max_tokens: int
    deadline_ms: int
    max_age_ms: int

    @property
    def topic(self) -> str:
        """Where the questions come."""
        return f'/demo/{self.name}/question'


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """All streams, the most important first, and what had to be left out."""

    streams: tuple[DemoStream, ...]
    notes: tuple[str, ...]
    writer: DemoWriter | None = None

    @property
    def backend_models(self) -> tuple[str, ...]:
        """Every backend model that may run, each once."""
        names = [variant.backend_model for stream in self.streams for variant in stream.variants]
        return tuple(dict.fromkeys(
            names if self.writer is None else [*names, self.writer.backend_model]))


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


# Short answers that the model brings to an end by itself, most of them.
_QUESTIONS = (
    'Why do robots need cameras, in one sentence?', 'What is a deadline, in one sentence?',
    'Describe the sea in one sentence.', 'How do birds fly, in one sentence?',
    'Describe a robot in one sentence.', 'What is a kitchen, in one sentence?',
    'Describe a forest in one sentence.', 'Why do we need water, in one sentence?',
    'What is a camera, in one sentence?', 'Describe the moon in one sentence.',
    'What is music, in one sentence?', 'Why do people sleep, in one sentence?')


RATES_HZ = (30.0, 15.0, 10.0, 5.0)
"""Of the camera beside the language model; the highest that leaves room for text."""

_FIRST_TOKENS = 4


def choose_text(store: AssetStore) -> DemoPlan:
    """
    Plan one camera, at the slowest of its rates, and a language model that share the slot.

    :raises AssetError: a file is missing.
    """
    for path in (_CARPHONE, 'weights/face_detection_full_range_sparse.tflite'):
        store.path(path)
    if not is_converted(store):
        raise AssetError('the language model is not there; run: make setup, then '
                         'python -m vig_governor.demo.assets prepare')
    camera = DemoStream('face', _CARPHONE, (640, 480), RATES_HZ[-1], 'protected', 0, 0, _FACE[:1],
                        'face_full', 'face', seed=1)
    writer = DemoWriter(
        'assistant', 'smollm2_q8',
        '<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n', _QUESTIONS,
        max_tokens=48, deadline_ms=5000, max_age_ms=10_000)
    return at_rate(DemoPlan((camera,), (), writer), RATES_HZ[-1])


def at_rate(plan: DemoPlan, rate_hz: float) -> DemoPlan:
    """
    Let the cameras of a plan run at a rate.

    A result that comes at the end of the next period is too old. The envelope is wide: a camera
    that shares its core with everything else publishes a frame up to 20 ms late at times, and a
    piece of text that begins before it makes it later still.
    """
    return replace(plan, streams=tuple(
        replace(stream, rate_hz=rate_hz, deadline_ms=round(800 / rate_hz),
                max_age_ms=round(1500 / rate_hz), envelope_ms=min(10, round(100 / rate_hz)))
        for stream in plan.streams))


def rate_beside(plan: DemoPlan, frame_ms: float, costs: WriterCosts) -> float:
    """
    Give the highest rate between whose frames a question is read and a few tokens are written.

    Where there is none it is the lowest. On a fast machine even the longest answers would fit
    between the frames of a slow camera, and nothing would have to be cut.

    :param frame_ms: what a run of the camera's model is planned with.
    """
    assert plan.writer is not None
    options = replace(OPTIONS, template=plan.writer.template)
    question = max(Generation(options, each).prompt_tokens for each in plan.writer.questions)
    needed_ms = frame_ms + costs.planned_ms(_FIRST_TOKENS, question)
    return next((rate for rate in RATES_HZ if needed_ms <= 1000 / rate), RATES_HZ[-1])
