"""Jobs that a resumed link hears nothing of: the session is resumed until their ends have come."""

from __future__ import annotations

import pytest

from arcp_client._dialects._silent_resume import FIRST_PAUSE, LONGEST_PAUSE, ResumePolling
from arcp_client._protocol import actions
from arcp_client._protocol.jobs import JobState
from arcp_client._wire import names
from arcp_client.errors import LinkLost
from tests.interop.rules import rule
from tests.unit.protocol.scripted import Table

A = "job_a"
JOB_A, JOB_B = JobState(A), JobState("job_b")


def test_nothing_is_due_while_every_job_is_heard() -> None:
    polling = ResumePolling()
    assert polling.deadline is None
    polling.resumed([], 5, 0.0)
    assert polling.deadline is None
    assert not polling.due(100.0, busy=False)


def test_the_pauses_double_while_nothing_comes_and_begin_anew_when_something_does() -> None:
    polling = ResumePolling()
    pauses = []
    for _ in range(7):
        polling.resumed([JOB_A], 5, 0.0)
        pauses.append(polling.deadline)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert pauses[-1] == LONGEST_PAUSE
    polling.resumed([JOB_A], 6, 0.0)
    assert polling.deadline == FIRST_PAUSE


def test_a_request_on_its_way_is_waited_for() -> None:
    polling = ResumePolling()
    polling.resumed([JOB_A], 0, 0.0)
    assert not polling.due(2.0, busy=True)
    assert polling.deadline == 3.0
    assert polling.due(3.0, busy=False)


def test_it_is_over_with_the_last_jobs_end_and_with_the_link() -> None:
    polling = ResumePolling()
    polling.resumed([JOB_A, JOB_B], 0, 0.0)
    polling.remove(JOB_A)
    assert polling.deadline is not None
    polling.remove(JOB_B)
    assert polling.deadline is None
    polling.add(JOB_A, 1.0)
    assert polling.deadline == 3.0
    polling.link_lost()
    assert polling.deadline is None


# ------------------------------------------------------------------ in a session


@pytest.fixture(params=["csharp", "ruby"])
def table(request: pytest.FixtureRequest) -> Table:
    return Table(request.param)


def causes(table: Table) -> list[type[Exception]]:
    return [type(effect.cause) for effect in table.of(actions.Relink)]


def running(table: Table) -> None:
    table.ask(names.SUBMIT)
    table.accept(A)
    table.event(1, A, 1)


def resume(table: Table) -> None:
    table.cut()
    hello = table.connect()
    assert hello["payload"]["resume"]["last_event_seq"] == table.session.received


@pytest.fixture
def csharp() -> Table:
    return Table("csharp")


@pytest.fixture
def ruby() -> Table:
    return Table("ruby")


@rule("csharp: running jobs")
@rule("note-3")
@rule("accept-22")
def test_a_job_that_ran_when_the_link_dropped_is_waited_for_by_resuming(csharp: Table) -> None:
    table = csharp
    assert table.session.peer.name == table.spoken
    running(table)
    resume(table)
    table.event(2, A, 2)  # what was kept meanwhile
    assert table.sent == []  # a subscription of the submitting session would change nothing
    table.wait(FIRST_PAUSE)
    assert causes(table) == [LinkLost]
    resume(table)
    table.event(3, A, 3)
    table.result(4, A)
    assert table.numbers == [1, 2, 3, "result"]
    table.wait(20)
    assert causes(table) == [LinkLost]  # every job has ended


def test_jobs_of_the_present_link_are_heard(table: Table) -> None:
    resume(table)
    running(table)
    table.wait(20)
    assert causes(table) == []


def test_a_job_that_was_accepted_again_is_bound_to_the_link_before(csharp: Table) -> None:
    csharp.ask(names.SUBMIT)
    resume(csharp)
    csharp.accept(A)
    csharp.wait(FIRST_PAUSE)
    assert causes(csharp) == [LinkLost]


def test_a_watch_that_was_sent_on_two_links_may_be_bound_to_the_first_and_is_polled(
    csharp: Table,
) -> None:
    csharp.ask(names.SUBSCRIBE, job_id=A, history=False)
    resume(csharp)
    csharp.confirmed(csharp.said(names.SUBSCRIBE))
    csharp.wait(FIRST_PAUSE)
    assert causes(csharp) == [LinkLost]


def test_a_watch_that_was_sent_on_this_link_is_not_polled(csharp: Table) -> None:
    resume(csharp)
    csharp.ask(names.SUBSCRIBE, job_id=A, history=False)
    csharp.confirmed(csharp.said(names.SUBSCRIBE))
    csharp.wait(FIRST_PAUSE)
    assert causes(csharp) == []


@rule("accept-22")
def test_where_a_session_may_subscribe_to_its_own_job_it_hears_of_it_at_once(ruby: Table) -> None:
    running(ruby)
    resume(ruby)
    ruby.event(2, A, 2)  # what was kept meanwhile
    subscribe = ruby.said(names.SUBSCRIBE)
    assert subscribe["payload"] == {"job_id": A, "history": True, "from_event_seq": 1}
    ruby.event(3, A, 3)  # said between the replay and the subscription
    ruby.confirmed(subscribe)
    ruby.event(4, A, 4)
    ruby.wait(20)
    assert causes(ruby) == []
    assert ruby.session.received == 4  # its numbers are the session's own
    ruby.result(None, A)
    assert ruby.numbers[-1] == "result"


@rule("ruby: event numbers")
def test_a_copy_in_the_history_of_an_own_job_is_dropped(ruby: Table) -> None:
    running(ruby)
    resume(ruby)
    ruby.event(2, A, 2, id="same")
    subscribe = ruby.said(names.SUBSCRIBE)
    ruby.event(2, A, 2, id="same")
    ruby.confirmed(subscribe)
    ruby.event(3, A, 3)
    assert ruby.numbers == [1, 2, 3]


@rule("ruby: running jobs")
@rule("note-3")
@rule("accept-22")
@pytest.mark.parametrize("answer", ["refused", "ended", "none"])
def test_where_it_may_not_the_next_resume_brings_what_there_is(ruby: Table, answer: str) -> None:
    running(ruby)
    resume(ruby)
    subscribe = ruby.said(names.SUBSCRIBE)
    if answer == "refused":  # this runtime refuses subscriptions to jobs that have ended
        ruby.error(names.PERMISSION_DENIED)
    elif answer == "ended":
        ruby.confirmed(subscribe, "success")
    ruby.alive(40)
    assert causes(ruby) == [LinkLost]
    assert not ruby.of(actions.JobGone)
    resume(ruby)
    ruby.result(None, A)
    assert ruby.numbers == [1, "result"]


def test_a_job_that_was_started_over_the_lost_link_is_subscribed_to_as_well(ruby: Table) -> None:
    ruby.ask(names.SUBMIT)
    resume(ruby)
    ruby.accept(A)
    assert ruby.said(names.SUBSCRIBE)["payload"] == {"job_id": A, "history": True}


def test_without_subscriptions_it_is_waited_for_by_resuming() -> None:
    ruby = Table("ruby", features=(names.HEARTBEAT,))
    running(ruby)
    resume(ruby)
    assert ruby.sent == []
    ruby.wait(FIRST_PAUSE)
    assert causes(ruby) == [LinkLost]


def test_a_watched_job_is_watched_again(table: Table) -> None:
    table.ask(names.SUBSCRIBE, job_id=A)
    table.confirm(A)
    table.cut()
    table.connect()
    assert table.confirm(A)["payload"]["history"] is True
    assert causes(table) == []


@rule("csharp: histories")
def test_in_a_new_session_a_history_that_counts_by_job_is_asked_for_as_a_whole() -> None:
    table = Table("csharp")
    running(table)
    table.cut()
    table.hello()
    table.error(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.connect(session_id="sess_new")
    subscribe = table.said(names.SUBSCRIBE)
    assert subscribe["payload"] == {"job_id": A, "history": True}


def test_a_job_that_joins_does_not_put_off_the_next_resume() -> None:
    polling = ResumePolling()
    polling.add(JOB_A, 0.0)
    polling.add(JOB_B, 1.5)
    assert polling.deadline == FIRST_PAUSE


@rule("accept-9")
def test_a_job_that_was_accepted_in_another_session_has_its_history_asked_for(
    table: Table,
) -> None:
    table.ask(names.SUBMIT, key="mine")
    table.accept(A, session_id="sess_before")
    assert table.said(names.SUBSCRIBE)["payload"] == {"job_id": A, "history": True}
