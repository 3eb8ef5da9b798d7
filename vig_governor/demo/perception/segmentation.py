"""Foreground masks."""

import cv2
import numpy as np
from numpy.typing import NDArray

from .boxes import Network, to_unit


class Segmenter:
    """Frame in, mask in the network's own resolution out."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def segment(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Answer ``uint8[height, width]``, 255 where the network is certain of a person."""
        image = cv2.resize(frame, (self._network.width, self._network.height))
        mask = self._network.run(to_unit(image))[0][0, :, :, 0]
        return (mask.clip(0, 1) * 255).astype(np.uint8)
