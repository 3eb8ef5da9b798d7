"""One inference through a real server: transports, sizes, errors, threads."""

from concurrent.futures import ThreadPoolExecutor
import threading
import time
import zlib

import numpy as np
import pytest
from triton_fixture import output
from vig_core.reconcile import Ending
from vig_governor.backend.base import Answered, Failed, NoFreeSlot
from vig_governor.backend.signature import check_input
from vig_governor.backend.warm_up import warm_up
from waiting import wait_until

PIXEL = np.zeros((1, 1, 3), np.uint8)


def picture(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 255, shape, dtype=np.uint8)


def delay(milliseconds):
    return np.array([milliseconds], np.float32)


def until_shared(asker, image):
    """Send frames until the server reads them from shared memory itself."""
    def is_by_reference():
        before = asker.backend.sent_by_reference
        outcome = asker.ask('shared', 'echo', IMAGE=image)
        assert output(outcome, 'CHECKSUM')[0] == zlib.crc32(image)
        return asker.backend.sent_by_reference > before
    wait_until(is_by_reference, 5.0, 'a frame by reference')


@pytest.mark.parametrize('shape', [(1, 1, 1), (33, 17, 3), (1080, 1920, 3)])
def test_every_byte_arrives_whatever_the_transport(asker, shape):
    image = picture(*shape)
    until_shared(asker, image)
    before = asker.backend.sent_by_reference
    for stream in ('shared', 'copied'):
        outcome = asker.ask(stream, 'echo', IMAGE=image)
        assert output(outcome, 'CHECKSUM')[0] == zlib.crc32(image)
        assert tuple(output(outcome, 'SHAPE')) == shape
    assert asker.backend.sent_by_reference == before + 1


def test_the_first_frame_of_a_stream_runs_before_its_memory_is_registered(asker):
    image = picture(480, 640, 3)
    assert output(asker.ask('shared', 'echo', IMAGE=image), 'CHECKSUM')[0] == zlib.crc32(image)


def test_a_bigger_frame_moves_the_stream_to_bigger_memory(asker):
    for side in (10, 100, 20, 400):
        until_shared(asker, picture(side, side, 3, seed=side))


def test_two_tensors_of_one_request_share_a_region_in_the_end(asker):
    def is_by_reference():
        before = asker.backend.sent_by_reference
        asked = asker.send('shared', 'sleeper', IMAGE=picture(64, 64, 3), DELAY_MS=delay(1))
        times = output(asked.wait(), 'TIMES_NS')
        asker.backend.release(asked.request_id)
        assert times[1] - times[0] < 40e6, 'the delay of 1 ms did not arrive'
        return asker.backend.sent_by_reference > before
    wait_until(is_by_reference)


def test_an_input_beyond_the_usual_limit_of_grpc_runs_by_copy(asker):
    # Field case T10: 4,915,200 bytes against a limit of 4 MiB for a message.
    image = np.ones((3, 640, 640), np.float32)
    image[1] = 2.0
    outcome = asker.ask('copied', 'sized', IMAGE=image)
    assert list(output(outcome, 'MEAN')) == [1.0, 2.0, 1.0]


def test_what_the_server_would_refuse_is_refused_by_the_check_in_a_sentence(asker):
    signature = asker.backend.inspect('sized', timeout_s=2.0)
    for tensor, datatype, shape, words in (
            ('IMAGE', 'UINT8', (3, 640, 640), "input 'IMAGE': wants FP32, not UINT8"),
            ('image', 'FP32', (3, 640, 640), "no input 'image'; its inputs are 'IMAGE'"),
            ('IMAGE', 'FP32', (640, 640, 3), 'axis 0 must be 3, not 640'),
            ('IMAGE', 'FP32', (3, 640), r'wants 3 axes \[3, 640, 640\], not 2 axes')):
        with pytest.raises(Exception, match=words):
            check_input(signature, tensor, datatype, shape)
    check_input(signature, 'IMAGE', 'FP32', (3, 640, 640))


@pytest.mark.parametrize('tensors, words', [
    ({'IMAGE': np.zeros((1, 1, 3), np.float32)}, "data-type is 'FP32'"),
    ({'IMAGE': np.zeros((1, 3), np.uint8)}, 'unexpected shape'),
    ({'PICTURE': PIXEL}, "unexpected inference input 'PICTURE'")])
def test_a_wrong_input_ends_its_frame_with_the_words_of_the_server(asker, tensors, words):
    outcome = asker.ask('copied', 'echo', **tensors)
    assert isinstance(outcome, Failed) and outcome.is_over
    assert words in outcome.detail and "'echo'" in outcome.detail


@pytest.mark.parametrize('wish, words', [(255, 'asked for an error'),
                                         (254, 'asked for an exception')])
def test_an_error_of_the_model_ends_that_frame_only(asker, wish, words):
    # Field case R15: ten frames, the fifth fails.
    outcomes = []
    for index in range(10):
        image = PIXEL + np.uint8(wish if index == 4 else 0)
        outcomes.append(asker.ask('copied', 'failing', IMAGE=image))
    assert [type(outcome) for outcome in outcomes] == [Answered] * 4 + [Failed] + [Answered] * 5
    assert outcomes[4].is_over and words in outcomes[4].detail
    assert '\n' not in outcomes[4].detail


@pytest.mark.parametrize('image, is_counted', [(PIXEL + np.uint8(253), True),
                                               (PIXEL[np.newaxis], False)])
def test_a_refusal_is_uncounted_only_where_the_counter_agrees(asker, image, is_counted):
    """The model's own INVALID_ARG is counted, the server's is not; both end the same way."""
    before = asker.backend.statistics('failing').finished
    outcome = asker.ask('copied', 'failing', IMAGE=image)
    assert isinstance(outcome, Failed) and outcome.is_over
    assert (outcome.ending is not Ending.NOT_COUNTED) == is_counted
    if is_counted:
        wait_until(lambda: asker.backend.statistics('failing').finished == before + 1)
    else:
        time.sleep(0.2)
        assert asker.backend.statistics('failing').finished == before


def test_a_request_for_an_unknown_model_names_it(asker):
    outcome = asker.ask('copied', 'nobody', IMAGE=PIXEL)
    assert outcome == Failed(
        f"model 'nobody' at {asker.backend.endpoint}: Request for unknown model: 'nobody' is not "
        'found (NOT_FOUND)', is_over=True, ending=Ending.NOT_COUNTED)


def test_two_threads_with_fifty_inferences_each_see_no_error(asker):
    # Field case T17.
    def fifty(seed):
        image = picture(40, 40, 3, seed=seed)
        checksums = [int(output(asker.ask('shared', 'echo', IMAGE=image), 'CHECKSUM')[0])
                     for _ in range(50)]
        return set(checksums) == {zlib.crc32(image)}

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(fifty, (1, 2))) == [True, True]


def test_sending_does_not_wait_for_the_requests_before_it(asker):
    # Field case T18: the client library must never hold a request back until another one ends.
    begin = time.monotonic()
    asked = [asker.send('copied', 'sleeper', IMAGE=PIXEL, DELAY_MS=delay(400)) for _ in range(3)]
    assert time.monotonic() - begin < 0.3
    before = asker.backend.statistics('sleeper')
    for request in asked:
        assert isinstance(request.wait(), Answered)
        asker.backend.release(request.request_id)
    assert asker.backend.statistics('sleeper').finished >= before.finished + 2


def test_an_answer_after_the_patience_of_the_scheduler_still_arrives(asker):
    # Field case T03: the scheduler gives up at 100 ms; the late answer is what frees the credit.
    asked = asker.send('copied', 'sleeper', IMAGE=PIXEL, DELAY_MS=delay(500))
    with pytest.raises(AssertionError, match='no outcome'):
        asked.wait(0.1)
    assert isinstance(asked.wait(5.0), Answered)
    assert len(asked.outcomes) == 1


def test_a_slot_is_not_lent_again_before_the_end_of_its_request_is_proven(asker):
    asker.backend.open_stream('narrow', slots=1, transport='shm')
    asked = asker.send('narrow', 'sleeper', IMAGE=PIXEL, DELAY_MS=delay(200))
    with pytest.raises(NoFreeSlot, match=r"all 1 input slots of stream 'narrow'.*: 1$"):
        asker.backend.acquire('narrow', 99)
    asked.wait()
    asker.backend.release(asked.request_id)
    asker.backend.acquire('narrow', 99)
    asker.backend.release(99)
    asker.backend.release(12345)


def test_the_outcome_of_a_receiver_that_fails_does_not_stop_the_next_one(asker, caplog):
    slot = asker.backend.acquire('copied', 7)
    slot.allocate('IMAGE', (1, 1, 3), 'UINT8')[...] = 0
    called = threading.Event()

    def fail(outcome):
        called.set()
        raise RuntimeError('a receiver with a bug')

    asker.backend.infer(7, 'echo', slot, fail)
    assert called.wait(5.0)
    asker.backend.release(7)
    assert isinstance(asker.ask('copied', 'echo', IMAGE=PIXEL), Answered)
    wait_until(lambda: 'the receiver of request 7 failed' in caplog.text)


def test_statistics_count_what_ran_and_start_at_zero(asker, triton_server):
    triton_server.unload_model('failing')
    triton_server.load_model('failing')
    before = asker.backend.statistics('failing')
    assert before.finished == 0 and before.executions == 0
    asker.ask('copied', 'failing', IMAGE=PIXEL)
    asker.ask('copied', 'failing', IMAGE=PIXEL + np.uint8(254))
    after = wait_until(lambda: (asker.backend.statistics('failing').finished == 2
                                and asker.backend.statistics('failing')))
    assert (after.successes, after.failures, after.executions) == (1, 1, 2)


def test_inspecting_describes_the_model_with_its_optional_input(asker):
    signature = asker.backend.inspect('sleeper', timeout_s=2.0)
    assert [(spec.name, spec.datatype, spec.shape, spec.is_optional)
            for spec in signature.inputs] == [
        ('IMAGE', 'UINT8', (-1, -1, -1), False), ('DELAY_MS', 'FP32', (1,), True)]
    assert signature.warnings == ()


def test_a_warm_up_runs_the_model_once_and_gives_its_slot_back(asker):
    # Field case T22: the first inference may take 10 s; it must not be a frame's.
    asker.backend.open_stream('narrow', slots=1, transport='shm')
    before = asker.backend.statistics('sleeper').finished
    said = warm_up(asker.backend, 'narrow', 'sleeper',
                   {'IMAGE': ('UINT8', (-1, -1, 3)), 'DELAY_MS': ('FP32', (1,))}, timeout_s=5.0,
                   is_cancelled=threading.Event())
    assert said.is_good and "model 'sleeper' answered its warm-up" in said.sentence
    assert asker.backend.statistics('sleeper').finished == before + 1
    said = warm_up(asker.backend, 'narrow', 'nobody', {'IMAGE': ('UINT8', (1,))}, timeout_s=5.0,
                   is_cancelled=threading.Event())
    assert said.is_over and "'nobody' failed its warm-up" in said.sentence
    assert isinstance(asker.ask('narrow', 'echo', IMAGE=PIXEL), Answered)
