"""Boxes: overlap, suppression of duplicates, and the frame that a network sees."""

from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def overlap(box: Floats, others: Floats) -> Floats:
    """
    Intersection over union of one box with many.

    :param box: ``float[4+]``, left, top, right, bottom first.
    :param others: ``float[box, 4+]``.
    :returns: ``float[box]`` in 0..1; 0 where both boxes are empty.
    """
    shared = (np.minimum(others[:, 2:4], box[2:4]) - np.maximum(others[:, :2], box[:2])).clip(0)
    intersection = shared.prod(axis=1)
    areas = (others[:, 2:4] - others[:, :2]).prod(axis=1)
    union = areas + (box[2:4] - box[:2]).prod() - intersection
    return np.where(union > 0, intersection / np.where(union > 0, union, 1), 0)


def suppress(boxes: Floats, scores: Floats, *, threshold: float, is_blended: bool = False,
             limit: int = 20) -> tuple[Floats, Floats]:
    """
    Keep one box for each group of boxes that overlap.

    :param boxes: ``float[box, 4+]``, left, top, right, bottom first.
    :param scores: ``float[box]``.
    :param threshold: an overlap above it means the same object.
    :param is_blended: answer with the mean of a group, weighted by score, instead of its best
        box: steadier from frame to frame. All columns are blended, key points too.
    :returns: boxes and scores of the groups, best first, at most ``limit``.
    """
    kept_boxes: list[Floats] = []
    kept_scores: list[np.float32] = []
    waiting = np.argsort(-scores, kind='stable')
    while len(waiting) and len(kept_boxes) < limit:
        best = waiting[0]
        is_same = overlap(boxes[best], boxes[waiting]) > threshold
        is_same[0] = True
        group = waiting[is_same]
        kept_boxes.append(np.average(boxes[group], axis=0, weights=scores[group])
                          if is_blended else boxes[best])
        kept_scores.append(scores[best])
        waiting = waiting[~is_same]
    return (np.array(kept_boxes, np.float32).reshape(-1, boxes.shape[1]),
            np.array(kept_scores, np.float32))


def sigmoid(values: Floats) -> Floats:
    """Probability of a logit; clipped so that it never overflows."""
    return 1 / (1 + np.exp(-np.clip(values, -80, 80)))


class Network(Protocol):
    """
    A network with one image input and any number of outputs.

    :ivar height: of the input in pixels, with ``width``.
    :ivar output_shapes: in the order of the outputs.
    """

    height: int
    width: int
    output_shapes: list[tuple[int, ...]]

    def run(self, image: Floats) -> list[Floats]:
        """Run ``float32[1, height, width, 3]``."""


@dataclass(frozen=True, slots=True)
class Letterbox:
    """Where a frame lies inside the network's input: ``input = frame * scale + offset``."""

    scale: float
    offset: tuple[int, int]

    def to_frame(self, points: Floats) -> Floats:
        """Map ``float[..., 2]`` input pixels back to pixels of the frame."""
        return (points - np.array(self.offset, np.float32)) / np.float32(self.scale)


def letterbox(frame: NDArray[np.uint8], height: int,
              width: int) -> tuple[NDArray[np.uint8], Letterbox]:
    """Fit a frame into ``height`` x ``width`` without distortion; the rest is black."""
    scale = min(width / frame.shape[1], height / frame.shape[0])
    inner_width, inner_height = round(frame.shape[1] * scale), round(frame.shape[0] * scale)
    left, top = (width - inner_width) // 2, (height - inner_height) // 2
    canvas = np.zeros((height, width, 3), np.uint8)
    canvas[top:top + inner_height, left:left + inner_width] = cv2.resize(
        frame, (inner_width, inner_height), interpolation=cv2.INTER_LINEAR)
    return canvas, Letterbox(scale, (left, top))


def to_unit(image: NDArray[np.uint8], low: float = 0.0) -> Floats:
    """Scale ``uint8[h, w, 3]`` to ``float32[1, h, w, 3]`` in ``low``..1."""
    return (image.astype(np.float32) * np.float32((1 - low) / 255) + np.float32(low))[None]
