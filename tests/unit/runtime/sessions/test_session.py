"""One session's stream: what lets those go on that wait for its client (§6.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client._tasks import TaskOwner
from arcp_client._wire.stamp import Record
from arcp_client.runtime._log.entries import Entry, Freed, Watch
from arcp_client.runtime._log.event_log import MemoryEventLog
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._log.replay_buffers import JobHistory, SessionLog
from arcp_client.runtime._sessions.session import ServerSession, SubscriptionFeed
from arcp_client.testing import VirtualClock


class Outlet:
    """A connection that sends nothing by itself, and notes what it is told."""

    def __init__(self) -> None:
        self.cursor = 0
        self.told: list[str] = []
        self.frames: list[bytes] = []

    def wake(self) -> None:
        self.told.append("wake")

    def control(self, frame: bytes) -> None:
        self.frames.append(frame)

    def displace(self) -> None:
        self.told.append("displace")

    def overrun(self) -> None:
        self.told.append("overrun")


@pytest.fixture
def session() -> ServerSession:
    """A session whose client was sent five events."""
    made = ServerSession("sess_1", "alice", SessionLog(100, 10_000))
    outlet = Outlet()
    made.attach(outlet)
    for number in range(5):
        seq = made.append(Record(b"m", b"job.event", b"", b"{}", size=10))
        assert seq == number + 1
        outlet.cursor = seq
        made.sending(seq, made.log[seq])
    return made


def leave(session: ServerSession) -> None:
    assert session.outlet is not None
    assert session.detach(session.outlet)


class Log(MemoryEventLog):
    """Notes what it is told to free, and the subscriptions: the job, the next event, the first."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.freed: list[int] = []
        self.watches: list[tuple[str, int | None, int]] = []

    async def write(self, entries: Sequence[Entry]) -> None:
        watches = [entry for entry in entries if isinstance(entry, Watch)]
        self.watches += [(entry.job_id, entry.next, entry.first) for entry in watches]
        self.freed += [entry.floor for entry in entries if isinstance(entry, Freed)]


@pytest.mark.parametrize(
    "moves",
    [lambda session: session.acknowledge(3), leave, lambda session: session.progress()],
    ids=["an acknowledgement", "a lost connection", "a sent event"],
)
async def test_what_moves_a_session_releases_who_waits_at_once(
    session: ServerSession, clock: VirtualClock, moves: Callable[[ServerSession], object]
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    waits = [asyncio.ensure_future(session.moved(60.0)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not waits[0].done()
    moves(session)
    await asyncio.gather(*waits)
    assert loop.time() == began


@pytest.mark.parametrize("moves", [1, 6], ids=["again", "never sent"])
async def test_an_acknowledgement_that_says_nothing_new_releases_nobody(
    session: ServerSession, clock: VirtualClock, moves: int
) -> None:
    assert session.acknowledge(1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    waits = asyncio.ensure_future(session.moved(60.0))
    await asyncio.sleep(0)
    assert session.acknowledge(moves) is (moves == 1)
    await waits
    assert loop.time() - began == pytest.approx(60.0)


async def test_events_that_a_client_acknowledges_without_a_replay_take_no_room() -> None:
    session = ServerSession("sess_1", "alice", SessionLog(100, 100_000_000))
    session.attach(Outlet())
    for _ in range(5):
        record = Record(b"m", b"job.event", b"", b"{}", size=1_000_000)
        seq = session.append(record)
        session.sending(seq, record)
    again = Outlet()
    session.attach(again)  # the client resumed with a number below what it had received
    assert not session.room
    assert session.acknowledge(5)
    assert again.cursor == 5
    assert session.room


@given(
    needs=st.lists(st.sampled_from([None, "progress", "subscribe"]), max_size=12),
    together=st.integers(1, 5),
)
async def test_events_that_are_taken_together_are_numbered_like_events_taken_one_by_one(
    needs: list[str | None], together: int
) -> None:
    records = [
        Record(b"%d" % n, b"job.event", b"", b"{}", needs=need, size=10)
        for n, need in enumerate(needs)
    ]
    made = []
    for _ in range(2):
        session = ServerSession("sess_1", "alice", SessionLog(5, 10_000))
        session.features = frozenset({"progress"})
        session.keep_for = 1.0
        session.attach(Outlet())
        made.append(session)
    one, several = made
    for record in records:
        one.take(record)
    for begin in range(0, len(records), together):
        several.take_all(records[begin : begin + together])
    assert several.log.last == one.log.last
    assert several.log.floor == one.log.floor
    assert several.log.settled == one.log.settled
    assert several.spare == one.spare
    held = range(one.log.floor + 1, one.log.last + 1)
    assert [several.log[seq] for seq in held] == [one.log[seq] for seq in held]


async def test_a_history_is_copied_up_to_the_limits_of_the_session() -> None:
    history = JobHistory(10_000, 1 << 40)
    for n in range(3000):
        size = 0 if n < 100 else (1 << 22) - 1 if n == 100 else 1
        history.append(n, Record(b"%d" % n, b"job.event", b"", b"{}", size=size, index=n))
    session = ServerSession("sess_1", "alice", SessionLog(10_000, 1 << 40))
    outlet = Outlet()
    session.attach(outlet)
    broken: list[object] = []
    feed = SubscriptionFeed(session, "job_1", history, 0, broken.append, stop=2500)
    feed.push()
    assert feed.next == 102, "4 MiB are reached with the event behind the large one"
    most = 0
    while not feed.ended:
        outlet.cursor += 1
        session.sending(outlet.cursor, session.log[outlet.cursor])
        session.progress()
        most = max(most, session.unsent)
    assert most == 1024
    assert (feed.next, session.log.last, broken) == (2500, 2500, [])


async def test_a_durable_log_is_told_of_evicted_events_by_the_thousand(
    clock: VirtualClock,
) -> None:
    """Else it would keep for ever what no client can get any more."""
    log, tasks = Log(), TaskOwner("session test")
    journal = Journal(log, tasks, 1 << 30)
    session = ServerSession("sess_1", "alice", SessionLog(10, 1 << 30), journal=journal)

    def append(events: int) -> None:
        for _ in range(events):
            record = Record(b"m", b"job.event", b"", b"{}", size=10)
            session.sending(session.append(record), record)

    append(10 + 1023)
    await journal.drain(10)
    assert log.freed == []
    append(1 + 1024)
    await journal.drain(10)
    assert log.freed == [1024, 2048]
    append(500)
    session.acknowledge(session.log.last)
    append(10 + 1023)
    await journal.drain(10)
    assert log.freed == [1024, 2048, 2558]
    append(1)
    await journal.drain(10)
    assert log.freed == [1024, 2048, 2558, 3582]
    await tasks.close()


def event(at: float = 0.0) -> Record:
    return Record(b"m", b"job.event", b"", b"{}", at=at, size=10)


def attached(max_events: int = 100_000) -> tuple[ServerSession, Outlet]:
    session = ServerSession("sess_1", "alice", SessionLog(max_events, 1 << 30), lag_events=10)
    outlet = Outlet()
    session.attach(outlet)
    outlet.told.clear()
    return session, outlet


async def test_an_event_is_sent_at_once_and_with_a_durable_log_when_it_is_stored(
    clock: VirtualClock,
) -> None:
    session, outlet = attached()
    session.append(event())
    assert (outlet.told, session.log.settled) == (["wake"], 1)

    log, tasks = Log(), TaskOwner("session test")
    journal = Journal(log, tasks, 1 << 30)
    durable = ServerSession("sess_2", "alice", SessionLog(10, 1 << 30), journal=journal)
    durable.attach(outlet)
    outlet.told.clear()
    durable.append(event())
    durable.take_all([event(), event()])
    assert (outlet.told, durable.log.settled) == ([], 0)
    await journal.drain(10)
    assert (set(outlet.told), durable.log.settled) == ({"wake"}, 3)
    durable.settle(2)  # a late word of an earlier one
    assert durable.log.settled == 3
    await tasks.close()


def test_a_connection_ends_with_the_first_unsent_event_that_is_evicted() -> None:
    session, outlet = attached(max_events=3)
    for _ in range(5):
        session.append(event())
        outlet.cursor = max(outlet.cursor, 2)  # it sent two events and got stuck
    assert (session.log.floor, outlet.told) == (2, ["wake"] * 5)
    session.append(event())
    assert outlet.told == [*["wake"] * 5, "overrun"]


def test_sent_events_are_kept_for_a_time_if_the_client_does_not_acknowledge() -> None:
    session, outlet = attached()
    session.keep_for = 60.0
    for at in (0.0, 10.0, 20.0):
        session.append(event(at))
    outlet.cursor = 2
    session.append(event(60.0))
    assert session.log.floor == 0
    session.append(event(61.0))
    assert session.log.floor == 1
    session.append(event(1000.0))
    assert session.log.floor == 2, "the third event was not sent"


def test_frames_without_a_number_are_for_the_connection_of_the_moment() -> None:
    session, outlet = attached()
    session.control(b"{}")
    assert outlet.frames == [b"{}"]
    assert session.detach(outlet)
    session.control(b"[]")
    assert outlet.frames == [b"{}"]


def test_a_second_connection_displaces_the_first_and_not_itself() -> None:
    session, outlet = attached()
    session.attach(outlet)
    assert outlet.told == ["wake"]
    other = Outlet()
    session.attach(other)
    assert (outlet.told, other.told) == (["wake", "displace"], ["wake"])


def test_a_client_lags_by_the_kept_events_that_it_has_not_acknowledged() -> None:
    session, outlet = attached(max_events=20)
    for _ in range(12):
        session.append(event())
        outlet.cursor = session.sent = session.log.last
    assert (session.lag, session.behind, session.crowded) == (0, False, False)
    session.features = frozenset({"ack"})
    assert session.acknowledge(1)
    assert (session.lag, session.behind, session.crowded) == (11, True, True)
    assert session.acknowledge(2)
    assert (session.lag, session.behind, session.crowded) == (10, False, False)
    for _ in range(20):
        session.append(event())
    assert (session.log.floor, session.lag) == (12, 20)


def test_a_session_is_crowded_above_512_unsent_events() -> None:
    session, outlet = attached()
    for _ in range(600):
        session.append(event())
    outlet.cursor = 600 - 512
    assert (session.unsent, session.behind, session.crowded) == (512, False, False)
    outlet.cursor -= 1
    assert (session.unsent, session.behind, session.crowded) == (513, True, True)
    assert session.detach(outlet)
    assert (session.behind, session.crowded) == (False, False)


def test_there_is_room_for_a_history_up_to_1024_unsent_events() -> None:
    session, _ = attached()
    for _ in range(1023):
        session.append(event())
    assert session.room
    session.append(event())
    assert not session.room


async def test_a_session_that_is_held_elsewhere_ends_here(clock: VirtualClock) -> None:
    log, tasks = Log(), TaskOwner("session test")
    journal = Journal(log, tasks, 1 << 30)
    session = ServerSession("sess_1", "alice", SessionLog(10_000, 1 << 30), journal=journal)
    outlet = Outlet()
    session.attach(outlet)
    for _ in range(513):
        session.sending(session.append(event()), event())
    assert session.behind
    waits = asyncio.ensure_future(session.moved(60.0))
    await asyncio.sleep(0)
    began = asyncio.get_running_loop().time()

    session.lose()
    await waits
    assert asyncio.get_running_loop().time() == began
    assert (session.lost, session.outlet, outlet.told[-1]) == (True, None, "displace")
    session.acknowledge(513)
    session.note()
    session.append(event())
    await journal.drain(10)
    assert log.freed == [], "the other replica stores what becomes of it"
    session.lose()
    assert outlet.told.count("displace") == 1
    await tasks.close()


def test_a_connection_that_was_displaced_takes_nothing_along_when_it_ends() -> None:
    session, outlet = attached()
    other = Outlet()
    session.attach(other)
    assert not session.detach(outlet)
    assert session.outlet is other
    assert session.detach(other)
    assert session.outlet is None


def test_what_a_lost_connection_has_not_sent_takes_room() -> None:
    session, outlet = attached()
    for _ in range(3):
        session.append(event())
    session.sending(1, session.log[1])
    outlet.cursor = 1
    other = Outlet()
    session.attach(other)  # resumed from the beginning: all three are sent again
    bound = session.spare[1] + 30
    assert session.detach(other)
    assert session.spare == (1024 - 2, bound - 20)


def test_acknowledged_events_are_freed() -> None:
    session, outlet = attached()
    for _ in range(3):
        session.sending(session.append(event()), event())
    outlet.cursor = 3
    assert session.acknowledge(2)
    assert (session.log.floor, len(session.log)) == (2, 1)


@pytest.mark.parametrize(("count", "second"), [(500, None), (500, 3), (40_000, None), (40_000, 9)])
async def test_many_acknowledged_events_are_freed_in_several_steps(
    clock: VirtualClock, count: int, second: int | None
) -> None:
    """None delays the connection; another acknowledgement begins no second row of steps."""
    session, outlet = attached()
    record = event()
    for _ in range(count + 100):
        session.log.append(record)
    session.sent = outlet.cursor = count + 100
    assert session.acknowledge(count)
    floors = [session.log.floor]
    assert floors == [0]
    while floors[-1] < session.acked:
        if len(floors) == second:
            assert session.acknowledge(count + 90)
            assert session.log.floor == floors[-1]
        left = session.acked - floors[-1]
        await clock.advance(0.005)
        floors.append(session.log.floor)
        assert floors[-1] - floors[-2] == min(left, max(64, left // 8))
    assert len(floors) <= 60
    assert session.acked == count + (90 if second else 0)


async def test_a_session_that_has_ended_frees_no_more(clock: VirtualClock) -> None:
    """The log goes with the session, and a runtime that is closed leaves no timer."""
    session, outlet = attached()
    for _ in range(500):
        session.log.append(event())
    session.sent = outlet.cursor = 500
    assert session.acknowledge(500)
    session.expiry = asyncio.get_running_loop().call_later(600.0, lambda: None)
    expiry = session.expiry
    session.stop()
    assert expiry.cancelled()
    await clock.advance(1.0)
    assert session.log.floor == 0


def test_a_slow_client_has_caught_up_below_half_of_the_limit() -> None:
    session, outlet = attached()
    session.features = frozenset({"ack"})
    for _ in range(20):
        session.sending(session.append(event()), event())
    outlet.cursor = 20
    assert session.acknowledge(15)
    assert not session.slow
    session.slow = True
    session.sending(session.append(event()), event())
    assert session.acknowledge(16)
    assert (session.lag, session.slow) == (5, True)
    assert session.acknowledge(17)
    assert (session.lag, session.slow) == (4, False)
    for _ in range(20):
        session.sending(session.append(event()), event())
    session.slow = True
    assert session.acknowledge(20)
    assert session.slow


async def test_a_wait_leaves_neither_a_timer_nor_itself_behind(
    session: ServerSession, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    call_later, made = loop.call_later, list[asyncio.TimerHandle]()

    def noted(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
        made.append(call_later(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(loop, "call_later", noted)
    waits = asyncio.ensure_future(session.moved(60.0))
    await asyncio.sleep(0)
    session.progress()
    await waits
    assert [timer.cancelled() for timer in made] == [True]
    assert not session._waiters


async def test_a_durable_log_has_the_subscription_that_a_session_has_now(
    clock: VirtualClock,
) -> None:
    log, tasks = Log(), TaskOwner("session test")
    journal = Journal(log, tasks, 1 << 30)
    session = ServerSession("sess_1", "alice", SessionLog(10_000, 1 << 30), journal=journal)
    history = JobHistory(10_000, 1 << 30)
    for n in range(3):
        history.append(n, event())
    past = SubscriptionFeed(session, "job_1", history, 1, list[object]().append, stop=3)
    live = SubscriptionFeed(session, "job_1", history, 3, list[object]().append)
    session.feeds["job_1"] = live
    session.watch(past)
    past.push()  # delivers what was missing
    history.append(3, event())
    past.push()  # has come to its end
    live.end()
    await journal.drain(10)
    assert log.watches == [("job_1", 1, 1), ("job_1", 3, 3), ("job_1", None, 3)]
    await tasks.close()


def test_the_backlog_is_what_waits_for_room() -> None:
    session, outlet = attached()
    for _ in range(1024):
        session.append(event())
    history = JobHistory(10_000, 1 << 30)
    for n in range(3):
        history.append(n, event())
    feed = SubscriptionFeed(session, "job_1", history, 0, list[object]().append)
    feed.push()
    assert session.backlog() == ((feed, 3),)
    outlet.cursor = 1000
    session.progress()
    assert session.backlog() == ()
    assert feed.next == 3
