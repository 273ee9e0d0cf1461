"""Recoveries that one more lost link interrupts, and histories that a resume brings (S13)."""

from __future__ import annotations

import itertools

import pytest

from arcp_client._dialects import DIALECTS
from arcp_client._protocol import actions
from arcp_client._protocol.plans import QUIET
from arcp_client._wire import names
from arcp_client.errors import ArcpError
from tests.property.peers import ALL, Play
from tests.unit.protocol.kit import JOB, Strict, live

SURVIVING = ["arcp-client", "go", "java", "unknown"]
RENAMING = ["python", "typescript", "java"]


def fresh_session(table: Strict, session_id: str = "sess_2") -> None:
    """The session is refused as expired, and there is a new one."""
    for _ in range(3):
        table.cut()
        if "resume" not in table.hello()["payload"]:
            break
        table.error(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.connect(session_id=session_id)


# ------------------------------------------------------------------ begun again


@pytest.mark.parametrize("spoken", SURVIVING)
def test_s13_a_subscription_that_did_not_take_effect_is_made_again(spoken: str) -> None:
    table = live(spoken=spoken)
    table.event(1, JOB, 1)
    fresh_session(table)
    first = table.said(names.SUBSCRIBE)["payload"]
    assert first == {"job_id": JOB, "history": True, "from_event_seq": 1}
    table.cut()
    table.connect()
    assert table.said(names.SUBSCRIBE)["payload"] == first


@pytest.mark.parametrize("spoken", ["csharp", "ruby"])
def test_s13_so_it_is_where_a_resumed_session_is_deaf(spoken: str) -> None:
    table = live(spoken=spoken)
    table.event(1, JOB, 1)
    fresh_session(table)
    first = table.said(names.SUBSCRIBE)["payload"]
    assert first["history"]
    table.cut()
    table.connect()
    assert table.said(names.SUBSCRIBE)["payload"] == first


def test_s13_a_confirmed_subscription_is_not_made_again() -> None:
    table = live()
    fresh_session(table)
    table.confirm(JOB)
    table.cut()
    table.connect()
    assert table.sent == []


def test_s13_a_swallowed_subscription_is_made_again_with_its_history_on_a_link_that_lives() -> None:
    table = live()
    table.event(1, JOB, 1)
    fresh_session(table)
    first = table.said(names.SUBSCRIBE)["payload"]
    table.alive(31)
    listing = table.said(names.LIST_JOBS)
    jobs = [{"job_id": JOB, "agent": "a", "status": "running"}]
    table.hear({"type": names.JOBS, "payload": {"request_id": listing["id"], "jobs": jobs}})
    table.alive(QUIET + 1)
    assert table.said(names.SUBSCRIBE)["payload"] == first


def test_s13_and_on_the_next_link_even_if_the_listing_said_that_it_runs() -> None:
    table = live()
    fresh_session(table)
    first = table.said(names.SUBSCRIBE)["payload"]
    table.alive(31)
    listing = table.said(names.LIST_JOBS)
    jobs = [{"job_id": JOB, "agent": "a", "status": "running"}]
    table.hear({"type": names.JOBS, "payload": {"request_id": listing["id"], "jobs": jobs}})
    table.cut()
    table.connect()
    assert table.said(names.SUBSCRIBE)["payload"] == first


def test_s13_an_outcome_that_is_wanted_late_is_wanted_in_the_next_session_too() -> None:
    table = live()
    table.session.request_outcome("job_old", table.now)
    table.do()
    assert table.said(names.SUBSCRIBE)["payload"]["job_id"] == "job_old"
    fresh_session(table)
    asked = [frame["payload"]["job_id"] for frame in table.sent]
    assert sorted(asked) == [JOB, "job_old"]


def test_s13_a_job_that_was_doubted_is_doubted_on_the_next_link() -> None:
    table = Strict(spoken="csharp")
    table.ask(names.SUBMIT, key="mine")
    table.accept(JOB)
    table.cut()
    table.connect()
    assert table.said(names.SUBSCRIBE)["payload"] == {"job_id": JOB, "history": True}


def test_s13_a_job_that_was_cancelled_before_it_began_is_cancelled_after_a_drop() -> None:
    python = Strict(spoken="python")
    python.submit()
    python.ask(names.CANCEL, job_id=JOB)
    python.alive(0.1)  # it takes the cancel in
    for _ in range(2):
        python.cut()
        python.connect()
        python.said(names.UNSUBSCRIBE)
    python.confirm(JOB, "pending")
    (gone,) = python.of(actions.JobGone)
    assert gone.status == "cancelled"


def test_a_step_about_a_job_that_a_step_before_it_ended_is_not_taken() -> None:
    python = Strict(spoken="python")
    python.submit()
    python.event(1, JOB, 1)
    python.cut()
    python.connect()
    python.said(names.UNSUBSCRIBE)
    subscribe = python.said(names.SUBSCRIBE)
    python.result(4, JOB)  # behind a hole; telling the loss lets it go
    python.confirmed(subscribe, "success")
    assert python.numbers == [1, "gap", "result"]
    assert python.sent == []


# ------------------------------------------------------------------ at most once


@pytest.mark.parametrize("spoken", ["java", "go", "arcp-client"])
def test_s6_a_job_whose_events_come_before_its_acceptance_is_of_this_session(spoken: str) -> None:
    table = Strict(spoken=spoken)
    table.ask(names.SUBMIT)
    fresh_session(table)
    table.cut()  # the acceptance has no number: no resume brings it
    table.connect()
    for number in (1, 2):
        table.event(number, JOB, number)
    table.sent = [frame for frame in table.sent if frame["type"] == names.SUBMIT]
    table.accept(JOB)
    table.event(3, JOB, 3)
    assert table.sent == []  # a history would bring all of it again
    assert table.numbers == ["gap", 1, 2, 3]


def test_s6_a_job_under_a_callers_key_is_not_doubted_once_its_events_came() -> None:
    java = Strict(spoken="java")
    java.ask(names.SUBMIT, key="mine")
    java.event(1, JOB, 1)
    java.accept(JOB)
    assert java.sent == []


def test_s6_events_of_the_session_before_say_nothing_of_a_job_in_the_next_one() -> None:
    java = Strict(spoken="java")
    java.ask(names.SUBMIT)
    java.event(1, JOB, 1)
    fresh_session(java)
    java.accept(JOB)
    assert java.said(names.SUBSCRIBE)["payload"] == {"job_id": JOB, "history": True}


@pytest.mark.parametrize("spoken", RENAMING)
def test_s13_a_history_that_the_next_resume_brings_repeats_nothing(spoken: str) -> None:
    table = Strict(spoken=spoken)
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    subscribe = table.said(names.SUBSCRIBE)
    for number in (1, 2, 3):
        table.event(number, JOB, number)
    table.confirmed(subscribe)
    table.alive(0.1)
    fresh_session(table)
    table.sent.clear()
    table.cut()  # the history was sent, and never came
    table.connect()
    for number in (1, 2, 3):
        table.event(number, JOB, number)
    table.sent = [frame for frame in table.sent if frame["type"] == names.SUBSCRIBE]
    subscribe = table.said(names.SUBSCRIBE)
    for seq, number in enumerate((1, 2, 3, 4), start=4):
        table.event(seq, JOB, number)
    table.confirmed(subscribe)
    table.alive(10.1)
    assert table.numbers[:5] == [1, 2, 3, "gap", 4]
    assert table.numbers[5:] in ([], ["gap"])  # where a drop may have lost more


@pytest.mark.parametrize("spoken", RENAMING)
def test_s13_what_a_resume_brings_of_a_watched_job_is_not_told_again_by_its_history(
    spoken: str,
) -> None:
    table = Strict(spoken=spoken)
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.confirm(JOB)
    table.event(1, JOB, 1)
    table.alive(0.1)
    table.cut()
    table.connect()
    subscribes = [frame for frame in table.sent if frame["type"] == names.SUBSCRIBE]
    table.event(2, JOB, 2)  # was sent over the link before
    if subscribes:
        for seq, number in enumerate((1, 2, 3), start=3):
            table.event(seq, JOB, number)
        table.confirmed(subscribes[0])
    else:
        table.event(3, JOB, 3)
    table.alive(3)
    numbers = [number for number in table.numbers if number != "gap"]
    assert numbers == [1, 2, 3]


def test_s13_equal_events_of_a_history_are_two_if_they_are_new() -> None:
    table = Strict(spoken="typescript")
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    subscribe = table.said(names.SUBSCRIBE)
    for seq in (1, 2):
        table.event(seq, JOB, 7)
    table.confirmed(subscribe)
    assert table.numbers == [7, 7]


def test_s13_nothing_is_asked_for_a_job_whose_end_the_replay_brought() -> None:
    python = Strict(spoken="python")
    for job_id in (JOB, "job_b"):
        python.ask(names.SUBSCRIBE, job_id=job_id, history=True)
        python.confirm(job_id)
    python.cut()
    python.connect()
    python.said(names.UNSUBSCRIBE)
    subscribe = python.said(names.SUBSCRIBE)
    python.result(1, "job_b")
    python.confirmed(subscribe)
    assert python.sent == []


# ------------------------------------------------------------------ every rung, every cut

RUNGS = {
    "subscribing": (ALL, "runs", False),
    "fetching": (ALL, "ends", False),
    "listing": (("list_jobs", "heartbeat"), "runs", False),
    "blind": (("heartbeat",), "ends", False),
    "backoff": (ALL, "runs", True),
}
"""What the runtime offers, what the job does meanwhile, and whether subscriptions are put off."""
CUTS = ["before", "after", "answered"]


@pytest.mark.parametrize("spoken", DIALECTS)
@pytest.mark.parametrize("rung", RUNGS)
def test_s13_a_cut_at_any_step_ends_with_the_outcome_or_a_typed_error(
    spoken: str, rung: str
) -> None:
    features, meanwhile, busy = RUNGS[rung]
    if spoken == "typescript" and rung == "blind":
        pytest.skip("it sends nothing of a job that a drop ended, and cannot be asked")
    ways = itertools.product([True, False], range(3), CUTS, [True, False])
    for first_resumed, step, cut, then_resumed in ways:
        play = Play(spoken, features=features)
        play.up()
        play.submit()
        play.flow()
        (job,) = play.peer.jobs.values()
        play.peer.emit(job)
        play.flow()
        play.cut()
        play.peer.emit(job, end=meanwhile == "ends")
        _up(play, resumed=first_resumed)
        play.peer.busy = 6 if busy else 0
        _cut_at(play, step, cut)
        _up(play, resumed=then_resumed)
        try:
            play.finish()
        except AssertionError as failure:
            failure.add_note(f"{first_resumed=} {step=} {cut=} {then_resumed=}\n{play.report()}")
            raise
        assert all(isinstance(error, ArcpError) for error in play.gone.values())


def _up(play: Play, *, resumed: bool) -> None:
    """A link is live; what it asks for first is still on its way."""
    if not resumed:
        play.peer.forget_sessions()
    for _ in range(8):
        play.connect()
        play.read()
        while play.peer.wire and play.linked:
            play.hear()
        if play.session.state.value == "live" and not play.relink:
            return
        play.cut()
    raise AssertionError("no session is to be had")


def _cut_at(play: Play, step: int, cut: str) -> None:
    """Cut the link at the nth request, counted from 0; at the last one, if there are fewer."""
    for _ in range(step):
        for _ in range(20):
            if not play.peer.inbox:
                play.wait(2.1)
            if play.peer.inbox:
                break
        if play.peer.inbox:
            play.read()
        while play.peer.wire:
            play.hear()
    if cut != "before" and play.peer.inbox:
        play.read()
    if cut == "answered":
        while play.peer.wire:
            play.hear()
    play.cut()


@pytest.mark.parametrize("spoken", ["python", "typescript"])
def test_s13_a_history_is_asked_for_again_from_where_it_was_asked_for(spoken: str) -> None:
    table = live(spoken=spoken)
    table.event(1, JOB, 1)
    table.event(2, JOB, 2)
    fresh_session(table)
    first = table.said(names.SUBSCRIBE)["payload"]
    assert first == {"job_id": JOB, "history": True, "from_event_seq": 2}
    table.cut()
    table.connect()
    (again,) = [frame for frame in table.sent if frame["type"] == names.SUBSCRIBE]
    assert again["payload"] == first
