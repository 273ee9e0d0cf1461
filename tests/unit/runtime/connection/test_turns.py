"""Connections take turns: a session that is sent much holds up no other one."""

from __future__ import annotations

import asyncio

from arcp_client._tasks import TaskOwner
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.stamp import Record
from arcp_client.runtime._connection.connection import Arrival, Connection
from arcp_client.runtime._log.entries import Appended
from arcp_client.runtime._log.event_log import MemoryEventLog
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._log.replay_buffers import SessionLog
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.testing import VirtualClock

MANY = 100_000


class Link:
    """Takes everything at once, and notes in which turn."""

    def __init__(self, clock: Turns) -> None:
        self._clock = clock
        self.frames = 0
        self.turns: list[int] = []
        self.sent: list[bytes] = []

    async def send(self, frame: bytes) -> None:
        self.sent.append(frame)
        self.frames += 1
        self.turns.append(self._clock.now)

    async def receive(self) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self, *, timeout: float = 5.0) -> None: ...


class Turns:
    """Counts the turns of the loop."""

    def __init__(self) -> None:
        self.now = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.now += 1


class Handler:
    handshake_timeout = 10.0
    outbox_bytes = 1_000_000
    heartbeat_interval = None

    async def greet(self, connection: Connection, frame: ControlFrame) -> bool: ...

    async def handle(
        self, connection: Connection, session: ServerSession, frame: ControlFrame
    ) -> None: ...

    async def answered(self) -> None: ...

    def left(self, connection: Connection, session: ServerSession) -> None: ...


def record(index: int = 0) -> Record:
    return Record(b"m", b"job.event", b"", b"{}", job_id="job_1", index=index, size=10)


def connected(
    id: str, link: Link, tasks: TaskOwner, journal: Journal | None = None
) -> tuple[ServerSession, Connection]:
    session = ServerSession(id, "alice", SessionLog(2 * MANY, 10**9), journal=journal)
    arrival = Arrival(secure=True)
    return session, Connection(link, Handler(), tasks, arrival=arrival, on_end=lambda _: None)


def test_a_live_event_goes_out_within_two_turns_while_another_session_is_sent_100_000() -> None:
    async def scenario() -> None:
        tasks, turns = TaskOwner("turns"), Turns()
        busy, live = Link(turns), Link(turns)
        replaying, first = connected("sess_1", busy, tasks)
        for index in range(MANY):
            replaying.append(record(index))
        watching, second = connected("sess_2", live, tasks)
        second.enter(watching, 0, b"welcome")
        counting = asyncio.create_task(turns.run())
        await asyncio.sleep(0)
        first.enter(replaying, 0, b"welcome")
        for number in range(20):
            for _ in range(10):
                await asyncio.sleep(0)
            emitted = turns.now
            watching.append(record(number))
            while live.frames < number + 2:  # the welcome came first
                await asyncio.sleep(0)
            assert live.turns[-1] - emitted <= 2
        assert 1000 < busy.frames < MANY // 2
        for turn in set(busy.turns):
            assert busy.turns.count(turn) <= 256
        counting.cancel()
        await tasks.close()

    VirtualClock().run(scenario())


class Gated(MemoryEventLog):
    """A durable log whose writes wait for a gate."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def write(self, entries: object) -> None:
        await self.gate.wait()


def test_no_writer_runs_for_events_that_are_not_stored_and_one_does_for_those_that_are() -> None:
    async def scenario() -> None:
        tasks, writers = TaskOwner("journal"), TaskOwner("writers")
        log, link = Gated(), Link(Turns())
        journal = Journal(log, tasks, 1_000_000)
        session, connection = connected("sess_1", link, writers, journal)
        connection.enter(session, 0, b"welcome")
        while len(writers):
            await asyncio.sleep(0)
        for index in range(100):
            event = record(index)
            journal.append(Appended(event, session.number(event), session.id), session)
            connection.in_turn(b"pong")
            assert not len(writers)
            await asyncio.sleep(0)
        assert link.frames == 1
        log.gate.set()
        await journal.flushed()
        assert len(writers) == 1
        while len(writers):
            await asyncio.sleep(0)
        assert link.frames == 201
        await tasks.close()

    VirtualClock().run(scenario())


def test_overdue_pongs_keep_their_order() -> None:
    async def scenario() -> None:
        tasks, writers = TaskOwner("journal"), TaskOwner("writers")
        log, link = Gated(), Link(Turns())
        journal = Journal(log, tasks, 1_000_000)
        session, connection = connected("sess_1", link, writers, journal)
        connection.enter(session, 0, b"welcome")
        event = record()
        journal.append(Appended(event, session.number(event), session.id), session)
        pongs = [b"pong %d" % number for number in range(5)]
        for pong in pongs:
            connection.in_turn(pong)
        await asyncio.sleep(2.0)  # the log does not write for longer than a pong waits for it
        assert link.sent == [b"welcome", *pongs]
        await tasks.close()

    VirtualClock().run(scenario())


def test_a_writer_goes_on_while_events_come_and_ends_when_none_do() -> None:
    async def scenario() -> None:
        tasks, link = TaskOwner("writer"), Link(Turns())
        session, connection = connected("sess_1", link, tasks)
        connection.enter(session, 0, b"welcome")
        await asyncio.sleep(0)
        writer = connection._writer
        assert writer is not None
        for index in range(100):
            session.append(record(index))
            await asyncio.sleep(0)
            assert connection._writer is writer
        while len(tasks):
            await asyncio.sleep(0)
        assert link.frames == 101
        assert connection._writer is None

    VirtualClock().run(scenario())


def test_the_writer_of_a_lone_event_ends_in_the_turn_in_which_it_sends_it() -> None:
    async def scenario() -> None:
        tasks, link = TaskOwner("writer"), Link(Turns())
        session, connection = connected("sess_1", link, tasks)
        connection.enter(session, 0, b"welcome")
        for index in range(3):
            await asyncio.sleep(0.01)
            session.append(record(index))
            assert len(tasks) == 1
            await asyncio.sleep(0)
            assert link.frames == index + 2
            assert not len(tasks)

    VirtualClock().run(scenario())
