"""What a person watches of the language model: the growing text, and what both runs brought."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.constrain import Constrain
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vig_governor.demo.plan import DemoPlan
from vig_governor.demo.report import StreamReport
from vig_governor.demo.snapshot_view import SnapshotView
from vig_governor.demo.table import coloured, counted, in_ms, in_percent
from vig_governor.demo.text_report import TextReport
from vig_governor.demo.writer_costs import WriterCosts

WIDEST = 80


class TextView(SnapshotView):
    """Shows snapshots: a text that grows on a terminal, a line each second elsewhere."""

    plain_period_s = 1.0

    def __init__(self, console: Console, plan: DemoPlan, title: str) -> None:
        super().__init__(console, title)
        self._camera = plan.streams[0]

    def _line(self, snapshot: Mapping[str, Any], elapsed_s: float) -> Text:
        """Show how fresh the camera is, and as much of the text's end as there is room for."""
        text = snapshot['text']
        begin = (f'[{elapsed_s:4.1f} s] {self._camera.name} at most {self._age(snapshot):>7} old, '
                 f'{text["answers"]:2} answers: ')
        room = min(self._console.width, WIDEST) - len(begin)
        newest = text['shown'][-1] if text['shown'] else None
        said = '' if newest is None else (
            ' '.join(newest['text'].split()) or f'({newest["question"]})')
        return Text(begin + (said if len(said) <= room else '…' + said[-room + 1:]),
                    no_wrap=True, overflow='crop')

    def _age(self, snapshot: Mapping[str, Any]) -> str:
        return in_ms(snapshot['streams'][self._camera.name]['stalest_ms'])

    def _picture(self, snapshot: Mapping[str, Any], elapsed_s: float, seconds: float) -> Group:
        figures, text = snapshot['streams'][self._camera.name], snapshot['text']
        stalest_ms = figures['stalest_ms']
        is_stale = stalest_ms is None or stalest_ms > self._camera.max_age_ms
        camera = Text.assemble(
            (f'{self._camera.name}, {self._camera.rate_hz:g} Hz, {self._camera.criticality}: ',
             'bold'), 'results at most ',
            (f'{self._age(snapshot):>7} old', 'red' if is_stale else 'green'),
            f', {in_percent(figures["coverage"])} covered')
        written = Text(f'{_counted(text["answers"], "answer")} with {text["tokens"]} tokens')
        if text['refused']:
            written.append(f'; no answer: {counted(text["refused"])}', 'yellow')
        rows: list[Text | Padding] = []
        for exchange in text['shown']:
            rows.append(Text(f'? {exchange["question"]}', 'bold'))
            said = Text(' '.join(exchange['text'].split()))
            if exchange['reason'] == 'completed':
                said.append(f'  ({exchange["tokens"]} tokens, '
                            f'{_counted(exchange["requests"], "request")})', 'dim')
            elif exchange['reason']:
                said.append(f'  (no answer: {exchange["reason"]})', 'yellow')
            else:
                said.append('▌', 'cyan')
            rows.append(Padding(said, (0, 0, 0, 2)))
        if text['refusal']:
            rows.append(Text(f'last refusal: {text["refusal"]}', 'yellow'))
        return Group(Text(self._title, 'italic'), Text(), camera, written, Text(), *rows, Text(),
                     Text(f'{elapsed_s:.0f} of {seconds:.0f} s', 'dim'))


def comparison(plan: DemoPlan, cameras: Mapping[str, StreamReport],
               texts: Mapping[str, TextReport], caption: str) -> Constrain:
    """Put the arms above each other; arms go by their names. At most 80 columns wide."""
    camera = plan.streams[0]
    table = Table(title=f'{camera.name} at {camera.rate_hz:g} Hz, results of at most '
                        f'{camera.max_age_ms} ms, and a language model', caption=caption)
    table.add_column('run', no_wrap=True)
    for name in ('covered', 'longest gap', 'age p95', 'answers', 'tokens', 'per answer',
                 'no answer'):
        table.add_column(name, justify='right')
    for name, report in cameras.items():
        text = texts[name]
        table.add_row(
            name, coloured(report.coverage_percent / 100), in_ms(report.longest_gap_ms),
            in_ms(report.age_p95_ms), str(text.answers), str(text.tokens), in_ms(text.answer_ms),
            str(sum(text.refused.values())))
    return Constrain(table, WIDEST)


def refusals(name: str, record: Mapping[str, Any]) -> list[str]:
    """
    Say why questions of a run got no answer, with what the last one was told.

    :param record: as the consumer wrote it.
    """
    refused = [each for each in record['exchanges'] if each['reason'] not in ('', 'completed')]
    if not refused:
        return []
    reasons = counted(Counter(each['reason'] for each in refused))
    return [f'{name}, without an answer: {reasons}. The last one: {refused[-1]["detail"]}']


def verdict(cameras: Mapping[str, StreamReport],
            texts: Mapping[str, TextReport]) -> str:
    """Say what the camera had in both runs, and the writer."""
    before, after = cameras['direct'], cameras['governed']
    direct, governed = texts['direct'], texts['governed']
    return (f'{before.stream} ({before.criticality}): without a usable result for '
            f'{before.cycles - before.covered} of {before.cycles} cycles when both go straight to '
            f'the server, {after.cycles - after.covered} of {after.cycles} with the governor. '
            f'The language model: {_counted(direct.answers, "answer")} against '
            f'{governed.answers}, these in {_counted(governed.requests, "request")}.')


def samples(record: Mapping[str, Any], count: int) -> list[str]:
    """
    Give the first answers of a run, to be read.

    :param record: as the consumer wrote it.
    """
    answers = [each for each in record['exchanges'] if each['reason'] == 'completed'][:count]
    return [f'"{each["question"]}" '
            f'{" ".join("".join(part[1] for part in each["parts"]).split())} '
            f'({_counted(each["parts"][-1][3], "request")})' for each in answers]


def room(plan: DemoPlan, frame_ms: float, costs: WriterCosts) -> str:
    """
    Say how much text fits between two frames, with the figures.

    :param frame_ms: what a run of the camera's model is planned with.
    """
    camera, writer = plan.streams[0], plan.writer
    assert writer is not None
    free_ms = max(0.0, camera.period_ms - frame_ms)
    tokens = 0
    while tokens < writer.max_tokens and costs.planned_ms(tokens + 1) <= free_ms:
        tokens += 1
    fits = (f'about {_counted(tokens, "token")}' if tokens else
            f'not even one token ({costs.planned_ms(1):.0f} ms)')
    return (f'Between two frames of {camera.name} at {camera.rate_hz:g} Hz {free_ms:.0f} ms are '
            f'free, as it is planned: {fits} in one piece, and up to {writer.max_tokens} make an '
            'answer.')


def _counted(count: int, what: str) -> str:
    return f'{count} {what}{"" if count == 1 else "s"}'
