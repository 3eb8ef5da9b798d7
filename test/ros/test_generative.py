"""Generative jobs on the running node, by service and by topic, against a real server."""

import re
import time

from hypothesis import given, HealthCheck, settings, strategies as st
import pytest
from stage import (
    config_text, feed, model_text, prompts, Reader, stream_text, writer_text,
)
from std_msgs.msg import String
from triton_fixture import model_repository, require_triton

from vig.msg import GeneratedText, RequestStatus
from vig.srv import CancelRequests, Explain, Generate

from vig_core.events import RequestArrived, TextsForgotten

from vig_governor.generate import generate
from vig_governor.recorded import read_trace
from vig_governor.replay import replay
from vig_governor.triton_server import TritonServer
from waiting import wait_until


class Talk:
    """A governor with generative models and everything that comes back from it."""

    def __init__(self, stage, *models, streams='', trace='', **parameters):
        self.stage = stage
        text = config_text(stage.endpoint, models=models, streams=[streams])
        if not streams:
            text = text.replace('streams:\n', '')
        stage.governor(stage.write(text), record=str(trace), **parameters)
        self.texts = Reader(stage.client, GeneratedText, '/governor/generated')
        self.ends = Reader(stage.client, RequestStatus, '/governor/generate/status')
        self.service = stage.client.create_client(Generate, '/governor/generate')

    def ask(self, prompt, model='writer', **fields):
        return self.stage.call(self.service, Generate.Request(
            model=model, prompt=prompt, **fields))

    def outcome(self, request_id):
        """Wait for the end of a job and give its status and its texts."""
        def ended():
            return [end for end in self.ends.messages if end.request_id == request_id]
        wait_until(ended, 20, f'job {request_id} has no status')
        status, = ended()
        if status.reason == RequestStatus.COMPLETED:
            wait_until(lambda: any(text.finished for text in self.of(request_id)), 5)
        return status, self.of(request_id)

    def of(self, request_id):
        return [text for text in self.texts.messages if text.request_id == request_id]


def guarded(period_ms):
    """Write a protected detector of 25 ms with this period."""
    return model_text('detector', 'quick', runtime_ms=25).replace(
        'class: normal', 'class: protected').replace(
        'contract: {', f'contract: {{period_ms: {period_ms}, ')


def joined(texts):
    return ''.join(text.text for text in texts)


@pytest.mark.parametrize('backend_model, decoupled', [('counter', False), ('streaming', True)])
def test_a_job_of_the_service_is_answered_with_its_whole_text_and_its_end(
        stage, backend_model, decoupled):
    talk = Talk(stage, writer_text(backend_model=backend_model, decoupled=decoupled))
    stage.activate()
    answer = talk.ask('count to 5:')
    assert answer.accepted, answer.message
    status, texts = talk.outcome(answer.request_id)
    assert status.reason == RequestStatus.COMPLETED and status.deadline_met
    assert joined(texts) == ' 1 2 3 4 5'
    assert [text.finished for text in texts] == [False] * (len(texts) - 1) + [True]
    last = texts[-1]
    assert last.finish_reason == GeneratedText.FINISH_END_OF_SEQUENCE
    assert (last.tokens, last.model, last.variant) == (5, 'writer', 'only')
    assert last.header == status.header and last.header.stamp.sec > 0
    assert last.stream == status.stream == 'generate/writer'


def test_the_bound_of_the_client_and_that_of_the_configuration_end_a_text_by_its_length(stage):
    talk = Talk(stage, writer_text(bound=6))
    stage.activate()
    for asked, tokens in ((3, 3), (0, 6), (50, 6)):
        status, texts = talk.outcome(talk.ask('count to 99:', max_tokens=asked).request_id)
        assert status.reason == RequestStatus.COMPLETED
        assert texts[-1].tokens == tokens
        assert texts[-1].finish_reason == GeneratedText.FINISH_LENGTH
        assert joined(texts) == ''.join(f' {number}' for number in range(1, tokens + 1))


def test_a_chain_that_breaks_ends_with_its_reason_and_is_never_finished(stage):
    talk = Talk(stage, writer_text())
    stage.activate()
    status, texts = talk.outcome(talk.ask('count to 9 and break at 4:').request_id)
    assert status.reason == RequestStatus.BACKEND_FAILED
    assert 'broken at 4' in status.detail
    assert not any(text.finished for text in texts)
    status, texts = talk.outcome(talk.ask('count to 2:').request_id)
    assert status.reason == RequestStatus.COMPLETED and joined(texts) == ' 1 2'


def test_a_prompt_on_a_topic_is_answered_beside_it_in_the_same_way(stage):
    talk = Talk(stage, writer_text(), streams=prompts())
    generated = Reader(stage.client, GeneratedText, '/ask/vig/generated')
    ends = Reader(stage.client, RequestStatus, '/ask/vig/status')
    stage.activate()
    asker = stage.camera('/ask', kind=String)
    asker.publish(String(data='count to 3:'))
    status = ends.wait_for(1)[0]
    assert (status.reason, status.stream) == (RequestStatus.COMPLETED, 'questions')
    wait_until(lambda: any(text.finished for text in generated.messages), 5)
    assert joined(generated.messages) == ' 1 2 3'
    assert generated.messages[-1].request_id == status.request_id
    assert generated.messages[-1].stream == 'questions'
    assert not talk.texts.messages


def test_a_prompt_on_a_topic_that_is_too_long_ends_with_the_name_of_the_limit(stage):
    Talk(stage, writer_text(), streams=prompts())
    ends = Reader(stage.client, RequestStatus, '/ask/vig/status')
    stage.activate()
    stage.camera('/ask', kind=String).publish(String(data='x' * 101))
    status = ends.wait_for(1)[0]
    assert status.reason == RequestStatus.BACKEND_FAILED
    assert '101 bytes, more than cooperative.max_prompt_bytes' in status.detail


def test_the_service_refuses_in_a_sentence_what_it_cannot_start(stage):
    talk = Talk(stage, writer_text(), model_text('detector', 'echo'),
                streams=stream_text('front', '/cam', 'detector'))
    assert 'not active' in talk.ask('count to 1:').message
    stage.activate()
    for answer, words in (
            (talk.ask('x', model='nobody'), "'nobody' is no model; .*: writer"),
            (talk.ask('x', model='detector'), "'detector' generates no text"),
            (talk.ask('x' * 101), 'more than cooperative.max_prompt_bytes'),
            (talk.ask('x', age_us=5, generation_ns=7), 'give one of them'),
            (talk.ask('x', generation_ns=time.monotonic_ns() + 10**9), 'in the future')):
        assert not answer.accepted and answer.request_id == 0
        assert re.search(words, answer.message), answer.message


@pytest.mark.parametrize('field', ['age_us', 'generation_ns'])
def test_information_that_was_old_when_it_was_asked_about_has_its_age(stage, field):
    talk = Talk(stage, writer_text())
    stage.activate()
    value = 3_000_000 if field == 'age_us' else time.monotonic_ns() - 3 * 10**9
    status, _ = talk.outcome(talk.ask('count to 1:', **{field: value}).request_id)
    assert 3 <= status.age.sec < 20


def test_a_job_older_than_max_age_is_not_started(stage):
    talk = Talk(stage, writer_text(max_age_ms=30_000))
    stage.activate()
    answer = talk.ask('count to 1:', age_us=40_000_000)
    assert answer.accepted and '(max_age) was 10 s ago' in answer.message
    status, texts = talk.outcome(answer.request_id)
    assert status.reason == RequestStatus.STALE and not texts


def test_beside_a_guarded_camera_the_text_grows_in_flagged_parts(stage):
    talk = Talk(stage, guarded(100), writer_text(bound=60),
                streams=stream_text('front', '/cam', 'detector'))
    stage.activate()
    camera = stage.camera()
    frames = Reader(stage.client, RequestStatus, '/cam/vig/status')
    feed(camera, frames, 3)
    job = talk.ask('count to 60:').request_id
    end = time.monotonic() + 15
    while not talk.ends.messages and time.monotonic() < end:
        feed(camera, frames)
    status, texts = talk.outcome(job)
    assert status.reason == RequestStatus.COMPLETED
    assert joined(texts) == ''.join(f' {number}' for number in range(1, 61))
    assert len(texts) > 1 and not any(text.finished for text in texts[:-1])
    assert all(text.finish_reason == GeneratedText.FINISH_NONE for text in texts[:-1])
    assert texts[-1].quanta >= len(texts)
    assert [text.tokens for text in texts] == sorted(text.tokens for text in texts)


def test_a_withdrawn_job_ends_at_its_next_boundary_and_its_text_stays_partial(stage):
    talk = Talk(stage, guarded(250),
                writer_text(backend_model='slow_counter', rate=15, bound=200),
                streams=stream_text('front', '/cam', 'detector'))
    stage.activate()
    camera = stage.camera()
    frames = Reader(stage.client, RequestStatus, '/cam/vig/status')
    feed(camera, frames, 3)
    job = talk.ask('count to 500:').request_id
    end = time.monotonic() + 15
    while not talk.of(job) and time.monotonic() < end:
        feed(camera, frames)
    cancel = stage.client.create_client(CancelRequests, '/governor/cancel')
    answer = stage.call(cancel, CancelRequests.Request(stream='generate/writer'))
    assert answer.success and answer.cancelled == 1
    status, texts = talk.outcome(job)
    assert status.reason == RequestStatus.CANCELLED
    assert texts and not any(text.finished for text in texts)


def test_deactivation_ends_what_waits_and_a_job_that_takes_too_long(stage):
    talk = Talk(stage, writer_text(backend_model='slow_counter', rate=15, bound=200))
    stage.activate()
    jobs = [talk.ask('count to 500:').request_id for _ in range(2)]
    assert stage.change('deactivate')[0]
    for job in jobs:
        status, texts = talk.outcome(job)
        assert status.reason in (RequestStatus.CANCELLED, RequestStatus.BACKEND_TIMEOUT)
        assert not any(text.finished for text in texts)


def test_the_status_counts_tokens_and_divides_their_time(stage):
    talk = Talk(stage, writer_text(), metrics_port=0)
    stage.activate()
    talk.outcome(talk.ask('count to 8:').request_id)
    wait_until(lambda: stage.status.messages and any(
        one.tokens == 8 for one in stage.status.messages[-1].streams), 5)
    one, = stage.status.messages[-1].streams
    assert one.stream == 'generate/writer' and one.quanta >= 1 and one.completed == 1
    assert one.decode_time.nanosec > 0 and one.fixed_time.nanosec > 0


def test_explain_tells_about_a_job(stage):
    talk = Talk(stage, writer_text())
    stage.activate()
    job = talk.ask('count to 2:').request_id
    talk.outcome(job)
    service = stage.client.create_client(Explain, '/governor/explain')
    answer = stage.call(service, Explain.Request(stream='generate/writer', request_id=job))
    assert answer.success and len(answer.decisions) >= 2


def test_a_run_with_quanta_replays_to_the_identical_decisions(stage, tmp_path):
    trace = tmp_path / 'run.mcap'
    talk = Talk(stage, writer_text(), trace=trace)
    stage.activate()
    for last in (5, 9):
        talk.outcome(talk.ask(f'count to {last}:').request_id)
    assert stage.change('deactivate')[0]
    recorded = read_trace(str(trace))
    outcome, differences = replay(recorded)
    assert differences == [] and recorded.digest is not None
    assert [end.reason.value for end in outcome.ends] == ['completed'] * 2
    assert [end.tokens for end in outcome.ends] == [5, 9]


def test_prompts_on_a_topic_that_fit_no_gap_are_logged_now_and_then_with_their_number(
        stage, caplog):
    Talk(stage, guarded(100), writer_text(more='      new_prompt_per_token_us: 20000\n'),
         streams=stream_text('front', '/cam', 'detector') + prompts())
    ends = Reader(stage.client, RequestStatus, '/ask/vig/status')
    stage.activate()
    asker = stage.camera('/ask', kind=String)
    for count, prompt in enumerate(('count to 3!!!!!:', 'count to 4!!!!!:', '!' * 101), 1):
        asker.publish(String(data=prompt))
        ends.wait_for(count)
    intake = stage.node.session.intakes['questions']
    wait_until(lambda: intake.received == 3)
    warned = [record.getMessage() for record in caplog.records
              if 'prompts like this' in record.getMessage()]
    assert len(warned) == 1 and intake._remarks == 2
    assert warned[0].startswith('stream questions: no gap before a frame of detector is longer')
    assert warned[0].endswith('stays away (prompts like this so far: 1)')


@pytest.fixture
def mortal(tmp_path_factory):
    """Give a server of its own that may be killed."""
    require_triton()
    folder = model_repository(tmp_path_factory.mktemp('mortal'), {
        'counter': ('counter', {}), 'quick': ('sleeper', {'delay_ms': '20'})})
    with TritonServer(folder) as server:
        yield server


def test_a_server_that_was_started_anew_is_known_to_remember_no_text(stage, mortal, tmp_path):
    stage.endpoint, trace = mortal.grpc_endpoint, tmp_path / 'run.mcap'
    talk = Talk(stage, guarded(100), writer_text(), trace=trace,
                streams=stream_text('front', '/cam', 'detector'))
    stage.activate()
    job = talk.ask('count to 3:').request_id
    talk.outcome(job)
    watch, told = stage.node.governed.watch, []
    forget = watch.on_forgotten

    def forget_and_tell(backend_model):
        forget(backend_model)
        told.append(backend_model)

    watch.on_forgotten = forget_and_tell
    mortal.kill()
    mortal.start()
    wait_until(lambda: 'counter' in told, 15)
    assert stage.change('deactivate')[0]
    events = [event for _, event, _ in read_trace(str(trace)).events]
    begin = next(at for at, event in enumerate(events)
                 if isinstance(event, RequestArrived) and event.request_id == job)
    forgotten = [event for event in events[begin:] if isinstance(event, TextsForgotten)]
    assert forgotten and set(forgotten) == {TextsForgotten('counter')}


def test_a_prompt_longer_than_any_gap_is_told_at_the_start_and_in_its_end(stage):
    slow = writer_text(max_age_ms=1_500, more='      new_prompt_per_token_us: 20000\n')
    talk = Talk(stage, guarded(100), slow, streams=stream_text('front', '/cam', 'detector'))
    stage.activate()
    notice, = [one for one in stage.node.governed.assembly.notices if 'no gap' in one]
    assert notice.startswith('models.writer.cooperative: no gap before a frame of detector')
    assert 'a prompt of more than 2 tokens (about 8 bytes) waits' in notice
    camera = stage.camera()
    frames = Reader(stage.client, RequestStatus, '/cam/vig/status')
    feed(camera, frames, 3)
    answer = talk.ask(f'count to 3{"!" * 80}:')
    assert answer.accepted and 'the first quantum of this prompt (84 tokens) plans' in (
        answer.message)
    job = answer.request_id
    end = time.monotonic() + 10
    while not talk.ends.messages and time.monotonic() < end:
        feed(camera, frames)
    status, texts = talk.outcome(job)
    assert status.reason == RequestStatus.STALE and not texts
    assert 'tokens to read, 2 to write) needs' in status.detail
    assert 'no gap before a frame of front is longer than' in status.detail


ODD_PROMPTS = st.sampled_from(['', '\0', 'a\0b', '\ud800', 'count to 3:\udfff', '{prompt}', '%s',
                               '\u202e\ufeff', 'x' * 101, '\U0001f916' * 26]) | st.text(
    st.characters(), max_size=120)


def test_any_job_that_is_asked_for_is_refused_in_words_or_ends_once(stage, caplog):
    talk = Talk(stage, writer_text())
    stage.activate()

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(model=st.sampled_from(['writer', 'writer', 'writer', '', 'Writer', '\0']),
           prompt=ODD_PROMPTS, max_tokens=st.sampled_from([0, 1, 2**31, 2**32 - 1]),
           age_us=st.sampled_from([0, 0, 1, 2**63, 2**64 - 1]),
           generation_ns=st.sampled_from([0, 0, 1, 2**63, 2**64 - 1]))
    def ask(model, prompt, max_tokens, age_us, generation_ns):
        request = Generate.Request(model=model, prompt=prompt, max_tokens=max_tokens,
                                   age_us=age_us, generation_ns=generation_ns)
        answer = generate(stage.node, request, Generate.Response())
        assert answer.accepted == bool(answer.request_id)
        assert answer.accepted or answer.message
        if answer.accepted:
            status, texts = talk.outcome(answer.request_id)
            assert status.reason == RequestStatus.COMPLETED or status.detail
            assert sum(text.finished for text in texts) == (
                status.reason == RequestStatus.COMPLETED)
        else:
            assert len(answer.message) < 1000
    ask()
    assert 'Traceback' not in caplog.text


def string_on_the_wire(data, length=None):
    """Write a std_msgs/msg/String as CDR, with any bytes in it."""
    return (bytes([0, 1, 0, 0]) + (len(data) + 1 if length is None else length).to_bytes(
        4, 'little') + data + bytes(1))


def test_any_bytes_as_a_prompt_on_a_topic_end_once_and_a_good_one_runs_after_them(stage, caplog):
    Talk(stage, writer_text(), streams=prompts())
    ends = Reader(stage.client, RequestStatus, '/ask/vig/status')
    stage.activate()
    asker = stage.camera('/ask', kind=String)
    expected = 0
    for data in (b'', b'\xff\xfe\xc0', b'count to 2:\xed\xa0\x80', b'a\0b', b'\xf0\x9f\xa4',
                 b'x' * 101):
        asker.publish(string_on_the_wire(data))
        expected += 1
        ends.wait_for(expected)
    for wire in (string_on_the_wire(b'abc', 2**32 - 1), string_on_the_wire(b'abc', 99), b'\0',
                 bytes([0, 1, 0, 0]), b''):
        asker.publish(wire)
    asker.publish(String(data='count to 2:'))
    wait_until(lambda: ends.messages[-1].reason == RequestStatus.COMPLETED
               and len(ends.messages) > expected, 10)
    assert len({end.request_id for end in ends.messages}) == len(ends.messages)
    assert all(end.reason == RequestStatus.COMPLETED or end.detail for end in ends.messages)
    assert 'Traceback' not in caplog.text
