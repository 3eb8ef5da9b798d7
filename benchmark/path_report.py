"""From the points of ``bench_path`` to its figures and its table."""

from collections.abc import Iterator
import statistics
from typing import Any, NamedTuple

from common import median_of_blocks, quantile

from probed_node import Point

SIZES = (('small', 224, 224), ('medium', 640, 640), ('large', 1920, 1080))
AIM_P50_US = 300.0
AIM_P99_US = 1000.0
PARTS = {
    'callback': (Point.FRAME_IN_HAND, Point.CALLBACK_OVER),
    'to decision': (Point.CALLBACK_OVER, Point.DECIDED),
    'to conversion': (Point.DECIDED, Point.CONVERSION_BEGINS),
    'conversion': (Point.CONVERSION_BEGINS, Point.CONVERSION_ENDS),
    'send': (Point.CONVERSION_ENDS, Point.ON_THE_WIRE),
    'server': (Point.ON_THE_WIRE, Point.ANSWER_IN_HAND),
    'to publication': (Point.ANSWER_IN_HAND, Point.PUBLISH_BEGINS),
    'publish': (Point.PUBLISH_BEGINS, Point.PUBLISHED),
}
NOT_ON_THE_PATH = ('conversion', 'server')
BUDGET = {
    'stamp to callback': (None, Point.FRAME_IN_HAND),
    'callback to decision': (Point.FRAME_IN_HAND, Point.DECIDED),
    'decision to wire': (Point.DECIDED, Point.ON_THE_WIRE),
    'backend': (Point.ON_THE_WIRE, Point.ANSWER_IN_HAND),
    'answer to publication': (Point.ANSWER_IN_HAND, Point.PUBLISHED),
    'publication to consumer': (Point.PUBLISHED, None),
    'stamp to consumer': (None, None)}
"""The whole ROS path; ``None`` is the camera's stamp or the consumer's callback."""


class Frame(NamedTuple):
    """
    One governed frame as the driver saw it.

    :ivar stamp_ns: of its header, on the ROS clock; names the frame.
    :ivar stamped_at_ns: the same instant on CLOCK_MONOTONIC.
    :ivar consumed_at_ns: when the consumer's callback was called with the result, there.
    """

    stamp_ns: int
    stamped_at_ns: int
    consumed_at_ns: int


def evaluate(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Give one row per size, durations in microseconds."""
    frames = measured['log']['frames']
    rows = []
    for name, width, height in SIZES:
        governed: dict[str, list[list[float]]] = {}
        direct: dict[str, list[list[float]]] = {}
        lost = 0
        for block in measured['blocks'][name]:
            calls = [{key: value / 1000 for key, value in parts.items()} for _, parts in block]
            for call in calls:
                call['whole'] = sum(call.values())
            _collect(direct, calls)
            send_us = statistics.median(call['send'] for call in calls)
            stamps = [frame.stamp_ns for frame, _ in block if frame is not None]
            lost += len(block) - len(stamps)
            _collect(governed, [_parts_us(frames[str(stamp)], send_us) for stamp in stamps])
        row = {'size': name, 'bytes': 3 * width * height, 'lost': lost,
               'frames': sum(len(block) for block in governed['added']),
               'governed': _quantiles(governed), 'direct': _quantiles(direct)}
        row['budget'] = _quantiles({part: [
            [_budget_us(frames[str(frame.stamp_ns)], frame, part) for frame, _ in block
             if frame is not None] for block in measured['blocks'][name]] for part in BUDGET})
        row['ratio_of_whole_p50'] = (row['governed']['whole']['p50_us']
                                     / row['direct']['whole']['p50_us'])
        row['is_met'] = (row['governed']['added']['p50_us'] <= AIM_P50_US
                         and row['governed']['added']['p99_us'] <= AIM_P99_US)
        rows.append(row)
    return rows


def _budget_us(points: list[int], frame: Frame, part: str) -> float:
    begin, end = BUDGET[part]
    return ((frame.consumed_at_ns if end is None else points[end])
            - (frame.stamped_at_ns if begin is None else points[begin])) / 1000


def _collect(blocks: dict[str, list[list[float]]], samples: list[dict[str, float]]) -> None:
    for key in samples[0] if samples else ():
        blocks.setdefault(key, []).append([sample[key] for sample in samples])


def _parts_us(points: list[int], direct_send_us: float) -> dict[str, float]:
    parts = {name: (points[end] - points[begin]) / 1000 for name, (begin, end) in PARTS.items()}
    parts['path'] = sum(value for name, value in parts.items() if name not in NOT_ON_THE_PATH)
    parts['added'] = parts['path'] - direct_send_us
    parts['whole'] = (points[Point.PUBLISHED] - points[Point.FRAME_IN_HAND]) / 1000
    return parts


def _quantiles(blocks: dict[str, list[list[float]]]) -> dict[str, dict[str, float]]:
    return {key: {
        'p50_us': round(median_of_blocks(each, 50), 1),
        'p99_us': round(median_of_blocks(each, 99), 1),
        'all_p99_us': round(quantile([value for block in each for value in block], 99), 1),
        'max_us': round(max(max(block) for block in each), 1),
        'block_p50_us': [round(statistics.median(block), 1) for block in each]}
        for key, each in blocks.items()}


def budget_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Write where the time between the camera's stamp and the consumer's callback goes."""
    sizes = ''.join(f'{row["bytes"] / 1e6:15.2f} MB' for row in rows)
    yield f'{"the whole ROS path, us p50/p99":30s}{sizes}'
    for part in BUDGET:
        values = ''.join(
            f'{row["budget"][part]["p50_us"]:9.0f}/{row["budget"][part]["p99_us"]:<8.0f}'
            for row in rows)
        yield f'  {part:28s}{values}'


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Write what was measured, one line per size and part."""
    for row in rows:
        governed, direct = row['governed'], row['direct']
        yield f'{row["bytes"] / 1e6:.2f} MB ({row["frames"]} frames, {row["lost"]} lost)'
        yield '  part               governed p50      p99  all p99      max    direct p50      p99'
        for part, values in governed.items():
            beside = direct.get(part)
            yield (f'  {part:16s} {values["p50_us"]:14.0f} {values["p99_us"]:8.0f} '
                   f'{values["all_p99_us"]:8.0f} {values["max_us"]:8.0f}'
                   + (f' {beside["p50_us"]:13.0f} {beside["p99_us"]:8.0f}' if beside else ''))
        yield f'  the whole way takes {row["ratio_of_whole_p50"]:.3f} times the direct one (p50)'
