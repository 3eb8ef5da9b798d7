"""
Where the pixels of a frame land in a model's input, and the way back for boxes and points.

::

    source frame (width x height)          model input (width x height), letterbox: true
    +--------------------+                 +--------------+
    |                    |   one scale     |  pad (0)     |
    |                    |   ---------->   +--------------+
    |                    |                 |   content    |
    +--------------------+                 +--------------+
                                           |  pad (0)     |
                                           +--------------+

With a letterbox the frame keeps its aspect ratio: the larger side fills the input, the other one
is rounded to the nearest pixel (at least one), and the content is centred. An odd remainder of
padding goes to the right and to the bottom. The padding is 0 before normalisation. Without a
letterbox the frame is stretched over the whole input.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Geometry:
    """
    The mapping of one frame size to one input size; all values in pixels.

    :ivar source: ``(width, height)`` of the frame.
    :ivar target: ``(width, height)`` of the model's input.
    :ivar content: ``(width, height)`` of the scaled frame inside the input.
    :ivar pad: ``(left, top)`` corner of the content inside the input.
    """

    source: tuple[int, int]
    target: tuple[int, int]
    content: tuple[int, int]
    pad: tuple[int, int]

    @property
    def scale(self) -> tuple[float, float]:
        """Input pixels for each frame pixel, ``(x, y)``; equal but for rounding in a letterbox."""
        return (self.content[0] / self.source[0], self.content[1] / self.source[1])

    def to_source(self, x: float, y: float) -> tuple[float, float]:
        """
        Map a point of the model's input back into the frame.

        Pixel edges are integers: ``(0, 0)`` is the outer corner of the first pixel. Points in
        the padding map outside the frame; the caller clips.
        """
        scale_x, scale_y = self.scale
        return ((x - self.pad[0]) / scale_x, (y - self.pad[1]) / scale_y)

    def to_target(self, x: float, y: float) -> tuple[float, float]:
        """Map a point of the frame into the model's input; the inverse of ``to_source``."""
        scale_x, scale_y = self.scale
        return (x * scale_x + self.pad[0], y * scale_y + self.pad[1])


def place(source: tuple[int, int], size: tuple[int, int] | None, letterbox: bool) -> Geometry:
    """
    Say where a frame lands.

    :param source: ``(width, height)`` of the frame, both positive.
    :param size: ``(width, height)`` of the model's input, or ``None`` to keep the frame's.
    :param letterbox: keep the aspect ratio and pad.
    """
    if size is None or size == source:
        return Geometry(source, source, source, (0, 0))
    if not letterbox:
        return Geometry(source, size, size, (0, 0))
    width, height = source
    if width * size[1] >= height * size[0]:
        content = (size[0], max(1, _rounded_quotient(height * size[0], width)))
    else:
        content = (max(1, _rounded_quotient(width * size[1], height)), size[1])
    pad = ((size[0] - content[0]) // 2, (size[1] - content[1]) // 2)
    return Geometry(source, size, content, pad)


def _rounded_quotient(numerator: int, denominator: int) -> int:
    """Nearest integer, halves upwards, without the detour over floats."""
    return (2 * numerator + denominator) // (2 * denominator)
