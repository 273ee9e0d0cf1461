"""The way back to a job's outcome, rung by rung."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arcp_client._protocol.recovery import PATIENCE, QUIET, Recovery, Rung
from arcp_client._protocol.steps import (
    Announce,
    Ask,
    Asking,
    Attach,
    Deliver,
    Fetch,
    GiveUp,
    Look,
    Means,
    Plan,
)
from arcp_client.errors import (
    FeatureNotNegotiated,
    InvalidRequest,
    JobNotFound,
    PermissionDenied,
    RequestError,
    RequestTimeout,
)
from tests.interop.rules import rule

JOB = "job_1"
ALL = Means(fetch=True)
WATCHED = Means()
ENDED = ["success", "error", "cancelled", "timed_out"]


@pytest.fixture
def recovery() -> Recovery[str]:
    return Recovery()


def after_a_drop(recovery: Recovery[str], means: Means = ALL) -> None:
    """A job of the session, over the link that was resumed at time 0."""
    steps = recovery.begin(JOB, 0.0, means=means, plan=Plan(history=False), lossy=True, renew=True)
    assert steps == [Attach(JOB, False, None, True)]
    assert recovery.rung(JOB) is Rung.ATTACHING


def asking(ask: Ask) -> Asking:
    return Asking(ask, JOB)


def given_up(steps: Sequence[object]) -> str:
    """The status with which the job was given up."""
    (step,) = steps
    assert isinstance(step, GiveUp)
    assert step.job_id == JOB
    return step.status


def test_a_job_that_runs_is_followed_and_its_loss_announced_once(recovery: Recovery[str]) -> None:
    after_a_drop(recovery)
    assert recovery.attached(JOB, "running", 1.0) == [Announce(JOB)]
    assert recovery.rung(JOB) is Rung.FOLLOWING
    assert recovery.tick(1.0 + QUIET) == [Attach(JOB, False, None, False)]
    assert recovery.attached(JOB, "running", 20.0) == []


def test_a_job_that_has_not_begun_has_lost_nothing(recovery: Recovery[str]) -> None:
    after_a_drop(recovery)
    assert recovery.attached(JOB, "pending", 1.0) == []


@pytest.mark.parametrize("status", ENDED)
@rule("accept-22")
def test_the_stored_outcome_of_an_ended_job_is_fetched(
    recovery: Recovery[str], status: str
) -> None:
    after_a_drop(recovery)
    assert recovery.attached(JOB, status, 1.0) == [Announce(JOB), Fetch(JOB)]
    assert recovery.fetching(JOB)
    assert recovery.fetched(JOB, JOB, 1.1) == []
    assert recovery.rung(JOB) is Rung.WAITING
    recovery.ended(JOB)
    assert not recovery.busy
    assert recovery.deadline is None


@pytest.mark.parametrize("status", ENDED)
@rule("accept-19")
def test_an_outcome_that_does_not_follow_is_given_up_with_its_status(
    recovery: Recovery[str], status: str
) -> None:
    after_a_drop(recovery)
    recovery.attached(JOB, status, 1.0)
    recovery.fetched(JOB, JOB, 1.0)
    assert recovery.tick(1.0 + PATIENCE - 0.01) == []
    assert given_up(recovery.tick(1.0 + PATIENCE)) == status
    assert not recovery.busy


def test_without_a_key_the_history_is_asked_for_the_outcome(recovery: Recovery[str]) -> None:
    after_a_drop(recovery, WATCHED)
    assert recovery.attached(JOB, "success", 1.0) == [
        Announce(JOB),
        Attach(JOB, True, None, False),
    ]
    assert recovery.attached(JOB, "success", 1.0) == []
    recovery.seen(JOB, 2.5)  # a long history is on its way
    assert recovery.tick(1.0 + PATIENCE) == []
    assert given_up(recovery.tick(2.5 + PATIENCE)) == "success"


def test_a_forgotten_key_starts_another_job_and_the_outcome_is_looked_for_elsewhere(
    recovery: Recovery[str],
) -> None:
    after_a_drop(recovery)
    recovery.attached(JOB, "success", 1.0)
    assert recovery.fetched(JOB, "job_2", 1.0) == [Attach(JOB, True, None, False)]


def test_an_unknown_job_is_given_up_without_a_status(recovery: Recovery[str]) -> None:
    after_a_drop(recovery)
    assert given_up(recovery.refused(asking(Ask.ATTACH), JobNotFound("gone"), 1.0)) == ""
    # Also if it was known to run before.
    after_a_drop(recovery)
    recovery.attached(JOB, "running", 1.0)
    recovery.tick(1.0 + QUIET)
    assert given_up(recovery.refused(asking(Ask.ATTACH), JobNotFound("gone"), 20.0)) == ""


@pytest.mark.parametrize("error", [RequestTimeout(), PermissionDenied(), InvalidRequest()])
def test_any_other_refusal_is_followed_by_a_look(
    recovery: Recovery[str], error: RequestError
) -> None:
    after_a_drop(recovery)
    assert recovery.refused(asking(Ask.ATTACH), error, 1.0) == [Look(JOB)]
    assert recovery.looked(JOB, None, 1.0, cursor="2") == [Look(JOB, "2")]
    assert recovery.looked(JOB, "running", 1.0) == [Announce(JOB)]
    assert recovery.rung(JOB) is Rung.FOLLOWING


def test_a_listing_tells_that_it_ended(recovery: Recovery[str]) -> None:
    after_a_drop(recovery, Means(attach=True, look=True, fetch=True))
    recovery.refused(asking(Ask.ATTACH), PermissionDenied(), 1.0)
    assert recovery.looked(JOB, "cancelled", 1.0) == [Announce(JOB), Fetch(JOB)]


def test_a_job_that_is_not_listed_is_gone(recovery: Recovery[str]) -> None:
    after_a_drop(recovery)
    recovery.refused(asking(Ask.ATTACH), PermissionDenied(), 1.0)
    assert given_up(recovery.looked(JOB, None, 1.0)) == ""


def test_silence_is_no_reason_to_give_up(recovery: Recovery[str]) -> None:
    after_a_drop(recovery, WATCHED)
    assert recovery.refused(asking(Ask.ATTACH), RequestTimeout(), 30.0) == [Look(JOB)]
    assert recovery.refused(asking(Ask.LOOK), RequestTimeout(), 60.0) == []
    assert recovery.rung(JOB) is Rung.FOLLOWING
    assert recovery.tick(60.0 + QUIET) == [Attach(JOB, False, None, False)]


def test_where_nothing_but_the_key_helps_it_is_asked_again_and_again(
    recovery: Recovery[str],
) -> None:
    only_key = Means(attach=False, look=False, fetch=True)
    steps = recovery.begin(JOB, 0.0, means=only_key, plan=Plan(history=False), lossy=True)
    assert steps == [Announce(JOB), Fetch(JOB)]
    assert recovery.fetched(JOB, JOB, 0.0) == []
    assert recovery.tick(PATIENCE) == []  # it still runs: its outcome is not stored yet
    assert recovery.rung(JOB) is Rung.FOLLOWING
    assert recovery.tick(PATIENCE + QUIET) == [Fetch(JOB)]


def test_a_runtime_that_lists_but_has_no_subscriptions_is_looked_at(
    recovery: Recovery[str],
) -> None:
    steps = recovery.begin(
        JOB, 0.0, means=Means(attach=False), plan=Plan(history=False), lossy=True
    )
    assert steps == [Look(JOB)]
    late = FeatureNotNegotiated()
    assert recovery.refused(asking(Ask.LOOK), late, 0.0) == []
    assert recovery.rung(JOB) is Rung.FOLLOWING


def test_a_stored_end_waits_for_the_history(recovery: Recovery[str]) -> None:
    recovery.begin(JOB, 0.0, means=ALL, plan=Plan(history=True, hold=True), lossy=True)
    assert recovery.keep(JOB, "stored end", here=False)
    assert recovery.attached(JOB, "success", 1.0) == [Announce(JOB), Deliver("stored end")]


def test_a_history_with_its_end_shows_that_nothing_is_lost(recovery: Recovery[str]) -> None:
    recovery.begin(JOB, 0.0, means=ALL, plan=Plan(history=True, hold=True), lossy=True)
    assert recovery.keep(JOB, "stored end", here=False)
    assert recovery.keep(JOB, "end in the history", here=True)
    assert recovery.attached(JOB, "success", 1.0) == [Deliver("end in the history")]


def test_an_end_that_was_kept_is_never_lost(recovery: Recovery[str]) -> None:
    for leave in ("refused", "lost"):
        recovery.begin(JOB, 0.0, means=ALL, plan=Plan(history=True, hold=True))
        assert recovery.keep(JOB, "end", here=False)
        if leave == "refused":
            steps = recovery.refused(asking(Ask.ATTACH), RequestTimeout(), 30.0)
        else:
            steps = recovery.lost()
        assert steps == [Deliver("end")]
        recovery.ended(JOB)


def test_what_an_old_job_may_have_lost_is_told_before_the_next_link_brings_its_end(
    recovery: Recovery[str],
) -> None:
    recovery.begin(JOB, 0.0, means=ALL, plan=Plan(history=False, hold=True), lossy=True)
    assert recovery.lost() == [Announce(JOB)]


def test_of_a_job_that_had_ended_only_the_outcome_is_wanted(recovery: Recovery[str]) -> None:
    steps = recovery.told_ended(JOB, "success", 0.0, means=WATCHED, history=False)
    assert steps == [Attach(JOB, True, None, False)]
    assert recovery.wants(JOB, of_result=True)
    assert not recovery.wants(JOB, of_result=False)
    assert recovery.wants("job_2", of_result=False)


def test_a_new_job_is_doubted_until_something_comes_of_it(recovery: Recovery[str]) -> None:
    recovery.doubt(JOB, 0.0, means=WATCHED)
    recovery.seen(JOB, 0.1)
    assert not recovery.busy
    recovery.doubt(JOB, 0.0, means=WATCHED)
    assert recovery.tick(PATIENCE) == [Attach(JOB, True, None, False)]


def test_a_job_that_was_cancelled_before_it_began_is_cancelled(recovery: Recovery[str]) -> None:
    recovery.cancelled(JOB, 0.0, means=Means(attach=False))
    assert recovery.tick(PATIENCE) == [Look(JOB)]
    assert given_up(recovery.looked(JOB, "pending", 2.0)) == "cancelled"


def test_a_job_that_takes_its_time_to_stop_is_followed(recovery: Recovery[str]) -> None:
    recovery.cancelled(JOB, 0.0, means=Means(attach=False))
    recovery.tick(PATIENCE)
    assert recovery.looked(JOB, "running", 2.0) == []
    assert recovery.rung(JOB) is Rung.FOLLOWING


def test_answers_that_come_too_late_change_nothing(recovery: Recovery[str]) -> None:
    after_a_drop(recovery)
    recovery.ended(JOB)
    assert recovery.attached(JOB, "success", 1.0) == []
    assert recovery.looked(JOB, None, 1.0) == []
    assert recovery.fetched(JOB, JOB, 1.0) == []
    assert recovery.refused(asking(Ask.ATTACH), JobNotFound(), 1.0) == []
    assert recovery.tick(1e6) == []


def test_silence_is_looked_after_less_and_less_often(recovery: Recovery[str]) -> None:
    after_a_drop(recovery)
    recovery.attached(JOB, "running", 0.0)
    waits = []
    now = 0.0
    for _ in range(6):
        deadline = recovery.deadline
        assert deadline is not None
        waits.append(deadline - now)
        now = deadline
        assert recovery.tick(now) == [Attach(JOB, False, None, False)]
        recovery.attached(JOB, "running", now)
    assert waits == [15.0, 30.0, 60.0, 120.0, 240.0, 240.0]
    recovery.seen(JOB, now)
    assert recovery.deadline == now + QUIET
