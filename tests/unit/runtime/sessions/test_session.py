"""One session's stream: what lets those go on that wait for its client (§6.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client._tasks import TaskOwner
from arcp_client._wire.stamp import Record
from arcp_client.runtime._log.entries import Entry, Freed
from arcp_client.runtime._log.event_log import MemoryEventLog
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._log.replay_buffers import JobHistory, SessionLog
from arcp_client.runtime._sessions.session import ServerSession, SubscriptionFeed
from arcp_client.testing import VirtualClock


class Outlet:
    """A connection that sends nothing by itself."""

    cursor = 0

    def wake(self) -> None: ...

    def control(self, frame: bytes) -> None: ...

    def displace(self) -> None: ...

    def overrun(self) -> None: ...


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
    """Notes what it is told to free."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.freed: list[int] = []

    async def write(self, entries: Sequence[Entry]) -> None:
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
