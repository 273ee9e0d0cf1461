"""A job that is watched no longer: its runtime is told until it has read it (§7.6)."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client._protocol import actions
from arcp_client._protocol.exchange import UNSUBSCRIBING
from arcp_client._wire import names
from tests.unit.protocol.kit import JOB, Strict


def watched() -> Strict:
    """A table at which a job is watched from its beginning, and two events of it were seen."""
    table = Strict()
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.confirm(JOB)
    for n in range(2):
        table.event(n + 1, JOB, n, id=f"{JOB}.{n}")
    table.sent.clear()
    return table


def leave(table: Strict) -> None:
    table.session.unsubscribe(JOB, table.now)
    table.do()


def said(table: Strict, kind: str) -> list[dict[str, Any]]:
    return [frame for frame in table.sent if frame["type"] == kind]


def pong(table: Strict) -> None:
    """The runtime has read everything up to the last ping."""
    nonce = said(table, names.PING)[-1]["payload"]["nonce"]
    table.sent.clear()
    table.hear({"type": names.PONG, "payload": {"ping_nonce": nonce}})


def test_what_still_comes_of_a_job_that_is_watched_no_longer_is_not_delivered() -> None:
    table = watched()
    leave(table)
    table.event(3, JOB, 2)
    table.event(4, "job_other", 7)
    pong(table)
    assert table.numbers == [0, 1, 7]
    assert table.session.received == 4, "its number counts all the same"


def test_what_was_said_to_a_link_that_is_gone_is_said_again() -> None:
    table = watched()
    leave(table)
    table.cut()
    table.sent.clear()
    table.connect()
    assert [frame["payload"]["job_id"] for frame in said(table, names.UNSUBSCRIBE)] == [JOB]
    pong(table)
    table.cut()
    table.sent.clear()
    table.connect()
    assert said(table, names.UNSUBSCRIBE) == [], "it was read"


def test_what_was_meant_to_be_left_while_there_was_no_link_is_said_on_the_next_one() -> None:
    table = watched()
    table.cut()
    leave(table)
    table.connect()
    assert len(said(table, names.UNSUBSCRIBE)) == 1


def test_a_new_session_has_nothing_to_leave() -> None:
    table = watched()
    leave(table)
    table.cut()
    table.hello()
    table.error(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.connect(session_id="sess_2")
    assert said(table, names.UNSUBSCRIBE) == []
    table.event(1, JOB, 5)
    assert table.numbers[-1] == 5


def test_a_job_is_watched_anew_once_the_old_watch_has_ended() -> None:
    table = watched()
    leave(table)
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    assert said(table, names.SUBSCRIBE) == []
    table.event(3, JOB, 2, id=f"{JOB}.2")  # of the old watch: the history brings it in its place
    pong(table)
    table.confirm(JOB)
    for n in range(4):
        table.event(4 + n, JOB, n, id=f"{JOB}.{n}")
    assert table.numbers == [0, 1, 0, 1, 2, 3]


def test_a_runtime_that_names_no_ping_in_its_answer_is_believed() -> None:
    table = watched()
    leave(table)
    table.hear({"type": names.PONG, "payload": {}})
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    assert len(said(table, names.SUBSCRIBE)) == 1


def test_copies_that_may_still_come_are_over_before_a_job_is_told_anew() -> None:
    table = Strict()
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.cut()
    table.connect()
    first = table.said(names.SUBSCRIBE)
    for seq in (1, 2):
        if seq == 2:  # the replay is over, the answer to what was sent again is on its way
            table.confirmed(first, "success")
            table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
        table.event(2 * seq - 1, JOB, 0, id=f"{JOB}.0")
        table.result(2 * seq, JOB, id=f"{JOB}.end")
    assert table.numbers == [0, "result"]
    pong(table)
    table.confirm(JOB, "success")
    table.event(5, JOB, 0, id=f"{JOB}.0")
    table.result(6, JOB, id=f"{JOB}.end")
    assert table.numbers == [0, "result"] * 2


def test_only_so_many_are_remembered() -> None:
    table = Strict()
    jobs = [f"job_{n}" for n in range(UNSUBSCRIBING + 1)]
    for job_id in jobs:
        table.ask(names.SUBSCRIBE, job_id=job_id, history=False)
        table.confirm(job_id)
    table.cut()
    for job_id in jobs:
        table.session.unsubscribe(job_id, table.now)
    table.connect()
    assert [frame["payload"]["job_id"] for frame in said(table, names.UNSUBSCRIBE)] == jobs[1:]


@pytest.mark.parametrize("linked", [True, False])
def test_without_a_heartbeat_the_runtime_is_taken_to_have_read_it(linked: bool) -> None:
    table = Strict(features=(names.SUBSCRIPTIONS,))
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.confirm(JOB)
    if not linked:
        table.cut()
    leave(table)
    if not linked:
        table.connect()
    assert len(said(table, names.UNSUBSCRIBE)) == 1
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    assert len(said(table, names.SUBSCRIBE)) == 1


def test_each_watch_ends_with_the_answer_behind_its_own_unsubscribe() -> None:
    table = watched()
    table.ask(names.SUBSCRIBE, job_id="job_b", history=True)
    table.confirm("job_b")
    leave(table)
    first = said(table, names.PING)
    table.session.unsubscribe("job_b", table.now)
    table.do()
    table.sent.clear()
    nonce = first[-1]["payload"]["nonce"]
    table.hear({"type": names.PONG, "payload": {"ping_nonce": nonce}})
    for job_id in (JOB, "job_b"):
        table.ask(names.SUBSCRIBE, job_id=job_id, history=True)
    asked = [frame["payload"]["job_id"] for frame in said(table, names.SUBSCRIBE)]
    assert asked == [JOB]


@pytest.mark.parametrize("spoken", ["arcp-client", "python", "java", "go"])
def test_a_subscription_that_is_not_answered_in_time_is_ended(spoken: str) -> None:
    table = Strict(spoken=spoken)
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.said(names.SUBSCRIBE)
    table.wait(30)
    assert len(table.of(actions.Refused)) == 1
    assert [frame["payload"]["job_id"] for frame in said(table, names.UNSUBSCRIBE)] == [JOB]
    for seq, number in enumerate((1, 2, 1, 2), 1):  # what was read twice, over two links
        table.event(seq, JOB, number, id=f"{JOB}.{number}")
    assert table.events == []
    table.alive(0.1)
    table.sent.clear()
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    subscribe = table.said(names.SUBSCRIBE)
    for seq, number in enumerate((1, 2), 5):
        table.event(seq, JOB, number, id=f"{JOB}.{number}")
    table.confirmed(subscribe)
    table.alive(0.1)
    assert table.numbers == [1, 2]


def test_what_is_watched_otherwise_is_watched_on() -> None:
    table = watched()
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.said(names.SUBSCRIBE)
    table.alive(30)
    assert said(table, names.UNSUBSCRIBE) == []
    table.event(3, JOB, 2, id=f"{JOB}.2")
    assert table.numbers[-1] == 2


def test_one_that_was_never_sent_has_nothing_to_end() -> None:
    table = Strict()
    table.cut()
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    table.wait(30)
    table.connect()
    assert said(table, names.UNSUBSCRIBE) == []


@pytest.mark.parametrize("spoken", ["python", "typescript", "csharp"])
def test_a_plan_that_waits_for_its_turn_asks_for_nothing_once_its_job_is_left(spoken: str) -> None:
    """These runtimes get one request at a time."""
    table = Strict(spoken=spoken)
    for job_id in ("job_a", "job_b"):
        table.ask(names.SUBSCRIBE, job_id=job_id)
        table.confirm(job_id)
        table.sent.clear()  # pings
    table.cut()
    table.connect(session_id="another")
    subscribe = table.said(names.SUBSCRIBE)
    assert subscribe["payload"]["job_id"] == "job_a"
    table.session.unsubscribe("job_b", table.now)
    table.do()
    table.confirmed(subscribe)
    table.alive(20)
    assert "job_b" not in [frame["payload"]["job_id"] for frame in said(table, names.SUBSCRIBE)]
