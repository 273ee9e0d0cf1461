"""The plans by themselves: how a job is led back to its outcome, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client._protocol.jobs import JobState
from arcp_client._protocol.plans import (
    LONGEST_QUIET,
    PATIENCE,
    QUIET,
    TRIES,
    AwaitSilence,
    AwaitTerminal,
    Backoff,
    EventsLost,
    GiveUp,
    ListJobs,
    Means,
    OnlyOutcome,
    Plan,
    Recover,
    ReleaseTerminal,
    Resubmit,
    StepRefused,
    Subscribe,
    await_outcome,
    expect_first_event,
    recover,
    watch_cancelled,
)
from arcp_client.errors import (
    FeatureNotNegotiated,
    InvalidRequest,
    JobNotFound,
    PermissionDenied,
    RequestError,
    RequestTimeout,
    UnknownCode,
)
from tests.interop.rules import rule

ALL = Means(resubmit=True)
WATCHED = Means()
AFTER_A_DROP = Recover(history=False, may_have_lost_events=True, resubscribe=True)
ENDED = ["success", "error", "cancelled", "timed_out"]


class Run:
    """A plan on its way; steps that need no answer are noted and passed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.done: list[object] = []
        self.step: Any = None
        self.over = False
        self.answer(None)

    def answer(self, value: object) -> Any:
        """Answer the present step; gives the next one that needs an answer, None at the end."""
        try:
            if isinstance(value, RequestError):
                self.step = self._plan.throw(StepRefused(value))
            else:
                self.step = self._plan.send(value)
            while isinstance(self.step, EventsLost | ReleaseTerminal | OnlyOutcome):
                self.done.append(self.step)
                self.step = self._plan.send(None)
        except StopIteration:
            self.step, self.over = None, True
        return self.step


def after_a_drop(means: Means = ALL, needs: Recover = AFTER_A_DROP) -> Run:
    """A job of the session, over the link that was resumed."""
    run = Run(recover(JobState("job_1"), means, needs=needs))
    assert run.step == Subscribe(history=False, resubscribe=True)
    return run


def given_up(step: object) -> str:
    """The status with which the job was given up."""
    assert isinstance(step, GiveUp)
    return step.status


def test_a_running_job_is_watched_and_its_loss_is_announced() -> None:
    run = after_a_drop()
    assert run.answer("running") == AwaitSilence(QUIET, confirmed=True)
    assert run.done == [EventsLost(), ReleaseTerminal()]
    assert run.answer(False) == Subscribe()
    assert run.answer("running") == AwaitSilence(2 * QUIET, confirmed=True)


def test_a_job_whose_events_are_known_to_come_is_not_watched() -> None:
    run = Run(
        recover(JobState("job_1"), ALL, needs=Recover(history=True, after=7, poll_if_silent=False))
    )
    assert run.step == Subscribe(history=True, after=7)
    run.answer("running")
    assert run.over


def test_a_job_that_has_not_begun_has_lost_nothing() -> None:
    run = after_a_drop()
    run.answer("pending")
    assert EventsLost() not in run.done


@pytest.mark.parametrize("status", ENDED)
@rule("accept-22")
def test_the_stored_outcome_of_an_ended_job_is_fetched(status: str) -> None:
    run = after_a_drop()
    assert run.answer(status) == Resubmit()
    assert run.done == [EventsLost(), ReleaseTerminal()]
    assert run.answer("job_1") == AwaitTerminal()


@pytest.mark.parametrize("status", ENDED)
@rule("accept-19")
def test_an_outcome_that_does_not_follow_is_given_up_with_its_status(status: str) -> None:
    run = after_a_drop()
    run.answer(status)
    run.answer("job_1")
    assert given_up(run.answer(None)) == status


def test_without_a_key_the_history_is_asked_for_the_outcome() -> None:
    run = after_a_drop(WATCHED)
    assert run.answer("success") == Subscribe(history=True)
    assert run.answer("success") == AwaitTerminal()
    assert given_up(run.answer(None)) == "success"


def test_of_a_job_watched_from_now_on_a_history_brings_only_the_outcome() -> None:
    job = JobState("job_1", from_now_on=True)
    run = Run(recover(job, WATCHED, needs=Recover(history=False, poll_if_silent=False)))
    assert run.answer("success") == Subscribe(history=True)
    assert OnlyOutcome() in run.done


def test_a_forgotten_key_leads_to_the_history() -> None:
    run = after_a_drop()
    run.answer("success")
    assert run.answer("job_2") == Subscribe(history=True)


def test_a_refused_key_leads_to_the_history_and_an_unanswered_one_to_watching() -> None:
    run = after_a_drop()
    run.answer("success")
    assert run.answer(InvalidRequest("no")) == Subscribe(history=True)
    run = after_a_drop()
    run.answer("success")
    assert run.answer(RequestTimeout()) == AwaitSilence(QUIET, confirmed=True)


def test_an_unknown_job_is_given_up_without_a_status() -> None:
    run = after_a_drop()
    assert given_up(run.answer(JobNotFound("gone"))) == ""
    run = after_a_drop()  # also if it was known to run before
    run.answer("running")
    run.answer(False)
    assert given_up(run.answer(JobNotFound("gone"))) == ""


@pytest.mark.parametrize("error", [RequestTimeout(), PermissionDenied(), InvalidRequest()])
def test_after_any_other_refusal_the_listing_is_asked(error: RequestError) -> None:
    run = after_a_drop()
    assert run.answer(error) == ListJobs()
    assert run.answer("running") == AwaitSilence(QUIET)
    assert EventsLost() in run.done


def test_a_refusal_that_may_pass_is_tried_again_a_few_times() -> None:
    run = after_a_drop()
    for _ in range(TRIES - 1):
        assert run.answer(UnknownCode("busy", retryable=True)) == Backoff(PATIENCE)
        assert run.answer(None) == Subscribe()
    assert run.answer(UnknownCode("busy", retryable=True)) == ListJobs()


def test_a_subscription_that_was_refused_makes_the_job_watched() -> None:
    run = Run(recover(JobState("job_1"), ALL, needs=Recover(history=True, poll_if_silent=False)))
    run.answer(PermissionDenied())
    assert run.answer("running") == AwaitSilence(QUIET)


def test_a_listing_shows_that_a_job_has_ended() -> None:
    run = after_a_drop()
    run.answer(PermissionDenied())
    assert run.answer("cancelled") == Resubmit()


def test_a_job_that_is_not_listed_is_given_up() -> None:
    run = after_a_drop()
    run.answer(PermissionDenied())
    assert given_up(run.answer(None)) == ""


def test_a_job_that_is_not_listed_may_have_ended_where_the_listing_is_asked_first() -> None:
    run = Run(
        recover(JobState("job_1"), ALL, needs=Recover(history=False, after=3, list_first=True))
    )
    assert run.step == ListJobs()
    assert run.answer(None) == Subscribe(history=True, after=3)


def test_silence_is_no_reason_to_give_up() -> None:
    run = after_a_drop(WATCHED)
    assert run.answer(RequestTimeout()) == ListJobs()
    assert run.answer(RequestTimeout()) == AwaitSilence(QUIET)
    assert run.answer(False) == Subscribe()


def test_with_nothing_but_the_key_it_is_resubmitted_again_and_again() -> None:
    only_key = Means(subscribe=False, list=False, resubmit=True)
    run = Run(
        recover(
            JobState("job_1"), only_key, needs=Recover(history=False, may_have_lost_events=True)
        )
    )
    assert run.step == Resubmit()
    assert run.done == [EventsLost()]
    assert run.answer("job_1") == AwaitTerminal()
    assert run.answer(None) == AwaitSilence(QUIET), "it still runs: its outcome is not stored yet"
    assert run.answer(False) == Resubmit()


def test_a_runtime_without_subscriptions_is_asked_for_its_listing() -> None:
    run = Run(recover(JobState("job_1"), Means(subscribe=False), needs=AFTER_A_DROP))
    assert run.step == ListJobs()
    assert run.answer(FeatureNotNegotiated()) == AwaitSilence(QUIET)


def test_of_a_job_that_had_ended_only_the_outcome_is_wanted() -> None:
    run = Run(await_outcome(JobState("job_1"), WATCHED, status="success", history=False))
    assert run.done == [OnlyOutcome()]
    assert run.step == Subscribe(history=True)


def test_with_its_history_asked_for_the_outcome_is_awaited() -> None:
    run = Run(await_outcome(JobState("job_1"), WATCHED, status="success", history=True))
    assert run.step == AwaitTerminal()


def test_a_new_job_is_expected_to_say_something_soon() -> None:
    run = Run(expect_first_event(JobState("job_1"), WATCHED))
    assert run.step == AwaitSilence(PATIENCE, until_first=True)
    assert run.answer(False) == Subscribe(history=True)


def test_a_job_that_was_cancelled_before_it_began_is_cancelled() -> None:
    run = Run(watch_cancelled(JobState("job_1", cancelled=True), ALL))
    assert run.step == AwaitSilence(PATIENCE)
    assert run.answer(False) == ListJobs()
    assert given_up(run.answer("pending")) == "cancelled"


def test_a_job_that_takes_its_time_to_stop_is_watched() -> None:
    run = Run(watch_cancelled(JobState("job_1", cancelled=True), ALL))
    run.answer(False)
    assert run.answer("running") == AwaitSilence(QUIET)


def test_a_silent_job_is_looked_after_less_and_less_often() -> None:
    run = after_a_drop()
    waits = []
    step = run.answer("running")
    for _ in range(6):
        waits.append(step.seconds)
        assert run.answer(False) == Subscribe()
        step = run.answer("running")
    assert waits == [15.0, 30.0, 60.0, 120.0, LONGEST_QUIET, LONGEST_QUIET]
    assert run.answer(True) == AwaitSilence(QUIET, confirmed=True), (
        "something came: the waits begin anew"
    )


@pytest.mark.parametrize("error", [InvalidRequest("no"), PermissionDenied("no")])
def test_what_can_neither_be_subscribed_to_nor_listed_is_given_up(error: RequestError) -> None:
    run = Run(recover(JobState("job_1"), Means(list=False), needs=Recover(history=True)))
    assert run.step == Subscribe(history=True)
    assert given_up(run.answer(error)) == ""


def test_so_it_is_watched_if_there_was_no_answer() -> None:
    run = Run(recover(JobState("job_1"), Means(list=False), needs=Recover(history=True)))
    assert run.answer(RequestTimeout("late")) == AwaitSilence(QUIET)


def test_a_plan_is_over_once_it_has_given_up() -> None:
    run = Run(recover(JobState("job_1"), WATCHED, needs=Recover(history=True)))
    assert run.answer("success") == AwaitTerminal()
    assert given_up(run.answer(None)) == "success"
    run.answer(None)
    assert run.over


def test_a_subscription_that_is_refused_for_now_is_sent_five_times_within_eight_seconds() -> None:
    run = Run(recover(JobState("job_1"), WATCHED, needs=Recover(history=True)))
    steps = []
    while not isinstance(run.step, ListJobs):
        steps.append(run.step)
        busy = UnknownCode("busy", code="BUSY", retryable=True)
        run.answer(busy if isinstance(run.step, Subscribe) else None)
    assert steps.count(Backoff(2.0)) == 4
    assert sum(isinstance(step, Subscribe) for step in steps) == 5
