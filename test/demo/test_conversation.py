"""One question after the other: what is an answer, and what is none (milliseconds)."""

from vig_core.units import NS_PER_MS

from vig_governor.demo.conversation import Conversation, RETRY_NS
from vig_governor.demo.text_report import judge_text


def write(conversation, at, number, text, tokens, requests, is_last=False):
    conversation.write(at * NS_PER_MS, number, text, tokens, requests, is_last=is_last)


def judged(conversation, end=1000):
    record = {'exchanges': [each.as_json() for each in conversation.exchanges]}
    return judge_text(record, start_ns=0, end_ns=end * NS_PER_MS)


def test_the_next_question_comes_when_the_last_part_was_there_and_again_from_the_first():
    talk = Conversation(['one?', 'two?'])
    assert talk.ask(0) == 'one?'
    assert talk.ask(10 * NS_PER_MS) is None
    write(talk, 20, 1, 'It is ', 2, 1)
    assert talk.ask(30 * NS_PER_MS) is None
    write(talk, 40, 1, 'one.', 4, 2, is_last=True)
    assert talk.ask(50 * NS_PER_MS) == 'two?'
    write(talk, 60, 2, 'Two.', 2, 1, is_last=True)
    assert talk.ask(70 * NS_PER_MS) == 'one?'
    assert [each.text for each in talk.exchanges] == ['It is one.', 'Two.', '']


def test_an_answer_counts_with_its_tokens_requests_and_the_time_that_it_took():
    talk = Conversation(['one?'])
    talk.ask(100 * NS_PER_MS)
    write(talk, 300, 1, 'It is ', 2, 1)
    write(talk, 500, 1, 'one.', 4, 2, is_last=True)
    report = judged(talk)
    assert (report.answers, report.tokens, report.requests) == (1, 4, 2)
    assert report.answer_ms == 400
    assert report.unfinished_tokens == 0


def test_a_text_that_is_open_at_the_end_is_no_answer():
    talk = Conversation(['one?'])
    talk.ask(0)
    write(talk, 900, 1, 'It is ', 2, 1)
    write(talk, 1100, 1, 'one.', 4, 2, is_last=True)
    report = judged(talk)
    assert (report.answers, report.tokens, report.answer_ms) == (0, 0, None)
    assert report.unfinished_tokens == 2
    assert judged(talk, end=1200).answers == 1


def test_a_text_that_broke_off_is_no_answer_and_its_reason_is_counted_and_shown():
    talk = Conversation(['one?', 'two?'])
    talk.ask(0)
    write(talk, 100, 1, 'It is ', 2, 1)
    talk.fail(200 * NS_PER_MS, 1, 'stale', 'too old by 3 ms')
    report = judged(talk)
    assert (report.answers, report.tokens) == (0, 0)
    assert report.refused == {'stale': 1}
    shown = talk.snapshot()
    assert (shown['answers'], shown['refused'], shown['refusal']) == (
        0, {'stale': 1}, 'too old by 3 ms')


def test_who_was_refused_asks_again_but_not_at_once():
    talk = Conversation(['one?', 'two?'])
    talk.ask(0)
    talk.fail(0, 1, 'infeasible', 'overload')
    assert talk.ask(RETRY_NS - 1) is None
    assert talk.ask(RETRY_NS) == 'two?'


def test_what_comes_late_of_a_question_that_is_over_changes_nothing():
    talk = Conversation(['one?', 'two?'])
    talk.ask(0)
    talk.fail(0, 7, 'stale', 'too old')
    talk.ask(RETRY_NS)
    write(talk, 400, 7, 'late', 1, 1, is_last=True)
    talk.fail(400 * NS_PER_MS, 7, 'stale', 'too old')
    assert talk.exchanges[-1].parts == [] and talk.exchanges[-1].reason == ''
