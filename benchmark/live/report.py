"""The text and the files of a run."""

from collections import Counter
from collections.abc import Mapping
import json
from pathlib import Path
import statistics
from typing import Any

from benchmark.common import told
from benchmark.live.summary import DIRECT, GOVERNOR, Spread, Summary

_NODE = ('receipt_to_decision', 'completion_to_dispatch', 'wakeup_lateness', 'decision', 'encode')


def line(cell: Mapping[str, Any]) -> str:
    """Say of one cell in one line how it went."""
    streams = '  '.join(
        f'{name} {stream["uncovered_permille"]:.0f}' for name, stream in cell['streams'].items()
        if stream['uncovered_permille'] is not None)
    reasons = f' ({"; ".join(cell["reasons"])})' if cell['reasons'] else ''
    return (f'{cell["point"]:16} {cell["arm"]:16} #{cell["repeat"]} uncovered ‰: {streams}  '
            f'{cell["status"]}{reasons}')


def write(folder: Path, results: Mapping[str, Any]) -> None:
    """Write ``results.json``: all cells, the aims and the losers; and the text beside it."""
    summary = Summary(results['cells'])
    (folder / 'results.json').write_text(json.dumps({
        **results, 'aims': [{'aim': aim.what, 'measured': aim.measured, 'verdict': aim.verdict}
                            for aim in summary.aims()],
        'losers': summary.losers()}, indent=1), encoding='utf-8')
    (folder / 'report.txt').write_text(text(results), encoding='utf-8')


def text(results: Mapping[str, Any]) -> str:
    """Write the report: a table for each point, the aims, the losers."""
    summary = Summary(results['cells'])
    lines = [_head(results)] if 'conditions' in results else []
    for point in summary.points:
        lines += ['', *_point(summary, point)]
    lines += ['', 'Aims']
    lines += [f'  {aim.verdict:7} {aim.what}: {aim.measured}' for aim in summary.aims()]
    lines += ['', 'Streams that lose more cycles with the governor than without']
    lines += [f'  {loser}' for loser in summary.losers()] or ['  none']
    counts = Counter(cell['status'] for cell in results['cells'])
    lines += ['', f'{len(results["cells"])} cells: '
              + ', '.join(f'{count} {status}' for status, count in counts.items())]
    return '\n'.join(lines) + '\n'


def _head(results: Mapping[str, Any]) -> str:
    facts = results['conditions']
    head = (f'{told(facts)} before, {facts.get("load_1min_after", "-")} after; '
            f'{results["repeats"]} repeats of {results["seconds"]:g} s judged. '
            'Median (least..greatest) over the repeats; * is the direct arm that counts.')
    found = results.get('calibration')
    if found:
        head += (f'\nBetween two runs the accelerator stands still for '
                 f'{found["turnaround_ms"]:.2f} ms. With one request in flight, ms p50/p99: '
                 + ', '.join(f'{name} {row["p50_ms"]:.1f}/{row["p99_ms"]:.1f}'
                             for name, row in found['profiles'].items()))
    return head


def _point(summary: Summary, point: str) -> list[str]:
    best = summary.best_direct(point)
    lines = [f'{point} %',
             f'  {"stream":10} {"arm":17} {"uncovered ‰":>20} {"gap ms":>7} '
             f'{"age p50/95/99 ms":>18} {"results/s":>9}  ended otherwise']
    for stream, criticality in summary.streams(point).items():
        named = stream
        for arm in summary.arms(point):
            lines.append(f'  {named:10} {_arm(arm, best):17} '
                         + _stream(summary, point, arm, stream))
            named = ''
        lines[-len(summary.arms(point))] += f'   [{criticality}]'
    for arm in summary.arms(point):
        lines.append(f'  {_arm(arm, best):17} ' + _arm_line(summary, point, arm))
    node, plans = _node(summary, point), _plans(summary, point)
    lines += [f'  governor, µs p50/p99: {node}'] if node else []
    return lines + ([f'  governor, plans at the end: {plans}'] if plans else [])


def _arm(arm: str, best: str | None) -> str:
    return f'{arm} *' if arm in DIRECT and arm == best else arm


def _stream(summary: Summary, point: str, arm: str, stream: str) -> str:
    uncovered = summary.of_stream(point, arm, stream, 'uncovered_permille')
    ages = '/'.join(_number(summary.of_stream(point, arm, stream, f'age_p{percent}_ms'))
                    for percent in (50, 95, 99))
    ends: Counter[str] = Counter()
    for cell in summary.cells(point, arm):
        ends.update(cell['streams'][stream]['ends'])
    drops = ', '.join(f'{reason} {count}' for reason, count in ends.most_common()
                      if reason != 'completed')
    return (f'{_spread(uncovered):>20} '
            f'{_number(summary.of_stream(point, arm, stream, "longest_gap_ms")):>7} {ages:>18} '
            f'{_number(summary.of_stream(point, arm, stream, "results_per_s"), 1):>9}  {drops}')


def _arm_line(summary: Summary, point: str, arm: str) -> str:
    def figure(key: str) -> str:
        return _number(summary.of_cell(point, arm, lambda cell: cell.get(key)))

    idle = summary.of_cell(point, arm,
                           lambda cell: cell['node'].get('deliberate_idle_percent'))
    statuses = ', '.join(f'{count} {status}'
                         for status, count in summary.statuses(point, arm).items())
    return (f'accelerator busy {figure("accelerator_busy_percent")} %, '
            f'its nodes {figure("between_percent")} % of a core'
            + (f', idle on purpose {_number(idle)} %' if arm.startswith(GOVERNOR) else '')
            + f', background {figure("background_permille")} ‰; cells: {statuses}')


def _node(summary: Summary, point: str) -> str:
    cells = summary.cells(point, GOVERNOR)
    shown = []
    for name in _NODE:
        figures = [[cell['node'][key] for cell in cells if key in cell['node']]
                   for key in (f'{name}_p50_us', f'{name}_p99_us')]
        if all(figures):
            shown.append(f'{name.replace("_", " ")} '
                         + '/'.join(f'{statistics.median(each):.0f}' for each in figures))
    return ', '.join(shown)


def _plans(summary: Summary, point: str) -> str:
    cells = [cell['plans'] for cell in summary.cells(point, GOVERNOR) if cell.get('plans')]
    return ', '.join(
        f'{stream} {statistics.median(plans[stream]["planned_ms"] for plans in cells):.1f} ms '
        f'({statistics.median(plans[stream]["margin_percent"] for plans in cells):.0f} %)'
        for stream in (cells[0] if cells else ()))


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return '-'
    if spread.least == spread.greatest:
        return f'{spread.median:.0f}'
    return f'{spread.median:.0f} ({spread.least:.0f}..{spread.greatest:.0f})'


def _number(spread: Spread | None, digits: int = 0) -> str:
    return '-' if spread is None else f'{spread.median:.{digits}f}'
