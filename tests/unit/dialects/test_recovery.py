"""What a session does differently, by the dialect of its runtime."""

from __future__ import annotations

import pytest

from arcp_client._protocol import actions
from arcp_client._protocol.plans import PATIENCE, QUIET
from arcp_client._wire import names
from arcp_client.errors import (
    AgentNotFound,
    JobCancelled,
    JobLost,
    JobNotFound,
    ResultUnavailable,
)
from arcp_client.events import Gap
from tests.interop.rules import rule
from tests.unit.protocol.scripted import Table, fresh

A, B = "job_a", "job_b"


@pytest.fixture
def python() -> Table:
    """The Python reference."""
    return Table("python")


def running(table: Table, job_id: str = A) -> None:
    """A job of the session that has sent the events 1 and 2."""
    table.ask(names.SUBMIT)
    table.accept(job_id)
    table.event(1, job_id, 1)
    table.event(2, job_id, 2)


# ------------------------------------------------------------------ the end of a session


@pytest.mark.parametrize(
    ("spoken", "said"),
    [
        ("arcp-client", [names.CLOSE]),
        ("python", [names.BYE]),
        ("typescript", [names.BYE]),
        ("ruby", [names.BYE]),
        ("java", []),  # any message would cancel the jobs
    ],
)
@rule("send-5")
def test_each_runtime_is_told_in_its_own_words(spoken: str, said: list[str]) -> None:
    table = Table(spoken)
    table.session.close(table.now)
    table.do()
    assert [frame["type"] for frame in table.sent] == said
    if said == [names.BYE]:
        assert table.sent[0]["payload"]["reason"]  # the Python reference insists on it


# ------------------------------------------------------------------ one question at a time


@rule("python: refusals")
@rule("accept-7", "send-11")
def test_an_error_without_correlation_is_that_of_the_only_question(python: Table) -> None:
    first, second = python.ask(names.SUBMIT), python.ask(names.SUBMIT)
    python.said(names.SUBMIT)
    assert python.sent == []  # the second one waits
    python.error(names.AGENT_NOT_AVAILABLE)
    (refused,) = python.of(actions.Refused)
    assert refused.request is first
    assert isinstance(refused.error, AgentNotFound)
    python.accept(A)
    (answered,) = python.of(actions.Replied)
    assert answered.request is second


@rule("accept-16")
def test_a_cancel_blocks_nothing_though_it_has_no_answer(python: Table) -> None:
    running(python)
    cancel = python.ask(names.CANCEL, job_id=A)
    python.ask(names.LIST_JOBS)
    python.said(names.CANCEL)
    ping = python.said(names.PING)
    assert python.sent == []
    python.hear({"type": names.PONG, "payload": {"ping_nonce": ping["payload"]["nonce"]}})
    assert [answered.request for answered in python.of(actions.Replied)][-1] is cancel
    python.said(names.LIST_JOBS)


def test_a_cancel_that_is_refused_is_refused(python: Table) -> None:
    cancel = python.ask(names.CANCEL, job_id="job_nobody")
    python.said(names.CANCEL)
    ping = python.said(names.PING)
    python.error(names.JOB_NOT_FOUND)
    python.hear({"type": names.PONG, "payload": {"ping_nonce": ping["payload"]["nonce"]}})
    (refused,) = python.of(actions.Refused)
    assert refused.request is cancel
    assert isinstance(refused.error, JobNotFound)


def test_a_job_that_is_cancelled_in_the_queue_ends_here_though_it_never_does_there(
    python: Table,
) -> None:
    python.ask(names.SUBMIT)
    python.accept(A)
    python.ask(names.CANCEL, job_id=A)
    python.said(names.CANCEL)
    ping = python.said(names.PING)
    python.hear({"type": names.PONG, "payload": {"ping_nonce": ping["payload"]["nonce"]}})
    python.wait(PATIENCE)
    listing = python.said(names.LIST_JOBS)
    jobs = [{"job_id": A, "status": "pending", "agent": "a"}]
    python.hear(
        {"type": names.JOBS, "payload": {"request_id": listing["id"], "jobs": jobs}},
    )
    (gone,) = python.of(actions.JobGone)
    assert isinstance(gone.error, JobCancelled)


# ------------------------------------------------------------------ numbers of watched jobs


@rule("python: event numbers")
@rule("accept-10", "accept-18")
def test_a_watched_job_is_numbered_apart(python: Table) -> None:
    python.ask(names.SUBSCRIBE, job_id=B, history=True)
    subscribe = python.said(names.SUBSCRIBE)
    python.event(1, B, 1)  # the history comes first
    python.event(2, B, 2)
    python.confirmed(subscribe)
    running(python)  # with numbers of its own, from 1 on
    python.event(3, B, 3)
    assert python.numbers == [1, 2, 1, 2, 3]
    assert python.session.received == 2
    assert python.session.repeated == 0


@rule("accept-18", "accept-20")
def test_copies_in_a_history_are_known_by_what_they_hold_and_their_number_counts() -> None:
    typescript = Table("typescript")
    running(typescript)
    typescript.ask(names.SUBSCRIBE, job_id=A, history=True)
    subscribe = typescript.said(names.SUBSCRIBE)
    typescript.event(3, A, 1)  # under new ids, and in the session's numbers
    typescript.event(4, A, 2)
    typescript.event(5, A, 3)  # this one is new
    typescript.confirmed(subscribe)
    typescript.event(6, A, 4)
    assert typescript.numbers == [1, 2, 3, 4]
    assert typescript.session.received == 6
    typescript.wait(10)
    assert typescript.numbers == [1, 2, 3, 4]


def test_equal_events_outside_of_a_history_are_two(python: Table) -> None:
    running(python)
    python.event(3, A, 2)  # a job may say the same twice, at one moment
    assert python.numbers == [1, 2, 2]


# ------------------------------------------------------------------ after a drop


def test_a_job_is_subscribed_again_and_what_the_dead_link_held_is_ended_first(
    python: Table,
) -> None:
    running(python)
    python.cut()
    hello = python.connect()
    assert hello["payload"]["resume"]["last_event_seq"] == 2
    assert python.said(names.UNSUBSCRIBE)["payload"] == {"job_id": A}
    subscribe = python.said(names.SUBSCRIBE)
    assert subscribe["payload"] == {"job_id": A, "history": False}
    python.event(3, A, 3)  # what the resume brings comes before the confirmation
    python.confirmed(subscribe)
    python.event(1, A, 6)  # and is numbered apart after it
    python.event(2, A, 7)
    assert python.numbers == [1, 2, 3, "gap", 6, 7]
    assert python.session.received == 3


def test_a_lost_piece_is_told_once_and_nothing_waits_for_it(python: Table) -> None:
    running(python)
    python.cut()
    python.connect()
    python.said(names.UNSUBSCRIBE)
    python.confirm(A)
    python.ask(names.SUBMIT)
    python.accept(B)
    python.event(9, B, 1)  # 3 to 8 went to the dead link
    assert python.numbers == [1, 2, "gap", 1]
    python.wait(10)
    assert python.numbers == [1, 2, "gap", 1]
    assert python.session.received == 9


def test_an_end_that_the_resume_brings_needs_no_gap(python: Table) -> None:
    running(python)
    python.cut()
    python.connect()
    python.said(names.UNSUBSCRIBE)
    subscribe = python.said(names.SUBSCRIBE)
    python.result(3, A)
    python.confirmed(subscribe, "success")
    assert python.numbers == [1, 2, "result"]
    assert python.sent == []


@rule("python: running jobs")
@rule("accept-9", "accept-22")
def test_an_end_that_went_nowhere_is_fetched_under_the_key(python: Table) -> None:
    submit = python.ask(names.SUBMIT)
    python.accept(A)
    python.cut()
    python.connect()
    python.said(names.UNSUBSCRIBE)
    python.confirm(A, "success")
    assert python.sent[0]["payload"] == submit.payload
    python.accept(A, at="2026-01-01T00:00:01Z")
    python.result(1, A, "stored")  # in the session's own numbers
    assert python.numbers == ["gap", "result"]
    assert python.session.received == 1
    # It is over: nothing more is asked.
    python.wait(QUIET + 5)
    assert names.SUBSCRIBE not in [frame["type"] for frame in python.sent]


def test_a_key_that_is_forgotten_starts_nothing(python: Table) -> None:
    running(python)
    python.cut()
    python.connect()
    python.said(names.UNSUBSCRIBE)
    python.confirm(A, "success")
    python.accept(B)  # a new job: this runtime forgets keys after a day
    cancel = python.said(names.CANCEL)
    assert cancel["job_id"] == cancel["payload"]["job_id"] == B
    python.confirm(A, "success")
    python.alive(2 * PATIENCE + 0.1)
    (gone,) = python.of(actions.JobGone)
    assert gone.job_id == A
    assert isinstance(gone.error, ResultUnavailable)


@rule("accept-22")
def test_a_job_that_the_runtime_forgot_is_lost(python: Table) -> None:
    running(python)
    python.cut()
    python.connect()
    python.said(names.UNSUBSCRIBE)
    python.said(names.SUBSCRIBE)
    python.error(names.JOB_NOT_FOUND)
    (gone,) = python.of(actions.JobGone)
    assert isinstance(gone.error, JobLost)


def test_silence_after_a_drop_is_not_the_end_of_a_job(python: Table) -> None:
    running(python)
    python.cut()
    python.connect()
    for _ in range(20):
        python.wait(30)
        python.hear({"type": names.PING, "payload": {"nonce": "alive"}})
    assert python.of(actions.JobGone) == []
    assert python.session.jobs.get(A) is not None


def test_a_submit_that_was_accepted_on_the_dead_link_is_led_back(python: Table) -> None:
    python.ask(names.SUBMIT)
    python.cut()
    python.connect()
    python.accept(A, at="2026-01-01T00:00:05Z")  # before the welcome
    python.said(names.UNSUBSCRIBE)
    assert python.confirm(A)["payload"]["history"] is False
    python.event(1, A, 7)
    assert python.numbers == ["gap", 7]


def test_a_stored_end_that_a_resume_brings_may_hide_a_loss(python: Table) -> None:
    # It answered the submit over a link that died before anything of it arrived.
    python.ask(names.SUBMIT)
    python.cut()
    python.connect()
    python.event(1, A, 1)
    python.said(names.SUBMIT)
    python.cut()
    python.connect()
    python.result(2, A, "stored")
    assert python.numbers == [1, "gap", "result"]
    python.accept(A, at="2026-01-01T00:00:05Z")
    assert python.numbers == [1, "gap", "result"]


def test_a_submit_that_never_arrived_is_just_sent_again(python: Table) -> None:
    python.ask(names.SUBMIT)
    python.cut()
    python.connect()
    python.accept(A)
    assert python.sent == []
    python.event(1, A, 1)
    assert python.numbers == [1]
    assert python.session.received == 1


@rule("accept-9", "accept-10")
def test_a_job_of_an_earlier_session_has_its_history_before_its_end(python: Table) -> None:
    python.ask(names.SUBMIT, key="mine")
    python.accept(A, at="2026-01-01T00:00:01Z", session_id="sess_before")
    subscribe = python.said(names.SUBSCRIBE)
    assert subscribe["payload"] == {"job_id": A, "history": True}
    python.result(1, A, session_id="sess_before")  # its stored end, at once
    python.event(1, A, 1)
    python.event(2, A, 2)
    python.result(3, A)
    python.confirmed(subscribe, "success")
    assert python.numbers == [1, 2, "result"]
    assert python.session.received == 1


def test_a_session_that_is_gone_is_started_anew_and_its_jobs_go_on(python: Table) -> None:
    running(python)
    python.event(3, A, 3)
    for _ in range(3):
        python.cut()
        assert "resume" in python.hello()["payload"]
        python.error(names.PERMISSION_DENIED)
    python.cut()
    hello = python.connect(session_id="sess_new")
    assert "resume" not in hello["payload"]
    subscribe = python.said(names.SUBSCRIBE)
    assert subscribe["payload"] == {"job_id": A, "history": True, "from_event_seq": 3}
    python.event(1, A, 4)
    python.confirmed(subscribe)
    python.event(2, A, 5)
    assert python.numbers == [1, 2, 3, "gap", 4, "gap", 5]  # the history lacks what was lost
    gaps = [(event.reason, event.job_id) for event in python.events if isinstance(event, Gap)]
    assert gaps == [("unknown_end", None), ("lost", A)]


def test_s22_a_new_session_whose_history_brings_nothing_has_one_gap(python: Table) -> None:
    running(python)
    _new_session(python)
    python.confirm(A)
    python.event(1, A, 5)
    assert python.numbers == [1, 2, "gap", 5]


def test_s13_a_loss_between_a_cut_history_and_what_followed_it_has_its_gap_there(
    python: Table,
) -> None:
    running(python)
    _new_session(python, accepted_at="2026-01-01T00:01:06Z")
    python.said(names.SUBSCRIBE)
    python.event(1, A, 3)
    python.wait(31)  # the confirmation never comes, and the job is looked up
    python.cut()
    python.connect(accepted_at="2026-01-01T00:01:30Z")
    python.event(1, A, 3, id=fresh())
    python.event(2, A, 4)  # of the history: older than the welcome of the link that was lost
    python.event(3, A, 7)  # of the subscription: 5 and 6 went nowhere
    python.event(4, A, 8)
    assert python.numbers == [1, 2, "gap", 3, 4, "gap", 7, 8]
    python.said(names.UNSUBSCRIBE)
    python.confirm(A)
    python.event(5, A, 10)
    assert python.numbers[8:] == ["gap", 10]


def _new_session(python: Table, **fields: str) -> None:
    """The session is gone, and there is a new one."""
    for _ in range(3):
        python.cut()
        python.hello()
        python.error(names.PERMISSION_DENIED)
    python.cut()
    python.connect(session_id="sess_new", **fields)


def test_a_strict_runtime_brings_its_jobs_along() -> None:
    table = Table("arcp-client")
    running(table)
    table.cut()
    table.connect()
    assert table.sent == []
    table.event(3, A, 3)
    assert table.numbers == [1, 2, 3]


@rule("typescript: resume")
@rule("accept-23")
def test_a_resume_that_missed_nothing_is_asked_again_from_one_event_before() -> None:
    typescript = Table("typescript")
    running(typescript)
    typescript.cut()
    assert typescript.hello()["payload"]["resume"]["last_event_seq"] == 2
    typescript.error(names.RESUME_WINDOW_EXPIRED)
    typescript.cut()
    hello = typescript.connect()
    assert hello["payload"]["resume"]["last_event_seq"] == 1
    typescript.said(names.SUBSCRIBE)


@rule("typescript: running jobs")
@rule("accept-8", "accept-22")
def test_a_dead_job_is_lost_and_not_taken_for_a_failed_one() -> None:
    typescript = Table("typescript")
    running(typescript)
    typescript.cut()
    typescript.connect()
    typescript.said(names.SUBSCRIBE)
    typescript.hear(
        {
            "type": names.JOB_ERROR,
            "job_id": A,
            "event_seq": 3,
            "payload": {"final_status": "error", "code": names.JOB_NOT_FOUND},
        }
    )
    (gone,) = typescript.of(actions.JobGone)
    assert isinstance(gone.error, JobLost)
    assert typescript.numbers == [1, 2]
    assert typescript.session.received == 3


def test_s14_a_replayed_refusal_of_a_subscription_is_not_the_end_of_its_job() -> None:
    typescript = Table("typescript")
    for job_id in (A, B):
        typescript.ask(names.SUBMIT)
        typescript.accept(job_id)
    typescript.cut()
    typescript.connect()
    first = typescript.said(names.SUBSCRIBE)["payload"]["job_id"]
    waits = B if first == A else A  # one request at a time
    refusal = {"code": names.JOB_NOT_FOUND, "message": "no"}
    typescript.hear({"type": names.JOB_ERROR, "job_id": waits, "event_seq": 1, "payload": refusal})
    assert typescript.events == []
    assert typescript.of(actions.JobGone) == []
    typescript.hear({"type": names.JOB_ERROR, "job_id": first, "event_seq": 2, "payload": refusal})
    typescript.sent = [frame for frame in typescript.sent if frame["type"] == names.SUBSCRIBE]
    assert typescript.said(names.SUBSCRIBE)["payload"]["job_id"] == waits
    typescript.hear({"type": names.JOB_ERROR, "job_id": waits, "event_seq": 3, "payload": refusal})
    gone = typescript.of(actions.JobGone)
    assert [type(each.error) for each in gone] == [JobLost, JobLost]


def test_an_accepted_job_of_which_nothing_comes_is_asked_for() -> None:
    typescript = Table("typescript")
    typescript.ask(names.SUBMIT, key="mine")
    typescript.accept(A)
    assert typescript.sent == []
    typescript.wait(PATIENCE)
    assert typescript.said(names.SUBSCRIBE)["payload"]["history"] is True


@rule("accept-9")
def test_an_end_of_an_unknown_job_is_a_loss_only_where_its_acceptance_may_be_lost(
    python: Table,
) -> None:
    python.ask(names.SUBMIT)
    python.result(1, B)
    assert python.numbers == ["result"]
    python.cut()
    python.connect()
    python.result(2, A)
    assert python.numbers == ["result", "gap", "result"]


def test_an_outcome_that_is_wanted_late_comes_behind_its_history(python: Table) -> None:
    python.session.request_outcome(A, python.now)
    python.do()
    subscribe = python.said(names.SUBSCRIBE)
    assert subscribe["payload"] == {"job_id": A, "history": True}
    python.result(1, A, "stored")
    assert python.events == []
    python.event(1, A, 1)
    python.confirmed(subscribe, "success")
    assert python.numbers == ["result"]


def test_a_terminal_message_that_was_held_counts_when_the_link_is_lost(python: Table) -> None:
    python.ask(names.SUBMIT, key="mine")
    python.accept(A, at="2026-01-01T00:00:01Z", session_id="sess_before")
    python.said(names.SUBSCRIBE)
    python.result(1, A, session_id="sess_before")
    assert python.events == []
    python.cut()
    assert python.numbers == ["gap", "result"]


def test_one_of_a_history_that_the_link_cut_off_is_no_loss(python: Table) -> None:
    python.ask(names.SUBMIT, key="mine")
    python.accept(A, at="2026-01-01T00:00:01Z", session_id="sess_before")
    python.said(names.SUBSCRIBE)
    python.event(1, A, 1)
    python.result(2, A)
    python.cut()
    assert python.numbers == [1, "result"]


def test_a_loss_that_is_to_be_announced_is_announced_when_the_link_is_lost(python: Table) -> None:
    python.ask(names.SUBMIT, key="mine")
    python.accept(A, at="2026-01-01T00:00:01Z", session_id="sess_before")
    python.said(names.SUBSCRIBE)
    python.cut()
    assert python.numbers == ["gap"]
    python.connect()
    python.said(names.UNSUBSCRIBE)
    python.event(1, A, 1)
    python.confirm(A)
    assert python.numbers == ["gap", 1, "gap"]  # what the job said between the links is gone


@pytest.mark.parametrize("ends", [True, False])
def test_a_loss_is_announced_before_what_a_subscription_of_the_link_before_brings(
    python: Table, ends: bool
) -> None:
    running(python)
    for _ in range(2):  # what the job says between the links is gone
        python.cut()
        python.connect()
        python.said(names.UNSUBSCRIBE)
    if ends:
        python.result(3, A)
    else:
        python.event(3, A, 5)
    python.confirm(A, "success" if ends else "running")
    came = ["result"] if ends else [5, "gap"]  # what was said behind the 5 is gone as well
    assert python.numbers == [1, 2, "gap", *came]


@pytest.mark.parametrize(
    ("at", "older"), [("2026-01-01T00:00:09Z", True), ("2026-01-01T00:00:11Z", False)]
)
def test_a_job_that_was_accepted_before_the_welcome_is_led_back(
    python: Table, at: str, older: bool
) -> None:
    python.ask(names.SUBMIT, key="mine")
    python.accept(A, at=at)  # the welcome was at 10 seconds
    asked = [frame["type"] for frame in python.sent]
    assert asked == ([names.UNSUBSCRIBE, names.SUBSCRIBE] if older else [])
