"""
From a network's raw output to boxes in pixels.

The decoders are functions of arrays: they are tested without a network.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from .anchors import AnchorLayout, make_anchors
from .boxes import Floats, Letterbox, letterbox, Network, sigmoid, suppress, to_unit

MIN_SCORE = 0.5
SAME_FACE_OVERLAP = 0.3
SAME_OBJECT_OVERLAP = 0.5
SSD_POSITION_VARIANCE = 10.0
SSD_SIZE_VARIANCE = 5.0


@dataclass(frozen=True, slots=True)
class BlazeKind:
    """
    One detector of the BlazeFace family.

    Bazarevsky et al., "BlazeFace: Sub-millisecond Neural Face Detection on Mobile GPUs", 2019.

    :ivar points: key points that come with each box.
    """

    anchors: AnchorLayout
    points: int


FACE_SHORT = BlazeKind(AnchorLayout((8, 16, 16, 16)), points=6)
FACE_FULL = BlazeKind(AnchorLayout((4,), extra_ratio=None), points=6)
POSE_DETECTION = BlazeKind(AnchorLayout((8, 16, 32, 32, 32)), points=4)

OBJECT_ANCHORS = AnchorLayout((16, 32, 64, 128, 256, 512), ratios=(1.0, 2.0, 0.5, 3.0, 0.3333),
                              min_scale=0.2, max_scale=0.95, has_small_first_layer=True,
                              is_unit=False)
OBJECT_INPUT_PIXELS = 300


def decode_blaze(regressors: Floats, logits: Floats, anchors: Floats, size: int,
                 placement: Letterbox) -> Floats:
    """
    Decode boxes with key points.

    :param regressors: ``float[anchor, 4 + 2 * points]``: offset of the centre from the anchor,
        width, height, then offset of each key point from the anchor, in input pixels.
    :param logits: ``float[anchor]``.
    :param anchors: ``float[anchor, 4]`` with unit boxes.
    :param size: side of the square input in pixels.
    :returns: ``float32[box, 4 + 2 * points + 1]``: left, top, right, bottom, key points x and y
        in pixels of the frame, then the score; best first.
    """
    scores = sigmoid(logits)
    is_hit = scores > MIN_SCORE
    raw, centres = regressors[is_hit], anchors[is_hit, :2] * size
    centre, half = raw[:, :2] + centres, raw[:, 2:4] / 2
    points = raw[:, 4:] + np.tile(centres, (raw.shape[1] - 4) // 2)
    boxes = np.concatenate([centre - half, centre + half, points], axis=1)
    boxes, scores = suppress(boxes, scores[is_hit], threshold=SAME_FACE_OVERLAP, is_blended=True)
    in_frame = placement.to_frame(boxes.reshape(-1, 2)).reshape(boxes.shape)
    return np.concatenate([in_frame, scores[:, None]], axis=1).astype(np.float32)


def decode_objects(regressors: Floats, logits: Floats, anchors: Floats, height: int,
                   width: int) -> Floats:
    """
    Decode boxes of many classes.

    :param regressors: ``float[anchor, 4]``: centre y, centre x, height, width, relative to the
        anchor and scaled by the usual variances 10 and 5 (Liu et al. 2016).
    :param logits: ``float[anchor, 1 + classes]``; column 0 is the background.
    :param height: of the frame in pixels.
    :param width: of the frame in pixels.
    :returns: ``float32[box, 6]``: left, top, right, bottom in pixels, score, class from 1 on.
    """
    probabilities = sigmoid(logits[:, 1:])
    classes = probabilities.argmax(axis=1)
    scores = probabilities[np.arange(len(classes)), classes]
    is_hit = scores > MIN_SCORE
    raw, anchor = regressors[is_hit], anchors[is_hit]
    classes, scores = classes[is_hit], scores[is_hit]
    centre = raw[:, 1::-1] / SSD_POSITION_VARIANCE * anchor[:, 2:] + anchor[:, :2]
    half = np.exp(raw[:, :1:-1] / SSD_SIZE_VARIANCE) * anchor[:, 2:] / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    boxes *= np.array([width, height, width, height], np.float32)
    found = [np.zeros((0, 6), np.float32)]
    for label in np.unique(classes):
        of_class = classes == label
        kept, kept_scores = suppress(boxes[of_class], scores[of_class],
                                     threshold=SAME_OBJECT_OVERLAP)
        labels = np.full(len(kept), label + 1, np.float32)
        found.append(np.column_stack([kept, kept_scores, labels]).astype(np.float32))
    return np.concatenate(found)


class BlazeDetector:
    """A face or pose detector: frame in, boxes with key points out."""

    def __init__(self, network: Network, kind: BlazeKind) -> None:
        self._network = network
        self._anchors = make_anchors(kind.anchors, network.height, network.width)
        self._box_columns = 4 + 2 * kind.points

    def detect(self, frame: NDArray[np.uint8]) -> Floats:
        """Answer as ``decode_blaze`` does."""
        image, placement = letterbox(frame, self._network.height, self._network.width)
        outputs = self._network.run(to_unit(image, low=-1.0))
        regressors = next(raw for raw in outputs if raw.shape[-1] == self._box_columns)
        logits = next(raw for raw in outputs if raw.shape[-1] == 1)
        return decode_blaze(regressors[0], logits[0, :, 0], self._anchors, self._network.width,
                            placement)


class ObjectDetector:
    """SSD-MobileNetV2 on Open Images classes: frame in, boxes with classes out."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._anchors = make_anchors(OBJECT_ANCHORS, OBJECT_INPUT_PIXELS, OBJECT_INPUT_PIXELS)

    def detect(self, frame: NDArray[np.uint8]) -> Floats:
        """Answer as ``decode_objects`` does."""
        image = cv2.resize(frame, (OBJECT_INPUT_PIXELS, OBJECT_INPUT_PIXELS))
        outputs = self._network.run(to_unit(image, low=-1.0))
        regressors = next(raw for raw in outputs if raw.shape[-1] == 4)
        logits = next(raw for raw in outputs if raw.shape[-1] != 4)
        return decode_objects(regressors[0], logits[0], self._anchors, *frame.shape[:2])
