"""How the benchmark of generative jobs judges an arm, and what its report says of it."""

from benchmark.cooperative.__main__ import report
from benchmark.cooperative.record import judge, Record

MS = 10**6


def test_a_cycle_is_covered_while_the_newest_delivered_result_is_young():
    record = Record()
    record.delivered(0, 10 * MS)
    record.delivered(300 * MS, 320 * MS)
    outcome = judge(record, 'cut', 1, 50 * MS, 450 * MS, 100 * MS, 100 * MS)
    # Judged at 50, 150, 250 and 350: the first and the last have a result of at most 100 ms.
    assert outcome.coverage == 50
    assert outcome.longest_gap_ms == 200


def test_only_whole_answers_are_answers_and_their_tokens_count():
    record = Record()
    record.ended('completed', 24, 3)
    record.ended('infeasible', 7, 1)
    outcome = judge(record, 'cut', 1, 0, 100 * MS, 100 * MS, 100 * MS)
    assert (outcome.answers, outcome.refused, outcome.tokens, outcome.quanta) == (1, 1, 24, 4)


def test_the_report_compares_cut_with_whole_at_each_number_of_slots():
    facts = {'processor': 'p', 'machine': 'm', 'cores': 2, 'python': '3', 'load_1min': 0.0}
    costs = {'camera_p50': 9000, 'camera_p99': 9500, 'rate': 50.0, 'base': 10_000,
             'whole': 490_000, 'whole_p99': 600_000}
    arms = []
    for arm, answers, quanta in (('whole', 2, 2), ('cut', 40, 80)):
        record = Record()
        for _ in range(answers):
            record.ended('completed', 24, quanta // answers)
        arms.append(judge(record, arm, 1, 0, 100 * MS, 100 * MS, 100 * MS).as_json())
    text = report({'conditions': facts, 'costs': costs, 'arms': arms, 'rate_hz': 5, 'seconds': 30})
    assert '1 slot: cut 40 answers, whole 2' in text
    assert 'cost 2.0 % of the work' in text
