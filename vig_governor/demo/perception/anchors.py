"""
Anchor boxes of single-shot detectors, in the layout that MediaPipe's networks were trained with.

Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016, section 2.2, gives scales and aspect
ratios. The networks differ from it in two ways that are reproduced here: consecutive layers with
one stride share one grid, and the box between two scales (``extra_ratio``) is optional.
"""

from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class AnchorLayout:
    """
    How the anchors of one network are laid out.

    :ivar strides: pixels between grid points, one for each layer, in order of the output.
    :ivar ratios: width / height of the boxes of every layer.
    :ivar extra_ratio: ratio of one more box between a layer's scale and the next, or ``None``.
    :ivar has_small_first_layer: the first layer carries three boxes, one of scale 0.1.
    :ivar is_unit: every box has width and height 1; only the centres differ.
    """

    strides: tuple[int, ...]
    ratios: tuple[float, ...] = (1.0,)
    extra_ratio: float | None = 1.0
    min_scale: float = 0.1484375
    max_scale: float = 0.75
    has_small_first_layer: bool = False
    is_unit: bool = True

    def scale(self, layer: int) -> float:
        """Size of a layer's boxes relative to the image; 1 beyond the last layer."""
        if layer >= len(self.strides):
            return 1.0
        if len(self.strides) == 1:
            return (self.min_scale + self.max_scale) / 2
        step = (self.max_scale - self.min_scale) / (len(self.strides) - 1)
        return self.min_scale + step * layer

    def boxes(self, layer: int) -> list[tuple[float, float]]:
        """Give ``(scale, ratio)`` of each box at a grid point of a layer."""
        if layer == 0 and self.has_small_first_layer:
            return [(0.1, 1.0), (self.scale(0), 2.0), (self.scale(0), 0.5)]
        boxes = [(self.scale(layer), ratio) for ratio in self.ratios]
        if self.extra_ratio is not None:
            boxes.append((sqrt(self.scale(layer) * self.scale(layer + 1)), self.extra_ratio))
        return boxes


def make_anchors(layout: AnchorLayout, height: int, width: int) -> NDArray[np.float32]:
    """
    Lay out the anchors for a network with an input of ``height`` x ``width`` pixels.

    :returns: ``float32[anchor, 4]`` with centre x, centre y, width, height, relative to the input.
    """
    anchors: list[tuple[float, float, float, float]] = []
    layer = 0
    while layer < len(layout.strides):
        stride, boxes = layout.strides[layer], []
        while layer < len(layout.strides) and layout.strides[layer] == stride:
            boxes += layout.boxes(layer)
            layer += 1
        sizes = [(1.0, 1.0) if layout.is_unit else (scale * sqrt(ratio), scale / sqrt(ratio))
                 for scale, ratio in boxes]
        rows, columns = ceil(height / stride), ceil(width / stride)
        anchors += [((column + 0.5) / columns, (row + 0.5) / rows, *size)
                    for row in range(rows) for column in range(columns) for size in sizes]
    return np.array(anchors, np.float32)
