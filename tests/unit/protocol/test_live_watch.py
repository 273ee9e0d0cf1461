"""A job that is watched from now on: of its past nothing is wanted, also after the link dropped."""

from __future__ import annotations

import pytest

from arcp_client._protocol import actions
from arcp_client._wire import names
from arcp_client.errors import ResultUnavailable
from arcp_client.events import Gap, ResultChunk
from tests.dialects import ALL
from tests.unit.protocol.scripted import Table

A = "job_a"


class Watcher(Table):
    """A table at which somebody watches a job from its fifth event on.

    Args:
        spoken: the runtime's dialect.
        seen: how many events came since.
    """

    def __init__(self, spoken: str, *, seen: int = 2) -> None:
        super().__init__(spoken)
        self.seq = 0
        self.ask(names.SUBSCRIBE, job_id=A, history=False)
        self.confirm(A)
        self.say(*range(5, 5 + seen))

    def say(self, *numbers: int) -> None:
        """Events of the job come, each always under the same id."""
        for number in numbers:
            self.seq += 1
            self.event(self.seq, A, number, id=f"{A}.{number}")

    def chunk(self, number: int) -> None:
        """A piece of the job's result comes."""
        self.seq += 1
        body = {"result_id": "r", "chunk_seq": 0, "data": "x", "encoding": "utf8", "more": True}
        payload = {
            "kind": "result_chunk",
            "ts": f"2026-01-01T00:01:{number:02d}.000001Z",
            "body": body,
        }
        frame = {"type": names.EVENT, "id": f"{A}.{number}", "job_id": A, "payload": payload}
        self.hear({**frame, "event_seq": self.seq})

    def fresh(self) -> dict[str, object]:
        """The session is gone, and there is a new one; gives the subscription in it."""
        self.cut()
        while "resume" in self.hello()["payload"]:
            self.error(names.RESUME_WINDOW_EXPIRED)
            self.cut()
        self.cut()
        self.seq = 0
        self.connect(session_id=f"{self.id}.next")
        return self.said(names.SUBSCRIBE)


def over(table: Watcher, subscribe: dict[str, object], *past: int) -> None:
    """The history comes, where the dialect has it, and the confirmation."""
    first = table.spoken in ("python", "typescript", "ruby")
    if first:
        table.say(*past)
    table.confirmed(subscribe)
    if not first:
        table.say(*past)
    for ping in [frame for frame in table.sent if frame["type"] == names.PING]:
        table.sent.remove(ping)
        pong = {"ping_nonce": ping["payload"]["nonce"]}
        table.hear({"type": names.PONG, "payload": pong})


@pytest.mark.parametrize("spoken", ALL)
def test_a_new_session_brings_what_was_missed_and_none_of_the_past(spoken: str) -> None:
    table = Watcher(spoken)
    subscribe = table.fresh()
    assert subscribe["payload"] == {"job_id": A, "history": True}
    over(table, subscribe, 1, 2, 3, 4, 5, 6, 7, 8)
    table.say(9)
    assert table.numbers == [5, 6, "gap", 7, 8, 9]


def test_what_came_after_the_last_event_is_told_by_its_time_where_that_is_forgotten() -> None:
    table = Watcher("arcp-client")
    over(table, table.fresh(), 3, 4, 8)
    assert table.numbers == [5, 6, "gap", 8]


@pytest.mark.parametrize("spoken", ["arcp-client", "go", "python"])
def test_if_nothing_had_come_no_history_is_asked_for(spoken: str) -> None:
    table = Watcher(spoken, seen=0)
    subscribe = table.fresh()
    assert subscribe["payload"] == {"job_id": A, "history": False}
    over(table, subscribe)
    table.say(7)
    assert table.numbers == ["gap", 7]


def test_where_a_drop_loses_what_was_said_only_that_is_asked_for() -> None:
    table = Watcher("python")
    table.cut()
    table.connect()
    table.said(names.UNSUBSCRIBE)
    over(table, table.said(names.SUBSCRIBE), 1, 2, 3, 4, 5, 6, 7)
    table.say(8)
    assert [number for number in table.numbers if number != "gap"] == [5, 6, 7, 8]


def test_pieces_of_the_result_come_all_the_same() -> None:
    table = Watcher("arcp-client")
    subscribe = table.fresh()
    table.confirmed(subscribe)
    table.say(3)
    table.chunk(4)
    table.say(7)
    kinds = [type(event).__name__ for event in table.events[2:]]
    assert kinds == [Gap.__name__, ResultChunk.__name__, "Progress"]


def test_if_it_ended_meanwhile_only_its_outcome_is_wanted() -> None:
    table = Watcher("arcp-client", seen=0)
    table.confirmed(table.fresh(), "success")
    again = table.said(names.SUBSCRIBE)
    assert again["payload"] == {"job_id": A, "history": True}
    table.confirmed(again, "success")
    table.say(5, 6)
    table.seq += 1
    table.result(table.seq, A)
    assert table.numbers == ["gap", "result"]
    assert table.of(actions.JobGone) == []


def test_a_watch_with_its_history_has_all_of_it_again() -> None:
    table = Table("arcp-client")
    table.ask(names.SUBSCRIBE, job_id=A, history=True)
    table.confirm(A)
    table.cut()
    table.hello()
    table.error(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.connect(session_id="sess_next")
    assert table.confirm(A)["payload"] == {"job_id": A, "history": True}
    for seq in (1, 2):
        table.event(seq, A, seq)
    assert table.numbers == ["gap", 1, 2]


def test_whoever_asked_for_the_history_once_is_not_deprived_of_it_by_a_second_watch() -> None:
    table = Table("arcp-client")
    for history in (True, False):
        table.ask(names.SUBSCRIBE, job_id=A, history=history)
        table.confirm(A)
    table.event(1, A, 5)
    table.cut()
    table.hello()
    table.error(names.RESUME_WINDOW_EXPIRED)
    table.cut()
    table.connect(session_id="sess_next")
    table.confirm(A)
    for seq, number in enumerate((4, 5, 6), start=1):
        table.event(seq, A, number)
    assert table.numbers[:3] == [5, "gap", 4]


def test_an_end_that_cannot_be_had_is_said_to_be_so() -> None:
    table = Watcher("java")
    table.confirmed(table.fresh(), "success")
    table.alive(60)
    (gone,) = table.of(actions.JobGone)
    assert isinstance(gone.error, ResultUnavailable)


def test_of_events_without_a_time_none_is_known_to_be_of_the_past() -> None:
    table = Table("arcp-client")
    table.ask(names.SUBSCRIBE, job_id=A, history=False)
    table.confirm(A)
    for seq in (1, 2):
        payload = {"kind": "progress", "body": {"current": seq}}
        frame = {"type": names.EVENT, "job_id": A, "event_seq": seq, "payload": payload}
        table.hear(frame)
    assert table.numbers == [1, 2]


def test_that_stays_so_over_a_lost_link() -> None:
    table = Watcher("arcp-client", seen=0)
    table.confirmed(table.fresh(), "success")
    table.confirm(A, "success")
    table.cut()
    table.connect()
    table.say(5, 6)  # the resume brings the rest of the history
    table.seq += 1
    table.result(table.seq, A)
    assert table.numbers == ["gap", "result"]
