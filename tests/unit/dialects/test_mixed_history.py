"""Histories that come mixed up: what waits for their end, and in which order it goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client._dialects import recognise
from arcp_client._dialects._mixed_history import LONGEST, PAUSE
from arcp_client._protocol import actions
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame, instant
from arcp_client.events import Event, Gap
from tests.interop.rules import rule
from tests.unit.protocol.scripted import Table

A, B = "job_a", "job_b"
JUST_NOW = "2026-01-01T00:00:00.000000"


class Go(Table):
    """A table at which a runtime sits that mixes histories."""

    def __init__(self) -> None:
        super().__init__("go")
        self.seq = 0

    def event(self, seq: int | None, job_id: str, number: int, **fields: Any) -> None:
        """As a table does, with the next number and always the same id for the same event."""
        self.seq += 1
        super().event(self.seq, job_id, number, id=f"{job_id}.{number}", **fields)

    def end(self, job_id: str) -> None:
        """A job succeeds."""
        self.seq += 1
        self.result(self.seq, job_id)

    def watch(self, job_id: str = A) -> str:
        """A job is watched with its history, and that is confirmed; gives the ping's nonce."""
        self.ask(names.SUBSCRIBE, job_id=job_id, history=True)
        subscribe, ping = self.said(names.SUBSCRIBE), self.said(names.PING)
        self.confirmed(subscribe)
        return str(ping["payload"]["nonce"])

    def pong(self, nonce: str) -> None:
        """The runtime has come to the ping."""
        self.hear({"type": names.PONG, "payload": {"ping_nonce": nonce}})

    @property
    def came(self) -> list[tuple[str | None, Any]]:
        """What was delivered: jobs, and numbers of progress or the kind of the end."""
        return [(e.job_id, getattr(e, "current", e.kind)) for e in self.events]


class Java(Go):
    """A table at which a runtime sits that numbers and sends live events among a history."""

    def __init__(self) -> None:
        Table.__init__(self, "java")
        self.seq = 0

    def numbered(self, seq: int, number: int) -> None:
        """An event of the watched job, under the number that the runtime gave it."""
        Table.event(self, seq, A, number, id=f"{A}.{number}")


@pytest.fixture
def go() -> Go:
    return Go()


@rule("go: histories")
@rule("note-5")
@rule("accept-20")
def test_what_comes_until_the_pong_is_delivered_by_its_times_and_once(go: Go) -> None:
    nonce = go.watch()
    for number in (4, 5, 1, 2, 3, 4, 5):
        go.event(None, A, number)
    assert go.events == []
    go.pong(nonce)
    assert go.numbers == [1, 2, 3, 4, 5]
    go.event(None, A, 6)
    assert go.numbers[-1] == 6


def test_a_live_event_that_comes_before_the_confirmation_belongs_behind_the_history(
    go: Go,
) -> None:
    go.ask(names.SUBSCRIBE, job_id=A, history=True)
    subscribe, ping = go.said(names.SUBSCRIBE), go.said(names.PING)
    go.event(None, A, 3)  # the runtime forwards live events before it confirms
    go.confirmed(subscribe)
    for number in (1, 2, 3):
        go.event(None, A, number)
    go.pong(ping["payload"]["nonce"])
    assert go.numbers == [1, 2, 3]


def test_without_a_history_nothing_waits(go: Go) -> None:
    go.ask(names.SUBSCRIBE, job_id=A, history=False)
    go.confirm(A)
    assert go.sent == []
    go.event(None, A, 2)
    go.event(None, A, 1)
    assert go.numbers == [2, 1]


@pytest.mark.parametrize("spoken", ["arcp-client", "unknown"])
def test_other_runtimes_are_taken_at_their_word(spoken: str) -> None:
    table = Table(spoken)
    table.ask(names.SUBSCRIBE, job_id=A, history=True)
    table.confirm(A)
    assert table.sent == []
    table.event(1, A, 2)
    table.event(2, A, 1)
    assert table.numbers == [2, 1]


@rule("note-5")
def test_numbers_go_up_though_events_change_places(go: Go) -> None:
    nonce = go.watch()
    for number in (3, 1, 2):
        go.event(None, A, number)
    go.pong(nonce)
    assert [(event.seq, event.current) for event in go.events] == [  # type: ignore[attr-defined]
        (1, 1),
        (2, 2),
        (3, 3),
    ]
    assert [event.raw["event_seq"] for event in go.events] == [2, 3, 1]  # as it was sent


def test_the_end_of_a_job_waits_for_its_past(go: Go) -> None:
    nonce = go.watch()
    go.event(None, A, 2)
    go.end(A)
    go.event(None, A, 1)
    assert go.events == []
    go.pong(nonce)
    assert go.numbers == [1, 2, "result"]


def test_other_jobs_keep_their_places(go: Go) -> None:
    nonce = go.watch()
    go.event(None, B, 9)
    go.event(None, A, 2)
    go.event(None, B, 3)
    go.event(None, A, 1)
    go.end(B)
    go.pong(nonce)
    assert go.came == [(B, 9), (A, 1), (B, 3), (A, 2), (B, "result")]


def test_what_comes_before_a_history_does_not_wait_for_it(go: Go) -> None:
    nonce = go.watch()
    for number in range(3):
        go.event(None, B, number)
        go.wait(2 * LONGEST)
    assert go.numbers == [0, 1, 2]
    assert go.session.received == 3
    go.event(None, A, 2)  # however late it begins
    go.event(None, A, 1)
    assert go.session.received == 3
    go.pong(nonce)
    assert go.numbers == [0, 1, 2, 1, 2]


def test_times_count_to_the_nanosecond(go: Go) -> None:
    nonce = go.watch()
    for number, fraction in ((2, "002"), (1, "001")):
        payload = {
            "kind": "progress",
            "ts": f"{JUST_NOW}{fraction}+00:00",
            "body": {"current": number},
        }
        go.seq += 1
        go.hear(
            {"type": names.EVENT, "job_id": A, "event_seq": go.seq, "payload": payload},
        )
    go.pong(nonce)
    assert go.numbers == [1, 2]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"ts": "1970-01-01T00:00:01.000000007Z"}, 1_000_000_007),
        ({"ts": "1970-01-01T01:00:00.5+01:00"}, 500_000_000),
        ({"ts": "yesterday", "kind": "log"}, None),
        ({"kind": "log"}, None),
        ({"kind": "log", "ts": None, "body": {"message": "\ud800"}}, None),
        ({"kind": "log", "ts": "1970-01-01T00:00:00Z", "body": {"message": "\ud800"}}, 0),
    ],
)
def test_an_instant_is_read_from_any_event(payload: dict[str, Any], expected: int | None) -> None:
    frame = {"type": names.EVENT, "id": "x", "job_id": A, "payload": payload}
    assert instant(json.dumps(frame).encode()) == expected


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"payload": 3}', b"[" * 100_000])
def test_what_is_no_event_has_no_instant(data: bytes) -> None:
    assert instant(data) is None


# ------------------------------------------------------------------ no wait without an end


@rule("note-5")
def test_without_the_pong_the_wait_ends_by_itself(go: Go) -> None:
    nonce = go.watch()
    go.event(None, A, 2)
    go.event(None, A, 1)
    go.wait(PAUSE)
    assert go.numbers == [1, 2]
    go.pong(nonce)
    go.event(None, A, 3)
    assert go.numbers == [1, 2, 3]


@rule("note-5")
def test_a_stream_that_never_pauses_does_not_prolong_the_wait_for_ever(go: Go) -> None:
    go.watch()
    for number in range(1, 20):
        go.event(None, A, number)
        go.wait(PAUSE / 2)
        if go.events:
            break
    assert go.numbers == list(range(1, number + 1))
    assert number <= 2 * LONGEST / PAUSE + 1


def test_what_nobody_reads_is_not_taken_for_the_end(go: Go) -> None:
    nonce = go.watch()
    go.event(None, A, 2)
    go.session.pause(go.now)
    go.wait(5 * LONGEST)
    assert go.events == []
    go.session.unpause(go.now)
    go.event(None, A, 1)
    go.pong(nonce)
    assert go.numbers == [1, 2]
    go.sent.clear()  # pings that went on
    go.watch(B)
    go.event(None, B, 3)
    go.session.pause(go.now)
    go.wait(5 * LONGEST)
    go.session.unpause(go.now)
    go.wait(LONGEST)
    assert go.numbers == [1, 2, 3]


def test_the_longest_wait_begins_with_the_history_and_anew_after_a_pause_of_the_reader(
    go: Go,
) -> None:
    def keeps_coming(number: int) -> None:
        """Events of less than the longest wait, none of them long after another."""
        for later in range(number, number + int(2 * LONGEST / PAUSE) - 1):
            go.event(None, A, later)
            assert go.events == []
            go.wait(PAUSE / 2)

    go.wait(3 * LONGEST)
    go.sent.clear()  # pings
    go.watch()
    keeps_coming(1)
    go.session.pause(go.now)
    go.wait(5 * LONGEST)
    deadline = go.session.peer.deadline
    assert deadline is not None
    assert deadline > go.now, "else the timer would not stop"
    go.session.unpause(go.now)
    keeps_coming(20)
    go.wait(PAUSE / 2)
    assert len(go.events) == 2 * (int(2 * LONGEST / PAUSE) - 1)


def test_after_a_history_without_a_pong_the_next_one_ends_with_its_own_pong(go: Go) -> None:
    go.watch()
    go.event(None, A, 1)
    go.wait(PAUSE)
    nonce = go.watch(B)
    go.event(None, A, 2)  # it comes before the next history begins
    assert go.came == [(A, 1), (A, 2)]
    go.event(None, B, 2)
    go.event(None, B, 1)
    assert go.came == [(A, 1), (A, 2)]
    go.pong(nonce)
    assert go.came == [(A, 1), (A, 2), (B, 1), (B, 2)]


def test_only_the_pong_that_ends_a_history_may_not_overtake_events(go: Go) -> None:
    def in_turn(nonce: object) -> bool:
        payload = {"ping_nonce": nonce}
        return go.session.in_turn(ControlFrame(type=names.PONG, payload=payload))

    go.ask(names.SUBSCRIBE, job_id=A, history=True)
    subscribe, ping = go.said(names.SUBSCRIBE), go.said(names.PING)
    nonce = ping["payload"]["nonce"]
    assert in_turn(nonce)
    go.confirmed(subscribe)
    assert in_turn(nonce)
    assert not any(map(in_turn, ["another", None, [], 7]))
    go.pong(nonce)
    assert not in_turn(nonce)


@rule("note-5")
def test_too_much_does_not_wait() -> None:
    go = Go()
    go.session = type(go.session)(recognise=recognise, limit=3)
    go.connect()
    go.sent.clear()
    go.watch()
    for number in (3, 2, 1):
        go.event(None, A, number)
    assert go.numbers == [1, 2, 3]


def test_a_refused_subscription_holds_nothing_up(go: Go) -> None:
    go.ask(names.SUBSCRIBE, job_id=A, history=True)
    go.said(names.SUBSCRIBE)
    ping = go.said(names.PING)
    go.error(names.JOB_NOT_FOUND)
    go.event(None, B, 1)
    assert go.numbers == [1]
    go.pong(ping["payload"]["nonce"])
    assert go.of(actions.Report) == []


def test_two_histories_at_once_end_with_the_later_one(go: Go) -> None:
    go.ask(names.SUBSCRIBE, job_id=A, history=True)
    go.ask(names.SUBSCRIBE, job_id=B, history=True)
    first, ping, second, pong = (go.sent.pop(0) for _ in range(4))
    go.confirmed(first)
    go.event(None, A, 2)
    go.event(None, A, 1)
    go.pong(ping["payload"]["nonce"])
    go.wait(PAUSE / 2)
    assert go.came == []
    go.confirmed(second)
    go.event(None, B, 2)
    go.event(None, B, 1)
    go.event(None, A, 3)
    go.pong(pong["payload"]["nonce"])
    assert go.came == [(A, 1), (A, 2), (B, 1), (B, 2), (A, 3)]


@pytest.mark.parametrize("how", ["cut", "close", "end"])
def test_whatever_ends_the_link_what_waits_is_delivered_first(go: Go, how: str) -> None:
    go.watch()
    go.event(None, A, 2)
    go.event(None, A, 1)
    go.end(A)
    if how == "cut":
        go.cut()
    elif how == "close":
        go.session.close(go.now)
        go.do()
    else:
        go.session.end(None)
        go.do()
    assert go.numbers == [1, 2, "result"]
    assert go.session.received == 3


def test_a_hole_is_reported_in_its_place(go: Go) -> None:
    nonce = go.watch()
    go.event(None, A, 2)
    go.seq += 1  # one is lost
    go.event(None, A, 1)
    go.pong(nonce)  # the history is sorted before its hole is looked for
    go.wait(2 * go.session.peer.hole_patience)
    assert go.of(actions.Relink)
    go.cut()
    assert go.numbers == [1]
    hello = go.connect()
    assert hello["payload"]["resume"]["last_event_seq"] == 1
    go.event(None, A, 1)
    go.alive(5)
    assert go.numbers == [1, "gap", 2]
    assert [e.seq for e in go.events if isinstance(e, Gap)] == [2]


# ------------------------------------------------------------------ how far everybody is


def test_what_waits_does_not_count_as_received(go: Go) -> None:
    go.event(None, A, 1)
    nonce = go.watch()
    go.event(None, A, 2)
    assert go.session.received == 1
    go.pong(nonce)
    assert go.session.received == 2


def test_a_history_that_was_sorted_is_processed_as_a_whole(go: Go) -> None:
    go.event(None, B, 1)
    nonce = go.watch()
    for number in (3, 1, 2):
        go.event(None, A, number)
    go.pong(nonce)
    go.event(None, A, 4)
    session = go.session
    assert [session.ackable(mark) for mark in range(6)] == [0, 1, 1, 1, 4, 5]
    assert session.ackable(2) == 2  # all of it is known to be processed: its numbers count again


def test_events_that_keep_their_places_do_not_wait_for_those_that_are_sorted(go: Go) -> None:
    nonce = go.watch()
    for number in (1, 3, 2, 4):
        go.event(None, A, number)
    go.pong(nonce)
    assert go.numbers == [1, 2, 3, 4]
    assert [go.session.reorder_block_end(number) for number in (1, 2, 3, 4)] == [1, 3, 3, 4]
    assert [go.session.ackable(mark) for mark in range(5)] == [0, 1, 1, 3, 4]


def test_what_is_sorted_together_is_reserved_together(go: Go) -> None:
    nonce = go.watch()
    for number in (3, 1, 2):
        go.event(None, A, number)
    go.pong(nonce)
    assert [go.session.reorder_block_end(number) for number in (1, 2, 3, 4)] == [3, 3, 3, 4]


def test_a_history_in_order_is_no_reason_to_wait_for_all_of_it(go: Go) -> None:
    nonce = go.watch()
    for number in (1, 2, 3):
        go.event(None, A, number)
    go.pong(nonce)
    assert [go.session.ackable(mark) for mark in range(4)] == [0, 1, 2, 3]


def test_copies_behind_a_history_in_order_are_no_reason_to_wait_for_all_of_it(go: Go) -> None:
    nonce = go.watch()
    for number in (1, 2, 3, 1, 2, 3):
        go.event(None, A, number)
    go.pong(nonce)
    assert [event.seq for event in go.events] == go.numbers == [1, 2, 3]
    assert [go.session.ackable(mark) for mark in range(4)] == [0, 1, 2, 3]


def test_a_new_session_knows_no_numbers_that_were_sorted_in_the_one_before(go: Go) -> None:
    nonce = go.watch()
    for number in (3, 1, 2):
        go.event(None, A, number)
    go.pong(nonce)
    go.cut()
    go.connect()  # resumed
    assert (go.session.ackable(2), go.session.reorder_block_end(2)) == (0, 3)
    go.cut()
    go.connect(session_id="another")
    assert (go.session.ackable(2), go.session.reorder_block_end(2)) == (2, 2)


# ------------------------------------------------------------------ any mixture

_LOGS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted), min_size=1, max_size=4
)


@given(
    logs=_LOGS,
    others=st.lists(st.integers(0, 39), max_size=10),
    ends=st.booleans(),
    pong_after=st.integers(0, 50),
)
def test_any_mixture_of_logs_is_one_history_in_order(
    logs: list[list[int]], others: list[int], ends: bool, pong_after: int
) -> None:
    go = Go()
    nonce = go.watch()
    sent: list[tuple[str, int]] = [
        (A, number) for first, last in logs for number in range(first, last + 1)
    ]
    for count, place in enumerate(others):
        sent.insert(min(place, len(sent)), (B, count))
    for at, (job_id, number) in enumerate(sent):
        if at == pong_after:
            go.pong(nonce)
        go.event(None, job_id, number)
    if ends:
        go.end(A)
    go.pong(nonce)
    whole = pong_after >= len(sent)
    _check(go.events, sent, whole=whole, ends=ends)
    assert go.session.received == go.seq


def _check(events: list[Event], sent: list[tuple[str, int]], *, whole: bool, ends: bool) -> None:
    """Each once, nothing lost, and in order as far as all was there before the pong."""
    mine = [getattr(e, "current", e.kind) for e in events if e.job_id == A]
    if ends:
        assert mine.pop() == "result"
    wanted = {number for job_id, number in sent if job_id == A}
    assert sorted(mine) == sorted(wanted)
    if whole:
        assert mine == sorted(wanted)
    others = [getattr(e, "current", None) for e in events if e.job_id == B]
    came = [number for job_id, number in sent if job_id == B]
    assert others == came
    numbers = [event.seq for event in events if event.seq is not None]
    assert numbers == sorted(numbers)


@rule("note-5")
@rule("accept-20")
@given(
    history=st.integers(1, 8),
    live=st.integers(0, 6),
    numbered=st.lists(st.integers(0, 20), max_size=6),
    sent=st.lists(st.integers(0, 20), max_size=6),
)
def test_live_events_among_a_history_stand_behind_it_wherever_they_were_numbered_and_sent(
    history: int, live: int, numbered: list[int], sent: list[int]
) -> None:
    """A thread sends the history and the pong, another one the live events, each in its order."""
    java = Java()
    nonce = java.watch()
    past = list(range(history))
    order = _merged(past, live, numbered)
    numbers = {event: number for number, event in enumerate(order, 1)}
    arriving: list[int | None] = [*_merged(past, live, sent)]
    arriving.insert(arriving.index(history - 1) + 1, None)  # the pong, right behind the history
    for number in arriving:
        if number is None:
            java.pong(nonce)
        else:
            java.numbered(numbers[number], number)
    assert java.numbers == list(range(history + live))
    assert [event.seq for event in java.events] == list(range(1, history + live + 1))
    assert java.session.received == history + live


def _merged(past: list[int], live: int, places: list[int]) -> list[int]:
    """The past and the live events behind it, each in its order; where the live ones stand."""
    merged = list(past)
    at = 0
    for count in range(live):
        wanted = places[count] if count < len(places) else len(merged)
        at = max(at, min(wanted, len(merged)))
        merged.insert(at, len(past) + count)
        at += 1
    return merged


def test_an_event_that_never_comes_holds_the_history_up_for_a_while_only() -> None:
    java = Java()
    nonce = java.watch()
    java.numbered(1, 1)
    java.numbered(3, 2)
    java.pong(nonce)
    assert java.numbers == []
    java.wait(1)
    assert [type(effect.cause).__name__ for effect in java.of(actions.Relink)] == ["LinkLost"]
    java.cut()
    java.connect()
    java.numbered(2, 3)  # the resume brings it
    assert java.numbers == [1, 3, 2]
    assert not java.session.deadline or java.session.received == 3


def test_a_history_asked_for_anew_ends_with_its_own_pong() -> None:
    java = Java()
    nonce = java.watch()
    java.numbered(1, 1)
    java.numbered(3, 3)
    java.pong(nonce)
    java.sent.clear()
    other = java.watch(B)
    java.numbered(2, 2)
    assert java.numbers == []
    java.pong(other)
    assert java.numbers == [1, 2, 3]


# ------------------------------------------------------------------ what else comes meanwhile


def test_a_refused_history_does_not_release_another_one(go: Go) -> None:
    go.ask(names.SUBSCRIBE, job_id=B, history=True)
    go.ask(names.SUBSCRIBE, job_id=A, history=True)
    _, _, second, ping = (go.sent.pop(0) for _ in range(4))
    go.error(names.JOB_NOT_FOUND, job_id=B)
    go.confirmed(second)
    go.event(None, A, 2)
    go.event(None, A, 1)
    assert go.events == []
    go.pong(ping["payload"]["nonce"])
    assert go.numbers == [1, 2]


def test_only_copies_of_the_same_event_of_the_same_job_are_skipped(go: Go) -> None:
    nonce = go.watch()
    for job_id, number, id in ((B, 1, "x"), (B, 2, "x"), (A, 1, "x"), (A, 2, ""), (A, 3, "")):
        go.seq += 1
        Table.event(go, go.seq, job_id, number, id=id)
    go.pong(nonce)
    assert [number for job_id, number in go.came if job_id == A] == [1, 2, 3]


def test_events_behind_a_history_are_delivered_together(go: Go) -> None:
    nonce = go.watch()
    go.event(None, A, 1)
    go.pong(nonce)
    frames = []
    for seq in (2, 3, 4):
        payload = {"kind": "progress", "body": {"current": seq}}
        frame = {"type": names.EVENT, "id": f"e{seq}", "job_id": A, "event_seq": seq}
        frames.append(json.dumps({**frame, "payload": payload}).encode())
    run = go.session.receive(frames, go.now)
    assert [event.seq for event in run] == [2, 3, 4]
    assert not run.more


def test_a_history_that_is_asked_for_again_comes_again(go: Go) -> None:
    for _ in range(2):
        nonce = go.watch()
        for number in (2, 1, 2):
            go.event(None, A, number)
        go.pong(nonce)
        go.session.unsubscribe(A, go.now)
        go.do()
        go.said(names.UNSUBSCRIBE)
        go.pong(go.said(names.PING)["payload"]["nonce"])
    assert go.numbers == [1, 2, 1, 2]


def test_a_refused_watch_without_history_releases_no_other_jobs_history(go: Go) -> None:
    nonce = go.watch(A)
    go.event(None, A, 1)
    go.event(None, A, 2)
    go.ask(names.SUBSCRIBE, job_id=B, history=False)
    go.error(names.JOB_NOT_FOUND, job_id=B)
    assert len(go.of(actions.Refused)) == 1
    assert go.events == []
    go.pong(nonce)
    assert go.came == [(A, 1), (A, 2)]


def test_a_tick_ahead_of_time_releases_nothing(go: Go) -> None:
    go.watch()
    go.event(None, A, 1)
    go.event(None, A, 2)
    go.session.tick(go.now + PAUSE / 2)
    go.do()
    assert go.events == []


def test_the_number_of_a_message_among_a_history_keeps_its_place(go: Go) -> None:
    nonce = go.watch()
    go.event(None, A, 2)
    go.seq += 1
    payload = {"job_id": B, "agent": "a", "parent_job_id": A}
    go.hear({"type": names.ACCEPTED, "job_id": B, "event_seq": go.seq, "payload": payload})
    assert [known.job.job_id for known in go.of(actions.JobKnown)] == [A, B]  # it waits for nothing
    go.event(None, A, 1)
    go.pong(nonce)
    assert go.numbers == [1, 2]
    assert go.session.received == 3


def test_a_number_that_waits_already_is_a_repeat(go: Go) -> None:
    nonce = go.watch()
    go.event(None, A, 1)
    go.event(None, A, 3)
    Table.event(go, 2, A, 2, id="another")
    go.pong(nonce)
    assert go.numbers == [1, 3]
    assert go.session.repeated == 1


def test_events_without_a_number_are_sorted_by_their_times_too(go: Go) -> None:
    nonce = go.watch()
    for number in (3, 1, 2):
        Table.event(go, None, A, number, id=f"{A}.{number}")
    assert go.events == []
    go.pong(nonce)
    assert go.numbers == [1, 2, 3]
    assert go.session.ackable(7) == 7
