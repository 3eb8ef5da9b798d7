"""What a completion counter proves, and what it does not."""

import pytest
from vig_core.reconcile import Ending, ModelBook


class Server:
    """A counter that a test moves, read as the governor reads it."""

    def __init__(self, finished=0, identity=''):
        self.book = ModelBook()
        self.finished = finished
        self.identity = identity
        self.read()
        self.read()

    def read(self):
        return self.book.read(self.finished, identity=self.identity,
                              sends_before=self.book.sends)

    def send(self, *calls):
        for call in calls:
            self.book.note_sent(call)

    def end(self, call, ending=Ending.COUNTED):
        self.finished += ending is Ending.COUNTED
        self.book.note_ended(call, ending)

    def break_off(self, *calls):
        for call in calls:
            self.book.note_ended(call, Ending.BROKEN)

    def restart(self, identity='', *, is_seen_away=True):
        """Begin anew; by default the watch sees in between that nobody listens."""
        if is_seen_away:
            self.book.note_nobody_listened(self.book.broken)
        self.finished, self.identity = 0, identity


@pytest.mark.parametrize('baseline', [0, 41])
def test_all_claims_end_together_when_the_counter_has_seen_everything(baseline):
    server = Server(baseline)
    server.send(1, 2, 3)
    server.end(1)
    server.break_off(2, 3)
    assert server.read().over == ()
    server.finished += 1
    assert server.read().over == (), 'one of two has ended, and nobody knows which'
    server.finished += 1
    assert server.read().over == (2, 3)
    assert not list(server.book)
    assert server.read() == server.read()


def test_a_call_that_is_still_running_keeps_the_model_from_being_quiet():
    server = Server()
    server.send(1, 2)
    server.break_off(1)
    server.finished += 1
    assert server.read().over == ()
    server.end(2)
    assert server.read().over == (1,)


def test_a_refusal_that_the_server_does_not_count_is_not_waited_for():
    server = Server()
    server.send(1, 2)
    server.break_off(1)
    server.end(2, Ending.NOT_COUNTED)
    server.finished += 1
    assert server.read().over == (1,)


def test_what_may_not_have_been_counted_is_taken_as_counted():
    server = Server()
    server.send(1, 2)
    server.break_off(1)
    server.book.note_ended(2, Ending.UNCLEAR)
    server.finished += 1
    assert server.read().over == ()


def test_an_unanswered_call_is_proven_over_though_its_connection_stands():
    # Field case T01: the answer is lost, the call never comes back.
    server = Server()
    server.send(1)
    server.finished += 1
    assert server.read().over == (1,)
    server.book.note_ended(1, Ending.COUNTED)
    server.send(2)
    assert server.read().foreign == 0


def test_a_falling_counter_alone_frees_nothing():
    server = Server(7)
    server.send(1)
    server.break_off(1)
    server.restart()
    reading = server.read()
    assert reading.is_new_epoch and reading.over == ()
    assert server.read().over == (), 'the new server has executed nothing yet'
    assert list(server.book) == [1]


def test_a_claim_of_an_earlier_epoch_ends_when_the_new_server_counts():
    server = Server(7)
    server.send(1)
    server.break_off(1)
    server.restart()
    server.read()
    server.send(2)
    server.end(2)
    assert server.read().over == (1,)


def test_a_restart_before_the_first_completion_is_seen_by_the_identity():
    server = Server(0, identity='one')
    server.send(1)
    server.break_off(1)
    server.restart('two')
    assert server.read().is_new_epoch
    server.finished += 1
    assert server.read().over == (1,)


def test_without_an_identity_a_restart_that_the_counter_hides_leaves_the_claim_blocked():
    server = Server(0)
    server.send(1)
    server.break_off(1)
    server.restart()
    assert not server.read().is_new_epoch
    server.send(2)
    server.end(2)
    assert server.read().over == ()


def test_a_model_that_is_loaded_anew_in_the_same_process_proves_nothing_of_its_last_instance():
    # Seen on Triton 2.51: unload returns at once, the counter is zero, the execution runs on.
    server = Server(3, identity='one')
    server.send(1)
    server.break_off(1)
    server.restart('one', is_seen_away=False)
    assert server.read().is_new_epoch
    server.finished += 1
    assert server.read().over == ()
    assert list(server.book) == [1]


def test_a_process_that_is_known_frees_nothing_of_its_own_though_a_proxy_has_refused():
    server = Server(3, identity='one')
    server.send(1)
    server.break_off(1)
    server.restart('one')
    server.read()
    server.finished += 1
    assert server.read().over == ()


def test_a_call_whose_connection_stands_is_not_ended_by_an_epoch():
    server = Server(3, identity='one')
    server.send(1)
    server.restart('two')
    server.read()
    server.finished += 1
    assert server.read().over == ()
    server.book.note_ended(1, Ending.BROKEN)
    assert server.read().over == (), 'it may have been sent to the new one'
    server.restart('three')
    server.read()
    server.finished += 1
    assert server.read().over == (1,)


def test_a_call_that_broke_on_a_new_server_before_that_was_seen_is_not_freed_by_others():
    server = Server(3, identity='one')
    server.restart('two')
    server.send(1, 2)
    server.end(2)
    server.break_off(1)
    assert server.read().is_new_epoch
    server.send(3)
    server.end(3)
    assert server.read().over == (), 'the new server still computes it'


def test_it_is_not_counted_as_the_end_of_a_later_one_either():
    server = Server(3, identity='one')
    server.restart('two')
    server.send(1)
    server.break_off(1)
    server.read()
    server.read()
    server.send(2)
    server.break_off(2)
    server.finished += 1
    assert server.read().over == (), 'one of two has ended, and nobody knows which'


def test_a_restart_that_nobody_saw_frees_nothing_until_the_next_one():
    server = Server(3, identity='one')
    server.send(1)
    server.break_off(1)
    server.restart('two', is_seen_away=False)
    server.read()
    server.finished += 1
    assert server.read().over == ()
    server.restart('three')
    server.read()
    server.finished += 1
    assert server.read().over == (1,)


def test_a_page_that_the_same_process_forgets_frees_nothing():
    server = Server(3, identity='one')
    server.send(1, 2)
    server.break_off(1)
    server.identity = 'one, told anew'
    assert server.read().is_new_epoch
    server.end(2)
    assert server.read().over == ()


def test_a_model_that_is_loaded_anew_at_a_server_without_identity_frees_nothing():
    server = Server(3)
    server.send(1)
    server.break_off(1)
    server.restart(is_seen_away=False)
    assert server.read().is_new_epoch
    server.finished += 1
    assert server.read().over == ()


def test_the_new_epoch_counts_for_itself_once_it_is_quiet():
    server = Server(7)
    server.restart()
    server.read()
    server.read()
    server.send(2)
    server.break_off(2)
    assert server.read().over == ()
    server.finished += 1
    assert server.read().over == (2,)


def test_a_foreign_caller_is_seen_and_the_counter_frees_nothing_any_more():
    server = Server()
    server.send(1)
    server.end(1)
    server.finished += 3
    assert server.read().foreign == 3
    server.send(2)
    server.break_off(2)
    server.finished += 1
    assert server.read().over == ()
    server.finished += 5
    assert server.read().over == ()


def test_a_foreign_completion_that_was_seen_is_not_taken_for_the_end_of_a_later_call():
    server = Server()
    server.finished += 1
    assert server.read().foreign == 1
    server.send(1)
    server.break_off(1)
    assert server.read().over == ()


def test_a_foreign_completion_that_hides_behind_a_claim_frees_it_wrongly_and_is_seen_later():
    # The documented assumption: evidence, no proof, once somebody else calls the model.
    server = Server()
    server.send(1)
    server.break_off(1)
    server.finished += 1
    assert server.read().over == (1,)
    server.finished += 1
    assert server.read().foreign == 1


def test_an_answer_that_is_counted_a_moment_later_is_nobody_elses():
    server = Server(5)
    server.restart('another')
    server.read()
    server.send(1)
    server.book.note_ended(1, Ending.COUNTED)
    assert server.read().foreign == 0
    server.finished += 1
    for _ in range(3):
        assert server.read().foreign == 0


def test_nothing_is_counted_from_a_reading_that_something_was_sent_during():
    server = Server(5)
    server.restart('another')
    server.identity = 'another'
    before = server.book.sends
    server.send(1)
    server.end(1)
    server.book.read(0, identity='another', sends_before=before)
    server.book.read(1, identity='another', sends_before=before)
    assert not server.book.is_counting


def test_an_answer_that_is_counted_after_the_first_quiet_reading_frees_nothing():
    server = Server(3, identity='one')
    server.restart('two')
    server.send(1)
    server.book.note_ended(1, Ending.COUNTED)
    server.read()
    server.send(2)
    server.break_off(2)
    server.finished += 1
    assert server.read().over == ()


def test_an_answer_during_the_first_quiet_reading_that_is_counted_late_frees_nothing():
    server = Server(3, identity='one')
    server.restart('two')
    before = server.book.sends
    server.send(1)
    server.book.note_ended(1, Ending.COUNTED)
    server.book.read(0, identity='two', sends_before=before)
    server.read()
    server.send(2)
    server.break_off(2)
    server.finished += 1
    assert server.read().over == ()


def test_the_baseline_is_not_taken_while_what_broke_may_still_be_counted():
    server = Server(3, identity='one')
    server.restart('two')
    server.read()
    server.send(1)
    server.break_off(1)
    server.read()
    server.read()
    assert not server.book.is_counting


def test_an_end_of_a_call_that_nobody_booked_changes_nothing():
    server = Server()
    server.book.note_ended(9, Ending.COUNTED)
    server.book.note_ended(9, Ending.BROKEN)
    assert not list(server.book) and server.read().foreign == 0


def test_a_restart_ends_the_distrust_of_a_counter_that_had_counted_for_somebody_else():
    server = Server()
    server.finished += 1
    assert server.read().foreign == 1
    server.restart()
    server.read()
    server.read()
    server.send(1)
    server.break_off(1)
    server.finished += 1
    assert server.read().over == (1,)


def test_what_has_ended_before_the_baseline_is_not_expected_after_it():
    server = Server(identity='one')
    server.restart('two')
    server.send(1)
    server.end(1)
    server.read()
    server.read()
    server.send(2)
    server.break_off(2)
    server.finished += 1
    assert server.read().over == (2,)


def test_a_call_of_an_earlier_epoch_is_not_expected_in_the_counter_of_this_one():
    server = Server(identity='one')
    server.send(1)
    server.break_off(1)
    server.restart('two')
    server.read()
    server.read()
    server.send(2)
    server.end(2)
    assert server.read().over == (1,)
    server.send(3)
    server.break_off(3)
    server.finished += 1
    assert server.read().over == (3,)


def test_a_call_that_is_moved_to_a_new_epoch_counts_as_of_its_process():
    """A proxy refuses while the process, which may still compute, loads the model anew."""
    server = Server(identity='one')
    server.send(1)
    server.restart('two', is_seen_away=False)
    server.finished = 4
    server.read()
    server.break_off(1)
    server.restart('two')
    server.read()
    server.finished += 1
    assert server.read().over == ()


def test_a_call_from_before_the_first_reading_counts_as_of_the_process_that_is_seen_first():
    server = Server(4, 'one')
    server.book = ModelBook()
    server.send(1)
    server.break_off(1)
    server.read()
    server.restart('one')
    server.read()
    server.finished += 1
    assert server.read().over == (), 'the process that may still compute it is the same'
    server.restart('two')
    server.read()
    server.finished += 1
    assert server.read().over == (1,)
