"""S4: after a gap, each job that was open is checked once; S5: jobs of a session that is gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from arcp_client._protocol import actions
from arcp_client._protocol.pending import Request
from arcp_client._protocol.plan_runner import OWN_TIMEOUT
from arcp_client._protocol.plans import PATIENCE, TRIES
from arcp_client._protocol.reassembly import SETTLE
from arcp_client._protocol.receiver import ROUNDS
from arcp_client._wire import names
from arcp_client.errors import JobCancelled, JobFailed, JobLost, ResultUnavailable
from tests.unit.protocol.kit import JOB, Strict, gaps, live

LISTING_ONLY = (names.LISTING,)
SUBSCRIPTIONS_ONLY = (names.SUBSCRIPTIONS,)


def lose(table: Strict, first: int, last: int) -> None:
    """The numbers first to last are lost, and only they."""
    table.event(last + 1, JOB, last + 1)
    table.resumed(first - 1)
    table.alive(ROUNDS * SETTLE + 0.1)  # as long as it takes without a heartbeat
    assert gaps(table)[-1] == (first, last, "lost")


def listed(table: Strict, **statuses: str) -> None:
    """The runtime answers the listing that was asked for."""
    request = table.said(names.LIST_JOBS)
    jobs = [{"job_id": job_id, "agent": "a", "status": s} for job_id, s in statuses.items()]
    payload = {"request_id": request["id"], "jobs": jobs, "next_cursor": None}
    table.hear({"type": names.JOBS, "payload": payload})


def gone(table: Strict) -> list[actions.JobGone]:
    return table.of(actions.JobGone)


def wait_in_vain(table: Strict) -> None:
    """Nothing comes of the job, though the link is alive."""
    table.alive((TRIES + 2) * PATIENCE)


# ------------------------------------------------------------------ lost events


def test_s4_a_job_that_runs_is_asked_about_once_and_goes_on() -> None:
    table = live()
    lose(table, 1, 2)
    listed(table, **{JOB: "running"})
    assert table.sent == []
    table.event(4, JOB, 4)
    table.result(5, JOB)
    assert table.numbers == ["gap", 3, 4, "result"]
    assert gone(table) == []


def test_s4_an_end_inside_the_hole_is_fetched_by_a_history_that_repeats_nothing() -> None:
    table = live()
    table.event(1, JOB, 1)
    table.event(4, JOB, 4, id="e4")
    table.resumed(1)
    table.alive(SETTLE + 0.1)
    listed(table, **{JOB: "success"})
    subscribe = table.confirm(JOB, "success")
    assert subscribe["payload"] == {"job_id": JOB, "history": True, "from_event_seq": 1}
    table.event(5, JOB, 2, id="e2")
    table.event(6, JOB, 4, id="e4")
    table.result(7, JOB)
    assert table.numbers == [1, "gap", 4, 2, "result"]
    assert table.session.received == 7
    assert table.session.repeated == 1


def test_s4_a_job_that_succeeded_and_sends_no_end_has_no_result() -> None:
    table = live()
    lose(table, 1, 1)
    listed(table, **{JOB: "success"})
    table.confirm(JOB, "success")
    wait_in_vain(table)
    (told,) = gone(table)
    assert isinstance(told.error, ResultUnavailable)
    assert (told.job_id, told.status) == (JOB, "success")
    assert list(table.session.jobs) == []


@pytest.mark.parametrize(
    ("status", "error"),
    [("error", JobFailed), ("cancelled", JobCancelled), ("timed_out", JobFailed)],
)
def test_s4_a_job_that_failed_and_sends_no_end_has_failed(
    status: str, error: type[Exception]
) -> None:
    table = live()
    lose(table, 1, 1)
    listed(table, **{JOB: status})
    table.confirm(JOB, status)
    wait_in_vain(table)
    told = gone(table)[0].error
    assert isinstance(told, error)
    assert isinstance(told, JobFailed)
    assert told.retryable is (told.code == names.INTERNAL_ERROR)  # always retryable, by §12
    assert gone(table)[0].status == status


def test_s4_a_job_that_is_not_listed_is_subscribed_to_since_not_all_list_what_has_ended() -> None:
    table = live()
    lose(table, 1, 1)
    listed(table)
    table.confirm(JOB, "success")
    table.result(3, JOB)
    assert table.numbers == ["gap", 2, "result"]


def test_s4_a_job_that_the_runtime_does_not_know_is_lost() -> None:
    table = live()
    lose(table, 1, 1)
    listed(table)
    subscribe = table.said(names.SUBSCRIBE)
    table.error(
        names.JOB_NOT_FOUND,
        payload={"code": names.JOB_NOT_FOUND, "request_id": subscribe["id"]},
    )
    (told,) = gone(table)
    assert isinstance(told.error, JobLost)
    assert told.status is None


def test_s4_without_a_listing_the_subscription_tells() -> None:
    table = live(features=SUBSCRIPTIONS_ONLY)
    lose(table, 1, 1)
    assert table.confirm(JOB, "running")["payload"]["history"] is False
    table.event(3, JOB, 3)
    assert table.numbers == ["gap", 2, 3]
    assert table.sent == []


def test_s4_with_a_listing_only_its_status_is_all_there_is() -> None:
    table = live(features=LISTING_ONLY)
    lose(table, 1, 1)
    listed(table, **{JOB: "success"})
    wait_in_vain(table)
    assert isinstance(gone(table)[0].error, ResultUnavailable)


def test_s4_a_runtime_that_cannot_be_asked_is_reported_and_the_job_stays_open() -> None:
    table = live(features=())
    lose(table, 1, 1)
    assert table.sent == []
    assert "cannot be asked" in table.of(actions.Report)[-1].message
    assert [job.job_id for job in table.session.jobs] == [JOB]


def test_s4_a_job_whose_end_came_right_behind_the_hole_is_not_checked() -> None:
    table = live()
    table.result(2, JOB)
    table.resumed(0)
    table.alive(SETTLE + 0.1)
    assert table.numbers == ["gap", "result"]
    assert table.sent == []


def test_s4_every_open_job_is_checked_and_others_are_not() -> None:
    table = live()
    table.submit("job_b")
    table.submit("job_c")
    table.result(1, "job_b")
    table.event(3, JOB, 3)
    table.resumed(1)
    table.alive(SETTLE + 0.1)
    listed(table, job_a="running", job_c="running")
    assert table.sent == []


def test_s4_one_listing_is_for_all_open_jobs_over_all_its_pages() -> None:
    jobs = [f"job_{n:03}" for n in range(50)]
    table = Strict()
    for job_id in jobs:
        table.submit(job_id)
    table.event(2, jobs[0], 2)
    table.resumed(0)
    table.alive(SETTLE + 0.1)
    for page, found in enumerate((jobs[:20], jobs[20:40])):
        asked = table.said(names.LIST_JOBS)
        assert asked["payload"].get("cursor") == (f"page {page}" if page else None)
        entries = [{"job_id": j, "agent": "a", "status": "running"} for j in found]
        answer = {"request_id": asked["id"], "jobs": entries, "next_cursor": f"page {page + 1}"}
        table.hear({"type": names.JOBS, "payload": answer})
    listed(table)  # the last page has none of those that are left
    subscribed = [frame["payload"]["job_id"] for frame in table.sent]
    assert subscribed == jobs[40:]  # not every runtime lists what has ended
    for subscribe in table.sent[:]:
        table.sent.remove(subscribe)
        error = {"code": names.JOB_NOT_FOUND, "request_id": subscribe["id"]}
        table.hear({"type": names.SESSION_ERROR, "payload": error})
    assert [effect.job_id for effect in gone(table)] == jobs[40:]


def test_s4_a_listing_that_is_refused_is_refused_to_all_jobs_that_it_is_for() -> None:
    table = Strict(features=(names.HEARTBEAT, names.LISTING))
    table.submit(JOB)
    table.submit("job_b")
    table.event(2, JOB, 2)
    table.resumed(0)
    table.alive(SETTLE + 0.1)
    asked = table.said(names.LIST_JOBS)
    error = {"code": names.JOB_NOT_FOUND, "request_id": asked["id"]}
    table.hear({"type": names.SESSION_ERROR, "payload": error})
    assert [effect.job_id for effect in gone(table)] == [JOB, "job_b"]


def test_s4_a_job_in_doubt_is_not_looked_up_in_an_older_listing() -> None:
    table = live()
    table.submit("job_b")
    table.unreadable(1, "job_b")
    first = table.said(names.LIST_JOBS)
    table.unreadable(2, JOB)
    second = table.said(names.LIST_JOBS)
    for asked in (first, second):
        entries = [{"job_id": j, "agent": "a", "status": "running"} for j in (JOB, "job_b")]
        table.hear({"type": names.JOBS, "payload": {"request_id": asked["id"], "jobs": entries}})
    assert table.sent == []


def test_s4_an_unreadable_event_puts_its_own_job_in_doubt() -> None:
    table = live()
    table.submit("job_b")
    table.unreadable(1, "job_b")
    listed(table, job_a="running", job_b="running")
    assert table.sent == []
    table.unreadable(2, "job_nobody_knows")
    assert table.sent == []


def test_s4_an_unreadable_end_that_its_history_repeats_ends_all_the_same() -> None:
    table = live()
    table.unreadable(1, id="bad")
    listed(table, **{JOB: "success"})
    table.confirm(JOB, "success")
    table.unreadable(2, id="bad")
    wait_in_vain(table)
    assert gaps(table) == [(1, 1, "undecodable")]
    assert isinstance(gone(table)[0].error, ResultUnavailable)


def test_s4_no_job_is_given_up_because_of_a_link_that_stands_still() -> None:
    table = live()
    lose(table, 1, 1)
    listed(table, **{JOB: "success"})
    table.confirm(JOB, "success")
    table.wait(3 * PATIENCE)
    assert {frame["type"] for frame in table.sent} == {names.PING}
    assert gone(table) == []
    table.result(3, JOB)
    assert table.numbers == ["gap", 2, "result"]


def test_s4_nor_because_nobody_reads() -> None:
    table = live()
    lose(table, 1, 1)
    listed(table, **{JOB: "success"})
    table.confirm(JOB, "success")
    table.session.pause(table.now)
    table.wait(600)
    assert gone(table) == []
    table.session.unpause(table.now)
    wait_in_vain(table)
    assert len(gone(table)) == 1


def test_s4_without_a_heartbeat_the_patience_is_bounded() -> None:
    table = live(features=SUBSCRIPTIONS_ONLY)
    lose(table, 1, 1)
    table.confirm(JOB, "success")
    table.confirm(JOB, "success")
    table.wait((TRIES + 2) * PATIENCE)
    assert len(gone(table)) == 1
    assert [frame["type"] for frame in table.sent] == [names.UNSUBSCRIBE]  # a history may come


def test_s4_the_check_survives_a_drop() -> None:
    table = live()
    lose(table, 1, 1)
    listed(table, **{JOB: "success"})
    table.confirm(JOB, "success")
    table.resumed(2)
    listed(table, **{JOB: "success"})
    assert table.confirm(JOB, "success")["payload"]["from_event_seq"] == 0
    wait_in_vain(table)
    assert isinstance(gone(table)[0].error, ResultUnavailable)


def test_s4_no_job_is_given_up_while_its_end_may_be_behind_a_hole() -> None:
    table = live(features=(names.SUBSCRIPTIONS,))
    lose(table, 1, 1)
    table.confirm(JOB, "success")
    table.confirm(JOB, "success")
    table.event(4, JOB, 4)
    table.wait(60)
    assert gone(table) == []
    assert table.session.deadline is None  # a link was asked for
    table.resumed(2)
    table.event(3, JOB, 3)
    table.result(5, JOB)
    assert table.numbers == ["gap", 2, 3, 4, "result"]


# ------------------------------------------------------------------ S5: a session that is gone


def fresh_session(table: Strict) -> None:
    """The resume is refused, and a new session opened on the next link."""
    table.cut()
    table.refuse_hello(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.sent.clear()
    table.order.clear()
    assert "resume" not in table.connect(session_id="sess_2")["payload"]


def test_s5_a_fresh_session_tells_the_token_first_then_the_gap_then_asks_for_the_jobs() -> None:
    """The outcome is an unknown gap, not none."""
    table = live()
    table.replay(1, 3)
    fresh_session(table)
    kinds = [type(effect).__name__ for effect in table.order[-3:]]
    assert kinds == ["Opened", "Gap", "Send"]
    opened = table.of(actions.Opened)[-1]
    assert opened.resumed is False
    assert opened.welcome.resume_token.get_secret_value() == "token of sess_2"
    assert gaps(table) == [(4, None, "unknown_end")]
    assert table.events[-1].session_id == "sess_1"  # it is not the new one's number 4


def test_s5_its_jobs_go_on_after_what_was_received_and_the_numbers_begin_at_1() -> None:
    table = live()
    table.replay(1, 3)
    fresh_session(table)
    assert table.confirm(JOB)["payload"]["from_event_seq"] == 3
    table.event(1, JOB, 4)
    table.result(2, JOB)
    assert table.numbers == [1, 2, 3, "gap", 4, "result"]
    assert table.session.received == 2
    assert table.causes == ["ResumeExpired"]


def test_s5_what_waited_behind_a_hole_comes_with_its_history_in_order() -> None:
    table = live()
    table.event(1, JOB, 1)
    table.event(4, JOB, 4)
    fresh_session(table)
    assert gaps(table) == [(2, None, "unknown_end")]
    assert table.confirm(JOB)["payload"]["from_event_seq"] == 1
    for seq, number in enumerate((2, 3, 4, 5), start=1):
        table.event(seq, JOB, number)
    assert table.numbers == [1, "gap", 2, 3, 4, 5]


def test_s5_without_a_history_it_is_delivered() -> None:
    table = live(features=())
    table.event(1, JOB, 1)
    table.event(4, JOB, 4)
    table.event(None, JOB, 9)
    fresh_session(table)
    assert table.numbers == [1, "gap", 4, 9, "gap"]
    assert gaps(table) == [(2, 3, "lost"), (5, None, "unknown_end")]


def test_s5_an_end_behind_a_hole_counts_where_the_history_does_not_come() -> None:
    table = live()
    table.result(2, JOB)
    fresh_session(table)
    subscribe = table.said(names.SUBSCRIBE)
    payload = {"code": names.JOB_NOT_FOUND, "request_id": subscribe["id"]}
    table.hear({"type": names.SESSION_ERROR, "payload": payload})
    assert table.numbers == ["gap", "result"]
    assert gone(table) == []


def test_s5_an_end_behind_a_hole_is_delivered_once() -> None:
    table = live()
    table.result(2, JOB)
    fresh_session(table)
    table.confirm(JOB, "success")
    table.event(1, JOB, 1)
    table.result(2, JOB)
    wait_in_vain(table)
    assert table.numbers == ["gap", 1, "result"]
    assert gone(table) == []


def test_s5_a_second_fresh_session_asks_in_the_numbers_of_the_first_and_repeats_nothing() -> None:
    table = live()
    table.replay(1, 3)
    fresh_session(table)
    table.confirm(JOB)
    table.event(1, JOB, 4, id="e4")
    table.cut()
    table.refuse_hello(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.connect(session_id="sess_3")
    assert table.confirm(JOB)["payload"]["from_event_seq"] == 3
    table.event(1, JOB, 4, id="e4")
    table.event(2, JOB, 5)
    assert table.numbers == [1, 2, 3, "gap", 4, "gap", 5]


def test_watched_jobs_are_watched_again_and_repeat_nothing() -> None:
    table = Strict()
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.confirm(JOB)
    table.event(1, JOB, 1, id="e1")
    fresh_session(table)
    assert table.confirm(JOB)["payload"] == {"job_id": JOB, "history": True}
    table.event(1, JOB, 1, id="e1")
    table.event(2, JOB, 2, id="e2")
    assert table.numbers == [1, "gap", 2]


def test_a_copy_under_another_id_is_known_by_its_content() -> None:
    java = Strict(spoken="java")
    java.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    subscribe, ping = java.said(names.SUBSCRIBE), java.said(names.PING)
    java.event(1, JOB, 3)  # live, ahead of the history
    java.confirmed(subscribe)
    for seq, number in enumerate((1, 2, 3), start=2):
        java.event(seq, JOB, number)
    pong = {"ping_nonce": ping["payload"]["nonce"]}
    java.hear({"type": names.PONG, "payload": pong})
    assert java.numbers == [1, 2, 3]
    assert java.session.repeated == 1
    java.cut()
    java.refuse_hello(names.RESUME_WINDOW_EXPIRED)
    for _ in range(2):
        java.cut()
        java.refuse_hello(names.RESUME_WINDOW_EXPIRED)
    java.cut()
    java.connect(session_id="sess_2")
    java.confirm(JOB)
    for seq, number in enumerate((1, 2, 3, 4), start=1):
        java.event(seq, JOB, number)
    java.alive(0.1)
    assert java.numbers == [1, 2, 3, "gap", 4]


def test_two_events_of_one_content_at_different_times_are_two() -> None:
    java = Strict(spoken="java")
    java.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    java.confirm(JOB)
    for seq, second in ((1, 1), (2, 2)):
        payload = {
            "kind": "log",
            "ts": f"2026-01-01T00:00:0{second}Z",
            "body": {"level": "info", "message": "tick"},
        }
        frame = {"type": names.EVENT, "job_id": JOB, "event_seq": seq, "payload": payload}
        java.hear(frame)
    java.alive(0.1)
    assert len(java.events) == 2


def test_a_subscription_that_is_refused_for_now_is_asked_for_again() -> None:
    table = live()
    fresh_session(table)
    for _ in range(TRIES - 1):
        refused(table, table.said(names.SUBSCRIBE), retryable=True)
        assert table.sent == []
        table.wait(PATIENCE + 0.1)
    table.confirm(JOB)
    table.event(1, JOB, 1)
    assert table.numbers == ["gap", 1]


def test_s5_a_job_that_cannot_be_subscribed_to_is_looked_after_until_its_end() -> None:
    table = live()
    fresh_session(table)
    refused(table, table.said(names.SUBSCRIBE), retryable=False)
    listed(table, **{JOB: "running"})
    for _ in range(20):
        table.wait(60)
        if table.sent and table.sent[0]["type"] == names.SUBSCRIBE:
            break
        table.sent.clear()
    table.confirm(JOB, "success")
    table.wait(60)
    table.sent.clear()
    table.wait(60)
    assert [type(told.error) for told in gone(table)] in ([], [ResultUnavailable])


def refused(table: Strict, request: dict[str, object], *, retryable: bool) -> None:
    payload = {"code": "INTERNAL_ERROR", "retryable": retryable, "request_id": request["id"]}
    table.hear({"type": names.SESSION_ERROR, "payload": payload})


def test_s5_a_job_that_the_new_session_does_not_find_is_lost() -> None:
    table = live()
    fresh_session(table)
    subscribe = table.said(names.SUBSCRIBE)
    payload = {"code": names.JOB_NOT_FOUND, "request_id": subscribe["id"]}
    table.hear({"type": names.SESSION_ERROR, "payload": payload})
    assert [type(told.error) for told in gone(table)] == [JobLost]


def test_s5_without_subscriptions_no_result_can_come_any_more() -> None:
    table = live(features=LISTING_ONLY)
    fresh_session(table)
    assert [type(told.error) for told in gone(table)] == [ResultUnavailable]
    assert table.sent == []


def test_s5_a_session_without_a_resume_token_ends_with_its_link() -> None:
    table = Strict(connect=False)
    table.connect(resume_token=None)
    table.sent.clear()
    table.submit()
    table.event(1, JOB, 1)
    table.cut()
    assert "resume" not in table.connect(session_id="sess_2")["payload"]
    assert gaps(table) == [(2, None, "unknown_end")]
    table.confirm(JOB)


def test_s5_jobs_of_a_checkpoint_are_led_back_when_its_session_is_gone() -> None:
    from arcp_client.models import Checkpoint, OpenJob

    job = OpenJob(job_id=JOB, agent="a", idempotency_key="k", payload_hash="h")
    kept = Checkpoint(session_id="sess_1", resume_token="t", mark=5, jobs=(job,))
    table = Strict(connect=False, checkpoint=kept)
    fresh_session(table)
    assert gaps(table) == [(6, None, "unknown_end")]
    assert table.confirm(JOB)["payload"]["from_event_seq"] == 5


# ------------------------------------------------------------------ S6: accepted, and not new


def test_s6_a_job_under_a_key_of_the_users_may_be_old_and_is_subscribed_at_once() -> None:
    table = Strict()
    table.submit(key="nightly")
    assert table.confirm(JOB)["payload"] == {"job_id": JOB, "history": True}
    table.event(1, JOB, 1)
    assert table.numbers == [1]


def test_s6_a_job_that_was_accepted_in_a_session_that_is_gone_is_subscribed_at_once() -> None:
    table = Strict()
    table.ask(names.SUBMIT)
    table.cut()
    table.refuse_hello(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.sent.clear()
    table.connect(session_id="sess_2", accepted_at="2026-01-01T00:00:20Z")
    table.accept(JOB, at="2026-01-01T00:00:11Z")  # before the welcome: by the first sending
    assert table.confirm(JOB)["payload"]["history"] is True


def test_s6_no_outcome_to_be_had_of_an_old_job_is_said() -> None:
    table = Strict()
    table.submit(key="nightly")
    table.confirm(JOB, "success")
    wait_in_vain(table)
    assert [type(told.error) for told in gone(table)] == [ResultUnavailable]


def test_s6_an_outcome_may_be_wanted_long_after_its_end() -> None:
    table = live()
    table.result(1, JOB)
    table.session.request_outcome(JOB, table.now)
    table.do()
    table.confirm(JOB, "success")
    table.event(2, JOB, 7)  # not a second time
    table.result(3, JOB)
    assert table.numbers == ["result", "result"]


def test_s4_after_two_gaps_a_history_is_asked_for_from_before_the_first() -> None:
    table = live()
    table.event(1, JOB, 1)
    for seq in (3, 5):
        table.event(seq, JOB, seq)
    table.resumed(1)
    table.alive(ROUNDS * SETTLE + 0.1)
    assert gaps(table) == [(2, 2, "lost"), (4, 4, "lost")]
    listed(table, **{JOB: "success"})
    assert table.said(names.SUBSCRIBE)["payload"]["from_event_seq"] == 1


def test_s4_a_listing_that_is_refused_changes_nothing_for_a_job_that_has_ended_meanwhile() -> None:
    table = live()
    table.submit("job_b")
    table.event(2, JOB, 2)
    table.resumed(0)
    table.alive(ROUNDS * SETTLE + 0.1)
    listing = table.said(names.LIST_JOBS)
    table.result(3, "job_b")
    refused(table, listing, retryable=False)
    assert [told.job_id for told in gone(table)] == [JOB]
    assert table.numbers == ["gap", 2, "result"]


def test_a_subscription_of_the_application_takes_the_place_of_a_plan() -> None:
    table = live(spoken="typescript")
    table.resumed(0)
    table.confirm(JOB)
    assert table.sent == []
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.confirm(JOB, "success")
    table.alive((TRIES + 2) * PATIENCE)
    assert [type(told.error) for told in gone(table)] == [ResultUnavailable]


def test_s4_a_step_of_one_job_goes_on_though_another_one_ends() -> None:
    table = live(spoken="python")
    table.submit("job_b")
    table.resumed(0)
    assert table.said(names.UNSUBSCRIBE)["payload"]["job_id"] == JOB
    subscribe = table.said(names.SUBSCRIBE)
    table.result(1, JOB)
    assert table.sent == []  # one at a time
    table.confirmed(subscribe, "success")
    assert table.said(names.UNSUBSCRIBE)["payload"]["job_id"] == "job_b"
    table.confirm("job_b")


def test_s6_an_accepted_job_of_which_something_comes_is_not_asked_for() -> None:
    table = Strict(spoken="csharp")
    table.submit(key="mine")
    table.event(1, JOB, 1)
    table.alive(3 * PATIENCE)
    assert table.sent == []


# ------------------------------------------------------------------ outcomes under a key


def late_outcome() -> tuple[Strict, dict[str, Any]]:
    """A job has ended, its outcome was asked for under its key, and nothing answered in time."""
    table = live(spoken="python")
    table.resumed(0)
    table.said(names.UNSUBSCRIBE)
    table.confirm(JOB, "success")
    submit = table.said(names.SUBMIT)
    table.alive(OWN_TIMEOUT + 0.1)
    table.sent.clear()
    return table, submit


def test_an_outcome_that_comes_after_its_time_is_taken() -> None:
    table, submit = late_outcome()
    payload = {"job_id": JOB, "agent": "a", "request_id": submit["id"]}
    table.hear({"type": names.ACCEPTED, "job_id": JOB, "payload": payload})
    table.result(1, JOB)
    assert names.CANCEL not in [frame["type"] for frame in table.sent]
    assert table.numbers[-1] == "result"


def test_a_new_job_that_answers_after_its_time_is_cancelled() -> None:
    table, submit = late_outcome()
    payload = {"job_id": "job_b", "agent": "a", "request_id": submit["id"]}
    table.hear({"type": names.ACCEPTED, "job_id": "job_b", "payload": payload})
    (cancel,) = [frame for frame in table.sent if frame["type"] == names.CANCEL]
    assert cancel["payload"]["job_id"] == "job_b"


def test_a_submit_that_this_link_does_not_take_has_no_outcome_to_fetch() -> None:
    table = Strict(spoken="python")
    payload = {"agent": "a", "input": "x" * 70_000, "idempotency_key": "mine"}
    request = Request(names.SUBMIT, Raw(json.dumps(payload).encode()), 200.0, key="mine")
    table.session.request(request, table.now)
    table.do()
    table.accept(JOB)
    table.cut()
    table.lines = True  # over stdio, where frames are shorter
    table.connect()
    table.said(names.UNSUBSCRIBE)
    table.confirm(JOB, "success")
    assert table.said(names.SUBSCRIBE)["payload"]["history"]


# ------------------------------------------------------------------ cancels


def cancelled(table: Strict, job_id: str) -> None:
    """The runtime reads a cancel, and does not refuse it."""
    table.ask(names.CANCEL, job_id=job_id)
    table.said(names.CANCEL)
    table.alive(0.1)


def test_a_cancel_of_a_job_that_is_not_followed_asks_nothing() -> None:
    table = Strict(spoken="python")
    cancelled(table, "job_x")
    assert len(table.of(actions.Replied)) == 1
    table.alive(3 * PATIENCE)
    assert table.sent == []


def test_a_job_that_is_watched_is_looked_after_soon_once_it_was_cancelled() -> None:
    table = live(spoken="typescript")
    table.resumed(0)
    table.confirm(JOB)
    cancelled(table, JOB)
    table.alive(PATIENCE / 2)
    assert table.sent == []
    table.alive(PATIENCE)
    assert table.said(names.SUBSCRIBE)["payload"]["job_id"] == JOB


def test_a_cancel_does_not_shorten_the_pause_before_a_step() -> None:
    table = live(spoken="typescript")
    table.resumed(0)
    table.said(names.SUBSCRIBE)
    table.error("INTERNAL_ERROR", payload={"code": "INTERNAL_ERROR", "retryable": True})
    table.alive(PATIENCE / 2)
    cancelled(table, JOB)
    assert table.sent == []
    table.alive(PATIENCE / 2)
    assert table.said(names.SUBSCRIBE)["payload"]["job_id"] == JOB


@pytest.mark.parametrize("spoken", ["arcp-client", "unknown"])
def test_nothing_comes_of_a_job_that_was_given_up(spoken: str) -> None:
    """Its watch is ended, on each link until the runtime has read that."""
    table = live(spoken=spoken)
    fresh_session(table)
    table.confirm(JOB, "success")
    while not gone(table):
        for ping in [frame for frame in table.sent if frame["type"] == names.PING]:
            table.sent.remove(ping)
            pong = {"ping_nonce": ping["payload"]["nonce"]}
            table.hear({"type": names.PONG, "payload": pong})
        table.wait(0.5)
    table.cut()
    table.connect()
    for seq in (1, 2):
        table.event(seq, JOB, seq, id=f"{JOB}.{seq}")
    assert table.numbers == ["gap"]


def test_java_events_without_a_time_are_known_by_their_ids_alone() -> None:
    java = Strict(spoken="java")
    java.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    java.confirm(JOB)
    for seq, id in enumerate(["a", "b", "a"], 1):
        payload = {"kind": "progress", "body": {"current": 1}}
        frame = {"type": names.EVENT, "id": id, "job_id": JOB, "event_seq": seq}
        java.hear({**frame, "payload": payload})
    java.alive(0.1)
    assert java.numbers == [1, 1]
