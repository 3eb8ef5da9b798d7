"""``result.png``: the newest results drawn on the very frames that they were computed from."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vig_core.units import NS_PER_MS

from vig_governor.demo.camera import frames
from vig_governor.demo.plan import DemoPlan, DemoStream

Image = NDArray[np.uint8]

_COLOURS = {'protected': (230, 80, 60), 'high': (250, 170, 40), 'normal': (70, 160, 240),
            'best_effort': (150, 150, 150)}
_PERSON = 4
_MIN_VISIBILITY = 0.5
# Pairs of joints in the order of the BlazePose topology.
_LIMBS = ((11, 12), (11, 13), (13, 15), (12, 14), (14, 16), (11, 23), (12, 24), (23, 24),
          (23, 25), (25, 27), (24, 26), (26, 28), (9, 10),
          (8, 6), (6, 5), (5, 4), (4, 0), (0, 1), (1, 2), (2, 3), (3, 7))
_FONT = cv2.FONT_HERSHEY_DUPLEX
_COLUMNS = 3
_WIDTH, _HEIGHT, _BANNER = 640, 480, 64
_DARK, _LIGHT = 24, (235, 235, 235)
_EXPLANATION = (
    'Each picture is one camera of the demo.',
    'The last results are drawn on the very frames',
    'that they were computed from.',
    '',
    '"old on delivery": from the capture of the frame',
    'until its result reached the consumer.',
    '',
    'A camera without a result had to wait: its work',
    'would have made a more important one late.')


def draw_results(path: Path, plan: DemoPlan, notes: Mapping[str, Any],
                 captures: Mapping[str, Sequence[Sequence[int]]], videos: Path) -> None:
    """
    Draw one panel for each stream, three in a row, and a panel that says what one sees.

    :param notes: the consumer's record of the governed arm.
    :param captures: the cameras' logs by stream; they say which frame of the video it was.
    :param videos: folder in which the plan's video paths lie.
    """
    panels = [_panel(stream, notes[stream.name], captures[stream.name], videos)
              for stream in plan.streams] + [_explanation()]
    rows = (len(panels) + _COLUMNS - 1) // _COLUMNS
    sheet = np.full((rows * (_BANNER + _HEIGHT), _COLUMNS * _WIDTH, 3), _DARK, np.uint8)
    for number, panel in enumerate(panels):
        top, left = number // _COLUMNS * (_BANNER + _HEIGHT), number % _COLUMNS * _WIDTH
        sheet[top:top + panel.shape[0], left:left + _WIDTH] = panel
    cv2.imwrite(str(path), sheet[:, :, ::-1])


def _panel(stream: DemoStream, notes: Mapping[str, Any], captures: Sequence[Sequence[int]],
           videos: Path) -> Image:
    output = _best_output(stream, notes['outputs'])
    numbers = {capture[0]: capture[2] for capture in captures}
    number = numbers.get(output['stamp'], 0) if output else 0
    image = next(image for count, image in frames(videos / stream.video, stream.size)
                 if count == number).copy()
    colour = _COLOURS[stream.criticality]
    if output is None:
        text = 'no result: it always had to wait'
        image = (image // 3).astype(np.uint8)
    else:
        values = np.frombuffer(bytes.fromhex(output['data']),
                               np.float32 if output['datatype'] == 'FP32' else np.uint8)
        _DRAWERS[stream.draws](image, values.reshape(output['shape']), colour)
        age_ms = (output['received'] - output['stamp']) / NS_PER_MS
        text = f'{output["variant"]}, {age_ms:.0f} ms old on delivery'
    panel = np.full((_BANNER + _HEIGHT, _WIDTH, 3), _DARK, np.uint8)
    panel[:_BANNER, :8] = colour
    _write(panel, f'{stream.name}  ({stream.criticality})', (20, 24), 0.7, colour)
    _write(panel, text, (20, 52), 0.65, _LIGHT)
    top = _BANNER + (_HEIGHT - image.shape[0]) // 2
    panel[top:top + image.shape[0]] = image
    return panel


def _explanation() -> Image:
    panel = np.full((_BANNER + _HEIGHT, _WIDTH, 3), _DARK, np.uint8)
    for number, line in enumerate(_EXPLANATION):
        _write(panel, line, (30, 120 + 32 * number), 0.7, _LIGHT)
    return panel


def _best_output(stream: DemoStream, outputs: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Take the newest output, or for detections the newest with the most of them."""
    if stream.draws == 'mask':
        return outputs[-1] if outputs else None
    return max(reversed(outputs), key=lambda output: output['shape'][0], default=None)


def _write(image: Image, text: str, corner: tuple[int, int], size: float,
           colour: tuple[int, int, int]) -> None:
    shadow = (corner[0] + 1, corner[1] + 1)
    cv2.putText(image, text, shadow, _FONT, size, (0, 0, 0), 1, cv2.LINE_AA)
    cv2.putText(image, text, corner, _FONT, size, colour, 1, cv2.LINE_AA)


def _draw_boxes(image: Image, boxes: NDArray[np.float32], colour: tuple[int, int, int]) -> None:
    for box in boxes:
        left, top, right, bottom = (int(value) for value in box[:4])
        cv2.rectangle(image, (left, top), (right, bottom), colour, 2, cv2.LINE_AA)


def _draw_face(image: Image, boxes: NDArray[np.float32], colour: tuple[int, int, int]) -> None:
    _draw_boxes(image, boxes, colour)
    for box in boxes:
        for x, y in box[4:16].reshape(-1, 2):
            cv2.circle(image, (int(x), int(y)), 4, colour, -1, cv2.LINE_AA)
        _write(image, f'face {box[-1]:.2f}', (int(box[0]), int(box[1]) - 8), 0.6, _LIGHT)


def _draw_pose(image: Image, joints: NDArray[np.float32], colour: tuple[int, int, int]) -> None:
    if not len(joints):
        return
    height, width = image.shape[:2]
    points = [(int(x), int(y)) for x, y in joints[:, :2]]
    is_seen = [visibility > _MIN_VISIBILITY and 0 <= x < width and 0 <= y < height
               for (x, y), visibility in zip(points, joints[:, 3])]
    for first, second in _LIMBS:
        if joints[first, 3] > _MIN_VISIBILITY and joints[second, 3] > _MIN_VISIBILITY:
            cv2.line(image, points[first], points[second], colour, 3, cv2.LINE_AA)
    for point, seen in zip(points, is_seen):
        if seen:
            cv2.circle(image, point, 4, (255, 255, 255), -1, cv2.LINE_AA)
            cv2.circle(image, point, 4, colour, 1, cv2.LINE_AA)


def _draw_objects(image: Image, boxes: NDArray[np.float32],
                  colour: tuple[int, int, int]) -> None:
    people = boxes[boxes[:, 5] == _PERSON]
    _draw_boxes(image, people, colour)
    _write(image, f'{len(people)} persons', (16, image.shape[0] - 16), 0.7, _LIGHT)


def _draw_mask(image: Image, mask: NDArray[np.uint8], colour: tuple[int, int, int]) -> None:
    share = cv2.resize(mask, image.shape[1::-1]).astype(np.float32)[:, :, None] / 255 * 0.6
    image[...] = (image * (1 - share) + np.array(colour) * share).astype(np.uint8)


_DRAWERS: Mapping[str, Callable[[Image, Any, tuple[int, int, int]], None]] = {
    'face': _draw_face, 'pose': _draw_pose, 'objects': _draw_objects, 'mask': _draw_mask}
