"""What a language model brought to whoever asked it, from the consumer's record."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from vig_core.units import NS_PER_MS


@dataclass(frozen=True, slots=True)
class TextReport:
    """
    One arm, over a span.

    :ivar answers: whole texts whose last part came within the span.
    :ivar tokens: of the answers, and ``requests`` to the server that they took.
    :ivar answer_ms: median time from a question to the end of its answer; ``None`` without any.
    :ivar refused: questions without an answer, by reason.
    :ivar unfinished_tokens: of the text that was open when the span ended; counted nowhere else.
    """

    answers: int
    tokens: int
    requests: int
    answer_ms: float | None
    refused: dict[str, int]
    unfinished_tokens: int

    def as_json(self) -> dict[str, Any]:
        """Give all figures."""
        return asdict(self)


def judge_text(record: Mapping[str, Any], *, start_ns: int, end_ns: int) -> TextReport:
    """
    Judge a conversation over a span.

    :param record: as the consumer wrote it.
    """
    ended = [each for each in record['exchanges']
             if each['ended'] is not None and start_ns <= each['ended'] < end_ns]
    answers = [each for each in ended if each['reason'] == 'completed']
    cut_off = [part for each in record['exchanges']
               if each['ended'] is None or each['ended'] >= end_ns
               for part in each['parts'] if part[0] < end_ns]
    return TextReport(
        len(answers), sum(each['parts'][-1][2] for each in answers),
        sum(each['parts'][-1][3] for each in answers),
        median((each['ended'] - each['asked']) / NS_PER_MS for each in answers)
        if answers else None,
        dict(Counter(each['reason'] for each in ended if each['reason'] != 'completed')),
        cut_off[-1][2] if cut_off else 0)
