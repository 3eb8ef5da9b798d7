"""
Body pose: a detector finds the person, a second network finds 33 joints in the turned cut-out.

Bazarevsky et al., "BlazePose: On-device Real-time Body Pose tracking", 2020. The tracking mode
(reusing the last frame's joints as the next region) is left out: every frame stands for itself,
so that results do not depend on which frames were run before.
"""

from math import atan2, cos, pi, sin

import cv2
import numpy as np
from numpy.typing import NDArray

from .boxes import Floats, Network, sigmoid, to_unit
from .detectors import BlazeDetector

JOINTS = 33
RAW_POINTS = 39
ROW = 5
REGION_MARGIN = 1.25
NO_JOINTS = np.zeros((0, ROW), np.float32)


def region_transform(centre: Floats, top: Floats, size: int) -> NDArray[np.float64]:
    """
    Map frame pixels to a ``size`` x ``size`` cut-out in which the person stands upright.

    :param centre: ``float[2]``, key point 0 of the detector: middle of the hips.
    :param top: ``float[2]``, key point 1: on a circle around the whole person.
    :returns: ``float64[2, 3]``, an affine map as OpenCV has it.
    """
    across, up = top - centre
    zoom = size / (2 * float(np.hypot(across, up)) * REGION_MARGIN)
    turn = pi / 2 - atan2(-up, across)
    cosine, sine = cos(turn) * zoom, sin(turn) * zoom
    return np.array([
        [cosine, sine, size / 2 - cosine * centre[0] - sine * centre[1]],
        [-sine, cosine, size / 2 + sine * centre[0] - cosine * centre[1]]])


def decode_joints(raw: Floats, transform: NDArray[np.float64]) -> Floats:
    """
    Decode joints.

    :param raw: ``float[195]``: 39 points of x, y, z in cut-out pixels, visibility and presence
        as logits; only the first 33 are joints.
    :param transform: the map that made the cut-out.
    :returns: ``float32[33, 5]``: x, y in frame pixels, z, visibility, presence in 0..1.
    """
    joints = raw.reshape(RAW_POINTS, ROW)[:JOINTS].astype(np.float32)
    back = cv2.invertAffineTransform(transform)
    joints[:, :2] = joints[:, :2] @ back[:, :2].T + back[:, 2]
    joints[:, 3:] = sigmoid(joints[:, 3:])
    return joints


class PoseEstimator:
    """Frame in, joints of the most certain person out; no rows without a person."""

    def __init__(self, detector: BlazeDetector, network: Network) -> None:
        self._detector = detector
        self._network = network
        self._joints_at = network.output_shapes.index((1, RAW_POINTS * ROW))

    def estimate(self, frame: NDArray[np.uint8]) -> Floats:
        """Answer as ``decode_joints`` does, or with ``float32[0, 5]``."""
        people = self._detector.detect(frame)
        if not len(people):
            return NO_JOINTS
        centre, top = people[0, 4:6], people[0, 6:8]
        size = self._network.width
        transform = region_transform(centre, top, size)
        cut_out = cv2.warpAffine(frame, transform, (size, size))
        return decode_joints(self._network.run(to_unit(cut_out))[self._joints_at][0], transform)
