"""Which networks make which model, and how each answers."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .detectors import BlazeDetector, FACE_FULL, FACE_SHORT, ObjectDetector, POSE_DETECTION
from .network import LiteRtNetwork
from .pose import PoseEstimator
from .segmentation import Segmenter

Answer = Callable[[NDArray[np.uint8]], NDArray[np.generic]]


def build(kind: str, weights: Path, file: str) -> Answer:
    """
    Load the networks of one model.

    :param kind: a key of ``BUILDERS``.
    :param weights: folder of the ``.tflite`` files.
    :param file: the model's own network.
    :returns: a function from ``uint8[height, width, 3]`` to the model's output.
    """
    return BUILDERS[kind](weights, file)


def _face_short(weights: Path, file: str) -> Answer:
    return BlazeDetector(LiteRtNetwork(weights / file), FACE_SHORT).detect


def _face_full(weights: Path, file: str) -> Answer:
    return BlazeDetector(LiteRtNetwork(weights / file), FACE_FULL).detect


def _pose(weights: Path, file: str) -> Answer:
    detector = BlazeDetector(LiteRtNetwork(weights / 'pose_detection.tflite'), POSE_DETECTION)
    return PoseEstimator(detector, LiteRtNetwork(weights / file)).estimate


def _objects(weights: Path, file: str) -> Answer:
    return ObjectDetector(LiteRtNetwork(weights / file)).detect


def _segmentation(weights: Path, file: str) -> Answer:
    return Segmenter(LiteRtNetwork(weights / file)).segment


BUILDERS: Mapping[str, Callable[[Path, str], Answer]] = {
    'face_short': _face_short,
    'face_full': _face_full,
    'pose': _pose,
    'objects': _objects,
    'segmentation': _segmentation,
}
