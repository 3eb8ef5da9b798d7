"""What the words of gRPC and Triton prove about an execution."""

import pytest

from vig_core.reconcile import Ending
from vig_governor.backend.verdict import judge, judge_http, Meaning, Verdict

SEEN = [
    ('UNAVAILABLE', 'failed to connect to all addresses; last error: UNKNOWN: '
     'ipv4:127.0.0.1:8001: Failed to connect to remote host: Connection refused',
     Meaning.NEVER_SENT),
    ('UNAVAILABLE', 'errors resolving nohost.invalid:8001: [field:hostname lookup error:address '
     'lookup failed for nohost.invalid:8001: Domain name not found]', Meaning.NEVER_SENT),
    ('UNAVAILABLE', 'Stream removed (Socket closed)', Meaning.BROKEN),
    ('UNAVAILABLE', 'recvmsg:Connection reset by peer', Meaning.BROKEN),
    ('UNAVAILABLE', 'words that nobody has seen yet', Meaning.BROKEN),
    ('UNAVAILABLE', "Request for unknown model: 'echo' is not at ready state", Meaning.ANSWERED),
    ('UNAVAILABLE', 'Exceeds maximum queue size', Meaning.ANSWERED),
    ('DEADLINE_EXCEEDED', 'Deadline Exceeded', Meaning.BROKEN),
    ('CANCELLED', 'Channel closed!', Meaning.BROKEN),
    ('INTERNAL', 'the image asked for an error', Meaning.ANSWERED),
    ('INTERNAL', 'Received RST_STREAM with error code 2', Meaning.BROKEN),
    ('NOT_FOUND', "Unable to find shared memory region: 'x'", Meaning.REGION_UNKNOWN),
    ('NOT_FOUND', "Request for unknown model: 'nope' is not found", Meaning.ANSWERED),
    ('INVALID_ARGUMENT', "unexpected inference input 'FOO' for model 'echo'", Meaning.ANSWERED),
    ('RESOURCE_EXHAUSTED', 'CLIENT: Received message larger than max', Meaning.ANSWERED),
]


@pytest.mark.parametrize('code, message, meaning', SEEN, ids=lambda value: str(value)[:30])
def test_only_an_answer_or_a_request_that_never_left_proves_the_end(code, message, meaning):
    verdict = judge(f'StatusCode.{code}', message)
    assert verdict.meaning is meaning
    assert verdict.is_over is (meaning is not Meaning.BROKEN)
    assert code in verdict.text


def test_the_traceback_of_a_model_becomes_one_short_line():
    text = judge('StatusCode.INTERNAL', 'RuntimeError: ' + 'x' * 900 + '\n\nAt:\n  model.py').text
    assert '\n' not in text and len(text) < 330


def test_a_silent_error_still_says_something():
    assert judge(None, '').text == 'no reason given'


@pytest.mark.parametrize('status, message, meaning, ending, code', [
    (404, "Request for unknown model: 'nope' is not found", Meaning.ANSWERED,
     Ending.NOT_COUNTED, 'NOT_FOUND'),
    (404, "Unable to find shared memory region: 'x'", Meaning.REGION_UNKNOWN,
     Ending.NOT_COUNTED, 'NOT_FOUND'),
    (400, "Unable to find shared memory region: 'x'", Meaning.REGION_UNKNOWN,
     Ending.NOT_COUNTED, 'HTTP 400'),
    (400, 'the model itself may have said so', Meaning.ANSWERED, Ending.UNCLEAR, 'HTTP 400'),
    (500, 'the image asked for an error', Meaning.ANSWERED, Ending.COUNTED, 'INTERNAL'),
    (400, "[request id: 7] unexpected shape for input 'IMAGE'", Meaning.ANSWERED,
     Ending.NOT_COUNTED, 'HTTP 400'),
    (503, "Request for unknown model: 'echo' is not at ready state", Meaning.ANSWERED,
     Ending.NOT_COUNTED, 'UNAVAILABLE'),
    (503, 'words that nobody has seen yet', Meaning.ANSWERED, Ending.UNCLEAR, 'UNAVAILABLE'),
    (503, 'Exceeds maximum queue size', Meaning.ANSWERED, Ending.UNCLEAR, 'UNAVAILABLE'),
    (418, 'I am a teapot', Meaning.ANSWERED, Ending.UNCLEAR, 'HTTP 418')])
def test_whatever_an_http_service_answers_the_request_is_over(status, message, meaning, ending,
                                                              code):
    verdict = judge_http(status, message)
    assert verdict == Verdict(meaning, f'{message} ({code})', ending) and verdict.is_over


def test_an_http_connection_without_an_answer_proves_an_end_only_where_nothing_was_sent():
    never, broken = (Verdict.unanswered(meaning, 'why')
                     for meaning in (Meaning.NEVER_SENT, Meaning.BROKEN))
    assert never.is_over and never.ending is Ending.NOT_COUNTED
    assert not broken.is_over and broken.ending is Ending.BROKEN


@pytest.mark.parametrize('code', ['INVALID_ARGUMENT', 'NOT_FOUND', 'UNAVAILABLE', 'UNIMPLEMENTED'])
def test_an_error_that_a_model_may_have_answered_is_not_taken_as_uncounted(code):
    # Seen on tritonserver 2.51: an error of a Python model with the code INVALID_ARG is counted.
    assert judge(f'StatusCode.{code}', 'words of a model').ending is not Ending.NOT_COUNTED
    refused = judge(f'StatusCode.{code}', "[request id: 1] unexpected shape for input 'IMAGE'")
    assert code == 'UNAVAILABLE' or refused.ending is Ending.NOT_COUNTED
